"""Novelty of an input: its distance from the principal subspace of the training inputs."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

#: Share of the variance that the principal directions carry. Residuals are what is left.
SHARE = 0.97
#: In standard deviations of the log residual: up to the first an input is familiar, and at the second the
#: background has as much mass as the examples.
FAMILIAR, NOVEL = 1.0, 3.5
#: Quantile of the residuals from which their spread is estimated, and that quantile of a normal distribution.
_HIGH, _HIGH_DEVIATIONS = 0.95, 1.645
#: Squared distance, as a part of the variance, below which a residual means nothing: 1 % of the width.
_NOISE = 1e-4


class Plane(NamedTuple):
    """Principal subspace of the training inputs, through their centre."""

    centre: Tensor  # (p,)
    directions: Tensor  # (k, p), orthonormal, k less than p
    noise: float  # squared distance from the plane that means nothing


def plane_through(points: Tensor, share: float = SHARE) -> Plane:
    """Principal subspace of training inputs.

    Parameters
    ----------
    points : Tensor of shape (n, p)
        Training inputs.
    share : float
        Keep as many directions as carry this share of the variance, but leave out at least one.

    Returns
    -------
    Plane

    Examples
    --------
    >>> plane_through(torch.tensor([[0.0, 0.0], [3.0, 0.1], [6.0, 0.0]])).directions.abs().round()
    tensor([[1., 0.]])
    """
    centre = points.mean(dim=0)
    _, spreads, directions = torch.linalg.svd(points - centre, full_matrices=False)
    variances = spreads.square()
    # Of a single point the shares are nan, which is not less than anything.
    reached = int((variances.cumsum(dim=0) / variances.sum() < share).sum()) + 1
    k = min(reached, points.shape[1] - 1, len(points) - 1)
    return Plane(centre, directions[:k], float(_NOISE * variances.sum() / len(points)))


def log_residuals(points: Tensor, plane: Plane) -> Tensor:
    r"""Log squared distance of inputs from a plane: (n, p) -> (n,).

    .. math:: \log r_i, \quad r_i = \|(I - V^\top V)(x_i - \mu)\|^2 + \epsilon

    with :math:`\mu` the centre, :math:`V` the directions and :math:`\epsilon` the noise of the plane, so that
    a point in the plane has a finite value too.

    Examples
    --------
    >>> plane = Plane(torch.zeros(2), torch.tensor([[1.0, 0.0]]), noise=0.0)
    >>> log_residuals(torch.tensor([[7.0, 1.0]]), plane)
    tensor([0.])
    """
    centred = points - plane.centre
    residuals = centred - centred @ plane.directions.mT @ plane.directions
    smallest = max(plane.noise, torch.finfo(points.dtype).tiny)
    return (residuals.square().sum(dim=1) + smallest).log()


def held_out_log_residuals(points: Tensor, folds: Tensor) -> Tensor:
    """Log residual of each input from the plane through those of other folds.

    Parameters
    ----------
    points : Tensor of shape (n, p)
        Training inputs.
    folds : Tensor of shape (n,)
        Fold of each; at least two folds.

    Returns
    -------
    Tensor of shape (n,)

    Examples
    --------
    >>> square = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    >>> held_out_log_residuals(square, torch.tensor([0, 0, 1, 1])).exp().round()
    tensor([4., 4., 4., 4.])
    """
    held_out = points.new_empty(len(points))
    for fold in set(folds.tolist()):
        rows = folds == fold
        held_out[rows] = log_residuals(points[rows], plane_through(points[~rows]))
    return held_out


def typical_log_residual(held_out: Tensor) -> tuple[Tensor, Tensor]:
    """Median of held-out log residuals (n,), and the spread of their upper half as a standard deviation.

    The spread is at least .1: equal residuals tell nothing of the next one's rounding.

    Examples
    --------
    >>> typical_log_residual(torch.zeros(5))
    (tensor(0.), tensor(0.1000))
    """
    typical = held_out.quantile(0.5)
    spread = (held_out.quantile(_HIGH) - typical) / _HIGH_DEVIATIONS
    return typical, spread.clamp(min=0.1)


def novelty_depth(typical_mass: float, background: float) -> float:
    r"""Fall of a typical mass :math:`S` in log space at which the background mass :math:`\alpha` equals it.

    .. math:: D = \max(0, \log S - \log \alpha)

    Examples
    --------
    >>> novelty_depth(1.0, 0.5) == math.log(2)
    True
    """
    return max(0.0, math.log(typical_mass) - math.log(background))


def log_familiarity(log_residual: Tensor, typical: float, spread: float, depth: float) -> Tensor:
    r"""Log of the factor by which an unusual residual shrinks the kernel mass of an input.

    .. math:: \log F(x) = -D \max\left(0, \frac{z(x) - z_0}{z_1 - z_0}\right)^2, \quad
              z(x) = \frac{\log r(x) - \tau}{\sigma}

    with :math:`z_0` = 1 and :math:`z_1` = 3.5. It is one for inputs like those of the training, and
    :math:`e^{-D}` at :math:`z_1`.

    Parameters
    ----------
    log_residual : Tensor of shape (n,)
        :math:`\log r(x)`; see :func:`log_residuals`.
    typical, spread : float
        :math:`\tau` and :math:`\sigma`; see :func:`typical_log_residual`.
    depth : float
        :math:`D`; see :func:`novelty_depth`.

    Returns
    -------
    Tensor of shape (n,)

    Examples
    --------
    >>> log_familiarity(torch.tensor([1.0, 3.5, 6.0]), typical=0.0, spread=1.0, depth=5.0)
    tensor([ -0.,  -5., -20.])
    """
    deviations = (log_residual - typical) / spread
    return -depth * ((deviations - FAMILIAR) / (NOVEL - FAMILIAR)).clamp(min=0).square()
