"""Several answers to one question, averaged: the weights of the average are learnt out of fold."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from pnca.maths.neighbours import log_mean

#: Rounds of expectation and maximisation: enough for four digits.
_ROUNDS = 300


class Answers(NamedTuple):
    """What each of k members says of n inputs, and what it counts for."""

    logs: Tensor  # (k, n, c), log class probabilities
    log_weights: Tensor | None = None  # (k, n); None: all count alike

    def mean(self) -> Tensor:
        r"""Log of the averaged probabilities (n, c): :math:`\log \sum_k w_k p_k`.

        >>> halves = torch.tensor([[0.5], [0.5]]).log()
        >>> Answers(torch.tensor([[[0.2, 0.8]], [[0.6, 0.4]]]).log(), halves).mean().exp()
        tensor([[0.4000, 0.6000]])
        """
        if self.log_weights is None:
            return log_mean(self.logs)
        return (self.logs + self.log_weights[..., None]).logsumexp(dim=0)


def pool_weights(likelihoods: Tensor, examples: Tensor, counts: Tensor) -> Tensor:
    r"""Weights (k,) of k answers under which held-out examples are most probable, shrunk by a prior.

    .. math:: \hat w = \arg\max_w \; \sum_i \omega_i \log \sum_k w_k \, p_k(y_i \mid x_i)
              + \sum_k \gamma_k \log w_k, \qquad \sum_k w_k = 1

    from the likelihood (k, n) that each answer gives to the labels of examples of weight :math:`\omega` (n,).
    The second term is a Dirichlet prior, as if answer k had been right :math:`\gamma_k` (k,) times where all
    others were wrong. There is one optimum, and each step of expectation and maximisation comes nearer to it.

    >>> pool_weights(torch.tensor([[0.9, 0.9], [0.1, 0.1]]), torch.ones(2), counts=torch.ones(2))
    tensor([0.7303, 0.2697])
    """
    weights = torch.full_like(likelihoods[:, 0], 1 / len(likelihoods))
    for _ in range(_ROUNDS):
        joint = weights[:, None] * likelihoods
        responsible = joint / joint.sum(dim=0).clamp_min(torch.finfo(joint.dtype).tiny)
        right = responsible @ examples + counts.to(examples)
        weights = right / right.sum()
    return weights


def pooled(answers: Tensor, weights: Tensor, log_prior: Tensor, log_say: Tensor | None) -> Answers:
    r"""Pool k answers (k, n, c) with weights (k,), of which little is left where an input is unfamiliar.

    .. math:: p(c \mid x) = g(x) \sum_k w_k \, p_k(c \mid x) + (1 - g(x)) \, \pi_c

    with the log of the say :math:`g` (n,), one everywhere if None, and the log prior (c,) of the class shares
    :math:`\pi`. The shares are one more member, the last.

    >>> sure, even = torch.tensor([[[0.9, 0.1]]]).log(), torch.tensor([0.5, 0.5]).log()
    >>> pooled(sure, torch.ones(1), even, torch.tensor([0.25]).log()).mean().exp()
    tensor([[0.6000, 0.4000]])
    """
    whole = Answers(answers, weights.to(answers).log()[:, None].expand(answers.shape[:2]))
    return whole if log_say is None else heard(whole, log_say, log_prior)


def heard(answers: Answers, log_say: Tensor, log_prior: Tensor) -> Answers:
    """Answers of which a say (n,) is left, in logs; the log prior (c,) has the rest, as one more member."""
    logs, log_weights = answers
    if log_weights is None:
        log_weights = torch.full_like(logs[..., 0], -math.log(len(logs)))
    of_nobody = torch.log(-torch.expm1(log_say.clamp_max(0)))
    of_shares = log_prior.to(logs).expand(1, *logs.shape[1:])
    return Answers(torch.cat([logs, of_shares]), torch.cat([log_weights + log_say, of_nobody[None]]))


def tempered(log_probabilities: Tensor, temperature: float) -> Tensor:
    r"""Log-probabilities (..., c) divided by a temperature and normalised: :math:`p_c^{1/T}`, up to a factor.

    >>> tempered(torch.tensor([0.8, 0.2]).log(), 0.5).exp()
    tensor([0.9412, 0.0588])
    """
    if not math.isfinite(temperature) or temperature <= 0:
        raise ValueError(f"The temperature is {temperature}.")
    return (log_probabilities / temperature).log_softmax(dim=-1)
