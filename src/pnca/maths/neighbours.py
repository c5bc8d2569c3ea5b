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
    r"""Exclude every point from its own neighbours: :math:`q_{ii} = 0`.

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n, n), or (..., n_a, n)
        :math:`\log K_{ij}` between the training points.
    groups : Tensor of shape (n,), optional
        Points of the same group (images of one patient, say) exclude each other too.
    rows : Tensor of shape (n_a,), optional
        Indices of the rows among the n points; all, in their order, by default.

    Returns
    -------
    Tensor of the shape of ``log_kernel``
        With ``LOG_ZERO`` for the excluded pairs.

    Examples
    --------
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
    r"""Whether a point has another one of its class to learn from.

    .. math:: \exists j:\; y_j = y_i,\; g_j \neq g_i,\; s_{tj}

    Counted by class and by group, so the cost is linear in n.

    Parameters
    ----------
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`, below ``n_classes``.
    n_classes : int
        Number of classes.
    groups : Tensor of shape (n,), optional
        Groups :math:`g_i`, below ``n_groups``; points of one group are no partners. None: each is its own.
    n_groups : int
        Number of groups.
    shown : Tensor of shape (t, n), bool, optional
        Whether fold model t is trained on a point, :math:`s_{tj}`; only those can be partners.

    Returns
    -------
    Tensor of shape (n,) or (t, n), bool

    Examples
    --------
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
    r"""Log-probability that a point picks each training point as its neighbour.

    .. math:: q_{ij} = \frac{w_j K_{ij}}{\sum_{j'} w_{j'} K_{ij'} + \alpha}

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n_a, n)
        :math:`\log K_{ij}`; for training points after :func:`leave_one_out`.
    background : float
        The background mass :math:`\alpha`: what the shares lack to sum to one.
    log_weights : Tensor of shape (n,), optional
        :math:`\log w_j` of the training points; zero if absent.

    Returns
    -------
    Tensor of shape (..., n_a, n)

    Examples
    --------
    >>> log_neighbour_shares(torch.zeros(1, 4)).exp()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    if log_weights is not None:
        log_kernel = log_kernel + log_weights
    return log_kernel - log_plus(log_kernel.logsumexp(dim=-1, keepdim=True), background)


def class_log_masses(
    log_kernel: Tensor, labels: Tensor, n_classes: int, log_weights: Tensor | None = None
) -> Tensor:
    r"""Log kernel mass that each class receives.

    .. math:: \log S_{ic} = \log \sum_{j:\, y_j = c} w_j K_{ij}

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n_a, n)
        :math:`\log K_{ij}` to the training points.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_j` of the training points, below ``n_classes``.
    n_classes : int
        Number of classes :math:`c`.
    log_weights : Tensor of shape (n,) or (..., 1, n), optional
        :math:`\log w_j` of the training points; zero if absent.

    Returns
    -------
    Tensor of shape (..., n_a, c)

    Examples
    --------
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
    r"""Log-probability of each class: its share of the kernel mass.

    .. math:: p_{ic} = \frac{S_{ic} + \alpha \pi_c}{\sum_{c'} S_{ic'} + \alpha}

    With :math:`\alpha = 0` this is the paper's rule. With :math:`\alpha > 0` a point far from
    all data, whose masses vanish, gets the prior :math:`\pi` instead of its least distant class.

    Parameters
    ----------
    log_masses : Tensor of shape (..., n_a, c)
        :math:`\log S_{ic}`.
    background : float
        The background mass :math:`\alpha \ge 0`.
    log_prior : Tensor of shape (c,)
        :math:`\log \pi_c`; it has no effect if ``background`` is zero.

    Returns
    -------
    Tensor of shape (..., n_a, c)

    Examples
    --------
    >>> far = torch.tensor([[-990.0, -800.0]])
    >>> log_class_probabilities(far, 0.0, torch.tensor([0.5, 0.5]).log()).exp()
    tensor([[0., 1.]])
    >>> log_class_probabilities(far, 0.1, torch.tensor([0.5, 0.5]).log()).exp()
    tensor([[0.5000, 0.5000]])
    """
    total = log_plus(log_masses.logsumexp(dim=-1, keepdim=True), background)
    return log_plus(log_masses, background, log_prior) - total


def safe_log(weights: Tensor) -> Tensor:
    r"""Logarithm of weights of any shape; :math:`\log 0` is ``LOG_ZERO``.

    Examples
    --------
    >>> safe_log(torch.tensor([1.0, 0.0]))
    tensor([ 0.0000e+00, -1.0000e+30])
    """
    return weights.log().clamp_min(LOG_ZERO)


def one_hot(labels: Tensor, n_classes: int, like: Tensor) -> Tensor:
    """One-hot matrix (n, c) of integer classes (n,), of the type of ``like``.

    Unlike torch's own it reads no value on the host, so that a CUDA graph can capture it.

    Examples
    --------
    >>> one_hot(torch.tensor([1, 0]), 2, like=torch.zeros(1))
    tensor([[0., 1.],
            [1., 0.]])
    """
    return (labels[:, None] == torch.arange(n_classes, device=labels.device)).to(like)


def class_probabilities(shares: Tensor, labels: Tensor, log_prior: Tensor) -> Tensor:
    r"""Probability of each class from the shares of single neighbours.

    .. math:: p_{ic} = \sum_{j:\, y_j = c} q_{ij} + \pi_c \Bigl(1 - \sum_j q_{ij}\Bigr)

    One matrix product, for where a very small probability may be zero.

    Parameters
    ----------
    shares : Tensor of shape (..., n_a, n)
        The shares :math:`q_{ij}`; see :func:`log_neighbour_shares`.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_j`.
    log_prior : Tensor of shape (c,)
        :math:`\log \pi_c`, by which the background's share is split.

    Returns
    -------
    Tensor of shape (..., n_a, c)

    Examples
    --------
    >>> shares = torch.tensor([[0.5, 0.25]])
    >>> class_probabilities(shares, torch.tensor([0, 1]), torch.tensor([0.5, 0.5]).log())
    tensor([[0.6250, 0.3750]])
    """
    missing = 1 - shares.sum(dim=-1, keepdim=True)
    return shares @ one_hot(labels, len(log_prior), shares) + missing * log_prior.exp()


def is_isolated(log_kernel: Tensor, background: float) -> Tensor:
    r"""Whether the other points give a point less kernel mass than the background has.

    .. math:: \sum_{j \ne i} K_{ij} < \alpha

    with ``log_kernel`` (..., n, n) and ``background`` :math:`\alpha > 0`; the result is (..., n), bool.

    Examples
    --------
    >>> is_isolated(torch.tensor([[0.0, -9.0], [-9.0, 0.0]]), background=0.1)
    tensor([True, True])
    """
    return leave_one_out(log_kernel).logsumexp(dim=-1) < math.log(background)


def log_plus(log_mass: Tensor, background: float, log_share: Tensor | float = 0.0) -> Tensor:
    r"""Log of a mass plus its share of the background, :math:`\log (S + \alpha \pi)`.

    Parameters
    ----------
    log_mass : Tensor
        :math:`\log S`, of any shape.
    background : float
        The background mass :math:`\alpha`.
    log_share : Tensor or float
        :math:`\log \pi`; all of it by default.

    Examples
    --------
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

    Examples
    --------
    >>> log_mean(torch.tensor([1.0, 3.0]).log()).exp()
    tensor(2.)
    """
    return logs.logsumexp(dim=0) - math.log(logs.shape[0])
