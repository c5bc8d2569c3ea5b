"""From a kernel between points to neighbour shares, class masses, probabilities and the loss.

Everything is in log space: a class whose nearest example is very far away has a very small probability
instead of a zero, and its gradient is a number instead of NaN.
"""

import math

import torch
from torch import Tensor

#: Stands for log 0. Finite, because the gradient of logsumexp is NaN where all terms are -inf.
LOG_ZERO = -1e30


def leave_one_out(log_kernel: Tensor, groups: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
    """Exclude every point from its own neighbours: ``LOG_ZERO`` in log kernels (..., n_a, n).

    The n_a ``rows`` are indices of points, by default all n. Points of the same group (n,), such as images of
    one patient, exclude each other too.

    >>> leave_one_out(torch.zeros(2, 2)).exp()
    tensor([[0., 1.],
            [1., 0.]])
    """
    if groups is None:
        groups = torch.arange(log_kernel.shape[-1], device=log_kernel.device)
    is_excluded = (groups if rows is None else groups[rows])[:, None] == groups
    return log_kernel.masked_fill(is_excluded, LOG_ZERO)


def has_partner(
    labels: Tensor,
    n_classes: int,
    groups: Tensor | None = None,
    n_groups: int = 0,
    shown: Tensor | None = None,
) -> Tensor:
    r"""Whether a point has another one of its class ``labels`` (n,) to learn from: (n,) or (t, n), bool.

    .. math:: \exists j:\; y_j = y_i,\; g_j \neq g_i,\; s_{tj}

    with groups :math:`g_i` (n,) below ``n_groups``, by default each point its own, and :math:`s_{tj}` (t, n)
    whether point j is ``shown`` to fold model t. Counted by class and by group, so the cost is linear in n.

    >>> has_partner(torch.tensor([0, 0, 1]), n_classes=2)
    tensor([ True,  True, False])
    """
    counted = torch.ones(1, len(labels), device=labels.device) if shown is None else shown.float()
    of_class = counted.new_zeros(len(counted), n_classes).index_add_(1, labels, counted)
    if groups is None:
        not_counted = counted
    else:
        # Small whole numbers, exact in float32.
        cell = groups * n_classes + labels
        of_cell = counted.new_zeros(len(counted), n_groups * n_classes).index_add_(1, cell, counted)
        not_counted = of_cell[:, cell]
    found = of_class[:, labels] > not_counted
    return found[0] if shown is None else found


def log_neighbour_shares(
    log_kernel: Tensor, background: float = 0.0, log_weights: Tensor | None = None
) -> Tensor:
    r"""Log-probability that a point picks each training point, from log kernels (..., n_a, n).

    .. math:: q_{ij} = \frac{w_j K_{ij}}{\sum_{j'} w_{j'} K_{ij'} + \alpha}

    with the background mass :math:`\alpha`, which the shares lack to sum to one, and :math:`\log w_j` (n,).
    """
    if log_weights is not None:
        log_kernel = log_kernel + log_weights
    if background == 0:
        return log_kernel.log_softmax(dim=-1)  # far away, a sum rounds to its largest term
    return log_kernel - log_plus(log_kernel.logsumexp(dim=-1, keepdim=True), background)


def class_log_masses(
    log_kernel: Tensor, labels: Tensor, n_classes: int, log_weights: Tensor | None = None
) -> Tensor:
    r"""Log class masses (..., n_a, c) from log kernels (..., n_a, n) to points of classes ``labels`` (n,).

    .. math:: \log S_{ic} = \log \sum_{j:\, y_j = c} w_j K_{ij}

    with :math:`\log w_j` of shape (n,) or (..., 1, n), zero if absent.

    >>> class_log_masses(torch.zeros(1, 3), torch.tensor([0, 1, 1]), 2).exp()
    tensor([[1., 2.]])
    """
    if log_weights is not None:
        log_kernel = log_kernel + log_weights
    # Sorted by class, each class is one slice: no (n_a, n, c) mask.
    by_class = log_kernel[..., labels.argsort(stable=True)]
    counts = labels.bincount(minlength=n_classes).tolist()
    masses = [
        part.logsumexp(dim=-1) if part.shape[-1] else log_kernel.new_full(part.shape[:-1], LOG_ZERO)
        for part in torch.split(by_class, counts, dim=-1)
    ]
    return torch.stack(masses, dim=-1)


def log_class_probabilities(log_masses: Tensor, background: float, log_prior: Tensor) -> Tensor:
    r"""Log-probability of each class, its share of the kernel mass: (..., n_a, c) -> (..., n_a, c).

    .. math:: p_{ic} = \frac{S_{ic} + \alpha \pi_c}{\sum_{c'} S_{ic'} + \alpha}

    With a background mass :math:`\alpha = 0` this is the paper's rule. With :math:`\alpha > 0` a point far
    from all data, whose masses vanish, gets the prior :math:`\pi` (c,) instead of its least distant class.

    >>> far, log_prior = torch.tensor([[-990.0, -800.0]]), torch.tensor([0.5, 0.5]).log()
    >>> log_class_probabilities(far, 0.0, log_prior).exp(), log_class_probabilities(far, 0.1, log_prior).exp()
    (tensor([[0., 1.]]), tensor([[0.5000, 0.5000]]))
    """
    if background == 0:
        return log_masses.log_softmax(dim=-1)  # far away, a sum rounds to its largest term
    total = log_plus(log_masses.logsumexp(dim=-1, keepdim=True), background)
    return log_plus(log_masses, background, log_prior) - total


def safe_log(weights: Tensor) -> Tensor:
    r"""Logarithm of weights of any shape; :math:`\log 0` is ``LOG_ZERO``.

    >>> safe_log(torch.tensor([1.0, 0.0]))
    tensor([ 0.0000e+00, -1.0000e+30])
    """
    return weights.log().clamp_min(LOG_ZERO)


def one_hot(labels: Tensor, n_classes: int, like: Tensor) -> Tensor:
    """One-hot matrix (n, c) of integer classes (n,), of the type of ``like``.

    Unlike torch's own it reads no value on the host, so that a CUDA graph can capture it.
    """
    return (labels[:, None] == torch.arange(n_classes, device=labels.device)).to(like)


def class_probabilities(shares: Tensor, labels: Tensor, log_prior: Tensor) -> Tensor:
    r"""Probability (..., n_a, c) of each class, from the shares (..., n_a, n) of neighbours of classes (n,).

    .. math:: p_{ic} = \sum_{j:\, y_j = c} q_{ij} + \pi_c \Bigl(1 - \sum_j q_{ij}\Bigr)

    with the log prior (c,) of :math:`\pi`. One matrix product, for where a very small probability may be
    zero.

    >>> class_probabilities(torch.tensor([[0.5, 0.25]]), torch.tensor([0, 1]), torch.tensor([0.5, 0.5]).log())
    tensor([[0.6250, 0.3750]])
    """
    missing = 1 - shares.sum(dim=-1, keepdim=True)
    return shares @ one_hot(labels, len(log_prior), shares) + missing * log_prior.exp()


def is_isolated(log_kernel: Tensor, background: float) -> Tensor:
    r"""Whether a point gets less kernel mass from the others than the background: (..., n, n) -> (..., n).

    .. math:: \sum_{j \ne i} K_{ij} < \alpha
    """
    return leave_one_out(log_kernel).logsumexp(dim=-1) < math.log(background)


def log_plus(log_mass: Tensor, background: float, log_share: Tensor | float = 0.0) -> Tensor:
    r"""Log of a mass of any shape plus its share of the background, :math:`\log (S + \alpha \pi)`.

    >>> log_plus(torch.tensor(1.0).log(), background=2.0).exp()
    tensor(3.)
    """
    if background == 0:
        return log_mass
    # Full, not new_tensor: a number is filled in on the device and not copied there.
    log_background = torch.full_like(log_mass, math.log(background))
    return torch.logaddexp(log_mass, log_background + log_share)


def log_mean(logs: Tensor) -> Tensor:
    r"""Log of the mean over particles, from logs :math:`a_l`: (m, ...) -> (...).

    .. math:: \log \frac{1}{m} \sum_l e^{a_l}
    """
    return logs.logsumexp(dim=0) - math.log(logs.shape[0])
