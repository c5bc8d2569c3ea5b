"""The exact kernel on a GPU: class masses and their gradient, fused, by the whole kernel and as attention.

The loss is the masses times fixed numbers. Its slopes are therefore exact, and some rows of the gradient can
be compared with float64.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from measuring import NO_GPU, PeakMemory, finish, interleaved, is_cuda, median, parser, spread
from pnca.accelerated.masses import fused_class_log_masses
from pnca.accelerated.problem import InputFactor, MassProblem
from pnca.maths.kernels import log_input_factor
from problems import N_CLASSES, answering, make_embeddings, whole_kernel
from records import Record, Reference, Target

BANDWIDTH, D = 2.0, 10
#: Rows of the gradient that are compared with float64.
N_ROWS = 64
#: Columns of queries, keys and values as attention has them: a power of two that holds d + 2 and the classes.
_ATTENTION_COLUMNS = 16
_EXPONENTIALS = Reference(
    name="exponentials alone",
    seconds=0.13,
    source="arithmetic: 132 SMs x 16 a clock, symmetry used forward",
)
_TARGETS = (
    Target(text="at most .5 s", at_most=0.5),
    Target(text="at most 1 GiB", quantity="memory_gib", at_most=1.0),
    Target(text="gradient error at most 1e-3", quantity="value", at_most=1e-3),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Sizes of a problem."""

    n: int
    m: int = 10
    d: int = D
    p: int = 0  # columns of the inputs whose distance shrinks the kernel
    is_shared: bool = False  # each particle answers on its own, not all pairs of them together

    @property
    def name(self) -> str:
        """The case in words, without the sizes that a record has."""
        inputs = f", {self.p} inputs" if self.p else ""
        return f"fused, {'shared' if self.is_shared else 'cross'}{inputs}"


#: What the targets are about.
ASKED = Case(n=60_000)
#: Too large for the whole kernel.
LARGE = (
    ASKED,
    Case(n=6000),
    Case(n=60_000, d=32),
    Case(n=60_000, p=784),
    Case(n=60_000, is_shared=True),
    Case(n=60_000, is_shared=True, p=784),
    Case(n=10_000, m=4, d=64),
    Case(n=10_000, m=4, d=128),
)
#: Compared with the whole kernel, and the last of them with attention.
SMALL = (
    *(Case(n=n, is_shared=True) for n in (250, 1000, 4000)),
    *(Case(n=n) for n in (250, 1000, 2000)),
)


class Problem:
    """Points around the centres of their classes, and the slopes of a loss that is linear in the masses."""

    def __init__(self, case: Case, device: str = "cuda") -> None:
        n, m, d = case.n, case.m, case.d
        draw = torch.Generator(device).manual_seed(n + m + d)
        z, self.labels = make_embeddings(n, m, d, draw)
        self.z = z.requires_grad_()
        self.bandwidth = BANDWIDTH * d / D
        self.answers = answering(m, is_shared=case.is_shared)
        self.slopes = torch.randn(len(self.answers), n, N_CLASSES, generator=draw, device=device)
        self.factor = None
        if case.p:
            x = torch.randn(n, case.p, generator=draw, device=device)
            self.factor = InputFactor(x, x, 2.0 * case.p, 4.0)

    def fused(self) -> Tensor:
        """Log masses by the kernels under test."""
        fields = self.z, self.z, self.labels, N_CLASSES, self.bandwidth, self.answers
        return fused_class_log_masses(MassProblem(*fields, leave_one_out=True, input_factor=self.factor))

    def whole_kernel(self) -> Tensor:
        """Log masses as small data are computed."""
        return whole_kernel(self.z, self.labels, self.answers, self.bandwidth, self.factor, max_pairs=2**28)

    def gradient(self, log_masses: Tensor) -> Tensor:
        """Gradient of the loss, from the log masses."""
        return torch.autograd.grad(log_masses, self.z, self.slopes * log_masses.detach().exp())[0]

    def exact_gradient(self, rows: Tensor) -> Tensor:
        """These rows of the gradient in float64: (m, rows, d)."""
        z, h = self.z.detach().double(), self.bandwidth
        gradient = torch.zeros(len(z), len(rows), z.shape[2], device=z.device, dtype=torch.float64)
        factor: Tensor | float = 1.0
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

    def error(self, gradient: Tensor) -> float:
        """How far some rows of a gradient are from those in float64, relative to their norm."""
        n = gradient.shape[1]
        rows = torch.arange(0, n, max(1, n // N_ROWS), device=gradient.device)[:N_ROWS]
        exact = self.exact_gradient(rows)
        return ((gradient[:, rows].double() - exact).norm() / exact.norm()).item()


def attention_masses(problem: Problem, attention: Callable[..., tuple[Tensor, Tensor]]) -> Tensor:
    """Masses (n, c) of the expected kernel as attention: scores are log kernels, values classes.

    What attention gives is multiplied by the exponential of its log normaliser.
    """
    z, (m, n, d) = problem.z, problem.z.shape
    points = z.flatten(0, 1)
    norm, one = points.square().sum(dim=1, keepdim=True), torch.ones_like(points[:, :1])
    pad = points.new_zeros(len(points), _ATTENTION_COLUMNS - d - 2)
    query = torch.cat([points, norm, one, pad], dim=1)[None, None]
    key = torch.cat([2 * points, -one, -norm, pad], dim=1)[None, None] / problem.bandwidth
    classes = torch.nn.functional.one_hot(problem.labels, _ATTENTION_COLUMNS).to(z)
    value = classes.repeat(m, 1)[None, None]

    def score(value: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return torch.where(query % n == key % n, -torch.inf, value)

    out, lse = attention(query, key, value, score_mod=score, scale=1.0, return_lse=True)
    mass = (out * lse.exp()[..., None]).view(m, n, _ATTENTION_COLUMNS).sum(dim=0) / m**2
    return mass[:, :N_CLASSES]


def by_attention(problem: Problem) -> Callable[[], Tensor]:
    """The gradient by ``flex_attention``, compiled."""
    from torch.nn.attention.flex_attention import flex_attention

    attention = torch.compile(flex_attention)

    def run() -> Tensor:
        masses = attention_masses(problem, attention)
        return torch.autograd.grad((masses * problem.slopes[0]).sum(), problem.z)[0]

    return run


def measure(
    case: Case, ways: Mapping[str, Callable[[], Tensor]], problem: Problem, repeats: int, device: str
) -> Record:
    """Time the gradient in several ways, the first of which is under test, with its memory and its error."""
    memory, error = {}, {}
    for name, way in ways.items():
        way()  # compiles
        peak = PeakMemory(device)
        gradient = way()
        memory[name] = peak.gib() if is_cuda(device) else None
        error[name] = problem.error(gradient)
        del gradient
    taken = interleaved(ways, repeats, device=device)
    ours, *others = ways
    return Record(
        name=case.name,
        n=case.n,
        m=case.m,
        d=case.d,
        c=N_CLASSES,
        device=device,
        **spread(taken[ours]),
        memory_gib=memory[ours],
        value=error[ours],
        unit="gradient error",
        alternatives=[
            Reference(name=name, seconds=median(taken[name]), memory_gib=memory[name], value=error[name])
            for name in others
        ],
        floors=(_EXPONENTIALS,) if case == ASKED else (),
        targets=_TARGETS if case == ASKED else (),
    )


def measure_alone(case: Case, repeats: int, device: str) -> Record:
    """Measure the fused kernels; the note says how much of the time is forward."""
    problem = Problem(case, device)

    def forward() -> None:
        with torch.no_grad():
            problem.fused()

    record = measure(case, {"fused": lambda: problem.gradient(problem.fused())}, problem, repeats, device)
    seconds = median(interleaved({"forward": forward}, repeats, device=device)["forward"])
    return replace(record, note=f"forward alone {1000 * seconds:.3g} ms")


def measure_beside(
    case: Case, repeats: int, device: str, skipped: dict[str, str], *, use_attention: bool
) -> Record:
    """Measure the fused kernels, the whole kernel and, if asked for, attention, in turn."""
    problem = Problem(case, device)
    ways: dict[str, Callable[[], Tensor]] = {
        "fused": lambda: problem.gradient(problem.fused()),
        "whole kernel in torch": lambda: problem.gradient(problem.whole_kernel()),
    }
    if use_attention:
        attention = by_attention(problem)
        try:
            attention()
            ways["flex_attention"] = attention
        except Exception as error:  # whatever the compiler does not know
            skipped["flex_attention"] = f"{type(error).__name__}: {error}"[:300]
    return measure(case, ways, problem, repeats, device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, device="cuda")
    options.add_argument("--no-flex", action="store_true", help="Leave flex_attention out: it compiles.")
    chosen = options.parse_args(arguments)
    skipped: dict[str, str] = {}  # filled while measuring
    if torch.cuda.is_available():
        finish(chosen, "gpu_masses", _measure_all(chosen, skipped), skipped)
    else:
        finish(chosen, "gpu_masses", [], {"fused kernels": NO_GPU})


def _measure_all(chosen: argparse.Namespace, skipped: dict[str, str]) -> Iterator[list[Record]]:
    large, small, repeats = (LARGE, SMALL, chosen.repeats)
    if chosen.tiny:
        large, small, repeats = (Case(n=500),), (Case(n=250),), 1
    for case in large:
        yield [measure_alone(case, repeats, chosen.device)]
    for case in small:
        use_attention = case == small[-1] and not chosen.no_flex
        yield [measure_beside(case, repeats, chosen.device, skipped, use_attention=use_attention)]


if __name__ == "__main__":
    main()
