"""Orthogonal random features: the paper's approximation of the expected kernel."""

import math
from typing import Any

import torch
from torch import Tensor

#: Added to every approximate kernel value, as in the authors' prediction: a row that ReLU sets to zero then
#: shares its neighbours evenly instead of dividing by zero.
FLOOR = 1e-12


def orthogonal_frequencies(
    n_components: int, n_blocks: int, bandwidth: float, generator: torch.Generator
) -> Tensor:
    r"""Frequencies (d, n_blocks * d), float64, whose cosines and sines average to the latent kernel.

    Each block is a random rotation whose d rows get the lengths of Gaussian vectors (Yu et al., 2016), scaled
    by :math:`\sqrt{2 / h}`, the spectral density of :math:`\exp(-\|\delta\|^2 / h)`. The paper has ten
    blocks. The generator is one of the CPU.
    """
    d = n_components
    gaussian = torch.randn(n_blocks, d, d, generator=generator, dtype=torch.float64)
    rotations, upper = torch.linalg.qr(gaussian)
    # Without this sign the rotations of QR are not uniform.
    rotations = rotations * upper.diagonal(dim1=1, dim2=2).sign()[:, None, :]
    lengths = torch.randn(n_blocks, d, d, generator=generator, dtype=torch.float64).norm(dim=2)
    frequencies: Tensor = rotations * lengths[:, None, :]  # one column, one frequency
    return frequencies.permute(1, 0, 2).reshape(d, n_blocks * d) * math.sqrt(2 / bandwidth)


def mean_random_features(embeddings: Tensor, frequencies: Tensor) -> Tensor:
    r"""Mean features (n, 2 f) over particles (m, n, d), whose inner products approximate the expected kernel.

    .. math:: \bar\phi_i = \frac{1}{m} \sum_l \phi(z_{il}), \quad
              \phi(z) = \frac{1}{\sqrt{f}} [\cos(z \Omega), \sin(z \Omega)], \quad
              \phi(z) \cdot \phi(z') \approx k(z, z')

    with the ``frequencies`` :math:`\Omega` (d, f) of :func:`orthogonal_frequencies`. They are of length one
    with one particle, and differentiable once in ``embeddings``.

    >>> mean_random_features(torch.zeros(1, 1, 2), torch.ones(2, 1))
    tensor([[1., 0.]])
    """
    means: Tensor = _MeanFeatures.apply(embeddings, frequencies)  # type: ignore[no-untyped-call]
    return means


class _MeanFeatures(torch.autograd.Function):
    """The backward uses the cosines and sines of the forward."""

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, frequencies: Tensor) -> Tensor:  # noqa: ANN401
        phases = embeddings @ frequencies  # (m, n, f)
        cosines, sines = phases.cos(), phases.sin_()
        ctx.save_for_backward(cosines, sines, frequencies)
        scale = 1 / (len(embeddings) * math.sqrt(frequencies.shape[1]))
        return torch.cat([cosines.sum(dim=0), sines.sum(dim=0)], dim=1).mul_(scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        cosines, sines, frequencies = ctx.saved_tensors
        scale = 1 / (len(cosines) * math.sqrt(frequencies.shape[1]))
        of_cosines, of_sines = (grad * scale).chunk(2, dim=1)
        of_phases = torch.addcmul(cosines * of_sines, sines, of_cosines, value=-1)
        return of_phases @ frequencies.mT, None


def log_approximate_kernel(a: Tensor, b: Tensor, frequencies: Tensor) -> Tensor:
    r"""Log of the paper's approximation of the expected kernel, linear in the number of particles.

    .. math:: K_{ij} \approx \mathrm{ReLU}(\bar\phi_i \cdot \bar\phi_j)

    from particles (m, n_a, d) and (m', n_b, d) to (n_a, n_b), at least ``log(FLOOR)``; see
    :func:`mean_random_features`.
    """
    with torch.autocast(a.device.type, enabled=False):
        mean_a = mean_random_features(a, frequencies)  # (n_a, 2 f)
        mean_b = mean_a if b is a else mean_random_features(b, frequencies)
        return ((mean_a @ mean_b.mT).relu() + FLOOR).log()
