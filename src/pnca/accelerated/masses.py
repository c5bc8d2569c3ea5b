r"""Class masses on a GPU: one fused pass forward and one backward, nothing of the size of the kernel matrix.

With a background mass no running maximum is needed: the kernel is at most one, and masses below ``SMALLEST``
are negligible beside the background. A pair of particles costs one product of a few columns in half-precision
parts, one power of two and one sum; what belongs to a pair of points (weights, groups, input factor, classes)
is applied once for all its pairs of particles.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pnca.accelerated.compiler import takes_kernels
from pnca.accelerated.layout import UNIT, Factor, Layout, Side, Slots, is_joint, padded, width
from pnca.accelerated.problem import MassProblem

#: The least mass: below it float32 has no more digits for a gradient. Its logarithm is -69.
SMALLEST = 1e-30

#: Most dimensions of a point.
MAX_DIMENSIONS = 128

#: Numbers of a strip of input factors held at once: 256 MiB.
_MAX_FACTORS = 2**26

#: Programs that keep the multiprocessors of a large GPU busy to the end, and on the same part of the points,
#: which then stays in its cache. Backward, a program has at least some tiles: its end costs as much as one.
_MIN_PROGRAMS, _MIN_TILES_BACKWARD = 32768, 4

#: Side of the tiles in which input factors are computed.
_FACTOR_TILE = 64

#: Points of each particle from which the centre is taken.
_CENTRE_POINTS = 256


def can_be_fused(points: Tensor, n_classes: int) -> bool:
    """Whether the kernels take a support (m, n, d), and padding its classes costs less than is saved."""
    m, n, d = points.shape
    return (
        takes_kernels(points)
        and d <= MAX_DIMENSIONS
        and n_classes * UNIT <= 2 * n
        and 2 * m * n * width(d) < 2**31  # addresses
        and n < 2**21  # programs
    )


def fused_class_log_masses(problem: MassProblem) -> Tensor:
    """:func:`pnca.accelerated.class_log_masses` on a GPU, in float32 and at least ``log(SMALLEST)``.

    Programs add to the same sums in the order in which they end, so the last bit may differ from run to
    run; with ``torch.use_deterministic_algorithms`` it does not, and symmetry is not used.
    """
    a, b, slots = problem.a, problem.b, Slots.of(problem)
    layout = Layout.of(problem, slots)
    support = padded(b, slots.b, slots.n_b)
    queries = support if a is b else padded(a, slots.a, slots.n_a)
    with torch.autocast(a.device.type, enabled=False):
        masses: Tensor = _ClassMasses.apply(queries, support, layout)  # type: ignore[no-untyped-call]
    return masses[..., slots.a].mT.clamp_min(SMALLEST).log()


class _ClassMasses(torch.autograd.Function):
    """Masses (answers, c, n_a) of padded points."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, layout: Layout) -> Tensor:  # noqa: ANN401
        scale = math.sqrt(2 / (math.log(2) * layout.bandwidth))
        some = b[:, :: -(-b.shape[1] // _CENTRE_POINTS)].flatten(0, 1)
        centre = some.sort(dim=0).values[len(some) // 2]  # a median, which a few far points do not move
        side_b = Side.of(b, centre, scale)
        side_a = side_b if a is b else Side.of(a, centre, scale)
        masses = a.new_zeros(len(layout.answers), layout.n_classes, a.shape[1])
        for rows, factor in _strips(layout.factor, a.shape[1]):
            _launch_masses(masses, side_a, side_b, layout, a.shape[2], rows, factor)
        for size, _, numbers in layout.by_size():
            masses[numbers.long()] /= size**2
        ctx.save_for_backward(masses, *side_a, *side_b)
        ctx.layout, ctx.scale, ctx.d, ctx.is_same = layout, scale, a.shape[2], a is b
        return masses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        r"""Sum over partners, weighted by kernel and incoming gradient.

        .. math:: \nabla_{a_{li}} = -\frac{2}{h} \sum_{r \ni l} \sum_{j l'} \frac{1}{m_r^2} H_{r i y_j} w_{rj}
                                    f_{ij} k(a_{li}, b_{l'j}) (a_{li} - b_{l'j})

        with :math:`H` the gradients with respect to the masses. Where ``a`` is ``b``, one pass covers a
        point both as query and as support, so each row of the gradient is written by one program alone.
        """
        layout, (masses, *sides) = ctx.layout, ctx.saved_tensors
        side_a, side_b = Side(*sides[:3]), Side(*sides[3:])
        slopes, unit = _scaled_slopes(grad, masses, layout)
        factor = layout.factor
        given = slopes, layout, ctx.d
        if ctx.is_same and (factor is None or layout.is_symmetric):
            sums = _weighted_sums(side_a, side_b, factor, *given, as_queries=True, as_support=True)
            return _gradient(sums, side_a, unit, ctx), None, None
        of_a = _weighted_sums(side_a, side_b, factor, *given, as_queries=True, as_support=False)
        transposed = None if factor is None else factor.transposed()
        of_b = _weighted_sums(side_b, side_a, transposed, *given, as_queries=False, as_support=True)
        return _gradient(of_a, side_a, unit, ctx), _gradient(of_b, side_b, unit, ctx), None


def _scaled_slopes(grad: Tensor, masses: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Gradients (answers, c, n_a) of sums over pairs of particles, scaled to half precision; and the scale.

    Half precision spans 2 ** 40. A weight is part of a mass times its gradient, twice where a point is both
    query and support, so that scaled by the largest of these no weight exceeds 2 ** 15.
    """
    slopes = grad.clone(memory_format=torch.contiguous_format)
    unit = 2.0**14 / (grad * masses).abs().max().clamp_min(SMALLEST)
    for size, _, numbers in layout.by_size():
        slopes[numbers.long()] /= size**2
    return slopes.mul_(unit), unit


def _gradient(sums: Tensor, of: Side, unit: Tensor, ctx: Any) -> Tensor:  # noqa: ANN401
    """From weighted sums of partners and of weights (m, n, d + 1) to the gradient (m, n, d)."""
    d = ctx.d
    gradient: Tensor = sums[..., :d] - sums[..., d:] * of.points(d)
    # The points are in units of 1 / scale.
    return gradient.mul_(2 / (ctx.layout.bandwidth * ctx.scale) / unit)


def _strips(factor: Factor | None, n_rows: int) -> Iterator[tuple[slice, Tensor | None]]:
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
    masses: Tensor, a: Side, b: Side, layout: Layout, d: int, rows: slice, factor: Tensor | None
) -> None:
    """Add to ``masses`` those of some rows."""
    from pnca.accelerated import _kernels

    tiles = layout.tiles[0]
    n_a, (_, n_b, columns) = a.norms.shape[1], b.parts_1.shape
    n_row_tiles, n_tiles = (rows.stop - rows.start) // tiles.rows, n_b // tiles.columns
    for size, starts, numbers in layout.by_size():
        # Symmetry saves sums over pairs of particles; single particles have none.
        is_mirrored = layout.is_symmetric and size > 1 and not _must_repeat()
        per_split = _tiles_per_split(n_tiles, len(starts) * n_row_tiles, 1)
        grid = (len(starts), n_row_tiles, -(-n_tiles // per_split))
        _kernels.masses[grid](
            *a, layout.weights, layout.groups, layout.classes,
            *b, layout.weights, layout.groups, layout.classes,
            factor, starts, numbers, masses,
            n_a, n_b, layout.n_classes, size, rows.start, per_split,
            HAS_FACTOR=factor is not None, HAS_GROUPS=layout.groups is not None, SYMMETRIC=is_mirrored,
            JOINT=is_joint(d), D=columns, **tiles.options(),
        )  # fmt: skip


def _weighted_sums(
    a: Side,
    b: Side,
    factor: Factor | None,
    slopes: Tensor,
    layout: Layout,
    d: int,
    *,
    as_queries: bool,
    as_support: bool,
) -> Tensor:
    """Weighted sums over ``b`` for the points ``a``, and the sums of the weights: (m, n_a, d + 1)."""
    from pnca.accelerated import _kernels

    tiles = layout.tiles[1]
    n_a, (m, n_b, columns) = a.norms.shape[1], b.parts_1.shape
    joint, has_ones = is_joint(d), d < columns
    out = torch.zeros(m, n_a, columns, device=a.norms.device)
    total = torch.zeros(m, n_a, 1, device=a.norms.device)
    for rows, of_rows in _strips(factor, n_a):
        n_row_tiles, n_tiles = (rows.stop - rows.start) // tiles.rows, n_b // tiles.columns
        for size, starts, numbers in layout.by_size():
            n_programs = len(starts) * size
            per_split = _tiles_per_split(n_tiles, n_programs * n_row_tiles, _MIN_TILES_BACKWARD)
            grid = (n_programs, n_row_tiles, -(-n_tiles // per_split))
            _kernels.weighted_sums[grid](
                *a, layout.weights, layout.groups, layout.classes, slopes,
                *b, layout.weights, layout.groups, layout.classes, slopes,
                of_rows, starts, numbers, out, total,
                n_a, n_b, layout.n_classes, size, rows.start, per_split,
                HAS_FACTOR=of_rows is not None, HAS_GROUPS=layout.groups is not None,
                AS_QUERIES=as_queries, AS_SUPPORT=as_support, HAS_ONES=has_ones,
                JOINT=joint, D=columns, **tiles.options(),
            )  # fmt: skip
    if joint:
        return torch.cat([out[..., :d] + out[..., d : 2 * d], out[..., 3 * d, None]], dim=2)
    return out[..., : d + 1] if has_ones else torch.cat([out, total], dim=2)


def _tiles_per_split(n_tiles: int, n_programs: int, least: int) -> int:
    """Tiles of a program, so that there are enough programs, and at least so many."""
    n_splits = 1 if _must_repeat() else -(-_MIN_PROGRAMS // n_programs)
    return max(least, -(-n_tiles // n_splits))


def _must_repeat() -> bool:
    """Whether results must repeat to the last bit: no two programs may then add to the same sum."""
    return torch.are_deterministic_algorithms_enabled()
