"""The paper's loss with random features on a GPU: four launches instead of torch's sixty."""

import math
from typing import Any

import torch
from torch import Tensor

from pnca.accelerated.compiler import power_of_two, takes_kernels
from pnca.maths.features import FLOOR

#: Longest feature vector that one program holds.
_MOST = 4096
#: Numbers of other vectors that it loads at once.
_AT_ONCE = 2**13


def can_be_fused(embeddings: Tensor, frequencies: Tensor, n_classes: int) -> bool:
    """Whether the kernels take these clouds (m, n, d), frequencies (d, f) and classes."""
    n, f = embeddings.shape[1], frequencies.shape[1]
    return (
        takes_kernels(embeddings)
        and 2 * f <= _MOST
        and n_classes <= 256
        and max(n * n, 2 * n * f, embeddings.numel()) < 2**31  # addresses
    )


def feature_loss(
    embeddings: Tensor,
    frequencies: Tensor,
    labels: Tensor,
    log_factor: Tensor,
    learns: Tensor,
    background: float,
    log_prior: Tensor,
) -> tuple[Tensor, Tensor]:
    """Loss () with the kernel that random features approximate, and how many points are classified correctly.

    It equals :func:`pnca.maths.pnca.pnca_loss` of the shares of
    :func:`pnca.maths.features.log_approximate_kernel` plus ``log_factor`` (n, n), where log 0 excludes a
    pair, for embeddings (m, n, d), frequencies (d, f), ``labels`` (n,), weights ``learns`` (n,), and a
    background mass (zero in the paper) with its log class shares (c,). Differentiable once in ``embeddings``.
    """
    tensors = (t.contiguous() for t in (frequencies, labels, log_factor, learns, log_prior))
    loss, n_correct = _FeatureLoss.apply(embeddings.contiguous(), background, *tensors)  # type: ignore[no-untyped-call]
    return loss, n_correct


class _FeatureLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, background: float, *tensors: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        from pnca.accelerated import _step_kernels

        frequencies, labels, log_factor, learns, log_prior = tensors
        (m, n, d), f = embeddings.shape, frequencies.shape[1]
        features = embeddings.new_empty(n, 2 * f)
        scale = 1 / (m * math.sqrt(f))
        _step_kernels.mean_features[(n,)](
            embeddings, frequencies, features, n, m, f, scale, D=d, F=power_of_two(f, least=2)
        )
        of_rows = embeddings.new_empty(4, n)
        losses, is_correct, own, total = of_rows
        width = power_of_two(2 * f, least=2)
        _step_kernels.row_masses[(n,)](
            features, labels, log_factor, learns, log_prior, losses, is_correct, own, total,
            n, 2 * f, len(log_prior), background, FLOOR,
            W=width, BJ=_AT_ONCE // width, C=power_of_two(len(log_prior), least=2),
        )  # fmt: skip
        loss, n_correct = of_rows[:2].sum(dim=1).unbind()
        ctx.save_for_backward(embeddings, frequencies, labels, log_factor, features, own, total)
        ctx.mark_non_differentiable(n_correct)
        ctx.set_materialize_grads(False)
        return loss, n_correct

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        from pnca.accelerated import _step_kernels

        embeddings, frequencies, labels, log_factor, features, own, total = ctx.saved_tensors
        (m, n, d), f = embeddings.shape, frequencies.shape[1]
        slopes, width = torch.empty_like(features), power_of_two(2 * f, least=2)
        _step_kernels.feature_slopes[(n,)](
            features, labels, log_factor, own, total, slopes, n, 2 * f, W=width, BJ=_AT_ONCE // width
        )
        out, scale = torch.empty_like(embeddings), 1 / (m * math.sqrt(f))
        _step_kernels.latent_slopes[(n, m)](
            embeddings, frequencies, slopes, grad, out, n, f, scale, D=d, F=power_of_two(f, least=2)
        )
        return out, None, None, None, None, None, None
