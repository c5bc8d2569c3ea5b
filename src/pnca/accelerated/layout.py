"""Class-mass problems as the fused kernels take them: sorted by class, padded to tiles, in half precision."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pnca.accelerated.compiler import power_of_two
from pnca.accelerated.problem import MassProblem

#: Classes are padded to a multiple of this many points.
UNIT = 64

#: Norm to which farther points are drawn in, in units where the kernel is 2 ** (-distance^2 / 2): beyond it
#: float32 cannot tell the distance between neighbours, and half precision could not hold them.
_FARTHEST = 1000.0

#: Columns of a product of all parts of points of few dimensions: 32 instead of three times 16.
_JOINT_WIDTH = 32


class Tiles(NamedTuple):
    """Tile shape and launch options of a kernel; rows and columns divide ``UNIT``."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int | None = None  # most per thread; None leaves it to the compiler

    def options(self) -> dict[str, int | None]:
        """Keyword arguments of a launch."""
        names = "BM", "BN", "num_warps", "num_stages", "maxnreg"
        return dict(zip(names, self, strict=True))


#: Tiles forward and backward, of joint products and by the columns of others: measured on an H200 with
#: ``benchmarks/gpu_masses.py``. Backward, four programs at a time are worth the limit of registers.
_JOINT_TILES = Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 3, 128)
_TILES = {
    16: (Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 3)),
    32: (Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 3)),
    64: (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 3)),
    128: (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 2)),
}


def is_joint(d: int) -> bool:
    """Whether all parts of d dimensions fit into one product."""
    return 3 * d + 1 <= _JOINT_WIDTH


def width(d: int) -> int:
    """Columns of a product: a power of two, and at least what a tensor core takes."""
    return _JOINT_WIDTH if is_joint(d) else power_of_two(d, least=16)


class Slots(NamedTuple):
    """Index of each point once classes are sorted and padded to whole tiles."""

    a: Tensor  # (n_a,)
    b: Tensor  # (n_b,)
    n_a: int  # with padding
    n_b: int
    classes: Tensor  # (n_b with padding,)

    @classmethod
    def of(cls, problem: MassProblem) -> "Slots":
        """Sort the support by class, and the queries with it if they are the same points."""
        labels, device = problem.labels, problem.labels.device
        counts = labels.bincount(minlength=problem.n_classes)
        padded = (counts + UNIT - 1) // UNIT * UNIT
        n_b = int(padded.sum())
        starts = padded.cumsum(0) - padded
        order = labels.argsort(stable=True)
        within = torch.arange(len(labels), device=device) - (counts.cumsum(0) - counts)[labels[order]]
        slots_b = torch.empty_like(order)
        slots_b[order] = starts[labels[order]] + within
        classes = torch.repeat_interleave(torch.arange(problem.n_classes, device=device), padded).int()
        if problem.same_order:
            return cls(slots_b, slots_b, n_b, n_b, classes)
        n_a = problem.a.shape[1]
        return cls(torch.arange(n_a, device=device), slots_b, -(-n_a // UNIT) * UNIT, n_b, classes)


class Factor(NamedTuple):
    """Inputs of the input factor in half precision, and half their squared norms as rounded."""

    x: Tensor  # (n_a, p)
    norms_x: Tensor
    y: Tensor  # (n_b, p)
    norms_y: Tensor
    log2_weight: float

    def transposed(self) -> "Factor":
        """The factor with queries and support exchanged."""
        return Factor(self.y, self.norms_y, self.x, self.norms_x, self.log2_weight)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What forward and backward share and has no gradient."""

    bandwidth: float
    answers: tuple[slice, ...]
    n_classes: int
    tiles: tuple[Tiles, Tiles]
    classes: Tensor  # (n_b,)
    weights: Tensor  # (answers, n_b), zero for padding
    groups: Tensor | None  # (n_b,); points of one group give each other no mass
    factor: Factor | None
    is_symmetric: bool

    @classmethod
    def of(cls, problem: MassProblem, slots: Slots) -> "Layout":
        """Pad what belongs to pairs of points."""
        d, log_weights = problem.b.shape[2], problem.log_weights
        weights = problem.a.new_zeros(len(problem.answers), slots.n_b)
        weights[:, slots.b] = 1.0 if log_weights is None else log_weights.detach().to(problem.a).exp()
        return cls(
            bandwidth=problem.bandwidth,
            answers=tuple(problem.answers),
            n_classes=problem.n_classes,
            tiles=_JOINT_TILES if is_joint(d) else _TILES[width(d)],
            classes=slots.classes,
            weights=weights,
            groups=_groups(problem, slots),
            factor=_factor(problem, slots),
            is_symmetric=problem.is_symmetric,
        )

    def by_size(self) -> list[tuple[int, Tensor, Tensor]]:
        """Members of equally many particles: that number, their first particles, their indices."""
        found = []
        for size in sorted({part.stop - part.start for part in self.answers}):
            numbers = [r for r, part in enumerate(self.answers) if part.stop - part.start == size]
            starts = [self.answers[r].start for r in numbers]
            both = torch.tensor([starts, numbers], dtype=torch.int32).to(self.weights.device)
            found.append((size, both[0], both[1]))
        return found


def _groups(problem: MassProblem, slots: Slots) -> Tensor | None:
    """Group of each slot: with leave-one-out and no groups, each point is its own."""
    if not problem.leave_one_out:
        return None
    groups = torch.arange(slots.n_b, device=slots.classes.device, dtype=torch.int32)
    if problem.groups is not None:
        # Any integers may be groups. Padding may share one: it has no weight.
        groups[slots.b] = torch.unique(problem.groups, return_inverse=True)[1].int()
    return groups


def _factor(problem: MassProblem, slots: Slots) -> Factor | None:
    factor = problem.input_factor
    if factor is None:
        return None
    centre = factor.b.mean(dim=0)
    scale = math.sqrt(2 * factor.weight / (factor.scale * math.log(2)))

    def prepared(inputs: Tensor, at: Tensor, n: int) -> tuple[Tensor, Tensor]:
        n_columns = -(-inputs.shape[1] // 64) * 64
        x = torch.zeros(n, n_columns, dtype=torch.float16, device=inputs.device)
        x[at, : inputs.shape[1]] = ((inputs - centre) * scale).clamp(-6e4, 6e4).half()
        return x, x.float().square().sum(dim=1) / 2

    x = prepared(factor.a, slots.a, slots.n_a)
    is_same = factor.a is factor.b and slots.n_a == slots.n_b
    y = x if is_same else prepared(factor.b, slots.b, slots.n_b)
    return Factor(*x, *y, factor.weight / math.log(2))


class Side(NamedTuple):
    """Queries or support in the parts that the kernels multiply."""

    parts_1: Tensor  # (m, n, D) half precision, see the kernels
    parts_2: Tensor  # (m, n, D)
    norms: Tensor  # (m, n) minus half the squared norm, and minus half of what ones add to a product

    @classmethod
    def of(cls, points: Tensor, centre: Tensor, scale: float) -> "Side":
        """Centre and scale points (m, n, d), so that the kernel is 2 ** (-distance^2 / 2)."""
        z = ((points - centre) * scale).clamp(-1e15, 1e15)  # whose square is a number
        z *= _FARTHEST / z.norm(dim=2, keepdim=True).clamp_min(_FARTHEST)
        hi = z.half()
        lo = (z - hi.float()).half()
        norms = -(hi.float() + lo.float()).square().sum(dim=2) / 2
        if is_joint(z.shape[2]):
            return cls(_columns(hi, hi, lo), _columns(hi, lo, hi, hi.new_ones(1)), norms)
        if z.shape[2] == width(z.shape[2]):
            return cls(hi, lo, norms)
        return cls(_columns(hi, hi.new_ones(1)), _columns(lo), norms - 0.5)

    def points(self, d: int) -> Tensor:
        """The points (m, n, d) as rounded, centred and scaled."""
        lo = self.parts_2[..., d : 2 * d] if is_joint(d) else self.parts_2[..., :d]
        return self.parts_1[..., :d].float() + lo.float()


def padded(points: Tensor, slots: Tensor, n: int) -> Tensor:
    """Points (m, n, d) in their slots, zero elsewhere."""
    return points.new_zeros(points.shape[0], n, points.shape[2]).index_copy(1, slots, points)


def _columns(*parts: Tensor) -> Tensor:
    """Parts (m, n, d) beside each other, and zeros up to the width of a product: (m, n, D)."""
    m, n, d = parts[0].shape
    wide = parts[0].new_zeros(m, n, width(d))
    start = 0
    for part in parts:
        wide[..., start : start + part.shape[-1]] = part
        start += part.shape[-1]
    return wide
