"""The formulas of ``maths`` for many points: fused on a GPU, in tiles elsewhere."""

import math
from collections.abc import Sequence

from torch import Tensor

from pnca.accelerated import features, layers, masses, stein
from pnca.accelerated.features import feature_loss
from pnca.accelerated.problem import InputFactor, MassProblem
from pnca.accelerated.tiles import chunked_class_log_masses
from pnca.maths.stein import parameter_kernel as plain_parameter_kernel

__all__ = [
    "InputFactor",
    "MassProblem",
    "class_log_masses",
    "feature_loss",
    "features",
    "layers",
    "parameter_kernel",
    "stein",
]

#: A prediction whose total mass is below this is computed again in log space.
_TINY = 1e-20


def class_log_masses(
    a: Tensor,
    b: Tensor,
    labels: Tensor,
    n_classes: int,
    bandwidth: float,
    answers: Sequence[slice],
    *,
    background: float = 0.0,
    log_weights: Tensor | None = None,
    leave_one_out: bool = False,
    groups: Tensor | None = None,
    input_factor: InputFactor | None = None,
) -> Tensor:
    r"""Log kernel mass (answers, n_a, c) that each class receives, in memory linear in the number of points.

    .. math:: \log S_{ric} = \log \sum_{j:\, y_j = c} w_{rj} f_{ij} K^r_{ij}, \qquad
              K^r_{ij} = \frac{1}{m_r^2} \sum_{l, l' \in r} e^{-\|a_{li} - b_{l'j}\|^2 / h}

    It equals :func:`pnca.maths.neighbours.class_log_masses` of the kernel matrix, with ``LOG_ZERO`` for a
    class without support. Differentiable once in ``a`` and ``b``.

    Parameters
    ----------
    a, b : Tensor of shape (m, n_a, d) and (m, n_b, d)
        Embeddings of the queries and of the support; ``b`` may be ``a`` itself.
    labels : Tensor of shape (n_b,)
        Integer classes :math:`y_j` of the support, below ``n_classes``.
    bandwidth : float
        The bandwidth :math:`h`.
    answers : sequence of slice
        The particles of each ensemble member :math:`r`: one slice of all for the expected kernel, or slices
        of one where every particle is a member of its own.
    background : float
        The background mass that is added later. With one, masses too small to show beside it may come as
        ``log(SMALLEST)`` in training, which a GPU sums without logarithms.
    log_weights : Tensor of shape (n_b,) or (answers, n_b), optional
        :math:`\log w_{rj}`; zero if absent.
    leave_one_out : bool
        Whether ``a`` and ``b`` are the same examples, of which none gives itself mass.
    groups : Tensor of shape (n_b,), optional
        With ``leave_one_out``: examples of one group do not give each other mass.
    input_factor : InputFactor, optional
        The factor :math:`f_{ij}`; one if absent.

    Examples
    --------
    >>> import torch
    >>> z = torch.tensor([[[0.0], [1.0], [3.0]]])
    >>> class_log_masses(z[:, :1], z[:, 1:], torch.tensor([0, 1]), 2, 1.0, [slice(0, 1)])
    tensor([[[-1., -9.]]])
    """
    problem = MassProblem(
        a, b, labels, n_classes, float(bandwidth), answers, log_weights, leave_one_out, groups, input_factor
    )
    if not (background > 0 and masses.can_be_fused(b, n_classes)):
        return chunked_class_log_masses(problem)
    log_masses = masses.fused_class_log_masses(problem)
    if log_masses.requires_grad or leave_one_out:
        return log_masses
    # Recompute tiny masses in log space; the floor would equalise their evidence.
    tiny = (log_masses.logsumexp(dim=2) < math.log(_TINY)).any(dim=0).nonzero().squeeze(1)
    if len(tiny):
        log_masses[:, tiny] = chunked_class_log_masses(problem.for_queries(tiny))
    return log_masses


def parameter_kernel(particles: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`pnca.maths.stein.parameter_kernel` of particles (m, p), in three launches on a GPU."""
    particles = particles.detach()
    return (stein.parameter_kernel if stein.can_be_fused(particles) else plain_parameter_kernel)(particles)
