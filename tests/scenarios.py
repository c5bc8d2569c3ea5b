"""Small problems for the tests: random clouds of particles, and targets with known answers."""

import torch
from torch import Tensor

DTYPE = torch.float64


def cloud(m: int, n: int, d: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Random particles of shape (m, n, d)."""
    return scale * torch.randn(m, n, d, generator=torch.Generator().manual_seed(seed), dtype=DTYPE)


def labels(n: int, n_classes: int, seed: int = 0) -> Tensor:
    """Labels in which every class has at least two members."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return (torch.arange(n) % n_classes)[order]


def particles_and_scores(m: int, p: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    both = torch.randn(2, m, p, generator=torch.Generator().manual_seed(seed), dtype=DTYPE)
    return both[0], both[1]


def skewed_log_density(w: Tensor) -> Tensor:
    """An asymmetric target, the log of a Gamma(3, 1) variable: mean digamma(3), variance trigamma(3)."""
    return 3 * w - w.exp()


def two_blobs(n: int = 40, d: int = 4, seed: int = 0) -> tuple:
    """Two well separated classes, as numpy arrays."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    x = torch.randn(n, d, generator=generator) + 4 * y[:, None]
    return x.numpy(), y.numpy()
