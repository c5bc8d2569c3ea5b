r"""The paper's algorithm, from embeddings to the step of the particles.

Mallick, Dwivedi, Kailkhura, Joshi, Han: *Probabilistic Neighbourhood Component Analysis*.
Training repeats five lines, with ``g`` the network that embeds (see ``pnca.networks``)::

    Z = g(W, X)                                                    # (m, n, d) latent particles
    log_K = log_expected_kernel(Z, Z, bandwidth)                   # Eq. 3, or log_approximate_kernel
    log_p = log_leave_one_out_probabilities(log_K, y, log_prior)   # Eq. 4
    loss = pnca_loss(log_p, y, weights)                            # Eq. 2
    W = W - step_size * functional_gradient(W, d loss / d W)       # Algorithm 1
"""

from torch import Tensor

from pnca.maths.features import log_approximate_kernel
from pnca.maths.kernels import log_expected_kernel
from pnca.maths.neighbours import class_log_masses, leave_one_out, log_class_probabilities
from pnca.maths.stein import functional_gradient

__all__ = [
    "functional_gradient",
    "log_approximate_kernel",
    "log_expected_kernel",
    "log_leave_one_out_probabilities",
    "pnca_loss",
]


def log_leave_one_out_probabilities(
    log_kernel: Tensor,
    labels: Tensor,
    log_prior: Tensor,
    background: float = 0.0,
    log_weights: Tensor | None = None,
    groups: Tensor | None = None,
) -> Tensor:
    r"""Log class probabilities of each training point given all the others.

    .. math:: \log p_{ic} = \log \sum_{j \ne i,\, y_j = c} q_{ij}, \quad
              q_{ij} = \frac{K_{ij}}{\sum_{j' \ne i} K_{ij'}}, \quad q_{ii} = 0

    and the background mass where there is one
    (see :func:`pnca.maths.neighbours.log_class_probabilities`).

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n, n)
        :math:`\log K_{ij}` between the training points; with kernels of single particles, (m, n, n).
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`, all below ``len(log_prior)``.
    log_prior : Tensor of shape (c,)
        :math:`\log \pi_c`, used with a background only.
    background : float
        The background mass :math:`\alpha`; zero is the paper.
    log_weights : Tensor of shape (n,) or (..., 1, n), optional
        Log weights of the points as neighbours.
    groups : Tensor of shape (n,), optional
        Points of one group are not each other's neighbours.

    Returns
    -------
    Tensor of shape (..., n, c)
    """
    n_classes = log_prior.shape[0]
    log_masses = class_log_masses(leave_one_out(log_kernel, groups), labels, n_classes, log_weights)
    return log_class_probabilities(log_masses, background, log_prior)


def pnca_loss(log_probabilities: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    r"""Negative leave-one-out log-likelihood.

    .. math:: L = -\sum_i \omega_i \log p_{i y_i}

    With one particle it is the loss of NCA. A point with no other example of its class has
    nothing to learn from and must come with weight zero.

    Parameters
    ----------
    log_probabilities : Tensor of shape (..., n, c)
        See :func:`log_leave_one_out_probabilities`.
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`.
    weights : Tensor of shape (n,) or (..., n)
        The weights :math:`\omega_i`; all one in the paper.

    Returns
    -------
    Tensor of shape ()
        Summed over leading dimensions too: particles that learn each on its own add up.
    """
    chosen = labels[:, None].expand(*log_probabilities.shape[:-1], 1)
    log_correct = log_probabilities.gather(-1, chosen).squeeze(-1)
    # Points of weight zero may hold log 0, and 0 * log 0 would swamp the sum.
    return -(weights * log_correct.where(weights > 0, 0)).sum()
