"""The latent kernel k and its expectation K between clouds of particles, in log space."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

#: Pairs of latent points held at once, 4 MiB in float32: near a processor's cache, and enough to hide the
#: cost of calling an operation.
MAX_PAIRS = 2**20

#: By how much the log of the input factor falls over the median squared distance of the data with many
#: columns; half as much with ``FEW_COLUMNS``.
INPUT_DECAY, FEW_COLUMNS = 8.0, 25


def sq_distances(a: Tensor, b: Tensor) -> Tensor:
    r"""Squared distances (..., n_a, n_b) between points (..., n_a, d) and (..., n_b, d), never negative.

    .. math:: D_{ij} = \|a_i - b_j\|^2 = \|a_i\|^2 + \|b_j\|^2 - 2\, a_i \cdot b_j

    One matrix product instead of a difference tensor; no square root, whose gradient at zero is NaN. Both
    sets are first centred on the mean of ``b``: a shared offset would cancel only up to rounding.

    >>> sq_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[25.,  0.]])
    """
    # Only b decides the centre: a row of the result must not depend on the other rows of a.
    centre = b.detach().mean(dim=-2, keepdim=True)
    if a is b:
        b = b - centre
        products = b @ b.mT
        sq_norms_a = sq_norms_b = products.diagonal(dim1=-2, dim2=-1)
    else:
        a, b = a - centre, b - centre
        products = a @ b.mT
        sq_norms_a, sq_norms_b = a.square().sum(dim=-1), b.square().sum(dim=-1)
    return (sq_norms_a[..., :, None] + sq_norms_b[..., None, :] - 2 * products).clamp_min(0)


def log_latent_kernel(a: Tensor, b: Tensor, bandwidth: float) -> Tensor:
    r"""Log of the squared-exponential kernel between latent points; shapes as in :func:`sq_distances`.

    .. math:: \log k(a_i, b_j) = -\|a_i - b_j\|^2 / h

    >>> log_latent_kernel(torch.tensor([[0.0]]), torch.tensor([[2.0]]), bandwidth=4.0)
    tensor([[-1.]])
    """
    return -sq_distances(a, b) / bandwidth


def neighbour_scale(points: Tensor, groups: Tensor | None = None, every: int = 1) -> Tensor:
    r"""Median squared distance () from a point to the nearest other one: the scale of a data set (n, p).

    .. math:: s = \mathrm{median}_i \min_{j:\, x_j \ne x_i} \|x_i - x_j\|^2

    Copies of a point are not its neighbours, nor are points of its group (n,). The median is over one in
    ``every`` points: a few thousand suffice. It is one where all points coincide.

    >>> neighbour_scale(torch.tensor([[0.0], [2.0], [2.0], [5.0]]))
    tensor(4.)
    """
    noise = _rounding(points)
    nearest = []
    n_rows = max(1, MAX_PAIRS // len(points))
    for rows in torch.split(torch.arange(0, len(points), every, device=points.device), n_rows):
        sq_dist = sq_distances(points[rows], points)
        is_copy = sq_dist <= noise
        if groups is not None:
            is_copy |= groups[rows, None] == groups
        nearest.append(sq_dist.masked_fill(is_copy, torch.inf).amin(dim=1))
    known = torch.cat(nearest)
    known = known[known.isfinite()]
    return known.quantile(0.5) if len(known) else points.new_ones(())


def input_factor_weight(points: Tensor, scale: Tensor) -> Tensor:
    r"""Weight () of the input factor that lets it fall by the width of the data (n, p).

    .. math:: \lambda = \frac{8\, p}{p + 25} \cdot \frac{s}{\mathrm{median}_{i < j} \|x_i - x_j\|^2}

    with :math:`s` the :func:`neighbour_scale`; one where all points coincide. The factor is one between
    neighbours and small at the median distance between two points, whatever the number of points. It is
    steeper with more columns, of which an embedding of a few dimensions loses more. It follows from the
    geometry alone: the likelihood of in-distribution points, by which other settings are chosen, says nothing
    about out-of-distribution ones.
    """
    row, column = torch.triu_indices(len(points), len(points), offset=1, device=points.device)
    width = sq_distances(points, points)[row, column].median()
    decay = INPUT_DECAY * points.shape[1] / (points.shape[1] + FEW_COLUMNS)
    return torch.where(width > _rounding(points), decay * scale / width, 1.0)


def _rounding(points: Tensor) -> Tensor:
    """Squared distance that rounding may leave between copies of a point."""
    centred = points - points.mean(dim=0)
    return 16 * torch.finfo(points.dtype).eps * centred.square().sum(dim=1).max()


def log_input_factor(a: Tensor, b: Tensor, scale: Tensor | float, weight: float) -> Tensor:
    r"""Log of the factor by which distance between inputs shrinks their kernel.

    From (..., n_a, p) and (n_b, p) to (..., n_a, n_b).

    .. math:: \log f(x, x') = \lambda \left(1 - \frac{\|x - x'\|^2}{s}\right)

    A network may map an out-of-distribution input onto an ordinary embedding; the factor then shrinks its
    mass. At the distance between neighbours of the training data, the :func:`neighbour_scale` :math:`s`, it
    is one; a ``weight`` :math:`\lambda` of zero leaves the kernel as it is.

    >>> log_input_factor(torch.tensor([[0.0]]), torch.tensor([[1.0], [2.0]]), scale=1.0, weight=2.0)
    tensor([[ 0., -6.]])
    """
    return weight * (1 - sq_distances(a, b) / scale)


def log_expected_kernel(a: Tensor, b: Tensor, bandwidth: float, max_pairs: int = MAX_PAIRS) -> Tensor:
    r"""Log of the expected kernel (n_a, n_b) between clouds of particles (m, n_a, d) and (m', n_b, d).

    .. math:: \log K_{ij} = \log \frac{1}{m m'} \sum_{l=1}^{m} \sum_{l'=1}^{m'} k(a_{il}, b_{jl'})

    Exact: each pair (i, j) has a ``logsumexp`` of its own, so distant points keep a finite value. Blocks of
    ``max_pairs`` latent pairs are visited, forward and backward, so memory grows with ``n_a * n_b`` alone.
    Differentiable once in ``a`` and ``b``.

    >>> log_expected_kernel(torch.tensor([[[0.0]]]), torch.tensor([[[2.0]]]), bandwidth=4.0)
    tensor([[-1.]])
    """
    # Distances do not survive bfloat16: autocast, where it is on, stays outside.
    with torch.autocast(a.device.type, enabled=False):
        log_kernel: Tensor = _LogExpectedKernel.apply(a, b, bandwidth, max_pairs, a is b)  # type: ignore[no-untyped-call]
    return log_kernel


class _LogExpectedKernel(torch.autograd.Function):
    """Blockwise forward, and a backward that computes each block again instead of storing it."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, *settings: Any) -> Tensor:  # noqa: ANN401
        bandwidth, max_pairs, is_symmetric = settings
        # Both sets are centred: their distances stay, the rounding of a shared offset goes.
        centre = b.mean(dim=(0, 1))
        a, b = a - centre, b - centre
        log_kernel = a.new_empty(a.shape[1], b.shape[1])
        left, right = _factors(a, b, bandwidth)
        for rows, columns in _blocks(a, b, max_pairs, is_symmetric):
            terms = _log_terms(left[:, rows], right[:, columns])
            # torch.logsumexp over two dimensions at once takes twice as long as these steps.
            largest = terms.amax(dim=0).amax(dim=1)  # (r, s)
            sums = terms.sub_(largest[None, :, None, :]).exp2_().sum(dim=2).sum(dim=0)
            log_kernel[rows, columns] = sums.log2_().add_(largest)
            if is_symmetric and rows != columns:
                log_kernel[columns, rows] = log_kernel[rows, columns].mT
        ctx.save_for_backward(a, b, log_kernel)
        ctx.settings = settings
        return (log_kernel - math.log2(a.shape[0] * b.shape[0])).mul_(math.log(2))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        r"""Sum over partners, weighted by their shares.

        .. math:: \nabla_{a_{il}} = -\frac{2}{h} \sum_{j l'} G_{ij} P_{il,jl'} (a_{il} - b_{jl'})

        with :math:`P_{il,jl'}` the share of a pair of particles in :math:`K_{ij}`.
        """
        a, b, log_sums = ctx.saved_tensors
        bandwidth, max_pairs, is_symmetric = ctx.settings
        left, right = _factors(a, b, bandwidth)
        # The column of ones collects the sum of the weights in the same product.
        a_and_one, b_and_one = (torch.cat([z, torch.ones_like(z[..., :1])], dim=2) for z in (a, b))
        sums_a, sums_b = torch.zeros_like(a_and_one), torch.zeros_like(b_and_one)
        for rows, columns in _blocks(a, b, max_pairs, is_symmetric):
            # A block that stands for its transpose has the gradients of both.
            block_grad = grad[rows, columns]
            if is_symmetric and rows != columns:
                block_grad = block_grad + grad[columns, rows].mT
            shares = _log_terms(left[:, rows], right[:, columns])
            shares.sub_(log_sums[rows, columns][None, :, None, :]).exp2_()
            weights = shares.mul_(block_grad[None, :, None, :]).flatten(2).flatten(0, 1)  # (m r, m' s)
            for_a = weights @ b_and_one[:, columns].flatten(0, 1)
            for_b = (a_and_one[:, rows].flatten(0, 1).mT @ weights).mT  # faster than weights.mT @ ...
            sums_a[:, rows] += for_a.view(a.shape[0], -1, for_a.shape[1])
            sums_b[:, columns] += for_b.reshape(b.shape[0], -1, for_b.shape[1])
        grad_a, grad_b = (
            (2 / bandwidth) * (sums[..., :-1] - sums[..., -1:] * z) for sums, z in ((sums_a, a), (sums_b, b))
        )
        return grad_a, grad_b, None, None, None


def _factors(a: Tensor, b: Tensor, bandwidth: float) -> tuple[Tensor, Tensor]:
    """Two matrices whose product is the log latent kernel to base two: (m, n_a, d + 2), (m', n_b, d + 2).

    Base two because torch's ``exp`` is thirty times slower on a CPU where it underflows; ``exp2`` is not.
    """
    sq_norms_a, sq_norms_b = (z.square().sum(dim=2, keepdim=True) for z in (a, b))
    left = torch.cat([a, sq_norms_a, torch.ones_like(sq_norms_a)], dim=2)
    right = torch.cat([2 * b, -torch.ones_like(sq_norms_b), -sq_norms_b], dim=2)
    return left, right / (bandwidth * math.log(2))


def _log_terms(left: Tensor, right: Tensor) -> Tensor:
    """Log kernel, to base two, of all pairs of particles of all pairs of points: (m, r, m', s)."""
    (m_a, r, _), (m_b, s, _) = left.shape, right.shape
    terms = left.flatten(0, 1) @ right.flatten(0, 1).mT
    return terms.clamp_max_(0).view(m_a, r, m_b, s)  # rounding can make a squared distance negative


def _blocks(a: Tensor, b: Tensor, max_pairs: int, is_symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Blocks of the (n_a, n_b) matrix of at most ``max_pairs`` latent pairs; if symmetric, its upper half."""
    (m_a, n_a, _), (m_b, n_b, _) = a.shape, b.shape
    n_entries = max(1, max_pairs // (m_a * m_b))
    n_columns = max(1, min(n_b, math.isqrt(n_entries) if is_symmetric else n_entries))
    n_rows = n_columns if is_symmetric else max(1, n_entries // n_columns)
    for row in range(0, n_a, n_rows):
        for column in range(row if is_symmetric else 0, n_b, n_columns):
            yield slice(row, row + n_rows), slice(column, column + n_columns)
