r"""The paper's algorithm, from embeddings to the step of the particles.

Mallick, Dwivedi, Kailkhura, Joshi, Han: *Probabilistic Neighbourhood Component Analysis*.
Training repeats four lines, with ``g`` the network that embeds (``pnca.networks``)::

    Z = g(W, X)                                           # (m, n, d), embeddings by each particle
    log_K = log_expected_kernel(Z, Z, h) + log_factor     # Eq. 3; q_ii = 0 is in the factor
    loss = leave_one_out_loss(log_K, target).total        # Eqs. 4 and 2
    W = W - step_size * functional_gradient(W, grad)      # Algorithm 1, grad = d loss / d W

``pnca.models.neighbours`` has the first, ``pnca.models.kernels`` the second, with this or another kernel, and
``pnca.training.loop`` the last, where :func:`functional_mixing` is the matrix of the functional gradient.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pnca.maths.features import log_approximate_kernel
from pnca.maths.kernels import log_expected_kernel
from pnca.maths.neighbours import (
    LOG_ZERO,
    class_probabilities,
    leave_one_out,
    log_class_probabilities,
    log_plus,
)
from pnca.maths.stein import functional_gradient, functional_mixing

__all__ = [
    "Loss",
    "Target",
    "functional_gradient",
    "functional_mixing",
    "leave_one_out",
    "leave_one_out_loss",
    "log_approximate_kernel",
    "log_correct_shares",
    "log_expected_kernel",
    "loss_of_masses",
    "pnca_loss",
    "shares_and_log_correct",
]


class Target(NamedTuple):
    """What the examples of a batch are to be predicted as."""

    labels: Tensor  # (n,), integer classes of all points
    of_rows: Tensor  # (n_a,), those of the points whose loss is computed; all n, or some
    weights: Tensor  # (n_a,) or (members, n_a), in the loss
    background: float  # mass that belongs to no point
    log_prior: Tensor  # (c,), by which it is split among the classes
    full: slice  # members whose accuracy is counted


class Loss(NamedTuple):
    """Leave-one-out loss of a batch."""

    total: Tensor  # ()
    n_correct: Tensor  # (), rows whose most probable class is their own


def leave_one_out_loss(log_kernel: Tensor, target: Target) -> Loss:
    r"""Loss of a batch from the kernel of all pairs: Equations 4 and 2.

    ``log_kernel`` (members, n_a, n) has :math:`\log K_{ij}` of each member that predicts on its own, with
    :math:`K_{ii} = 0`.
    """
    labels, of_rows, weights, background, log_prior, full = target
    shares, log_correct = shares_and_log_correct(log_kernel, labels, background, log_prior, of_rows)
    probabilities = class_probabilities(shares[full], labels, log_prior)
    return Loss(pnca_loss(log_correct, weights), _n_correct(probabilities, of_rows))


def loss_of_masses(log_masses: Tensor, target: Target) -> Loss:
    """The same from log class masses (members, n_a, c), each point left out of its own class.

    For where the kernel of all pairs is too large to hold.
    """
    log_probabilities = log_class_probabilities(log_masses, target.background, target.log_prior)
    chosen = target.of_rows[:, None].expand(*log_probabilities.shape[:-1], 1)
    log_correct = log_probabilities.gather(-1, chosen).squeeze(-1)
    probabilities = log_probabilities.detach()[target.full].exp()
    return Loss(pnca_loss(log_correct, target.weights), _n_correct(probabilities, target.of_rows))


def _n_correct(probabilities: Tensor, labels: Tensor) -> Tensor:
    return (probabilities.mean(dim=0).argmax(dim=1) == labels).sum()


def log_correct_shares(
    log_kernel: Tensor,
    labels: Tensor,
    background: float = 0.0,
    log_prior: Tensor | None = None,
    labels_of_rows: Tensor | None = None,
) -> Tensor:
    r"""Log of the share of kernel mass (..., n_a) that each training point gets from its own class.

    .. math:: \log p_i = \log \sum_{j:\, y_j = y_i} q_{ij}, \quad q_{ij} = \frac{K_{ij}}{\sum_{j'} K_{ij'}}

    and with a background mass, zero in the paper (see :func:`pnca.maths.neighbours.log_class_probabilities`),
    :math:`p_i = (\sum_{j: y_j = y_i} K_{ij} + \alpha \pi_{y_i}) / (\sum_j K_{ij} + \alpha)`.

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n_a, n)
        :math:`\log K_{ij}`, weighted if points have weights, after
        :func:`pnca.maths.neighbours.leave_one_out`. Differentiable once.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`.
    background, log_prior : float, and Tensor of shape (c,)
        :math:`\alpha`, and :math:`\log \pi_c`, which is needed with a background only.
    labels_of_rows : Tensor of shape (n_a,), optional
        Classes of the rows, if these are some of the points only.

    Examples
    --------
    >>> log_correct_shares(leave_one_out(torch.zeros(3, 3)), torch.tensor([0, 0, 1])).exp()
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
    """Shares :math:`q_{ij}` (..., n_a, n), without gradient, and :func:`log_correct_shares` with them."""
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
    r"""Negative leave-one-out log-likelihood (), from :func:`log_correct_shares` (..., n).

    .. math:: L = -\sum_i \omega_i \log p_i

    With one particle it is the loss of NCA. The ``weights`` (n,) or (..., n) are all one in the paper; a
    point with no other example of its class has nothing to learn from and must come with weight zero. The sum
    is over leading dimensions too: particles that learn each on its own add up.
    """
    # Points of weight zero may hold log 0, and 0 * log 0 would swamp the sum.
    return -(weights * log_correct.where(weights > 0, 0)).sum()
