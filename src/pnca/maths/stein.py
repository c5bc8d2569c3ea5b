r"""Directions in which a set of particles moves.

A particle :math:`w_l` is a whole parameter vector; ``particles`` stacks m of them as (m, p). The kernel
:math:`\kappa` compares parameter vectors and is not the latent kernel.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

#: From particles (m, p) to the kernel between them (m, m) and its bandwidth ().
ParameterKernel = Callable[[Tensor], tuple[Tensor, Tensor]]

#: Columns of the particles in one product, so that all cores have work.
_GRAM_COLUMNS = 2**16


class Mixing(NamedTuple):
    r"""Directions that are linear in the gradients G and the particles W.

    .. math:: \phi = A\, G + B\, W

    Both matrices are known before the backward pass, which can therefore mix the gradients itself.
    """

    of_gradients: Tensor | None = None  # A, (m, m); None: each particle follows its own gradient
    of_particles: Tensor | None = None  # B, (m, m); None: zero

    def direction(self, particles: Tensor, gradients: Tensor) -> Tensor:
        """The direction (m, p) from W and G, each (m, p)."""
        mixed = gradients if self.of_gradients is None else self.of_gradients @ gradients
        return mixed if self.of_particles is None else mixed.addmm(self.of_particles, particles)


#: Each particle follows its own gradient.
UNMIXED = Mixing()


def median_bandwidth(sq_dist: Tensor) -> Tensor:
    r"""Bandwidth of the parameter kernel by the median heuristic (Liu & Wang, 2016).

    .. math:: h = \mathrm{median}_{i < j} \|w_i - w_j\|^2 / \log m

    so that :math:`\sum_j \kappa(w_i, w_j)` stays near one however many particles there are. From squared
    distances (m, m); infinite, so that the kernel is one, for a single particle and where all coincide.

    >>> median_bandwidth(torch.tensor([[0.0, 4.0], [4.0, 0.0]])) * math.log(2)
    tensor(4.)
    """
    m = sq_dist.shape[0]
    if m == 1:
        return sq_dist.new_tensor(math.inf)
    row, column = torch.triu_indices(m, m, offset=1, device=sq_dist.device)
    # Not torch.median, which takes the lower of two middle values.
    ordered = sq_dist[row, column].sort().values
    bandwidth = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / (2 * math.log(m))
    return torch.where(bandwidth > 0, bandwidth, math.inf)


def parameter_kernel(particles: Tensor) -> tuple[Tensor, Tensor]:
    r"""Kernel (m, m) between particles (m, p), and its :func:`median_bandwidth` ().

    .. math:: \kappa(w_i, w_j) = \exp(-\|w_i - w_j\|^2 / h)

    >>> parameter_kernel(torch.tensor([[0.0], [3.0]]))[0]
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    # Not sq_distances, which centres the points first: two more passes over a large matrix. Distances within
    # the rounding are set to zero instead.
    products = _gram(particles)
    sq_norms = products.diagonal()
    sq_dist = sq_norms[:, None] + sq_norms - 2 * products
    noise = 64 * torch.finfo(particles.dtype).eps * sq_norms.max()
    sq_dist = torch.where(sq_dist > noise, sq_dist, 0.0).fill_diagonal_(0)
    bandwidth = median_bandwidth(sq_dist)
    return torch.exp(-sq_dist / bandwidth), bandwidth


def _gram(particles: Tensor) -> Tensor:
    """Inner products (m, m) of the particles (m, p)."""
    m, p = particles.shape
    n_parts = p // _GRAM_COLUMNS
    if n_parts < 2:
        return particles @ particles.mT
    # One product of so few rows would run on one core.
    n_columns = p // n_parts
    parts = particles[:, : n_parts * n_columns].view(m, n_parts, n_columns).transpose(0, 1)
    rest = particles[:, n_parts * n_columns :]
    return torch.bmm(parts, parts.mT).sum(dim=0).addmm_(rest, rest.mT)


def functional_gradient(particles: Tensor, gradients: Tensor) -> Tensor:
    r"""PNCA's functional gradient (m, p) of a loss of all particles together (the paper's Proposition 1).

    .. math:: \phi(w_i) = \sum_l \kappa(w_i, w_l)\, \nabla_{w_l} L

    from particles and gradients (m, p). It smooths the gradients over the particles, without SVGD's
    repulsion; a descent moves against it.

    >>> functional_gradient(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [0.0]])).flatten()
    tensor([1.0000, 0.5000])
    """
    return functional_mixing(particles).direction(particles, gradients)


def functional_mixing(
    particles: Tensor,
    models: Sequence[slice] = (slice(None),),
    kernel: ParameterKernel = parameter_kernel,
) -> Mixing:
    """:func:`functional_gradient` as a mixing of gradients alone, within the rows of each of the ``models``.

    ``kernel`` is :func:`parameter_kernel`, or what computes the same.
    """
    kernels = [kernel(particles[model])[0] for model in models]
    together: Tensor = kernels[0] if len(kernels) == 1 else torch.block_diag(*kernels)  # type: ignore[no-untyped-call]
    return Mixing(of_gradients=together)


def svgd_direction(particles: Tensor, scores: Tensor, repulsion: float = 1.0) -> Tensor:
    r"""Stein variational direction (m, p): towards the target, and apart (Liu & Wang, 2016).

    .. math:: \phi(w_i) = \frac{1}{m} \sum_j \left[ \kappa(w_j, w_i)\, \nabla_{w_j} \log p(w_j)
              + \rho\, \nabla_{w_j} \kappa(w_j, w_i) \right], \quad
              \nabla_{w_j} \kappa(w_j, w_i) = \frac{2}{h} (w_i - w_j)\, \kappa(w_j, w_i)

    from particles and scores :math:`\nabla \log p(w_l)` of the target density, each (m, p). The factor
    :math:`\rho` is one in SVGD, and minus one in the public code behind the PNCA paper, where particles
    attract each other. An ascent moves along the direction; with no score the particles move apart:

    >>> svgd_direction(torch.tensor([[-1.0], [1.0]]), torch.zeros(2, 1)).sign().flatten()
    tensor([-1.,  1.])
    """
    of_scores, of_particles = _stein_mixing(particles, repulsion)
    return (of_scores @ scores).addmm_(of_particles, particles)


def svgd_posterior_mixing(
    particles: Tensor,
    *,
    n_samples: int,
    prior_precision: float,
    repulsion: float = 1.0,
    kernel: ParameterKernel = parameter_kernel,
) -> Mixing:
    r"""Minus the Stein direction for the posterior over a network's parameters; a descent moves against it.

    The target is :math:`\log p(w \mid D) = -n\, \ell(w) - \frac{\lambda}{2} \|w\|^2 + \text{const}`, with
    ``n_samples`` :math:`n` and ``prior_precision`` :math:`\lambda`. With G the gradients
    :math:`\nabla \ell(w_l)` of the *mean* negative log-likelihood, the direction is that of
    ``-svgd_direction(particles, -n_samples * G - prior_precision * particles, repulsion)``.

    >>> w, g = torch.tensor([[2.0]]), torch.tensor([[0.5]])
    >>> svgd_posterior_mixing(w, n_samples=10, prior_precision=1.0).direction(w, g)
    tensor([[7.]])
    """
    of_scores, of_particles = _stein_mixing(particles, repulsion, kernel)
    return Mixing(n_samples * of_scores, prior_precision * of_scores - of_particles)


def svgd_posterior_mixing_as_published(
    particles: Tensor, *, n_samples: int, prior_precision: float, kernel: ParameterKernel = parameter_kernel
) -> Mixing:
    """:func:`svgd_posterior_mixing` as in the public code behind the paper: attraction, target to the 1/n."""
    precision = prior_precision / n_samples
    return svgd_posterior_mixing(
        particles, n_samples=1, prior_precision=precision, repulsion=-1.0, kernel=kernel
    )


def _stein_mixing(
    particles: Tensor, repulsion: float, kernel: ParameterKernel = parameter_kernel
) -> tuple[Tensor, Tensor]:
    """Matrices (m, m) that multiply the scores, and the particles, in the Stein direction."""
    values, bandwidth = kernel(particles)
    values = values / particles.shape[0]
    return values, (2 * repulsion / bandwidth) * (torch.diag(values.sum(1)) - values)
