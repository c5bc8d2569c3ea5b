r"""Class masses on a GPU: one fused pass forward and one backward, nothing of the size of the kernel.

With a background mass no running maximum is needed: the kernel is at most one and masses below
``SMALLEST`` might as well be it. What is computed, per pair of particles, is one product of a few columns in
half-precision parts, one power of two and one sum; everything that belongs to a pair of points (weights,
exclusions, input factor, classes) is done once for all its pairs of particles.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pnca.accelerated.compiler import is_available, power_of_two
from pnca.maths.masses import InputFactor

#: The least mass: below it float32 has no more digits for a gradient. Its logarithm is -69.
SMALLEST = 1e-30

#: Most dimensions of a point.
MAX_DIMENSIONS = 128

#: Classes are padded to a multiple of this many points.
UNIT = 64

#: Norm to which farther points are drawn in, in units where the kernel is 2 ** (-distance^2 / 2): beyond it
#: float32 does not know the distance between neighbours, and half precision could not hold them.
_FARTHEST = 1000.0

#: Points of each particle that are enough to find their middle.
_CENTRE_POINTS = 256

#: Numbers of a strip of input factors held at once: 256 MiB.
_MAX_FACTORS = 2**26

#: Programs that keep the processors of a large GPU busy to the end, and to the same part of the points, which
#: then stays in its cache. Backward a program has at least some tiles, since its end costs as much as one.
_MIN_PROGRAMS, _MIN_TILES_BACKWARD = 32768, 4

#: Columns of a product of all parts of points of few dimensions: 32 in place of three times 16.
_JOINT_WIDTH = 32

#: Side of the tiles in which input factors are computed.
_FACTOR_TILE = 64


class Tiles(NamedTuple):
    """How a kernel is cut up; rows and columns divide ``UNIT``."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int | None = None  # most of a thread; None leaves it to the compiler

    def options(self) -> dict[str, int | None]:
        """What a launch takes."""
        return {
            "BM": self.rows,
            "BN": self.columns,
            "num_warps": self.warps,
            "num_stages": self.stages,
            "maxnreg": self.registers,
        }


#: Tiles forward and backward, of joint products and by the columns of others: measured on an H200 with
#: ``benchmarks/gpu_masses.py``. Backward, four programs at a time are worth the limit of registers.
_JOINT_TILES = Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 3, 128)
_TILES = {
    16: (Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 3)),
    32: (Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 3)),
    64: (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 3)),
    128: (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 2)),
}


def can_be_fused(points: Tensor, n_classes: int) -> bool:
    """Whether the kernels take these points (m, n, d), and padding their classes costs less than is saved."""
    m, n, d = points.shape
    return (
        points.is_cuda
        and points.dtype == torch.float32
        and d <= MAX_DIMENSIONS
        and n_classes * UNIT <= 2 * n
        and 2 * m * n * _width(d) < 2**31  # addresses
        and n < 2**21  # programs
        and is_available()
    )


def fused_class_log_masses(
    a: Tensor,
    b: Tensor,
    labels: Tensor,
    n_classes: int,
    bandwidth: float,
    answers: Sequence[slice],
    *,
    log_weights: Tensor | None = None,
    leave_one_out: bool = False,
    groups: Tensor | None = None,
    input_factor: InputFactor | None = None,
) -> Tensor:
    r"""Log kernel mass that each class receives, at least ``log(SMALLEST)``.

    .. math:: \log S_{ric} = \log \sum_{j:\, y_j = c} w_{rj} f_{ij} K^r_{ij}

    The parameters, and but for the floor the result, are those of
    :func:`pnca.maths.masses.chunked_class_log_masses`; tensors are float32 on a CUDA device, of at most
    128 dimensions. Sums over programs are added in the order in which they end, so the last bit may differ
    from run to run, unless ``torch.use_deterministic_algorithms`` is on; mirror images are not used then.

    Returns
    -------
    Tensor of shape (answers, n_a, c)
        Differentiable once in ``a`` and ``b``.
    """
    points = _Points.of(a, b, labels, n_classes, leave_one_out)
    weights = _weights(log_weights, len(answers), points.slots_b, points.n_b, a)
    owners = _owners(leave_one_out, groups, points)
    problem = _Problem(
        bandwidth=float(bandwidth),
        answers=tuple(answers),
        n_classes=n_classes,
        tiles=points.tiles,
        classes=points.classes,
        weights=weights,
        owners=owners,
        factor=_padded_factor(input_factor, points),
        is_symmetric=a is b and (input_factor is None or input_factor.a is input_factor.b),
    )
    support = _padded(b, points.slots_b, points.n_b)
    queries = support if a is b else _padded(a, points.slots_a, points.n_a)
    with torch.autocast(a.device.type, enabled=False):
        masses: Tensor = _ClassMasses.apply(queries, support, problem)  # type: ignore[no-untyped-call]
    return masses[..., points.slots_a].mT.clamp_min(SMALLEST).log()


@dataclass(frozen=True, kw_only=True)
class _Points:
    """Where points go when classes are sorted and padded to whole tiles."""

    slots_a: Tensor  # (n_a,)
    slots_b: Tensor
    n_a: int  # with padding
    n_b: int
    classes: Tensor  # (n_b,) class of each place
    tiles: tuple[Tiles, Tiles]

    @classmethod
    def of(cls, a: Tensor, b: Tensor, labels: Tensor, n_classes: int, leave_one_out: bool) -> "_Points":
        tiles = _tiles_of(b.shape[2])
        counts = labels.bincount(minlength=n_classes)
        padded = (counts + UNIT - 1) // UNIT * UNIT
        n_b = int(padded.sum())
        starts = padded.cumsum(0) - padded
        order = labels.argsort(stable=True)
        within = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels[order]]
        slots_b = torch.empty_like(order)
        slots_b[order] = starts[labels[order]] + within
        classes = torch.repeat_interleave(torch.arange(n_classes, device=labels.device), padded)
        if a is b or leave_one_out:
            slots_a, n_a = slots_b, n_b
        else:
            slots_a, n_a = torch.arange(a.shape[1], device=a.device), -(-a.shape[1] // UNIT) * UNIT
        return cls(slots_a=slots_a, slots_b=slots_b, n_a=n_a, n_b=n_b, classes=classes.int(), tiles=tiles)


def _is_joint(d: int) -> bool:
    """Whether all parts of d dimensions fit into one product."""
    return 3 * d + 1 <= _JOINT_WIDTH


def _tiles_of(d: int) -> tuple[Tiles, Tiles]:
    return _JOINT_TILES if _is_joint(d) else _TILES[_width(d)]


def _width(d: int) -> int:
    """Columns of a product: a power of two, and at least what a tensor core takes."""
    return _JOINT_WIDTH if _is_joint(d) else power_of_two(d, least=16)


def _padded(points: Tensor, slots: Tensor, n: int) -> Tensor:
    """Points (m, n, d) in their slots, zero elsewhere."""
    return points.new_zeros(points.shape[0], n, points.shape[2]).index_copy(1, slots, points)


def _weights(log_weights: Tensor | None, n_answers: int, slots: Tensor, n: int, like: Tensor) -> Tensor:
    """Weights (answers, n), zero where nothing is."""
    weights = like.new_zeros(n_answers, n)
    weights[:, slots] = 1.0 if log_weights is None else log_weights.detach().to(like).exp()
    return weights


def _owners(leave_one_out: bool, groups: Tensor | None, points: _Points) -> Tensor | None:
    """To whom each point belongs; points of one owner do not count for each other: (n,)."""
    if not leave_one_out:
        return None
    owners = torch.arange(points.n_b, device=points.classes.device, dtype=torch.int32)
    if groups is not None:
        # Any integers may be groups; those of padding must differ from none, since it weighs nothing.
        owners[points.slots_b] = torch.unique(groups, return_inverse=True)[1].int()
    return owners


class _Factor(NamedTuple):
    """Inputs as the kernel wants them: half precision, and their norms as rounded."""

    x: Tensor  # (n_a, p)
    norms_x: Tensor
    y: Tensor  # (n_b, p)
    norms_y: Tensor
    log2_weight: float

    def turned(self) -> "_Factor":
        return _Factor(self.y, self.norms_y, self.x, self.norms_x, self.log2_weight)


def _padded_factor(factor: InputFactor | None, points: _Points) -> _Factor | None:
    if factor is None:
        return None
    centre = factor.b.mean(dim=0)
    scale = math.sqrt(2 * factor.weight / (factor.scale * math.log(2)))

    def prepared(inputs: Tensor, slots: Tensor, n: int) -> tuple[Tensor, Tensor]:
        width = -(-inputs.shape[1] // 64) * 64
        x = torch.zeros(n, width, dtype=torch.float16, device=inputs.device)
        x[slots, : inputs.shape[1]] = ((inputs - centre) * scale).clamp(-6e4, 6e4).half()
        return x, x.float().square().sum(dim=1) / 2

    x = prepared(factor.a, points.slots_a, points.n_a)
    y = (
        x
        if factor.a is factor.b and points.n_a == points.n_b
        else prepared(factor.b, points.slots_b, points.n_b)
    )
    return _Factor(*x, *y, factor.weight / math.log(2))


class _Side(NamedTuple):
    """One set of points as the kernels take it."""

    parts_1: Tensor  # (m, n, D) half precision, see the kernels
    parts_2: Tensor  # (m, n, D)
    norms: Tensor  # (m, n) minus half the squared norm, and minus half of what ones add to a product


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """What does not change between forward and backward and has no gradient."""

    bandwidth: float
    answers: tuple[slice, ...]
    n_classes: int
    tiles: tuple[Tiles, Tiles]
    classes: Tensor  # (n_b,)
    weights: Tensor  # (answers, n_b)
    owners: Tensor | None  # (n_b,)
    factor: _Factor | None
    is_symmetric: bool

    def teams(self) -> list[tuple[int, Tensor, Tensor]]:
        """Answers with as many particles as each other: that number, first particles, answers."""
        sizes = sorted({part.stop - part.start for part in self.answers})
        teams = []
        for size in sizes:
            numbers = [r for r, part in enumerate(self.answers) if part.stop - part.start == size]
            starts = [self.answers[r].start for r in numbers]
            both = torch.tensor([starts, numbers], dtype=torch.int32).to(self.weights.device)
            teams.append((size, both[0], both[1]))
        return teams


class _ClassMasses(torch.autograd.Function):
    """Masses (answers, c, n_a) of padded points."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, problem: _Problem) -> Tensor:  # noqa: ANN401
        scale = math.sqrt(2 / (math.log(2) * problem.bandwidth))
        centre = _centre(b)
        side_b = _side(b, centre, scale)
        side_a = side_b if a is b else _side(a, centre, scale)
        masses = a.new_zeros(len(problem.answers), problem.n_classes, a.shape[1])
        for rows, factor in _strips(problem.factor, a.shape[1]):
            _launch_masses(masses, side_a, side_b, problem, a.shape[2], rows, factor)
        for size, _, numbers in problem.teams():
            masses[numbers.long()] /= size**2
        ctx.save_for_backward(masses, *side_a, *side_b)
        ctx.problem, ctx.scale, ctx.d, ctx.is_same = problem, scale, a.shape[2], a is b
        return masses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        r"""Pull each point towards its partners.

        .. math:: \nabla_{a_{li}} = -\frac{2}{h} \sum_{r \ni l} \sum_{j l'} \frac{1}{m_r^2} H_{r i y_j} w_{rj}
                                    f_{ij} k(a_{li}, b_{l'j}) (a_{li} - b_{l'j})

        with :math:`H` the slopes of the masses. Where ``a`` is ``b``, a row has in one pass both what it
        receives and what it gives, so that its gradient is its own and needs no other program.
        """
        problem, (masses, *sides) = ctx.problem, ctx.saved_tensors
        side_a, side_b = _Side(*sides[:3]), _Side(*sides[3:])
        slopes, unit = _scaled_slopes(grad, masses, problem)
        factor = problem.factor
        if ctx.is_same and (factor is None or problem.is_symmetric):
            pull = _pull(side_a, side_b, slopes, problem, factor, ctx.d, as_queries=True, as_support=True)
            return _gradient(pull, side_a, unit, ctx), None, None
        of_a = _pull(side_a, side_b, slopes, problem, factor, ctx.d, as_queries=True, as_support=False)
        turned = None if factor is None else factor.turned()
        of_b = _pull(side_b, side_a, slopes, problem, turned, ctx.d, as_queries=False, as_support=True)
        return _gradient(of_a, side_a, unit, ctx), _gradient(of_b, side_b, unit, ctx), None


def _centre(points: Tensor) -> Tensor:
    """A point in the middle of most of these, (m, n, d), whatever the others are."""
    step = -(-points.shape[1] // _CENTRE_POINTS)
    some = points[:, ::step].flatten(0, 1)
    return some.sort(dim=0).values[len(some) // 2]


def _side(points: Tensor, centre: Tensor, scale: float) -> _Side:
    """Half-precision parts of points (m, n, d), centred, where the kernel is 2 ** (-distance^2 / 2)."""
    z = ((points - centre) * scale).clamp(-1e15, 1e15)  # whose square is a number
    z *= _FARTHEST / z.norm(dim=2, keepdim=True).clamp_min(_FARTHEST)
    hi = z.half()
    lo = (z - hi.float()).half()
    norms = -(hi.float() + lo.float()).square().sum(dim=2) / 2
    if _is_joint(z.shape[2]):
        return _Side(_columns(hi, hi, lo), _columns(hi, lo, hi, hi.new_ones(1)), norms)
    if z.shape[2] == _width(z.shape[2]):
        return _Side(hi, lo, norms)
    return _Side(_columns(hi, hi.new_ones(1)), _columns(lo), norms - 0.5)


def _columns(*parts: Tensor) -> Tensor:
    """Parts (m, n, d) beside each other, and zeros up to the width of a product: (m, n, D)."""
    m, n, d = parts[0].shape
    wide = parts[0].new_zeros(m, n, _width(d))
    start = 0
    for part in parts:
        wide[..., start : start + part.shape[-1]] = part
        start += part.shape[-1]
    return wide


def _scaled_slopes(grad: Tensor, masses: Tensor, problem: _Problem) -> tuple[Tensor, Tensor]:
    """Slopes (answers, c, n_a) of sums over pairs of particles, scaled to fit half precision; and the scale.

    Half precision spans 2 ** 40. A weight is part of a mass times its slope, twice where a point both gives
    and receives, so that by the largest of these no weight exceeds 2 ** 15.
    """
    slopes = grad.clone(memory_format=torch.contiguous_format)
    unit = 2.0**14 / (grad * masses).abs().max().clamp_min(SMALLEST)
    for size, _, numbers in problem.teams():
        slopes[numbers.long()] /= size**2
    return slopes.mul_(unit), unit


def _gradient(pull: Tensor, side: _Side, unit: Tensor, ctx: Any) -> Tensor:  # noqa: ANN401
    """From the partners by weight and the sum of the weights (m, n, d + 1) to the gradient (m, n, d)."""
    d = ctx.d
    lo = side.parts_2[..., d : 2 * d] if _is_joint(d) else side.parts_2[..., :d]
    z = side.parts_1[..., :d].float() + lo.float()
    gradient: Tensor = pull[..., :d] - pull[..., d:] * z
    # The points are in units of 1 / scale.
    return gradient.mul_(2 / (ctx.problem.bandwidth * ctx.scale) / unit)


def _strips(factor: _Factor | None, n_rows: int) -> Iterator[tuple[slice, Tensor | None]]:
    """Rows, and their input factors (rows, n_b): as many as memory allows at a time."""
    if factor is None:
        yield slice(0, n_rows), None
        return
    from pnca.accelerated import _kernels

    n_b, p = factor.y.shape
    n_most = max(1, _MAX_FACTORS // (n_b * UNIT)) * UNIT
    buffer = torch.empty(min(n_most, n_rows), n_b, device=factor.x.device)
    for start in range(0, n_rows, n_most):
        rows = slice(start, min(start + n_most, n_rows))
        size = rows.stop - rows.start
        grid = (n_b // _FACTOR_TILE, size // _FACTOR_TILE)
        _kernels.input_factor[grid](
            factor.x[rows], factor.norms_x[rows], factor.y, factor.norms_y, buffer,
            n_b, factor.log2_weight, P=p, BLOCK=_FACTOR_TILE, BK=64,
        )  # fmt: skip
        yield rows, buffer[:size]


def _launch_masses(
    masses: Tensor, a: _Side, b: _Side, problem: _Problem, d: int, rows: slice, factor: Tensor | None
) -> None:
    from pnca.accelerated import _kernels

    tiles = problem.tiles[0]
    n_a, (_, n_b, columns) = a.norms.shape[1], b.parts_1.shape
    n_row_tiles, n_tiles = (rows.stop - rows.start) // tiles.rows, n_b // tiles.columns
    for size, starts, numbers in problem.teams():
        # A mirror image saves the sums over pairs of particles; single particles have none.
        is_mirrored = problem.is_symmetric and size > 1 and not _must_repeat()
        per_split = _tiles_per_split(n_tiles, len(starts) * n_row_tiles, 1)
        grid = (len(starts), n_row_tiles, -(-n_tiles // per_split))
        _kernels.masses[grid](
            *a, problem.weights, problem.owners, problem.classes,
            *b, problem.weights, problem.owners, problem.classes,
            factor, starts, numbers, masses,
            n_a, n_b, problem.n_classes, size, rows.start, per_split,
            HAS_FACTOR=factor is not None, HAS_OWNERS=problem.owners is not None, SYMMETRIC=is_mirrored,
            JOINT=_is_joint(d), D=columns, **tiles.options(),
        )  # fmt: skip


def _pull(
    a: _Side,
    b: _Side,
    slopes: Tensor,
    problem: _Problem,
    factor: _Factor | None,
    d: int,
    *,
    as_queries: bool,
    as_support: bool,
) -> Tensor:
    """Partners of the points ``a`` among ``b`` by weight, and the sum of the weights: (m, n_a, d + 1)."""
    from pnca.accelerated import _kernels

    tiles = problem.tiles[1]
    n_a, (m, n_b, columns) = a.norms.shape[1], b.parts_1.shape
    is_joint, has_ones = _is_joint(d), d < columns
    out = torch.zeros(m, n_a, columns, device=a.norms.device)
    total = torch.zeros(m, n_a, 1, device=a.norms.device)
    for rows, of_rows in _strips(factor, n_a):
        n_row_tiles, n_tiles = (rows.stop - rows.start) // tiles.rows, n_b // tiles.columns
        for size, starts, numbers in problem.teams():
            n_programs = len(starts) * size
            per_split = _tiles_per_split(n_tiles, n_programs * n_row_tiles, _MIN_TILES_BACKWARD)
            grid = (n_programs, n_row_tiles, -(-n_tiles // per_split))
            _kernels.pulls[grid](
                *a, problem.weights, problem.owners, problem.classes, slopes,
                *b, problem.weights, problem.owners, problem.classes, slopes,
                of_rows, starts, numbers, out, total,
                n_a, n_b, problem.n_classes, size, rows.start, per_split,
                HAS_FACTOR=of_rows is not None, HAS_OWNERS=problem.owners is not None,
                AS_QUERIES=as_queries, AS_SUPPORT=as_support, HAS_ONES=has_ones,
                JOINT=is_joint, D=columns, **tiles.options(),
            )  # fmt: skip
    if is_joint:
        return torch.cat([out[..., :d] + out[..., d : 2 * d], out[..., 3 * d, None]], dim=2)
    return out[..., : d + 1] if has_ones else torch.cat([out, total], dim=2)


def _tiles_per_split(n_tiles: int, n_programs: int, least: int) -> int:
    """Tiles of a program, so that there are enough programs, and at least so many."""
    n_splits = 1 if _must_repeat() else -(-_MIN_PROGRAMS // n_programs)
    return max(least, -(-n_tiles // n_splits))


def _must_repeat() -> bool:
    """Whether results must be the same to the last bit each time: programs may not add to the same sum."""
    return torch.are_deterministic_algorithms_enabled()
