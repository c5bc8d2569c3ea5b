"""Time of one loss and gradient on a processor: tiles, the whole kernel, scikit-learn's NCA, KeOps.

The embeddings are given; every contender computes a leave-one-out objective and its gradient in them. They
take turns, and the median counts. KeOps is measured if it can be imported::

    OMP_NUM_THREADS=2 python benchmarks/cpu_masses.py --out cpu_masses.json
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from pnca.maths.kernels import log_expected_kernel, log_latent_kernel
from pnca.maths.masses import chunked_class_log_masses
from pnca.maths.neighbours import class_log_masses, leave_one_out

N_CLASSES = 10


def problem(n: int, m: int, d: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    """Particles (m, n, d) around the centres of their classes, and labels (n,)."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(N_CLASSES, (n,), generator=draw)
    centres = 1.5 * torch.randn(N_CLASSES, d, generator=draw)
    points = centres[labels] + 0.5 * torch.randn(n, d, generator=draw)
    return points + 0.5 * torch.randn(m, n, d, generator=draw), labels


def loss_and_gradient(z: torch.Tensor, labels: torch.Tensor, log_masses: Callable) -> None:
    """Negative log of the share of the own class, and its gradient."""
    z = z.clone().requires_grad_()
    masses = log_masses(z)
    own = masses.gather(2, labels[None, :, None].expand(len(masses), -1, 1)).squeeze(2)
    torch.autograd.grad((masses.logsumexp(dim=2) - own).sum(), z)


def tiles(z: torch.Tensor, labels: torch.Tensor, answers: list[slice]) -> Callable[[], None]:
    """What is measured."""
    return lambda: loss_and_gradient(
        z,
        labels,
        lambda a: chunked_class_log_masses(a, a, labels, N_CLASSES, 1.0, answers, leave_one_out=True),
    )


def whole_kernel(z: torch.Tensor, labels: torch.Tensor, answers: list[slice]) -> Callable[[], None]:
    """The path of small data."""

    def log_masses(a: torch.Tensor) -> torch.Tensor:
        is_shared = len(answers) == len(a)
        log_kernel = log_latent_kernel(a, a, 1.0) if is_shared else log_expected_kernel(a, a, 1.0)[None]
        return class_log_masses(leave_one_out(log_kernel), labels, N_CLASSES)

    return lambda: loss_and_gradient(z, labels, log_masses)


def scikit_learn(z: torch.Tensor, labels: torch.Tensor, dtype: type) -> Callable[[], None]:
    """Its objective of a linear map, here the identity, so that the embeddings are the inputs."""
    nca = NeighborhoodComponentsAnalysis()
    nca.n_iter_, nca.verbose = 1, 0
    points, same = z[0].numpy().astype(dtype), labels.numpy()[:, None] == labels.numpy()
    identity = np.eye(points.shape[1], dtype=dtype).ravel()
    return lambda: nca._loss_grad_lbfgs(identity, points, same) and None


def keops(z: torch.Tensor, labels: torch.Tensor, *, by_class: bool) -> Callable[[], None] | None:
    """The same objective from lazy tensors: the masses of all classes, or of all points and the own class."""
    try:
        from pykeops.torch import LazyTensor
    except ImportError:
        return None
    one_hot = torch.nn.functional.one_hot(labels, N_CLASSES).float()

    def run() -> None:
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
        torch.autograd.grad((total - same).sum(), a)

    return run


def medians(contenders: dict[str, Callable[[], None] | None], repeats: int) -> dict[str, float]:
    """Median seconds of each, taking turns after one run each that is not counted."""
    present = {name: run for name, run in contenders.items() if run is not None}
    times: dict[str, list[float]] = {name: [] for name in present}
    for turn in range(repeats + 1):
        for name, run in present.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_gib() -> float:
    """Largest memory of this process so far; getrusage would count that of its parent."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) / 2**20


def alone(n: int) -> dict[str, float]:
    """Seconds, cores kept busy and peak memory of the largest problem in a new process."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import time; import cpu_masses as c\n"
        f"z, y = c.problem({n}, 10); run = c.tiles(z, y, [slice(0, 10)])\n"
        "before, start, cpu = c.peak_gib(), time.perf_counter(), time.process_time(); run()\n"
        "print(time.perf_counter() - start, time.process_time() - cpu, before, c.peak_gib())"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, cpu, before, after = (float(word) for word in outcome.stdout.split())
    return {
        "seconds": seconds,
        "cores": cpu / seconds,
        "peak GiB": after,
        "of which before it GiB": before,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    n, repeats = arguments.n, arguments.repeats
    results: dict[str, object] = {
        "machine": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "n": n,
    }
    z, labels = problem(n, 1)
    one = [slice(0, 1)]
    results["one particle, seconds"] = medians(
        {
            "tiles": tiles(z, labels, one),
            "tiles, float64": tiles(z.double(), labels, one),
            "scikit-learn, float64": scikit_learn(z, labels, np.float64),
            "scikit-learn, float32": scikit_learn(z, labels, np.float32),
            "KeOps, two sums": keops(z, labels, by_class=False),
            "KeOps, masses of classes": keops(z, labels, by_class=True),
        },
        repeats,
    )
    for size in (n // 20, n // 10, n // 5):
        for name, m, answers in (
            ("one particle", 1, one),
            ("shared, m = 10", 10, [slice(row, row + 1) for row in range(10)]),
            ("cross, m = 10", 10, [slice(0, 10)]),
        ):
            if size * len(answers) > n or (m == 10 and len(answers) == 1 and size > n // 10):
                continue
            z, labels = problem(size, m)
            results[f"{name}, n = {size}, seconds"] = medians(
                {"tiles": tiles(z, labels, answers), "whole kernel": whole_kernel(z, labels, answers)},
                repeats,
            )
    results[f"cross, m = 10, n = {n}, in a process of its own"] = alone(n)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
