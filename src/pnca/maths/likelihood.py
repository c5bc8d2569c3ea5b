"""Loss of softmax networks, and averages of probabilities."""

from typing import Any

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor, n_samples: int | None = None) -> Tensor:
    r"""Mean negative log-likelihood (m,) of each particle's logits (m, n, c).

    .. math:: \ell_l = -\frac{1}{n} \sum_i \omega_i \log \mathrm{softmax}(f_{il})_{y_i}

    with ``labels`` and ``weights`` (n,). If these points are one shard of ``n_samples``, that is :math:`n`,
    so that results sum over shards.

    >>> cross_entropy(torch.zeros(1, 1, 2), torch.tensor([0]), torch.ones(1)).exp()
    tensor([2.])
    """
    return cross_entropy_and_probabilities(logits, labels, weights, n_samples)[0]


def cross_entropy_and_probabilities(
    logits: Tensor, labels: Tensor, weights: Tensor, n_samples: int | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`cross_entropy` (m,), differentiable once, and class probabilities (m, n, c) without gradient."""
    per_example = weights / (len(labels) if n_samples is None else n_samples)
    losses, probabilities = _CrossEntropy.apply(logits, labels, per_example)  # type: ignore[no-untyped-call]
    return losses, probabilities


class _CrossEntropy(torch.autograd.Function):
    """Four small operations backward instead of autograd's eight."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        log_probabilities = logits.log_softmax(dim=2)
        chosen = labels[None, :, None].expand(len(logits), -1, 1)
        losses = -(log_probabilities.gather(2, chosen).squeeze(2) @ weights)
        probabilities = log_probabilities.exp_()
        ctx.save_for_backward(probabilities, chosen, weights)
        ctx.mark_non_differentiable(probabilities)
        return losses, probabilities

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        probabilities, chosen, weights = ctx.saved_tensors
        errors = probabilities.scatter_add(2, chosen, probabilities.new_full((), -1.0).expand(chosen.shape))
        return errors.mul_((grad[:, None] * weights)[:, :, None]), None, None
