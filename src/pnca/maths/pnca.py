r"""The paper's algorithm, from embeddings to the step of the particles.

Mallick, Dwivedi, Kailkhura, Joshi, Han: *Probabilistic Neighbourhood Component Analysis*.
Training repeats five lines, with ``g`` the network that embeds (see ``pnca.networks``)::

    Z = g(W, X)                                              # (m, n, d) latent particles
    log_K = log_expected_kernel(Z, Z, bandwidth)             # Eq. 3, or log_approximate_kernel
    log_q = log_correct_shares(leave_one_out(log_K), y)      # Eq. 4
    loss = pnca_loss(log_q, weights)                         # Eq. 2
    W = W - step_size * functional_gradient(W, d loss / d W) # Algorithm 1
"""

import math
from typing import Any

import torch
from torch import Tensor

from pnca.maths.features import log_approximate_kernel
from pnca.maths.kernels import log_expected_kernel
from pnca.maths.neighbours import LOG_ZERO, leave_one_out, log_plus
from pnca.maths.stein import functional_gradient

__all__ = [
    "functional_gradient",
    "leave_one_out",
    "log_approximate_kernel",
    "log_correct_shares",
    "log_expected_kernel",
    "pnca_loss",
    "shares_and_log_correct",
]


def log_correct_shares(
    log_kernel: Tensor,
    labels: Tensor,
    background: float = 0.0,
    log_prior: Tensor | None = None,
    labels_of_rows: Tensor | None = None,
) -> Tensor:
    r"""Log of the share of kernel mass that each training point gets from its own class.

    .. math:: \log p_i = \log \sum_{j:\, y_j = y_i} q_{ij}, \quad q_{ij} = \frac{K_{ij}}{\sum_{j'} K_{ij'}}

    and with a background mass, where there is one (see
    :func:`pnca.maths.neighbours.log_class_probabilities`),
    :math:`p_i = (\sum_{j: y_j = y_i} K_{ij} + \alpha \pi_{y_i}) / (\sum_j K_{ij} + \alpha)`.

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n, n), or (..., n_a, n)
        :math:`\log K_{ij}`, weighted if points have weights, after
        :func:`pnca.maths.neighbours.leave_one_out`; with kernels of single particles, (m, n, n).
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`.
    background : float
        The background mass :math:`\alpha`; zero is the paper.
    log_prior : Tensor of shape (c,), optional
        :math:`\log \pi_c`; needed with a background only.
    labels_of_rows : Tensor of shape (n_a,), optional
        Classes of the rows, if these are some of the points only.

    Returns
    -------
    Tensor of shape (..., n), or (..., n_a)
        Differentiable once in ``log_kernel``.

    Examples
    --------
    >>> import torch
    >>> log_K = leave_one_out(torch.zeros(3, 3))
    >>> log_correct_shares(log_K, torch.tensor([0, 0, 1])).exp()
    tensor([0.5000, 0.5000, 0.0000])
    """
    return shares_and_log_correct(log_kernel, labels, background, log_prior, labels_of_rows)[1]


def shares_and_log_correct(
    log_kernel: Tensor,
    labels: Tensor,
    background: float = 0.0,
    log_prior: Tensor | None = None,
    labels_of_rows: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Shares of all neighbours, which cost nothing more, and :func:`log_correct_shares`.

    Parameters
    ----------
    log_kernel, labels, background, log_prior, labels_of_rows
        See :func:`log_correct_shares`.

    Returns
    -------
    shares : Tensor of the shape of ``log_kernel``
        :math:`q_{ij}`, without gradient.
    log_correct : Tensor of shape (..., n), or (..., n_a)
    """
    of_rows = labels if labels_of_rows is None else labels_of_rows
    log_own = None if log_prior is None else log_prior[of_rows]
    is_other_class = of_rows[:, None] != labels
    shares, log_correct = _Shares.apply(log_kernel, is_other_class, background, log_own)  # type: ignore[no-untyped-call]
    return shares, log_correct


class _Shares(torch.autograd.Function):
    """Two sums of exponentials with what they have in common done once, and a backward without any.

    In powers of two: torch's ``exp`` takes thirty times as long on a CPU where its result underflows.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        log_kernel: Tensor,
        is_other_class: Tensor,
        background: float,
        log_own: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        of_all, log_all = _exp_and_log_sum(log_kernel)
        of_class, log_class = _exp_and_log_sum(log_kernel.masked_fill(is_other_class, LOG_ZERO))
        log_total = log_plus(log_all, background)
        log_correct = log_class if log_own is None else log_plus(log_class, background, log_own)
        of_all *= (log_all - log_total).exp()[..., None]
        of_class *= (log_class - log_correct).exp()[..., None]
        ctx.save_for_backward(of_all, of_class)
        ctx.mark_non_differentiable(of_all)
        return of_all, log_correct - log_total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, _: Tensor, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        of_all, of_class = ctx.saved_tensors
        return (of_class - of_all).mul_(grad[..., None]), None, None, None


def _exp_and_log_sum(logs: Tensor) -> tuple[Tensor, Tensor]:
    """Exponentials divided by their sum over the last axis, and the log of that sum."""
    largest = logs.amax(dim=-1, keepdim=True)
    parts = (logs - largest).mul_(1 / math.log(2)).exp2_()
    sums = parts.sum(dim=-1, keepdim=True)
    return parts.div_(sums), sums.log_().add_(largest).squeeze(-1)


def pnca_loss(log_correct: Tensor, weights: Tensor) -> Tensor:
    r"""Negative leave-one-out log-likelihood.

    .. math:: L = -\sum_i \omega_i \log p_i

    With one particle it is the loss of NCA. A point with no other example of its class has
    nothing to learn from and must come with weight zero.

    Parameters
    ----------
    log_correct : Tensor of shape (..., n)
        :math:`\log p_i`; see :func:`log_correct_shares`.
    weights : Tensor of shape (n,) or (..., n)
        The weights :math:`\omega_i`; all one in the paper.

    Returns
    -------
    Tensor of shape ()
        Summed over leading dimensions too: particles that learn each on its own add up.
    """
    # Points of weight zero may hold log 0, and 0 * log 0 would swamp the sum.
    return -(weights * log_correct.where(weights > 0, 0)).sum()
