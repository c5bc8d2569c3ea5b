"""Choosing settings by the likelihood of held-out examples."""

import math

import torch
from torch import Tensor

from pnca.maths.likelihood import log_mean
from pnca.maths.neighbours import log_class_probabilities


def out_of_fold_losses(
    log_masses: Tensor, labels: Tensor, weights: Tensor, backgrounds: Tensor, log_prior: Tensor
) -> Tensor:
    r"""Negative log-likelihood of held-out examples for each of several background masses.

    .. math:: L(\alpha) = -\sum_i \omega_i \log \frac{1}{m} \sum_l
              \frac{S_{l i y_i} + \alpha \pi_{y_i}}{\sum_c S_{l i c} + \alpha}

    Parameters
    ----------
    log_masses : Tensor of shape (m, n, c)
        :math:`\log S_{lic}`, the class masses of each example, from examples of other folds only.
    labels, weights : Tensor of shape (n,)
        Classes :math:`y_i` and weights :math:`\omega_i` of the examples.
    backgrounds : Tensor of shape (b,)
        Candidates for :math:`\alpha`.
    log_prior : Tensor of shape (c,)
        :math:`\log \pi_c`.

    Returns
    -------
    Tensor of shape (b,)

    Examples
    --------
    >>> log_masses, log_prior = torch.zeros(1, 1, 2), torch.tensor([0.5, 0.5]).log()
    >>> out_of_fold_losses(log_masses, torch.tensor([0]), torch.ones(1), torch.tensor([0.1]), log_prior)
    tensor([0.6931])
    """
    losses = []
    for background in backgrounds:
        log_probabilities = log_mean(log_class_probabilities(log_masses, float(background), log_prior))
        log_correct = log_probabilities.gather(1, labels[:, None]).squeeze(1)
        # Examples of weight zero may hold log 0, and 0 * log 0 would swamp the sum.
        losses.append(-(weights * log_correct.where(weights > 0, 0)).sum())
    return torch.stack(losses)


def shrinkage(value: Tensor, reference: float, spread: float) -> Tensor:
    r"""Cost of leaving a reference value: the negative log density of a prior, up to a constant.

    .. math:: \sqrt{1 + u^2} - 1, \quad u = \frac{\log v - \log v_0}{\sigma}

    It keeps a choice near the reference where few held-out examples say little, and hardly matters with
    many. Near the reference the prior is log-normal; its tails are heavier, for data unlike any other.

    Parameters
    ----------
    value : Tensor of any shape
        Positive candidates :math:`v`.
    reference : float
        The value :math:`v_0` that costs nothing.
    spread : float
        :math:`\sigma`: far away, each further factor of :math:`e^\sigma` costs a nat.

    Returns
    -------
    Tensor of the same shape

    Examples
    --------
    >>> shrinkage(torch.tensor([1.0, math.e]), reference=1.0, spread=1.0)
    tensor([0.0000, 0.4142])
    """
    return (1 + ((value.log() - math.log(reference)) / spread).square()).sqrt() - 1


def posterior_mean(values: Tensor, costs: Tensor) -> float:
    r"""Geometric mean of positive candidates :math:`v_k` under their posterior.

    .. math:: \exp \frac{\sum_k e^{-C_k} \log v_k}{\sum_k e^{-C_k}}

    with :math:`C_k` the negative log posteriors, up to a constant; both tensors have the same shape.

    Examples
    --------
    >>> posterior_mean(torch.tensor([1.0, 4.0, 9.0]), torch.tensor([0.0, 0.0, 99.0]))
    2.0
    """
    weights = torch.softmax(-costs.flatten().double(), dim=0)
    return math.exp(float(weights @ values.flatten().double().log()))


def typical_log_mass(log_masses: Tensor) -> Tensor:
    r"""Median over examples of the log mass of all classes, averaged over particles: (m, n, c) -> ().

    Examples
    --------
    >>> typical_log_mass(torch.zeros(1, 3, 2))
    tensor(0.6931)
    """
    of_examples = log_mean(log_masses.logsumexp(dim=2))
    ordered = of_examples.sort().values  # quantile() takes so many elements and no more
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
