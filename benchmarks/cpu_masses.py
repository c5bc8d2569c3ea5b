"""The exact kernel on a CPU: one loss and its gradient in tiles, beside other ways to the same.

The embeddings are given; every contender computes a leave-one-out objective and its gradient in them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import torch
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from torch import Tensor

from measuring import (
    finish,
    in_fresh_process,
    interleaved,
    limited_threads,
    median,
    parser,
    process_memory,
    spread,
)
from pnca import accelerated
from problems import N_CLASSES, answering, make_embeddings, whole_kernel
from records import Record, Reference, Target

D = 10
_SCIKIT_LEARN, _KEOPS = "scikit-learn's NCA", "KeOps"
_WITHIN = Target(text="at most 4 GiB", quantity="memory_gib", at_most=4.0)


def problem(n: int, m: int) -> tuple[Tensor, Tensor]:
    """Particles (m, n, d) and labels (n,)."""
    return make_embeddings(n, m, D, torch.Generator().manual_seed(0))


def loss_and_gradient(z: Tensor, labels: Tensor, log_masses: Callable[[Tensor], Tensor]) -> Tensor:
    """Gradient of the summed negative log of the share of the own class."""
    z = z.clone().requires_grad_()
    masses = log_masses(z)
    own = masses.gather(2, labels[None, :, None].expand(len(masses), -1, 1)).squeeze(2)
    return torch.autograd.grad((masses.logsumexp(dim=2) - own).sum(), z)[0]


def in_tiles(z: Tensor, labels: Tensor, answers: Sequence[slice]) -> Callable[[], Tensor]:
    """What is measured."""

    def log_masses(a: Tensor) -> Tensor:
        return accelerated.class_log_masses(a, a, labels, N_CLASSES, 1.0, answers, leave_one_out=True)

    return lambda: loss_and_gradient(z, labels, log_masses)


def at_once(z: Tensor, labels: Tensor, answers: Sequence[slice]) -> Callable[[], Tensor]:
    """By the whole kernel, as small data are computed."""
    return lambda: loss_and_gradient(z, labels, lambda a: whole_kernel(a, labels, answers, 1.0))


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
    """The same objective of one particle from lazy tensors, by sums over classes or over points."""
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
) -> tuple[dict[str, object], list[Reference]]:
    """Time tasks in turn with so many threads: the spread of the first, and the others as references."""
    for task in tasks.values():  # a first time loads libraries, whose threads are limited then
        task()
    with limited_threads(n_threads):
        taken = interleaved(tasks, repeats, warm_up=0)
    first, *others = taken
    return spread(taken[first]), [Reference(name=name, seconds=median(taken[name])) for name in others]


def measure_one_particle(n: int, n_threads: int, repeats: int, *, use_keops: bool) -> Record:
    """Time the tiles of one particle; the targets are about the faster way of scikit-learn and of KeOps."""
    z, labels = problem(n, 1)
    one = answering(1, is_shared=True)
    tasks: dict[str, Callable[[], object]] = {
        "tiles": in_tiles(z, labels, one),
        "the same in float64": in_tiles(z.double(), labels, one),
        f"{_SCIKIT_LEARN}, float32": scikit_learn(z, labels, np.float32),
        f"{_SCIKIT_LEARN}, float64": scikit_learn(z, labels, np.float64),
    }
    if use_keops:
        tasks[f"{_KEOPS}, two sums"] = keops(z, labels, by_class=False)
        tasks[f"{_KEOPS}, masses of classes"] = keops(z, labels, by_class=True)
    ours, others = in_turn(tasks, n_threads, repeats)
    targets = [as_fast_as(_SCIKIT_LEARN, others), as_fast_as(_KEOPS, others)]
    return _record("one particle", n, 1, n_threads, **ours, alternatives=others, targets=targets)


def as_fast_as(name: str, alternatives: Sequence[Reference]) -> Target:
    """The target to be as fast as the fastest alternative of a name; undecided if there is none."""
    own = [reference for reference in alternatives if reference.name.startswith(name)]
    fastest = min(own, key=lambda reference: reference.seconds or 0.0).name if own else name
    return Target(text=f"as fast as {fastest}", quantity="speedup", of=fastest, at_least=1.0)


def measure_beside_whole_kernel(n: int, n_threads: int, repeats: int, kind: str) -> Record:
    """Time tiles and the whole kernel: of one particle, of ten each on its own, or of all their pairs."""
    m = 1 if kind == "one particle" else 10
    z, labels = problem(n, m)
    answers = answering(m, is_shared=kind != "cross")
    tasks = {"tiles": in_tiles(z, labels, answers), "the whole kernel": at_once(z, labels, answers)}
    ours, others = in_turn(tasks, n_threads, repeats)
    return _record(kind, n, m, n_threads, **ours, alternatives=others)


def measure_alone(n: int, n_threads: int) -> Record:
    """Time all pairs of ten particles in a process of its own, so that its peak memory is its own."""
    found = in_fresh_process(__file__, "--alone", n, n_threads)
    note = (
        f"memory of the whole process, {1024 * (found['peak'] - found['before']):.0f} MiB more than "
        f"before the call; {found['cpu'] / found['seconds']:.2f} cores busy"
    )
    record = _record(
        "cross", n, 10, n_threads, ", in a process of its own", seconds=found["seconds"], note=note
    )
    return replace(record, memory_gib=found["peak"], targets=(_WITHIN,))


def run_alone(n: int, n_threads: int) -> dict[str, float]:
    """What the new process does: seconds by the clock and of the processor, GiB before and at the peak."""
    torch.set_num_threads(n_threads)
    run = in_tiles(*problem(n, 10), answering(10, is_shared=False))
    before, start, cpu = process_memory("VmHWM"), time.perf_counter(), time.process_time()
    run()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    gib = {"before": before / 2**30, "peak": process_memory("VmHWM") / 2**30}
    return {"seconds": seconds, "cpu": cpu, **gib}


def _record(kind: str, n: int, m: int, n_threads: int, where: str = "", **figures: object) -> Record:
    name = f"tiles, {kind}, {n_threads} thread{'s' if n_threads > 1 else ''}{where}"
    return Record(name=name, n=n, m=m, d=D, c=N_CLASSES, **figures)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=3)
    options.add_argument("--n", type=int, default=10_000, help="Points of the largest problems.")
    chosen = options.parse_args(arguments)
    skipped = {} if find_spec("pykeops") else {_KEOPS: "pykeops is not installed"}
    finish(chosen, "cpu_masses", _measure_all(chosen, use_keops=not skipped), skipped)


def _measure_all(chosen: argparse.Namespace, *, use_keops: bool) -> Iterator[list[Record]]:
    n, repeats = (200, 1) if chosen.tiny else (chosen.n, chosen.repeats)
    threads = (chosen.threads,) if chosen.threads else (1,) if chosen.tiny else (1, 2)
    for n_threads in threads:
        yield [measure_one_particle(n, n_threads, repeats, use_keops=use_keops)]
        yield [measure_alone(n, n_threads)]
    # Sizes at which the whole kernel fits into the memory of a small machine.
    shares = {"one particle": (20, 10, 5), "shared": (20, 10), "cross": (20, 10)}
    for n_threads in threads:
        for kind, divisors in shares.items():
            for divisor in divisors:
                yield [measure_beside_whole_kernel(n // divisor, n_threads, repeats, kind)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(run_alone(*map(int, sys.argv[2:]))))
    else:
        main()
