r"""Class masses of many points, in memory that grows with their number and not with its square.

:func:`chunked_class_log_masses` visits the kernel between the points in tiles, forward and backward, and
keeps none of them. It is in log space throughout, so that it is right for any distance and without a
background mass. Inside, logarithms are to base two: ``exp2`` takes a third of the time of ``exp`` on
a processor, and a thirtieth where the result underflows.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pnca.maths.kernels import log_input_factor
from pnca.maths.neighbours import LOG_ZERO

#: Pairs of latent points in a tile: 1 MiB in float32, what one core's cache holds; a GPU wants more at once.
MAX_PAIRS, MAX_PAIRS_GPU = 2**18, 2**26

#: Columns of a tile of single particles: enough for the products, and rows remain for the reductions.
_MAX_COLUMNS = 512

#: Threads at most: each has its own sums, of the size of the points and of their masses.
_MAX_THREADS = 16

_Result = TypeVar("_Result")


class InputFactor(NamedTuple):
    r"""The factor by which the distance between inputs shrinks their kernel.

    .. math:: \log f_{ij} = \lambda \left(1 - \frac{\|x_i - x'_j\|^2}{s}\right)

    See :func:`pnca.maths.kernels.log_input_factor`. It has no gradient.

    Attributes
    ----------
    a : Tensor of shape (n_a, p)
        Inputs :math:`x_i`.
    b : Tensor of shape (n_b, p)
        Inputs :math:`x'_j`.
    scale : float
        The scale :math:`s`.
    weight : float
        The weight :math:`\lambda`.
    """

    a: Tensor
    b: Tensor
    scale: float
    weight: float


def chunked_class_log_masses(
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
    max_pairs: int | None = None,
) -> Tensor:
    r"""Log kernel mass that each class receives, without the kernel in memory.

    .. math:: \log S_{ric} = \log \sum_{j:\, y_j = c} w_{rj} f_{ij} K^r_{ij}, \qquad
              K^r_{ij} = \frac{1}{m_r^2} \sum_{l, l' \in r} e^{-\|a_{li} - b_{l'j}\|^2 / h}

    What :func:`pnca.maths.neighbours.class_log_masses` makes of the kernel, here from the embeddings.

    Parameters
    ----------
    a : Tensor of shape (m, n_a, d)
        Embeddings :math:`a_{li}` of the points that ask.
    b : Tensor of shape (m, n_b, d)
        Embeddings :math:`b_{l'j}` of the points that answer; may be ``a`` itself.
    labels : Tensor of shape (n_b,)
        Integer classes :math:`y_j`.
    n_classes : int
        Number of classes :math:`c`.
    bandwidth : float
        The bandwidth :math:`h`.
    answers : sequence of slice
        The particles :math:`r` of each answer: one slice of all for the expected kernel, one slice of
        one for each particle that answers on its own.
    log_weights : Tensor of shape (n_b,) or (answers, n_b), optional
        :math:`\log w_{rj}`; zero if absent.
    leave_one_out : bool
        Whether ``a`` and ``b`` are the same points, of which none gives itself mass.
    groups : Tensor of shape (n_b,), optional
        With ``leave_one_out``: points of the same group do not give each other mass.
    input_factor : InputFactor, optional
        The factor :math:`f_{ij}`; one if absent.
    max_pairs : int, optional
        Latent pairs held at once; a setting of memory and speed, not of the result.

    Returns
    -------
    Tensor of shape (answers, n_a, c)
        ``LOG_ZERO`` where a class has nothing to give. Differentiable once in ``a`` and ``b``.

    Examples
    --------
    >>> z = torch.tensor([[[0.0], [1.0], [3.0]]])
    >>> chunked_class_log_masses(z[:, :1], z[:, 1:], torch.tensor([1, 1]), 2, 1.0, [slice(0, 1)])
    tensor([[[-1.0000e+30, -9.9966e-01]]])
    """
    # Sorted by class, each class is one slice. Points that are the same are sorted alike.
    order = labels.argsort(stable=True)
    support = b[:, order]
    rows_sorted = leave_one_out or a is b
    queries = support if a is b else a[:, order] if rows_sorted else a
    pairs = _Pairs(
        bandwidth=float(bandwidth),
        answers=tuple(answers),
        counts=tuple(labels.bincount(minlength=n_classes).tolist()),
        log2_weights=_log2_weights(log_weights, order, a),
        owners=_owners(leave_one_out, groups, order),
        is_owner_position=groups is None,
        input_factor=_sorted_factor(input_factor, order, rows_sorted),
        max_pairs=max_pairs or (MAX_PAIRS_GPU if a.is_cuda else MAX_PAIRS),
        is_symmetric=a is b and (input_factor is None or input_factor.a is input_factor.b),
    )
    # Distances do not survive bfloat16: autocast, where it is on, stays outside.
    with torch.autocast(a.device.type, enabled=False):
        log_masses: Tensor = _ClassLogMasses.apply(queries, support, pairs)  # type: ignore[no-untyped-call]
    return log_masses[:, order.argsort()] if rows_sorted else log_masses


def _owners(leave_one_out: bool, groups: Tensor | None, order: Tensor) -> Tensor | None:
    """To whom each point belongs, in order of class: to itself, without groups."""
    if not leave_one_out:
        return None
    return torch.arange(len(order), device=order.device) if groups is None else groups[order]


def _log2_weights(log_weights: Tensor | None, order: Tensor, like: Tensor) -> Tensor | None:
    if log_weights is None:
        return None
    return (log_weights.detach().to(like)[..., order] / math.log(2)).clamp_min(LOG_ZERO)


def _sorted_factor(factor: InputFactor | None, order: Tensor, rows_sorted: bool) -> InputFactor | None:
    if factor is None:
        return None
    # An offset shared by all inputs would cancel in each tile only up to rounding.
    centre = factor.b.mean(dim=0)
    of_a, of_b = factor.a - centre, factor.b[order] - centre
    return factor._replace(a=of_a[order] if rows_sorted else of_a, b=of_b)


class _Tile(NamedTuple):
    """Pairs of points that are visited together."""

    rows: slice
    columns: slice
    column_class: int
    mirror_class: int | None  # that of the rows, where the tile stands for its mirror image too


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """Which pairs of points count, and by how much; the points that answer are sorted by class."""

    bandwidth: float
    answers: tuple[slice, ...]
    counts: tuple[int, ...]  # points of each class
    log2_weights: Tensor | None  # (n_b,) or (answers, n_b)
    owners: Tensor | None  # (n_b,); points of one owner do not count for each other
    is_owner_position: bool
    input_factor: InputFactor | None
    max_pairs: int
    is_symmetric: bool

    def weights_of(self, answer: int) -> Tensor | None:
        """Log weights (n_b,) of the points in an answer, to base two."""
        weights = self.log2_weights
        return weights[answer] if weights is not None and weights.ndim == 2 else weights

    def log2_offset(self, rows: slice, columns: slice) -> Tensor | None:
        """What a tile of log kernels has added to it whatever the particles; None is zero: (r, s)."""
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
        if self.owners is None:
            return None
        if self.is_owner_position and (rows.stop <= columns.start or columns.stop <= rows.start):
            return None
        return self.owners[rows, None] == self.owners[columns]

    def entries(self) -> int:
        """Pairs of points whose latent pairs, in the largest answer, fill a tile."""
        largest: int = max(part.stop - part.start for part in self.answers)
        return max(1, self.max_pairs // largest**2)


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
        r"""Pull each point towards its partners.

        .. math:: \nabla_{a_{li}} = -\frac{2}{h} \sum_{r \ni l} \sum_{j l'} G_{r i y_j} P^r_{li,l'j}
                                    (a_{li} - b_{l'j})

        with :math:`P^r_{li,l'j}` the share of a pair of particles in :math:`S_{r i y_j}`.
        """
        a, b, log2_masses = ctx.saved_tensors
        # The column of ones collects the sum of the shares in the same product.
        a_and_one, b_and_one = (torch.cat([z, torch.ones_like(z[..., :1])], dim=2) for z in (a, b))
        # Nothing is learnt from a mass of zero, and next to an infinite one every share is nothing.
        is_zero = log2_masses < LOG_ZERO / 2
        given = log2_masses.masked_fill(is_zero, -LOG_ZERO), grad.masked_fill(is_zero, 0), ctx.pairs
        parts = _in_threads(lambda tiles: _pulls(tiles, a_and_one, b_and_one, *given), a, ctx.pairs)
        pull_a, pull_b = (functools.reduce(torch.add, pulls) for pulls in zip(*parts, strict=True))
        grad_a, grad_b = (
            (2 / ctx.pairs.bandwidth) * (pull[..., :-1] - pull[..., -1:] * z)
            for pull, z in ((pull_a, a), (pull_b, b))
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
    """Results of work on parts of the tiles, each in a thread of its own.

    The threads torch has for an operation would meet after every one of a tile, and wait if a core is taken.
    """
    n_rows = queries.shape[1]
    is_one_tile = n_rows * sum(pairs.counts) <= pairs.entries()
    n_threads = 1 if queries.is_cuda or is_one_tile else min(torch.get_num_threads(), _MAX_THREADS)
    if n_threads == 1:
        return [work(_tiles(n_rows, pairs))]

    def alone(part: int) -> _Result:
        torch.set_num_threads(1)  # of this thread
        with torch.no_grad():
            return work(itertools.islice(_tiles(n_rows, pairs), part, None, n_threads))

    try:
        with ThreadPoolExecutor(n_threads) as pool:
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
                _merge(log2_masses[answer, columns, mirror_class], _log2_sum_exp2(mirrored, dim=0))
            if weights is not None:
                log2_kernel += weights[columns]
            _merge(log2_masses[answer, rows, column_class], _log2_sum_exp2(log2_kernel, dim=1))
    return log2_masses


def _pulls(
    tiles: Iterator[_Tile],
    a_and_one: Tensor,
    b_and_one: Tensor,
    log2_masses: Tensor,
    grad: Tensor,
    pairs: _Pairs,
) -> tuple[Tensor, Tensor]:
    """Partners of each point in these tiles and how many they are, by weight: twice (m, n, d + 1)."""
    pull_a, pull_b = torch.zeros_like(a_and_one), torch.zeros_like(b_and_one)
    left, right = _factors(a_and_one[..., :-1], b_and_one[..., :-1], pairs.bandwidth)
    for tile in tiles:
        rows, columns = tile.rows, tile.columns
        offset = pairs.log2_offset(rows, columns)
        weighted = _shares if tile.mirror_class is None else _mirrored_shares
        for answer, particles in enumerate(pairs.answers):
            of_left, of_right = left[particles, rows], right[particles, columns]
            log2_mass, slopes, weights = log2_masses[answer], grad[answer], pairs.weights_of(answer)
            shares, slope = weighted(of_left, of_right, log2_mass, slopes, weights, offset, tile)
            from_a, from_b = slope * a_and_one[particles, rows], b_and_one[particles, columns]
            pull_a[particles, rows] += slope * _product(shares, from_b)
            pull_b[particles, columns] += _product(shares.mT, from_a)
    return pull_a, pull_b


def _shares(
    left: Tensor,
    right: Tensor,
    log2_masses: Tensor,
    grad: Tensor,
    weights: Tensor | None,
    offset: Tensor | None,
    tile: _Tile,
) -> tuple[Tensor, Tensor | float]:
    """Shares (m r, m s) of pairs of particles in the masses of the rows, and the slopes of those (r, 1)."""
    # What depends on the row or the column alone is in the product already.
    left, right = left.clone(), right.clone()
    left[..., -2] -= log2_masses[tile.rows, tile.column_class] + 2 * math.log2(len(left))
    if weights is not None:
        right[..., -1] += weights[tile.columns]
    shares = _log2_terms(left, right, offset).exp2_().flatten(2).flatten(0, 1)
    return shares, grad[tile.rows, tile.column_class, None]


def _mirrored_shares(
    left: Tensor,
    right: Tensor,
    log2_masses: Tensor,
    grad: Tensor,
    weights: Tensor | None,
    offset: Tensor | None,
    tile: _Tile,
) -> tuple[Tensor, Tensor | float]:
    """Shares times their slopes (m r, m s) in the masses of rows and of columns together, and one.

    The shares in both are powers of two apart that depend on the pair of points alone: the larger one, at
    most one, is found for all pairs of particles, and both slopes are in what it is multiplied by.
    """
    rows, columns, column_class, mirror_class = tile
    of_rows, of_columns = log2_masses[rows, column_class, None], log2_masses[columns, mirror_class]
    if weights is not None:
        of_rows, of_columns = of_rows - weights[columns], of_columns - weights[rows, None]
    smaller = torch.minimum(of_rows, of_columns)  # (r, s)
    slope = grad[rows, column_class, None] * (smaller - of_rows).exp2_()
    slope += grad[columns, mirror_class] * (smaller - of_columns).exp2_()
    shift = -smaller if offset is None else offset - smaller
    shares = _log2_terms(left, right, shift.sub_(2 * math.log2(len(left)))).exp2_()
    return shares.mul_(slope[:, None, :]).flatten(2).flatten(0, 1), 1.0


def _product(shares: Tensor, points: Tensor) -> Tensor:
    """Sums of points (m, s, d + 1) by shares (m r, m s): (m, r, d + 1)."""
    # The product of the transposes takes a quarter of the time, the points being so narrow.
    m, _, width = points.shape
    return (points.flatten(0, 1).mT @ shares.mT).mT.reshape(m, -1, width)


def _log2_terms(left: Tensor, right: Tensor, offset: Tensor | None = None) -> Tensor:
    """Products of all pairs of particles of all pairs of points, at most zero: (m, r, m, s)."""
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


def _log2_sum_exp2(terms: Tensor, dim: int) -> Tensor:
    largest = terms.amax(dim=dim, keepdim=True)
    return (terms - largest).exp2_().sum(dim=dim).log2_().add_(largest.squeeze(dim))


def _merge(total: Tensor, part: Tensor) -> None:
    """``log2(2**total + 2**part)``, in place."""
    total.copy_(torch.logaddexp2(total, part))


def _tiles(n_rows: int, pairs: _Pairs) -> Iterator[_Tile]:
    """Tiles whose columns are of one class, and their rows too if they stand for their mirror images.

    A mirror image saves the sums over pairs of particles; single particles have none. Small classes would
    make such tiles too small.
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
