"""Softmax networks: their loss and their averaged prediction."""

import math

from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor, n_samples: int | None = None) -> Tensor:
    r"""Mean negative log-likelihood of each particle.

    .. math:: \ell_l = -\frac{1}{n} \sum_i \omega_i \log \mathrm{softmax}(f_{il})_{y_i}

    Parameters
    ----------
    logits : Tensor of shape (m, n, c)
        Network outputs :math:`f_{il}`.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`.
    weights : Tensor of shape (n,)
        The weights :math:`\omega_i`.
    n_samples : int, optional
        The number :math:`n`, if these points are a share of the n: the results of the shares then add up.

    Returns
    -------
    Tensor of shape (m,)

    Examples
    --------
    >>> import torch
    >>> cross_entropy(torch.zeros(1, 1, 2), torch.tensor([0]), torch.ones(1)).exp()
    tensor([2.])
    """
    chosen = labels[None, :, None].expand(logits.shape[0], -1, 1)
    log_correct = logits.log_softmax(dim=2).gather(2, chosen).squeeze(2)  # (m, n)
    return -(weights * log_correct).sum(dim=1) / (len(labels) if n_samples is None else n_samples)


def log_mean_probabilities(logits: Tensor) -> Tensor:
    r"""Log of the class probabilities averaged over particles.

    .. math:: \log p_{ic} = \log \frac{1}{m} \sum_l \mathrm{softmax}(f_{il})_c

    Parameters
    ----------
    logits : Tensor of shape (m, n, c)
        Network outputs :math:`f_{il}`.

    Returns
    -------
    Tensor of shape (n, c)

    Examples
    --------
    >>> import torch
    >>> log_mean_probabilities(torch.zeros(3, 1, 2)).exp()
    tensor([[0.5000, 0.5000]])
    """
    return log_mean(logits.log_softmax(dim=2))


def log_mean(logs: Tensor) -> Tensor:
    r"""Log of the mean over particles, from logs.

    .. math:: \log \frac{1}{m} \sum_l e^{a_l}

    Parameters
    ----------
    logs : Tensor of shape (m, ...)
        The logarithms :math:`a_l`.

    Returns
    -------
    Tensor of shape (...)

    Examples
    --------
    >>> import torch
    >>> log_mean(torch.tensor([1.0, 3.0]).log()).exp()
    tensor(2.)
    """
    return logs.logsumexp(dim=0) - math.log(logs.shape[0])
