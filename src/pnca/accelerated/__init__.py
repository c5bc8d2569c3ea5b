"""The same as in ``maths``, for many points: fused on a GPU, in tiles elsewhere."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pnca.accelerated import features, layers, masses, stein
from pnca.accelerated.features import feature_loss
from pnca.maths.masses import InputFactor, chunked_class_log_masses
from pnca.maths.stein import parameter_kernel as plain_parameter_kernel

__all__ = [
    "InputFactor",
    "class_log_masses",
    "feature_loss",
    "features",
    "is_worth_while",
    "layers",
    "parameter_kernel",
    "stein",
]

#: Pairs of points, over all answers, from which tiles are faster than the whole kernel, and in less memory.
#: Measured with benchmarks/cpu_masses.py: equal at 2 ** 18 or before, two to four times faster here. On a GPU
#: a step with the whole kernel can be recorded, which pays until it takes gigabytes.
WORTH_WHILE, WORTH_WHILE_ON_GPU = 2**20, 2**26

#: Where a point's mass in all classes is below this, a prediction is made again in log space.
_FAINT = 1e-20


def is_worth_while(n_answers: int, n_points: int, device: torch.device) -> bool:
    """Whether class masses should come from :func:`class_log_masses` rather than from the whole kernel.

    Parameters
    ----------
    n_answers : int
        Number of kernels: teams of particles, or particles that answer on their own.
    n_points : int
        Number n of the points that give mass. Those that ask are as many in training; in prediction their
        number must not decide, lest an answer depend on who else asks.
    device : torch.device
        Where they are.

    Returns
    -------
    bool
    """
    return n_answers * n_points**2 > (WORTH_WHILE_ON_GPU if device.type == "cuda" else WORTH_WHILE)


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
    r"""Log kernel mass that each class receives, in memory linear in the number of points.

    .. math:: \log S_{ric} = \log \sum_{j:\, y_j = c} w_{rj} f_{ij} K^r_{ij}

    Parameters
    ----------
    a, b, labels, n_classes, bandwidth, answers, log_weights, leave_one_out, groups, input_factor
        See :func:`pnca.maths.masses.chunked_class_log_masses`.
    background : float
        The background mass the result meets. If there is one, masses so small that they do not show beside
        it may come as ``log(SMALLEST)`` in training, and the sums need no logarithms.

    Returns
    -------
    Tensor of shape (answers, n_a, c)
        Differentiable once in ``a`` and ``b``.
    """
    is_fused = background > 0 and masses.can_be_fused(b, n_classes)
    log_masses = (masses.fused_class_log_masses if is_fused else chunked_class_log_masses)(
        a,
        b,
        labels,
        n_classes,
        bandwidth,
        answers,
        log_weights=log_weights,
        leave_one_out=leave_one_out,
        groups=groups,
        input_factor=input_factor,
    )
    if not is_fused or log_masses.requires_grad or leave_one_out:
        return log_masses
    # How far a foreign input is, its evidence says: there the floor would make all of them equal.
    faint = (log_masses.logsumexp(dim=2) < math.log(_FAINT)).any(dim=0).nonzero().squeeze(1)
    if len(faint):
        factor = None if input_factor is None else input_factor._replace(a=input_factor.a[faint])
        log_masses[:, faint] = chunked_class_log_masses(
            a[:, faint],
            b,
            labels,
            n_classes,
            bandwidth,
            answers,
            log_weights=log_weights,
            input_factor=factor,
        )
    return log_masses


def parameter_kernel(particles: Tensor) -> tuple[Tensor, Tensor]:
    """The same as :func:`pnca.maths.stein.parameter_kernel`, in three launches on a GPU.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        The parameter vectors.

    Returns
    -------
    kernel : Tensor of shape (m, m)
    bandwidth : Tensor of shape ()
    """
    particles = particles.detach()
    return (stein.parameter_kernel if stein.can_be_fused(particles) else plain_parameter_kernel)(particles)
