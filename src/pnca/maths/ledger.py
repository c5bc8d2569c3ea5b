"""Who carries an answer: training examples, a line, or nobody; and what is unusual about an input."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pnca.maths.neighbours import log_mean, log_plus, one_hot


class Carried(NamedTuple):
    """Shares of the examples of each class in the answer, the named ones and all others."""

    rows: Tensor  # (n, k), of the named examples, the largest share first
    shares: Tensor  # (n, k), theirs
    named: Tensor  # (n, c)
    others: Tensor  # (n, c)


def carried_by_examples(log_shares: Tensor, labels: Tensor, n_classes: int, k: int) -> Carried:
    r"""Name the k examples that carry most, and add all up by class.

    From log shares (n, N) of training examples of classes ``labels`` (N,).

    .. math:: \text{named}_{ic} = \sum_{j \in T_i,\, y_j = c} q_{ij}, \quad
              \text{others}_{ic} = \sum_{j \notin T_i,\, y_j = c} q_{ij}

    with :math:`T_i` the k largest shares :math:`q` of input i; of equal ones the first.

    >>> found = carried_by_examples(torch.tensor([[0.5, 0.3, 0.1]]).log(), torch.tensor([0, 1, 1]), 2, k=1)
    >>> found.rows, found.named, found.others
    (tensor([[0]]), tensor([[0.5000, 0.0000]]), tensor([[0.0000, 0.4000]]))
    """
    largest = log_shares.sort(dim=1, descending=True, stable=True)
    rows, shares = largest.indices[:, :k], largest.values[:, :k].exp()
    named = shares.new_zeros(len(shares), n_classes).scatter_add_(1, labels[rows], shares)
    others = log_shares.exp().scatter(1, rows, 0.0) @ one_hot(labels, n_classes, shares)
    return Carried(rows, shares, named, others)


def background_share(log_masses: Tensor, background: float) -> Tensor:
    r"""Share of the background in the answer of the neighbours (n,), from log class masses (m, n, c).

    .. math:: b_i = \frac{1}{m} \sum_l \frac{\alpha}{\sum_c S_{lic} + \alpha}

    >>> background_share(torch.zeros(1, 1, 2), background=2.0)
    tensor([0.5000])
    """
    if background == 0:
        return torch.zeros_like(log_masses[0, :, 0])
    log_totals = log_masses.logsumexp(dim=-1)
    shares = torch.log(torch.full_like(log_totals, background)) - log_plus(log_totals, background)
    return log_mean(shares).exp()


def carried_by_nobody(
    of_background: Tensor, weight: float, say: Tensor, say_of_seen: Tensor, prior: Tensor
) -> Tensor:
    r"""Part (n, c) of each class's probability that goes to the class shares.

    .. math:: n_{ic} = \pi_c \big( u_i \, ( g_i w b_i + 1 - g_i ) + 1 - u_i \big)

    with the share :math:`b` (n,) of the background in the neighbours' answer and their weight :math:`w` in
    the pool, the say :math:`g` (n,) of the pool, the say :math:`u` (n,) that values which were never seen
    leave, and the class shares :math:`\pi` (c,).

    >>> half = torch.tensor([0.5])
    >>> carried_by_nobody(half, 1.0, half, torch.ones(1), torch.tensor([0.2, 0.8]))
    tensor([[0.1500, 0.6000]])
    """
    lost = say_of_seen * (say * weight * of_background + 1 - say) + 1 - say_of_seen
    return lost[:, None] * prior


def standard_distances(points: Tensor, others: Tensor, unit: float) -> Tensor:
    r"""Distance of points (n, p) from k others each (n, k, p), in standard deviations of a column: (n, k).

    .. math:: \frac{1}{u} \sqrt{\frac{1}{p} \sum_j (x_{ij} - x_{kj})^2}

    with ``unit`` the standard deviation :math:`u` of scaled inputs.

    >>> standard_distances(torch.zeros(1, 2), torch.tensor([[[3.0, 3.0]]]), unit=1.5)
    tensor([[2.]])
    """
    return (points[:, None] - others).square().mean(dim=-1).sqrt() / unit


def column_squares(points: Tensor, others: Tensor) -> Tensor:
    r"""Mean square (n, p) of the difference between points (n, p) and k others each (n, k, p), by column.

    .. math:: \frac{1}{k} \sum_k (x_{ij} - x_{kj})^2

    >>> column_squares(torch.zeros(1, 2), torch.tensor([[[1.0, 0.0], [3.0, 0.0]]]))
    tensor([[5., 0.]])
    """
    return (points[:, None] - others).square().mean(dim=1)
