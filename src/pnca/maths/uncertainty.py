"""Entropy of an averaged prediction, and the part of it that is disagreement between particles."""

from typing import NamedTuple

from torch import Tensor

from pnca.maths.pool import Answers


class EntropySplit(NamedTuple):
    """Parts of the uncertainty of a prediction, in nats."""

    total: Tensor  # (...), entropy of the averaged probabilities
    aleatoric: Tensor  # (...), mean entropy of the particles' own probabilities
    epistemic: Tensor  # (...), their difference: mutual information of class and particle


def split_entropy(answers: Answers) -> EntropySplit:
    r"""Split the entropy of a prediction into its aleatoric and epistemic parts.

    .. math:: \underbrace{H\Big[\sum_l w_l p_l\Big]}_{\text{total}} =
              \underbrace{\sum_l w_l H[p_l]}_{\text{aleatoric}} +
              \underbrace{I[y; l]}_{\text{epistemic}}

    from the answers (m, ..., c) of each particle or expert, all of one weight :math:`w_l` = 1 / m if none is
    given; the parts are (...), none negative. Of two particles that contradict each other, each sure of
    itself:

    >>> import torch
    >>> sure = torch.tensor([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]).double()
    >>> split_entropy(Answers(sure.log())).epistemic
    tensor(0.6931, dtype=torch.float64)
    """
    logs, log_weights = answers.logs.double(), answers.log_weights
    total = _entropy(Answers(logs, log_weights).mean())
    of_members = _entropy(logs)
    mean = of_members.mean(dim=0) if log_weights is None else (of_members * log_weights.exp()).sum(dim=0)
    # Rounding must not make the rest negative.
    aleatoric = mean.minimum(total)
    return EntropySplit(total, aleatoric, total - aleatoric)


def _entropy(log_probabilities: Tensor) -> Tensor:
    # Clamped, because 0 * log 0 is 0 here and not NaN.
    return -(log_probabilities.exp() * log_probabilities.clamp_min(-1e30)).sum(dim=-1).clamp_max(0)
