r"""Directions in which a set of particles moves.

A particle :math:`w_l` is one whole parameter vector; ``particles`` stacks them as (m, p).
The kernel :math:`\kappa` compares parameter vectors and is not the latent kernel.
"""

import math

import torch
from torch import Tensor


def median_bandwidth(sq_dist: Tensor) -> Tensor:
    r"""Bandwidth of the parameter kernel by the median heuristic (Liu & Wang, 2016).

    .. math:: h = \mathrm{median}_{i < j} \|w_i - w_j\|^2 / \log m

    so that :math:`\sum_j \kappa(w_i, w_j)` stays near one however many particles there are.

    Parameters
    ----------
    sq_dist : Tensor of shape (m, m)
        Squared distances between the particles. The zero diagonal does not count.

    Returns
    -------
    Tensor of shape ()
        Infinite for a single particle, and where all particles coincide: the kernel is then
        one everywhere.

    Examples
    --------
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
    r"""Kernel between particles and its median bandwidth.

    .. math:: \kappa(w_i, w_j) = \exp(-\|w_i - w_j\|^2 / h)

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        The parameter vectors :math:`w_l`.

    Returns
    -------
    kernel : Tensor of shape (m, m)
    bandwidth : Tensor of shape ()
        See :func:`median_bandwidth`.

    Examples
    --------
    >>> parameter_kernel(torch.tensor([[0.0], [3.0]]))[0]
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    # Not sq_distances, which centres the points first: two more passes over a large matrix. What rounding
    # leaves between particles that coincide is taken off instead.
    products = particles @ particles.mT
    sq_norms = products.diagonal()
    sq_dist = sq_norms[:, None] + sq_norms - 2 * products
    noise = 64 * torch.finfo(particles.dtype).eps * sq_norms.max()
    sq_dist = torch.where(sq_dist > noise, sq_dist, 0.0).fill_diagonal_(0)
    bandwidth = median_bandwidth(sq_dist)
    return torch.exp(-sq_dist / bandwidth), bandwidth


def functional_gradient(particles: Tensor, gradients: Tensor, out: Tensor | None = None) -> Tensor:
    r"""PNCA's functional gradient of the loss (the paper's Proposition 1).

    .. math:: \phi(w_i) = \sum_l \kappa(w_i, w_l)\, \nabla_{w_l} L

    It smooths the gradients over the particles. There is no repulsion: this is not SVGD.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        The parameter vectors :math:`w_l`.
    gradients : Tensor of shape (m, p)
        :math:`\nabla_{w_l} L`, the loss being a function of all particles.
    out : Tensor of shape (m, p), optional
        Where to write the result: fresh memory for a large matrix costs more than the product.

    Returns
    -------
    Tensor of shape (m, p)
        A descent moves against it.

    Examples
    --------
    >>> functional_gradient(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [0.0]]))
    tensor([[1.0000],
            [0.5000]])
    """
    kernel, _ = parameter_kernel(particles)
    return torch.mm(kernel, gradients, out=out)


def svgd_direction(particles: Tensor, scores: Tensor) -> Tensor:
    r"""Stein variational direction: towards the target, and apart (Liu & Wang, 2016).

    .. math:: \phi(w_i) = \frac{1}{m} \sum_j \left[ \kappa(w_j, w_i)\, \nabla_{w_j} \log p(w_j)
              + \nabla_{w_j} \kappa(w_j, w_i) \right], \quad
              \nabla_{w_j} \kappa(w_j, w_i) = \frac{2}{h} (w_i - w_j)\, \kappa(w_j, w_i)

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        The particles :math:`w_l`.
    scores : Tensor of shape (m, p)
        :math:`\nabla \log p(w_l)` of the target density.

    Returns
    -------
    Tensor of shape (m, p)
        An ascent moves along it.

    Examples
    --------
    With no score the particles move apart:

    >>> svgd_direction(torch.tensor([[-1.0], [1.0]]), torch.zeros(2, 1)).sign()
    tensor([[-1.],
            [ 1.]])
    """
    of_scores, of_particles = _stein_mixing(particles, repulsion=1.0)
    return (of_scores @ scores).addmm_(of_particles, particles)


def svgd_direction_as_published(particles: Tensor, scores: Tensor) -> Tensor:
    """SVGD with the sign of the repulsion reversed, as in the public code behind the PNCA paper.

    Particles attract each other. It is here so that the paper's BNN can be reproduced as it
    was run; use :func:`svgd_direction` for anything else.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        The particles.
    scores : Tensor of shape (m, p)
        Gradients of the log density at the particles.

    Returns
    -------
    Tensor of shape (m, p)
        An ascent moves along it.

    Examples
    --------
    >>> svgd_direction_as_published(torch.tensor([[-1.0], [1.0]]), torch.zeros(2, 1)).sign()
    tensor([[ 1.],
            [-1.]])
    """
    of_scores, of_particles = _stein_mixing(particles, repulsion=-1.0)
    return (of_scores @ scores).addmm_(of_particles, particles)


def svgd_posterior_gradient(
    particles: Tensor,
    gradients: Tensor,
    *,
    n_samples: int,
    prior_precision: float,
    as_published: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    r"""Minus the Stein direction for the posterior over a network's parameters.

    The target is :math:`\log p(w \mid D) = -n\, \ell(w) - \frac{\lambda}{2} \|w\|^2 + \text{const}`.
    Equal to ``-svgd_direction(particles, -n * gradients - prior_precision * particles)``, but
    reads each of the two large matrices once.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        The parameters :math:`w_l`.
    gradients : Tensor of shape (m, p)
        :math:`\nabla \ell(w_l)`, gradients of the *mean* negative log-likelihood.
    n_samples : int
        The number :math:`n` of training examples.
    prior_precision : float
        The precision :math:`\lambda` of the Gaussian prior on every parameter.
    as_published : bool
        Use :func:`svgd_direction_as_published` instead, for the reproduction only.
    out : Tensor of shape (m, p), optional
        Where to write the result.

    Returns
    -------
    Tensor of shape (m, p)
        A descent moves against it.

    Examples
    --------
    >>> w, g = torch.tensor([[2.0]]), torch.tensor([[0.5]])
    >>> svgd_posterior_gradient(w, g, n_samples=10, prior_precision=1.0)
    tensor([[7.]])
    """
    of_scores, of_particles = _stein_mixing(particles, repulsion=-1.0 if as_published else 1.0)
    of_particles = prior_precision * of_scores - of_particles
    return torch.mm(n_samples * of_scores, gradients, out=out).addmm_(of_particles, particles)


def svgd_posterior_gradient_as_published(
    particles: Tensor,
    gradients: Tensor,
    *,
    n_samples: int,
    prior_precision: float,
    out: Tensor | None = None,
) -> Tensor:
    r"""The same as the public code behind the PNCA paper has it, for the reproduction only.

    Particles attract each other, and the target is :math:`\frac{1}{n} \log p(w \mid D)`.

    Parameters
    ----------
    particles, gradients, n_samples, prior_precision, out
        See :func:`svgd_posterior_gradient`.

    Returns
    -------
    Tensor of shape (m, p)
        A descent moves against it.

    Examples
    --------
    >>> w, g = torch.tensor([[2.0]]), torch.tensor([[0.5]])
    >>> svgd_posterior_gradient_as_published(w, g, n_samples=10, prior_precision=1.0)
    tensor([[0.7000]])
    """
    return svgd_posterior_gradient(
        particles,
        gradients,
        n_samples=1,
        prior_precision=prior_precision / n_samples,
        as_published=True,
        out=out,
    )


def _stein_mixing(particles: Tensor, repulsion: float) -> tuple[Tensor, Tensor]:
    """Matrices (m, m) that multiply the scores, and the particles, in the Stein direction."""
    kernel, bandwidth = parameter_kernel(particles)
    kernel = kernel / particles.shape[0]
    return kernel, (2 * repulsion / bandwidth) * (torch.diag(kernel.sum(1)) - kernel)
