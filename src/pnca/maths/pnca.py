r"""The paper's algorithm, from embeddings to the step of the particles.

Mallick, Dwivedi, Kailkhura, Joshi, Han: *Probabilistic Neighbourhood Component Analysis*.
Training repeats five lines, with ``g`` the network that embeds (see ``pnca.networks``)::

    Z = g(W, X)                                              # (m, n, d) latent particles
    log_K = log_expected_kernel(Z, Z, bandwidth)             # Eq. 3, or log_approximate_kernel
    log_q = log_correct_shares(leave_one_out(log_K), y)      # Eq. 4
    loss = pnca_loss(log_q, weights)                         # Eq. 2
    W = W - step_size * functional_gradient(W, d loss / d W) # Algorithm 1
"""

from torch import Tensor

from pnca.maths.features import log_approximate_kernel
from pnca.maths.kernels import log_expected_kernel
from pnca.maths.neighbours import LOG_ZERO, leave_one_out, log_plus
from pnca.maths.stein import functional_gradient

__all__ = [
    "functional_gradient",
    "leave_one_out",
    "log_approximate_kernel",
    "log_correct_shares",
    "log_expected_kernel",
    "pnca_loss",
]


def log_correct_shares(
    log_kernel: Tensor,
    labels: Tensor,
    background: float = 0.0,
    log_prior: Tensor | None = None,
    labels_of_rows: Tensor | None = None,
) -> Tensor:
    r"""Log of the share of kernel mass that each training point gets from its own class.

    .. math:: \log p_i = \log \sum_{j:\, y_j = y_i} q_{ij}, \quad q_{ij} = \frac{K_{ij}}{\sum_{j'} K_{ij'}}

    and with a background mass, where there is one (see
    :func:`pnca.maths.neighbours.log_class_probabilities`),
    :math:`p_i = (\sum_{j: y_j = y_i} K_{ij} + \alpha \pi_{y_i}) / (\sum_j K_{ij} + \alpha)`.

    Parameters
    ----------
    log_kernel : Tensor of shape (..., n, n), or (..., n_a, n)
        :math:`\log K_{ij}`, weighted if points have weights, after
        :func:`pnca.maths.neighbours.leave_one_out`; with kernels of single particles, (m, n, n).
    labels : Tensor of shape (n,)
        Integer classes :math:`y_i`.
    background : float
        The background mass :math:`\alpha`; zero is the paper.
    log_prior : Tensor of shape (c,), optional
        :math:`\log \pi_c`; needed with a background only.
    labels_of_rows : Tensor of shape (n_a,), optional
        Classes of the rows, if these are some of the points only.

    Returns
    -------
    Tensor of shape (..., n), or (..., n_a)

    Examples
    --------
    >>> import torch
    >>> log_K = leave_one_out(torch.zeros(3, 3))
    >>> log_correct_shares(log_K, torch.tensor([0, 0, 1])).exp()
    tensor([0.5000, 0.5000, 0.0000])
    """
    of_rows = labels if labels_of_rows is None else labels_of_rows
    is_other_class = of_rows[:, None] != labels
    log_total = log_kernel.logsumexp(dim=-1)
    log_correct = log_kernel.masked_fill(is_other_class, LOG_ZERO).logsumexp(dim=-1)
    if background > 0 and log_prior is not None:
        log_correct = log_plus(log_correct, background, log_prior[of_rows])
    return log_correct - log_plus(log_total, background)


def pnca_loss(log_correct: Tensor, weights: Tensor) -> Tensor:
    r"""Negative leave-one-out log-likelihood.

    .. math:: L = -\sum_i \omega_i \log p_i

    With one particle it is the loss of NCA. A point with no other example of its class has
    nothing to learn from and must come with weight zero.

    Parameters
    ----------
    log_correct : Tensor of shape (..., n)
        :math:`\log p_i`; see :func:`log_correct_shares`.
    weights : Tensor of shape (n,) or (..., n)
        The weights :math:`\omega_i`; all one in the paper.

    Returns
    -------
    Tensor of shape ()
        Summed over leading dimensions too: particles that learn each on its own add up.
    """
    # Points of weight zero may hold log 0, and 0 * log 0 would swamp the sum.
    return -(weights * log_correct.where(weights > 0, 0)).sum()
