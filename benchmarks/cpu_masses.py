"""The exact kernel on a CPU: one loss and its gradient in tiles, beside other ways to the same.

The embeddings are given; every contender computes a leave-one-out objective and its gradient in them.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from torch import Tensor

from measuring import finish, interleaved, limited_threads, median, parser, spread
from pnca import accelerated
from pnca.maths.kernels import log_expected_kernel, log_latent_kernel
from pnca.maths.neighbours import class_log_masses, leave_one_out
from records import Record, Reference, Target

N_CLASSES, D = 10, 10
THREADS = (1, 2)
_SCIKIT_LEARN, _KEOPS = "scikit-learn's NCA", "KeOps"
_WITHIN = Target(text="at most 4 GiB", quantity="memory_gib", at_most=4.0)


def problem(n: int, m: int, d: int = D) -> tuple[Tensor, Tensor]:
    """Particles (m, n, d) around the centres of their classes, and labels (n,)."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(N_CLASSES, (n,), generator=draw)
    centres = 1.5 * torch.randn(N_CLASSES, d, generator=draw)
    points = centres[labels] + 0.5 * torch.randn(n, d, generator=draw)
    return points + 0.5 * torch.randn(m, n, d, generator=draw), labels


def loss_and_gradient(z: Tensor, labels: Tensor, log_masses: Callable[[Tensor], Tensor]) -> Tensor:
    """Gradient of the summed negative log of the share of the own class."""
    z = z.clone().requires_grad_()
    masses = log_masses(z)
    own = masses.gather(2, labels[None, :, None].expand(len(masses), -1, 1)).squeeze(2)
    return torch.autograd.grad((masses.logsumexp(dim=2) - own).sum(), z)[0]


def tiles(z: Tensor, labels: Tensor, answers: Sequence[slice]) -> Callable[[], Tensor]:
    """What is measured."""
    return lambda: loss_and_gradient(
        z,
        labels,
        lambda a: accelerated.class_log_masses(a, a, labels, N_CLASSES, 1.0, answers, leave_one_out=True),
    )


def whole_kernel(z: Tensor, labels: Tensor, answers: Sequence[slice]) -> Callable[[], Tensor]:
    """The path of small data."""

    def log_masses(a: Tensor) -> Tensor:
        is_shared = len(answers) == len(a)
        log_kernel = log_latent_kernel(a, a, 1.0) if is_shared else log_expected_kernel(a, a, 1.0)[None]
        return class_log_masses(leave_one_out(log_kernel), labels, N_CLASSES)

    return lambda: loss_and_gradient(z, labels, log_masses)


def scikit_learn(z: Tensor, labels: Tensor, dtype: type) -> Callable[[], object]:
    """Its objective of a linear map, here the identity, so that the embeddings are the inputs."""
    nca = NeighborhoodComponentsAnalysis()
    nca.n_iter_, nca.verbose = 1, 0
    points, same = z[0].numpy().astype(dtype), labels.numpy()[:, None] == labels.numpy()
    identity = np.eye(points.shape[1], dtype=dtype).ravel()

    def run() -> None:  # returns a loss, which is no time
        nca._loss_grad_lbfgs(identity, points, same)

    return run


def keops(z: Tensor, labels: Tensor, *, by_class: bool) -> Callable[[], Tensor]:
    """The same objective from lazy tensors.

    Parameters
    ----------
    z, labels : Tensor
        Of :func:`problem`, one particle.
    by_class : bool
        Whether to sum the masses of all classes, or of all points and of the own class.

    Returns
    -------
    callable
    """
    from pykeops.torch import LazyTensor

    one_hot = torch.nn.functional.one_hot(labels, N_CLASSES).float()

    def run() -> Tensor:
        a = z[0].clone().requires_grad_()
        log_kernel = -((LazyTensor(a[:, None]) - LazyTensor(a[None])) ** 2).sum(-1)
        if by_class:
            masses = log_kernel.logsumexp(1, weight=LazyTensor(one_hot[None])).exp()
            same, total = (masses * one_hot).sum(1), masses.sum(1)
        else:
            # A log kernel of -1e4 stands for a point of another class.
            other = (LazyTensor(one_hot[:, None]) * LazyTensor(one_hot[None])).sum(-1) - 1
            same, total = (k.logsumexp(1).exp().view(-1) for k in (log_kernel + 1e4 * other, log_kernel))
        # The mass of a point on itself is one: taken off after the sum, as there is no mask of a diagonal.
        same, total = ((mass - 1).clamp_min(1e-30).log() for mass in (same, total))
        return torch.autograd.grad((total - same).sum(), a)[0]

    return run


def in_turn(
    tasks: Mapping[str, Callable[[], object]], n_threads: int, repeats: int
) -> dict[str, list[float]]:
    """Time tasks in turn, with so many threads."""
    for task in tasks.values():  # a first time loads libraries, whose threads are limited then
        task()
    with limited_threads(n_threads):
        return interleaved(tasks, repeats, warm_up=0)


def measure_one_particle(n: int, n_threads: int, repeats: int, *, use_keops: bool) -> Record:
    """Time the tiles of one particle, and what others have for that.

    Parameters
    ----------
    n : int
        Points.
    n_threads : int
        Threads of all.
    repeats : int
        Rounds.
    use_keops : bool
        Whether it is there.

    Returns
    -------
    Record
        Its targets are about the faster of the two ways with scikit-learn, and with KeOps.
    """
    z, labels = problem(n, 1)
    one = [slice(0, 1)]
    tasks: dict[str, Callable[[], object]] = {
        "tiles": tiles(z, labels, one),
        "the same in float64": tiles(z.double(), labels, one),
        f"{_SCIKIT_LEARN}, float32": scikit_learn(z, labels, np.float32),
        f"{_SCIKIT_LEARN}, float64": scikit_learn(z, labels, np.float64),
    }
    if use_keops:
        tasks[f"{_KEOPS}, two sums"] = keops(z, labels, by_class=False)
        tasks[f"{_KEOPS}, masses of classes"] = keops(z, labels, by_class=True)
    taken = in_turn(tasks, n_threads, repeats)
    ours, *others = taken
    alternatives = tuple(Reference(name=name, seconds=median(taken[name])) for name in others)
    return Record(
        name=f"tiles, one particle, {_threads(n_threads)}",
        n=n,
        m=1,
        d=D,
        c=N_CLASSES,
        **spread(taken[ours]),
        alternatives=alternatives,
        targets=(_as_fast_as(_SCIKIT_LEARN, alternatives), _as_fast_as(_KEOPS, alternatives)),
    )


def _as_fast_as(name: str, alternatives: Sequence[Reference]) -> Target:
    """The target to be as fast as the fastest alternative of a name; undecided if there is none."""
    own = [reference for reference in alternatives if reference.name.startswith(name)]
    fastest = min(own, key=lambda reference: reference.seconds or 0.0).name if own else name
    return Target(text=f"as fast as {fastest}", quantity="speedup", of=fastest, at_least=1.0)


def measure_beside_whole_kernel(n: int, n_threads: int, repeats: int, kind: str) -> Record:
    """Time tiles and the whole kernel.

    Parameters
    ----------
    n : int
        Points.
    n_threads : int
        Threads of both.
    repeats : int
        Rounds.
    kind : str
        ``"one particle"``, ``"shared"`` or ``"cross"``.

    Returns
    -------
    Record
    """
    m = 1 if kind == "one particle" else 10
    answers = [slice(0, m)] if kind == "cross" else [slice(row, row + 1) for row in range(m)]
    z, labels = problem(n, m)
    tasks = {"tiles": tiles(z, labels, answers), "whole kernel": whole_kernel(z, labels, answers)}
    taken = in_turn(tasks, n_threads, repeats)
    return Record(
        name=f"tiles, {kind}, {_threads(n_threads)}",
        n=n,
        m=m,
        d=D,
        c=N_CLASSES,
        **spread(taken["tiles"]),
        alternatives=(Reference(name="the whole kernel", seconds=median(taken["whole kernel"])),),
    )


def measure_alone(n: int, n_threads: int) -> Record:
    """Time all pairs of ten particles in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, __file__, "--alone", str(n), str(n_threads)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(said.stdout.splitlines()[-1])
    return Record(
        name=f"tiles, cross, {_threads(n_threads)}, in a process of its own",
        n=n,
        m=10,
        d=D,
        c=N_CLASSES,
        seconds=found["seconds"],
        memory_gib=found["peak"],
        targets=(_WITHIN,),
        note=(
            f"memory of the whole process, {1024 * (found['peak'] - found['before']):.0f} MiB more than "
            f"before the call; {found['cpu'] / found['seconds']:.2f} cores busy"
        ),
    )


def run_alone(n: int, n_threads: int) -> dict[str, float]:
    """What the new process does: seconds by the clock and of the processor, GiB before and at the peak."""
    torch.set_num_threads(n_threads)
    run = tiles(*problem(n, 10), [slice(0, 10)])
    before, start, cpu = peak_gib(), time.perf_counter(), time.process_time()
    run()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "before": before, "peak": peak_gib()}


def peak_gib() -> float:
    """Largest memory of this process so far; getrusage would count that of its parent."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) / 2**20


def has_keops() -> bool:
    """Whether KeOps can be imported."""
    try:
        import pykeops.torch  # noqa: F401
    except ImportError:
        return False
    return True


def _threads(n_threads: int) -> str:
    return f"{n_threads} thread{'s' if n_threads > 1 else ''}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=3)
    options.add_argument("--n", type=int, default=10_000, help="Points of the largest problems.")
    chosen = options.parse_args(arguments)
    skipped = [] if has_keops() else [{"name": _KEOPS, "reason": "pykeops is not installed"}]
    finish(chosen, "cpu_masses", _measure_all(chosen, use_keops=not skipped), skipped)


def _measure_all(chosen: argparse.Namespace, *, use_keops: bool) -> Iterator[list[Record]]:
    n, repeats = (200, 1) if chosen.tiny else (chosen.n, chosen.repeats)
    threads = (chosen.threads,) if chosen.threads else THREADS[:1] if chosen.tiny else THREADS
    for n_threads in threads:
        yield [measure_one_particle(n, n_threads, repeats, use_keops=use_keops)]
        yield [measure_alone(n, n_threads)]
    # Sizes at which the whole kernel fits into the memory of a small machine.
    sizes = {
        "one particle": (n // 20, n // 10, n // 5),
        "shared": (n // 20, n // 10),
        "cross": (n // 20, n // 10),
    }
    for n_threads in threads:
        for kind, fitting in sizes.items():
            for size in fitting:
                yield [measure_beside_whole_kernel(size, n_threads, repeats, kind)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(run_alone(*map(int, sys.argv[2:]))))
    else:
        main()
