"""The latent kernel k and its expectation K between clouds of particles, in log space."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pnca.maths.distances import sq_distances

#: Pairs of latent points held in memory at once: 32 MiB in float32, whatever n and m are.
MAX_PAIRS = 2**23


def log_latent_kernel(a: Tensor, b: Tensor, bandwidth: float) -> Tensor:
    r"""Logarithm of the squared-exponential kernel between latent points.

    .. math:: \log k(a_i, b_j) = -\|a_i - b_j\|^2 / h

    Parameters
    ----------
    a : Tensor of shape (..., n_a, d)
        The points :math:`a_i`.
    b : Tensor of shape (..., n_b, d)
        The points :math:`b_j`.
    bandwidth : float
        The bandwidth :math:`h`; it divides the squared distance.

    Returns
    -------
    Tensor of shape (..., n_a, n_b)

    Examples
    --------
    >>> log_latent_kernel(torch.tensor([[0.0]]), torch.tensor([[2.0]]), bandwidth=4.0)
    tensor([[-1.]])
    """
    return -sq_distances(a, b) / bandwidth


def log_expected_kernel(a: Tensor, b: Tensor, bandwidth: float, max_pairs: int = MAX_PAIRS) -> Tensor:
    r"""Logarithm of the expected kernel between points that are clouds of particles.

    .. math:: \log K_{ij} = \log \frac{1}{m m'} \sum_{l=1}^{m} \sum_{l'=1}^{m'} k(a_{il}, b_{jl'})

    Exact, and never smaller than the largest of its terms allows: each pair (i, j) has a
    ``logsumexp`` of its own, so distant points keep a finite value. The pairs are visited in
    blocks, forward and backward, so memory grows with ``n_a * n_b`` and not with the
    ``n_a * n_b * m * m'`` terms.

    Parameters
    ----------
    a : Tensor of shape (m, n_a, d)
        Particles :math:`a_{il}` of the first points.
    b : Tensor of shape (m', n_b, d)
        Particles :math:`b_{jl'}` of the second points.
    bandwidth : float
        The bandwidth :math:`h` of the latent kernel.
    max_pairs : int
        Latent pairs per block; a setting of memory, not of the result.

    Returns
    -------
    Tensor of shape (n_a, n_b)
        Differentiable once in ``a`` and ``b``.

    Examples
    --------
    One particle each: the latent kernel itself.

    >>> log_expected_kernel(torch.tensor([[[0.0]]]), torch.tensor([[[2.0]]]), bandwidth=4.0)
    tensor([[-1.]])
    """
    log_kernel: Tensor = _LogExpectedKernel.apply(a, b, bandwidth, max_pairs)  # type: ignore[no-untyped-call]
    return log_kernel


class _LogExpectedKernel(torch.autograd.Function):
    """Blockwise forward, and a backward that computes each block again instead of storing it."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, bandwidth: float, max_pairs: int) -> Tensor:  # noqa: ANN401
        log_kernel = a.new_empty(a.shape[1], b.shape[1])
        log_n_terms = math.log(a.shape[0] * b.shape[0])
        for rows, columns in _blocks(a, b, max_pairs):
            terms = _log_terms(a[:, rows], b[:, columns], bandwidth)
            log_kernel[rows, columns] = terms.logsumexp(dim=(0, 2)) - log_n_terms
        ctx.save_for_backward(a, b, log_kernel)
        ctx.settings = bandwidth, max_pairs
        return log_kernel

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:  # noqa: ANN401
        r"""With :math:`P` the share of each term, :math:`\nabla_{a_{il}} = -\frac{2}{h} \sum_{jl'} G_{ij} P_{iljl'} (a_{il} - b_{jl'})`."""
        a, b, log_kernel = ctx.saved_tensors
        bandwidth, max_pairs = ctx.settings
        log_n_terms = math.log(a.shape[0] * b.shape[0])
        grad_a, grad_b = torch.zeros_like(a), torch.zeros_like(b)
        for rows, columns in _blocks(a, b, max_pairs):
            a_block, b_block = a[:, rows], b[:, columns]
            log_shares = _log_terms(a_block, b_block, bandwidth)
            log_shares -= (log_kernel[rows, columns] + log_n_terms)[None, :, None, :]
            weights = log_shares.exp_().mul_(grad[rows, columns][None, :, None, :])
            weights = weights.flatten(2).flatten(0, 1)  # (m r, m' s)
            flat_a, flat_b = a_block.flatten(0, 1), b_block.flatten(0, 1)
            pull_a = weights.sum(1, keepdim=True) * flat_a - weights @ flat_b
            pull_b = weights.sum(0)[:, None] * flat_b - weights.mT @ flat_a
            grad_a[:, rows] += pull_a.view_as(a_block)
            grad_b[:, columns] += pull_b.view_as(b_block)
        return grad_a.mul_(-2 / bandwidth), grad_b.mul_(-2 / bandwidth), None, None


def _log_terms(a: Tensor, b: Tensor, bandwidth: float) -> Tensor:
    """Log kernel of all pairs of particles of all pairs of points: (m, n_a, m', n_b)."""
    (m_a, n_a, _), (m_b, n_b, _) = a.shape, b.shape
    return log_latent_kernel(a.flatten(0, 1), b.flatten(0, 1), bandwidth).view(m_a, n_a, m_b, n_b)


def _blocks(a: Tensor, b: Tensor, max_pairs: int) -> Iterator[tuple[slice, slice]]:
    """Tile the (n_a, n_b) matrix so that no tile holds more than ``max_pairs`` latent pairs."""
    (m_a, n_a, _), (m_b, n_b, _) = a.shape, b.shape
    n_columns = max(1, min(n_b, max_pairs // (m_a * m_b)))
    n_rows = max(1, max_pairs // (n_columns * m_a * m_b))
    for row in range(0, n_a, n_rows):
        for column in range(0, n_b, n_columns):
            yield slice(row, row + n_rows), slice(column, column + n_columns)
