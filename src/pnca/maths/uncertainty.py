"""Entropy of an averaged prediction, and the part of it that is disagreement between particles."""

from typing import NamedTuple

from torch import Tensor

from pnca.maths.neighbours import log_mean


class EntropySplit(NamedTuple):
    """Parts of the uncertainty of a prediction, in nats."""

    total: Tensor  # (...), entropy of the averaged probabilities
    aleatoric: Tensor  # (...), mean entropy of the particles' own probabilities
    epistemic: Tensor  # (...), their difference: mutual information of class and particle


def split_entropy(log_probabilities: Tensor) -> EntropySplit:
    r"""Split the entropy of a prediction into its aleatoric and epistemic parts.

    .. math:: \underbrace{H\Big[\frac{1}{m} \sum_l p_l\Big]}_{\text{total}} =
              \underbrace{\frac{1}{m} \sum_l H[p_l]}_{\text{aleatoric}} +
              \underbrace{I[y; l]}_{\text{epistemic}}

    from log class probabilities (m, ..., c) of each particle; the parts are (...), none negative. Of two
    particles that contradict each other, each sure of itself:

    >>> import torch
    >>> split_entropy(torch.tensor([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]).double().log()).epistemic
    tensor(0.6931, dtype=torch.float64)
    """
    total = _entropy(log_mean(log_probabilities))
    # Rounding must not make the rest negative.
    aleatoric = _entropy(log_probabilities).mean(dim=0).minimum(total)
    return EntropySplit(total, aleatoric, total - aleatoric)


def _entropy(log_probabilities: Tensor) -> Tensor:
    # Clamped, because 0 * log 0 is 0 here and not NaN.
    return -(log_probabilities.exp() * log_probabilities.clamp_min(-1e30)).sum(dim=-1).clamp_max(0)
