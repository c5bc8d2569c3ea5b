"""Time, memory and precision of class masses on a GPU, forward and backward.

The fused kernels against the whole kernel in torch, where it fits, and ``flex_attention``. The gradient is
compared with float64 on some rows; for that the loss is the masses times fixed numbers, whose slopes are
then exact::

    python benchmarks/gpu_masses.py --out gpu_masses.json

``--tune`` times the choices of tiles instead.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from pnca.accelerated import masses as fused
from pnca.maths.kernels import log_expected_kernel, log_input_factor, log_latent_kernel
from pnca.maths.masses import InputFactor
from pnca.maths.neighbours import class_log_masses, leave_one_out

N_CLASSES, BANDWIDTH, D = 10, 2.0, 10


class Problem:
    """Points around the centres of their classes, and the slopes of a loss that is linear in the masses."""

    def __init__(self, n: int, m: int = 10, d: int = D, p: int = 0, is_shared: bool = False) -> None:
        draw = torch.Generator("cuda").manual_seed(n + m + d)
        self.labels = torch.randint(N_CLASSES, (n,), generator=draw, device="cuda")
        centres = 1.5 * torch.randn(N_CLASSES, d, generator=draw, device="cuda")
        z = centres[self.labels] + 0.5 * torch.randn(n, d, generator=draw, device="cuda")
        self.z = (z + 0.5 * torch.randn(m, n, d, generator=draw, device="cuda")).requires_grad_()
        self.bandwidth = BANDWIDTH * d / D
        self.answers = [slice(row, row + 1) for row in range(m)] if is_shared else [slice(0, m)]
        self.slopes = torch.randn(len(self.answers), n, N_CLASSES, generator=draw, device="cuda")
        self.factor = None
        if p:
            x = torch.randn(n, p, generator=draw, device="cuda")
            self.factor = InputFactor(x, x, 2.0 * p, 4.0)

    def fused(self) -> Tensor:
        """Masses by the kernels under test."""
        return fused.fused_class_log_masses(
            self.z,
            self.z,
            self.labels,
            N_CLASSES,
            self.bandwidth,
            self.answers,
            leave_one_out=True,
            input_factor=self.factor,
        )

    def whole_kernel(self) -> Tensor:
        """Masses by the path of small data."""
        if len(self.answers) == len(self.z):
            log_kernel = log_latent_kernel(self.z, self.z, self.bandwidth)
        else:
            log_kernel = log_expected_kernel(self.z, self.z, self.bandwidth, max_pairs=2**28)[None]
        if self.factor is not None:
            log_kernel = log_kernel + log_input_factor(*self.factor)
        return class_log_masses(leave_one_out(log_kernel), self.labels, N_CLASSES)

    def gradient(self, log_masses: Tensor) -> Tensor:
        """Gradient of the loss, keeping the graph so that it can be timed again."""
        slopes = self.slopes * log_masses.detach().exp()
        return torch.autograd.grad(log_masses, self.z, slopes, retain_graph=True)[0]

    def exact_gradient(self, rows: Tensor) -> Tensor:
        """These rows of the gradient in float64: (m, rows, d)."""
        z, h = self.z.detach().double(), self.bandwidth
        gradient = torch.zeros(len(z), len(rows), z.shape[2], device="cuda", dtype=torch.float64)
        factor = 1.0
        if self.factor is not None:
            x = self.factor.a.double()
            factor = log_input_factor(x[rows], x, self.factor.scale, self.factor.weight).exp()
        for part, slopes in zip(self.answers, self.slopes.double(), strict=True):
            # What each row receives and what it gives.
            slope = (slopes[rows][:, self.labels] + slopes[:, self.labels[rows]].mT) * factor
            slope[torch.arange(len(rows)), rows] = 0
            for row in range(part.start, part.stop):
                for other in range(part.start, part.stop):
                    distance = torch.cdist(
                        z[row, rows], z[other], compute_mode="donot_use_mm_for_euclid_dist"
                    )
                    weight = (-distance.square() / h).exp() * slope / (part.stop - part.start) ** 2
                    pull = weight @ z[other] - weight.sum(dim=1, keepdim=True) * z[row, rows]
                    gradient[row] += 2 / h * pull
        return gradient


def milliseconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Median time on the device, after one run that is not counted."""
    run()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def measure(problem: Problem, log_masses: Callable[[], Tensor], n_rows: int = 64) -> dict[str, float]:
    """Forward, backward, the memory of both and the error of the gradient."""
    with torch.no_grad():
        forward = milliseconds(log_masses)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    masses = log_masses()
    gradient = problem.gradient(masses)
    torch.cuda.synchronize()
    memory = torch.cuda.max_memory_allocated() - before
    n = problem.z.shape[1]
    rows = torch.arange(0, n, max(1, n // n_rows), device="cuda")[:n_rows]
    exact = problem.exact_gradient(rows)
    error = (gradient[:, rows].double() - exact).norm() / exact.norm()
    return {
        "forward ms": forward,
        "backward ms": milliseconds(lambda: problem.gradient(masses)),
        "peak MiB": memory / 2**20,
        "gradient error": error.item(),
    }


def flex_attention_ms(n: int) -> dict[str, float]:
    """The expected kernel as attention: scores are log kernels, values classes, masses out times e^lse."""
    from torch.nn.attention.flex_attention import flex_attention

    problem = Problem(n)
    attention = torch.compile(flex_attention)

    def score(value: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return torch.where(query % n == key % n, -torch.inf, value)

    def masses(z: Tensor) -> Tensor:
        points = z.flatten(0, 1)
        norm, one = points.square().sum(dim=1, keepdim=True), torch.ones_like(points[:, :1])
        pad = torch.zeros(len(points), 16 - D - 2, device="cuda")
        query = torch.cat([points, norm, one, pad], dim=1)[None, None]
        key = torch.cat([2 * points, -one, -norm, pad], dim=1)[None, None] / problem.bandwidth
        value = torch.nn.functional.one_hot(problem.labels, 16).float().repeat(len(z), 1)[None, None]
        out, lse = attention(query, key, value, score_mod=score, scale=1.0, return_lse=True)
        mass = (out * lse.exp()[..., None]).view(len(z), n, 16).sum(dim=0) / len(z) ** 2
        return mass[:, :N_CLASSES]

    def both() -> Tensor:
        return torch.autograd.grad((masses(problem.z) * problem.slopes[0]).sum(), problem.z)[0]

    gradient, rows = both(), torch.arange(0, n, n // 64, device="cuda")
    exact = problem.exact_gradient(rows)
    error = (gradient[:, rows].double() - exact).norm() / exact.norm()
    return {"both ms": milliseconds(both, 3), "gradient error": error.item()}


def compare() -> dict[str, object]:
    """All that is reported."""
    results: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    cases = {
        "cross n=2000": {"n": 2000},
        "cross n=6000": {"n": 6000},
        "cross n=60000": {"n": 60_000},
        "cross n=60000 d=32": {"n": 60_000, "d": 32},
        "cross n=60000, 784 inputs": {"n": 60_000, "p": 784},
        "shared n=60000": {"n": 60_000, "is_shared": True},
        "shared n=60000, 784 inputs": {"n": 60_000, "is_shared": True, "p": 784},
        "cross n=10000 m=4 d=64": {"n": 10_000, "m": 4, "d": 64},
        "cross n=10000 m=4 d=128": {"n": 10_000, "m": 4, "d": 128},
    }
    for name, settings in cases.items():
        problem = Problem(**settings)
        results[name] = measure(problem, problem.fused)
        print(name, results[name], flush=True)
    for name, settings in {
        "cross n=250": {"n": 250},
        "cross n=1000": {"n": 1000},
        "cross n=2000": {"n": 2000},
        "shared n=250": {"n": 250, "is_shared": True},
        "shared n=1000": {"n": 1000, "is_shared": True},
        "shared n=4000": {"n": 4000, "is_shared": True},
    }.items():
        problem = Problem(**settings)
        results[name + ", whole kernel"] = measure(problem, problem.whole_kernel)
        results[name + ", fused"] = measure(problem, problem.fused)
        print(name, results[name + ", whole kernel"], results[name + ", fused"], flush=True)
    return results


def tune(n: int = 60_000) -> dict[str, object]:
    """Times of the choices of tiles, forward and backward."""
    results: dict[str, object] = {}
    for d, m, stages in (
        (10, 10, (2, 3, 4)),
        (16, 10, (3,)),
        (32, 10, (2, 3)),
        (64, 4, (2, 3)),
        (128, 4, (1, 2)),
    ):
        problem = Problem(n if d <= 16 else n // 3, m, d)
        width = fused._width(d)
        shipped = fused._JOINT_TILES, dict(fused._TILES)
        for rows, columns in ((64, 64), (64, 32)):
            for stage in stages:
                for registers in (None, 128) if d == 10 else (None,):
                    tiles = fused.Tiles(rows, columns, 4, stage, registers)
                    fused._TILES[width] = fused._JOINT_TILES = (tiles, tiles)
                    try:
                        with torch.no_grad():
                            forward = milliseconds(problem.fused, 3)
                        masses = problem.fused()
                        backward = milliseconds(lambda: problem.gradient(masses), 3)  # noqa: B023
                    except Exception as error:
                        forward, backward = str(error)[:60], None
                    results[f"d={d} {tuple(tiles)}"] = forward, backward
                    print(d, tuple(tiles), forward, backward, flush=True)
        fused._JOINT_TILES, fused._TILES = shipped
    problem = Problem(n)
    for programs in (4096, 16384, 32768, 65536, 131072):
        fused._MIN_PROGRAMS = programs
        with torch.no_grad():
            forward = milliseconds(problem.fused, 3)
        masses = problem.fused()
        results[f"programs {programs}"] = forward, milliseconds(lambda: problem.gradient(masses), 3)  # noqa: B023
        print(programs, results[f"programs {programs}"], flush=True)
    return results


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--flex", type=int, default=0, help="points for flex_attention; 0 leaves it out")
    arguments = parser.parse_args()
    start = time.perf_counter()
    results = tune() if arguments.tune else compare()
    if arguments.flex:
        results[f"flex_attention cross n={arguments.flex}"] = flex_attention_ms(arguments.flex)
    results["seconds"] = time.perf_counter() - start
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
