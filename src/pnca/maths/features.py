"""Orthogonal random features: the paper's approximation of the expected kernel."""

import math

import torch
from torch import Tensor

#: Added to every approximate kernel value: a row that ReLU has emptied then shares its
#: neighbours evenly, as in the authors' prediction, where a division by zero would give NaN.
FLOOR = 1e-12


def orthogonal_frequencies(
    n_components: int, n_blocks: int, bandwidth: float, generator: torch.Generator
) -> Tensor:
    r"""Frequencies whose cosines and sines average to the latent kernel.

    Each block is a random rotation whose rows get the lengths of Gaussian vectors
    (Yu et al., 2016), scaled by :math:`\sqrt{2 / h}`, the spectral density of
    :math:`\exp(-\|\delta\|^2 / h)`. The paper uses ten blocks.

    Parameters
    ----------
    n_components : int
        The latent dimension :math:`d`.
    n_blocks : int
        Number of orthogonal blocks; there are ``n_blocks * d`` frequencies.
    bandwidth : float
        The bandwidth :math:`h`.
    generator : torch.Generator
        Source of randomness, on the CPU.

    Returns
    -------
    Tensor of shape (d, n_blocks * d), float64
    """
    d = n_components
    gaussian = torch.randn(n_blocks, d, d, generator=generator, dtype=torch.float64)
    rotations, upper = torch.linalg.qr(gaussian)
    # Without this sign QR does not draw rotations evenly.
    rotations = rotations * upper.diagonal(dim1=1, dim2=2).sign()[:, None, :]
    lengths = torch.randn(n_blocks, d, d, generator=generator, dtype=torch.float64).norm(dim=2)
    frequencies: Tensor = rotations * lengths[:, None, :]  # one column, one frequency
    return frequencies.permute(1, 0, 2).reshape(d, n_blocks * d) * math.sqrt(2 / bandwidth)


def random_features(embeddings: Tensor, frequencies: Tensor) -> Tensor:
    r"""Feature vectors whose inner products approximate the latent kernel.

    .. math:: \phi(z) = \frac{1}{\sqrt{f}} [\cos(z \Omega), \sin(z \Omega)], \quad
              \phi(z) \cdot \phi(z') \approx k(z, z')

    Parameters
    ----------
    embeddings : Tensor of shape (..., d)
        The points :math:`z`.
    frequencies : Tensor of shape (d, f)
        The matrix :math:`\Omega`.

    Returns
    -------
    Tensor of shape (..., 2 f)
        Each vector has length one.

    Examples
    --------
    >>> random_features(torch.zeros(1, 2), torch.ones(2, 1))
    tensor([[1., 0.]])
    """
    phases = embeddings @ frequencies
    return torch.cat([phases.cos(), phases.sin()], dim=-1) / math.sqrt(frequencies.shape[1])


def log_approximate_kernel(a: Tensor, b: Tensor, frequencies: Tensor) -> Tensor:
    r"""Logarithm of the paper's approximation of the expected kernel.

    .. math:: K_{ij} \approx \mathrm{ReLU}(\bar\phi_i \cdot \bar\phi_j), \quad
              \bar\phi_i = \frac{1}{m} \sum_l \phi(z_{il})

    The expectation over particles moves inside the inner product, so the cost is linear in
    the particles. ReLU removes negative values, which the kernel itself cannot take.

    Parameters
    ----------
    a : Tensor of shape (m, n_a, d)
        Particles of the first points.
    b : Tensor of shape (m', n_b, d)
        Particles of the second points.
    frequencies : Tensor of shape (d, f)
        See :func:`orthogonal_frequencies`.

    Returns
    -------
    Tensor of shape (n_a, n_b)
        At least ``log(FLOOR)``.
    """
    with torch.autocast(a.device.type, enabled=False):
        mean_a = random_features(a, frequencies).mean(dim=0)  # (n_a, 2 f)
        mean_b = mean_a if b is a else random_features(b, frequencies).mean(dim=0)
        return ((mean_a @ mean_b.mT).relu() + FLOOR).log()
