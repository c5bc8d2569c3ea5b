r"""Class masses in tiles of the kernel matrix, in memory linear in the number of points.

No tile is kept, forward or backward. Everything is in log space, so the result is right at any distance and
without a background mass. Logarithms are to base two: on a CPU ``exp2`` takes a third of the time of ``exp``,
and a thirtieth where the result underflows.
"""

import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pnca.accelerated.problem import InputFactor, MassProblem
from pnca.maths.kernels import log_input_factor
from pnca.maths.neighbours import LOG_ZERO

#: Pairs of latent points in a tile: 1 MiB in float32, one core's cache; a GPU wants more at once.
MAX_PAIRS, MAX_PAIRS_GPU = 2**18, 2**26

#: Columns of a tile of single particles: enough for the products, and rows remain for the reductions.
_MAX_COLUMNS = 512

#: Most threads: each has its own sums, of the size of the points and of their masses.
_MAX_THREADS = 16

_Result = TypeVar("_Result")


def chunked_class_log_masses(problem: MassProblem, max_pairs: int | None = None) -> Tensor:
    """:func:`pnca.accelerated.class_log_masses` (answers, n_a, c) without the kernel matrix in memory.

    ``max_pairs`` latent pairs are held at once; it sets memory and speed, not the result.

    >>> z = torch.tensor([[[0.0], [1.0], [3.0]]])
    >>> problem = MassProblem(z[:, :1], z[:, 1:], torch.tensor([1, 1]), 2, 1.0, [slice(0, 1)])
    >>> chunked_class_log_masses(problem)
    tensor([[[-1.0000e+30, -9.9966e-01]]])
    """
    a, b = problem.a, problem.b
    order = problem.labels.argsort(stable=True)  # by class, so that each class is one slice
    support = b[:, order]
    queries = support if a is b else a[:, order] if problem.same_order else a
    pairs = _Pairs.of(problem, order, max_pairs or (MAX_PAIRS_GPU if a.is_cuda else MAX_PAIRS))
    # Distances do not survive bfloat16: autocast, where it is on, stays outside.
    with torch.autocast(a.device.type, enabled=False):
        log_masses: Tensor = _ClassLogMasses.apply(queries, support, pairs)  # type: ignore[no-untyped-call]
    return log_masses[:, order.argsort()] if problem.same_order else log_masses


class _Tile(NamedTuple):
    """A block of the kernel matrix whose columns are of one class."""

    rows: slice
    columns: slice
    column_class: int
    mirror_class: int | None  # class of the rows, if the tile stands for its transpose too


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """Which pairs of points count, and by how much; the support is sorted by class."""

    bandwidth: float
    answers: tuple[slice, ...]
    counts: tuple[int, ...]  # points of each class
    log2_weights: Tensor | None  # (n_b,) or (answers, n_b)
    groups: Tensor | None  # (n_b,); points of one group give each other no mass
    is_diagonal: bool  # each point is its own group, so that only tiles on the diagonal exclude pairs
    input_factor: InputFactor | None
    max_pairs: int
    is_symmetric: bool

    @classmethod
    def of(cls, problem: MassProblem, order: Tensor, max_pairs: int) -> "_Pairs":
        groups, log2_weights = None, None
        if problem.leave_one_out:
            own = torch.arange(len(order), device=order.device)
            groups = own if problem.groups is None else problem.groups[order]
        if problem.log_weights is not None:
            log_weights = problem.log_weights.detach().to(problem.a)[..., order]
            log2_weights = (log_weights / math.log(2)).clamp_min(LOG_ZERO)
        return cls(
            bandwidth=problem.bandwidth,
            answers=tuple(problem.answers),
            counts=tuple(problem.labels.bincount(minlength=problem.n_classes).tolist()),
            log2_weights=log2_weights,
            groups=groups,
            is_diagonal=problem.groups is None,
            input_factor=_sorted_factor(problem, order),
            max_pairs=max_pairs,
            is_symmetric=problem.is_symmetric,
        )

    def weights_of(self, answer: int) -> Tensor | None:
        """Log weights (n_b,) of the support for one member, to base two."""
        weights = self.log2_weights
        return weights[answer] if weights is not None and weights.ndim == 2 else weights

    def log2_offset(self, rows: slice, columns: slice) -> Tensor | None:
        """Log factor (r, s) of a tile that is the same for all particles; None is zero."""
        offset = None
        if self.input_factor is not None:
            a, b, scale, weight = self.input_factor
            offset = log_input_factor(a[rows], b[columns], scale, weight).div_(math.log(2))
        excluded = self._excluded(rows, columns)
        if excluded is None:
            return offset
        if offset is None:
            offset = torch.zeros(excluded.shape, device=excluded.device)
        return offset.masked_fill_(excluded, LOG_ZERO)

    def _excluded(self, rows: slice, columns: slice) -> Tensor | None:
        is_off_diagonal = rows.stop <= columns.start or columns.stop <= rows.start
        if self.groups is None or (self.is_diagonal and is_off_diagonal):
            return None
        return self.groups[rows, None] == self.groups[columns]

    def entries(self) -> int:
        """Pairs of points whose latent pairs, for the largest member, fill a tile."""
        largest: int = max(part.stop - part.start for part in self.answers)
        return max(1, self.max_pairs // largest**2)


def _sorted_factor(problem: MassProblem, order: Tensor) -> InputFactor | None:
    factor = problem.input_factor
    if factor is None:
        return None
    # An offset shared by all inputs would cancel in each tile only up to rounding.
    centre = factor.b.mean(dim=0)
    of_a, of_b = factor.a - centre, factor.b[order] - centre
    return factor._replace(a=of_a[order] if problem.same_order else of_a, b=of_b)


class _ClassLogMasses(torch.autograd.Function):
    """Tiles forward; a backward that computes each tile again instead of storing it."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, pairs: _Pairs) -> Tensor:  # noqa: ANN401
        # Both sets are centred: their distances stay, the rounding of a shared offset goes.
        centre = b.mean(dim=(0, 1))
        a, b = a - centre, b - centre
        factors = _factors(a, b, pairs.bandwidth)
        parts = _in_threads(lambda tiles: _log2_masses(tiles, *factors, pairs), a, pairs)
        log2_masses = functools.reduce(torch.logaddexp2, parts)
        log_masses = (log2_masses * math.log(2)).masked_fill_(log2_masses < LOG_ZERO / 2, LOG_ZERO)
        ctx.save_for_backward(a, b, log2_masses)
        ctx.pairs = pairs
        return log_masses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        r"""Sum over partners, weighted by their shares.

        .. math:: \nabla_{a_{li}} = -\frac{2}{h} \sum_{r \ni l} \sum_{j l'} G_{r i y_j} P^r_{li,l'j}
                                    (a_{li} - b_{l'j})

        with :math:`P^r_{li,l'j}` the share of a pair of particles in :math:`S_{r i y_j}`.
        """
        a, b, log2_masses = ctx.saved_tensors
        # The column of ones collects the sum of the shares in the same product.
        a_and_one, b_and_one = (torch.cat([z, torch.ones_like(z[..., :1])], dim=2) for z in (a, b))
        # A mass of zero has no gradient: beside an infinite one every share is zero.
        is_zero = log2_masses < LOG_ZERO / 2
        given = log2_masses.masked_fill(is_zero, -LOG_ZERO), grad.masked_fill(is_zero, 0), ctx.pairs
        parts = _in_threads(lambda tiles: _weighted_sums(tiles, a_and_one, b_and_one, *given), a, ctx.pairs)
        sums_a, sums_b = (functools.reduce(torch.add, sums) for sums in zip(*parts, strict=True))
        grad_a, grad_b = (
            (2 / ctx.pairs.bandwidth) * (sums[..., :-1] - sums[..., -1:] * z)
            for sums, z in ((sums_a, a), (sums_b, b))
        )
        return grad_a, grad_b, None


def _factors(a: Tensor, b: Tensor, bandwidth: float) -> tuple[Tensor, Tensor]:
    """Two matrices whose product is the log latent kernel to base two: (m, n_a, d + 2), (m, n_b, d + 2)."""
    scale = 1 / (math.log(2) * bandwidth)
    sq_norms_a, sq_norms_b = (scale * z.square().sum(dim=2, keepdim=True) for z in (a, b))
    left = torch.cat([a, -sq_norms_a, torch.ones_like(sq_norms_a)], dim=2)
    right = torch.cat([2 * scale * b, torch.ones_like(sq_norms_b), -sq_norms_b], dim=2)
    return left, right


def _in_threads(work: Callable[[Iterator[_Tile]], _Result], queries: Tensor, pairs: _Pairs) -> list[_Result]:
    """Results of work on parts of the tiles, one part per thread.

    Torch's own threads would synchronise after each operation of a tile, and wait where a core is busy.
    """
    n_rows = queries.shape[1]
    is_one_tile = n_rows * sum(pairs.counts) <= pairs.entries()
    n_threads = 1 if queries.is_cuda or is_one_tile else min(torch.get_num_threads(), _MAX_THREADS)
    if n_threads == 1:
        return [work(_tiles(n_rows, pairs))]

    ended = threading.Event()

    def alone(part: int) -> _Result:
        torch.set_num_threads(1)  # of this thread
        own = itertools.islice(_tiles(n_rows, pairs), part, None, n_threads)
        with torch.no_grad():
            return work(itertools.takewhile(lambda _: not ended.is_set(), own))

    try:
        with ThreadPoolExecutor(n_threads) as pool, ExitStack() as stack:
            stack.callback(ended.set)  # Ctrl-C, which the main thread alone sees, ends the others too
            return list(pool.map(alone, range(n_threads)))
    finally:
        torch.set_num_threads(torch.get_num_threads())  # with which later threads begin


def _log2_masses(tiles: Iterator[_Tile], left: Tensor, right: Tensor, pairs: _Pairs) -> Tensor:
    """Class masses (answers, n_a, c) that these tiles give, to base two."""
    shape = len(pairs.answers), left.shape[1], len(pairs.counts)
    log2_masses = left.new_full(shape, LOG_ZERO)
    for rows, columns, column_class, mirror_class in tiles:
        offset = pairs.log2_offset(rows, columns)
        for answer, particles in enumerate(pairs.answers):
            log2_kernel = _log2_expected_kernel(left[particles, rows], right[particles, columns])
            if offset is not None:
                log2_kernel += offset
            weights = pairs.weights_of(answer)
            if mirror_class is not None:
                mirrored = log2_kernel if weights is None else log2_kernel + weights[rows, None]
                _add_sums(log2_masses[answer, columns, mirror_class], mirrored, dim=0)
            if weights is not None:
                log2_kernel += weights[columns]
            _add_sums(log2_masses[answer, rows, column_class], log2_kernel, dim=1)
    return log2_masses


def _weighted_sums(
    tiles: Iterator[_Tile],
    a_and_one: Tensor,
    b_and_one: Tensor,
    log2_masses: Tensor,
    grad: Tensor,
    pairs: _Pairs,
) -> tuple[Tensor, Tensor]:
    """Sums of each point's partners, and of their weights, over these tiles: twice (m, n, d + 1)."""
    sums_a, sums_b = torch.zeros_like(a_and_one), torch.zeros_like(b_and_one)
    left, right = _factors(a_and_one[..., :-1], b_and_one[..., :-1], pairs.bandwidth)
    for tile in tiles:
        rows, columns = tile.rows, tile.columns
        offset = pairs.log2_offset(rows, columns)
        weighted = _shares if tile.mirror_class is None else _mirrored_shares
        for answer, particles in enumerate(pairs.answers):
            member = _Member(log2_masses[answer], grad[answer], pairs.weights_of(answer))
            shares, of_rows = weighted(left[particles, rows], right[particles, columns], member, offset, tile)
            from_a, from_b = of_rows * a_and_one[particles, rows], b_and_one[particles, columns]
            sums_a[particles, rows] += of_rows * _product(shares, from_b)
            sums_b[particles, columns] += _product(shares.mT, from_a)
    return sums_a, sums_b


class _Member(NamedTuple):
    """Masses of one ensemble member, the gradients with respect to them, and its weights."""

    log2_masses: Tensor  # (n_a, c)
    grad: Tensor  # (n_a, c)
    log2_weights: Tensor | None  # (n_b,)


def _shares(
    left: Tensor, right: Tensor, member: _Member, offset: Tensor | None, tile: _Tile
) -> tuple[Tensor, Tensor | float]:
    """Shares (m r, m s) of pairs of particles in the masses of the rows, and gradients of these (r, 1)."""
    # Terms of the row or the column alone go into the factors: no pass over the pairs.
    left, right = left.clone(), right.clone()
    left[..., -2] -= member.log2_masses[tile.rows, tile.column_class] + 2 * math.log2(len(left))
    if member.log2_weights is not None:
        right[..., -1] += member.log2_weights[tile.columns]
    shares = _log2_terms(left, right, offset).exp2_().flatten(2).flatten(0, 1)
    return shares, member.grad[tile.rows, tile.column_class, None]


def _mirrored_shares(
    left: Tensor, right: Tensor, member: _Member, offset: Tensor | None, tile: _Tile
) -> tuple[Tensor, Tensor | float]:
    """Shares times gradients (m r, m s), of the masses of rows and columns together; and one.

    The two shares differ by a power of two that depends on the pair of points alone: the larger one, at
    most one, is computed for all pairs of particles, and multiplied by both gradients.
    """
    rows, columns, column_class, mirror_class = tile
    of_rows = member.log2_masses[rows, column_class, None]
    of_columns = member.log2_masses[columns, mirror_class]
    if (weights := member.log2_weights) is not None:
        of_rows, of_columns = of_rows - weights[columns], of_columns - weights[rows, None]
    smaller = torch.minimum(of_rows, of_columns)  # (r, s)
    slope = member.grad[rows, column_class, None] * (smaller - of_rows).exp2_()
    slope += member.grad[columns, mirror_class] * (smaller - of_columns).exp2_()
    shift = -smaller if offset is None else offset - smaller
    shares = _log2_terms(left, right, shift.sub_(2 * math.log2(len(left)))).exp2_()
    return shares.mul_(slope[:, None, :]).flatten(2).flatten(0, 1), 1.0


def _product(shares: Tensor, points: Tensor) -> Tensor:
    """Sums of points (m, s, d + 1) by shares (m r, m s): (m, r, d + 1)."""
    # The product of the transposes takes a quarter of the time, the points being so narrow.
    m, _, width = points.shape
    return (points.flatten(0, 1).mT @ shares.mT).mT.reshape(m, -1, width)


def _log2_terms(left: Tensor, right: Tensor, offset: Tensor | None = None) -> Tensor:
    """Log kernel of all pairs of particles and points, at most zero: (m, r, m, s)."""
    (m, r, _), s = left.shape, right.shape[1]
    terms = (left.flatten(0, 1) @ right.flatten(0, 1).mT).view(m, r, m, s)
    if offset is not None:
        terms += offset[:, None, :]
    return terms.clamp_max_(0)  # rounding can make a squared distance negative, or a share above one


def _log2_expected_kernel(left: Tensor, right: Tensor) -> Tensor:
    """Log of the mean over pairs of particles, to base two: (r, s)."""
    terms = _log2_terms(left, right)
    if len(left) == 1:
        return terms[0, :, 0]
    largest = terms.amax(dim=0).amax(dim=1)  # (r, s)
    sums = terms.sub_(largest[:, None, :]).exp2_().sum(dim=2).sum(dim=0)
    return sums.log2_().add_(largest).sub_(2 * math.log2(len(left)))


def _add_sums(total: Tensor, terms: Tensor, dim: int) -> None:
    """Add the sums of terms over a dimension to ``total``, all as logarithms to base two."""
    largest = terms.amax(dim=dim, keepdim=True)
    sums = (terms - largest).exp2_().sum(dim=dim).log2_().add_(largest.squeeze(dim))
    total.copy_(torch.logaddexp2(total, sums))


def _tiles(n_rows: int, pairs: _Pairs) -> Iterator[_Tile]:
    """Tiles whose columns are of one class, and their rows too if they stand for their transposes.

    Symmetry saves sums over pairs of particles, so it does not pay for single particles, nor for classes so
    small that the tiles would be.
    """
    entries = pairs.entries()
    side = math.isqrt(entries)
    has_sums = any(part.stop - part.start > 1 for part in pairs.answers)
    if pairs.is_symmetric and has_sums and n_rows >= side * len(pairs.counts):
        parts = list(_parts(pairs.counts, side))
        for i, (rows, row_class) in enumerate(parts):
            yield _Tile(rows, rows, row_class, None)
            yield from (_Tile(rows, columns, c, row_class) for columns, c in parts[i + 1 :])
        return
    for columns, column_class in _parts(pairs.counts, min(_MAX_COLUMNS, side)):
        height = max(1, entries // (columns.stop - columns.start))
        for start in range(0, n_rows, height):
            yield _Tile(slice(start, min(start + height, n_rows)), columns, column_class, None)


def _parts(counts: Sequence[int], n_most: int) -> Iterator[tuple[slice, int]]:
    """Cut each class, one after the other, into parts of at most this many points."""
    start = 0
    for class_, count in enumerate(counts):
        stop = start + count
        for first in range(start, stop, n_most):
            yield slice(first, min(first + n_most, stop)), class_
        start = stop
