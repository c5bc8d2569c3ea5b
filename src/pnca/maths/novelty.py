"""What an input has that the training inputs do not: its distance from the directions they vary in."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

#: Share of the variance that the kept directions carry. The rest is what residuals are made of.
SHARE = 0.97
#: In standard deviations of the log residual: up to the first an input is like any other, and at the second
#: the background has as much mass as the examples.
FAMILIAR, FOREIGN = 1.0, 3.5
#: Quantile by which the upper half of the residuals tells their spread, and its place in a normal law.
_HIGH, _HIGH_DEVIATIONS = 0.95, 1.645
#: Squared distance, as a part of the variance, below which a residual means nothing: 1 % of the width.
_NOISE = 1e-4


class Plane(NamedTuple):
    """Where the training inputs are: near a plane through their centre.

    Attributes
    ----------
    centre : Tensor of shape (p,)
    directions : Tensor of shape (k, p)
        Orthonormal, k less than p.
    noise : float
        Squared distance from the plane that means nothing.
    """

    centre: Tensor
    directions: Tensor
    noise: float


def plane_through(points: Tensor, share: float = SHARE) -> Plane:
    """The plane through the centre of the points in the directions in which they vary most.

    Parameters
    ----------
    points : Tensor of shape (n, p)
        Training inputs.
    share : float
        As many directions as carry this share of the variance, but at least one is left out.

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
    r"""Log squared distance from a plane.

    .. math:: \log r_i, \quad r_i = \|(I - V^\top V)(x_i - \mu)\|^2 + \epsilon

    Parameters
    ----------
    points : Tensor of shape (n, p)
        Inputs :math:`x_i`.
    plane : Plane
        Its centre :math:`\mu`, directions :math:`V` and noise :math:`\epsilon`.

    Returns
    -------
    Tensor of shape (n,)
        Finite also for a point in the plane.

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
    """Log residual of each point from the plane through the points in other folds.

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
    """Median of the log residuals and the spread of their upper half, as a standard deviation.

    Parameters
    ----------
    held_out : Tensor of shape (n,)
        See :func:`held_out_log_residuals`.

    Returns
    -------
    typical : Tensor of shape ()
    spread : Tensor of shape ()
        Not zero: residuals that are all alike tell nothing of the next one's rounding.

    Examples
    --------
    >>> typical_log_residual(torch.zeros(5))
    (tensor(0.), tensor(0.1000))
    """
    typical = held_out.quantile(0.5)
    spread = (held_out.quantile(_HIGH) - typical) / _HIGH_DEVIATIONS
    return typical, spread.clamp(min=0.1)


def novelty_depth(typical_mass: float, background: float) -> float:
    r"""How far the log mass of a typical input may fall until the background has as much.

    .. math:: D = \max(0, \log S - \log \alpha)

    Parameters
    ----------
    typical_mass : float
        :math:`S`: mass that an example typically gets.
    background : float
        :math:`\alpha`, positive.

    Returns
    -------
    float

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

    with :math:`z_0` = 1 and :math:`z_1` = 3.5. One for inputs like those of the training. At
    :math:`z_1` typical mass falls by the factor :math:`e^{-D}`.

    Parameters
    ----------
    log_residual : Tensor of shape (n,)
        :math:`\log r(x)`; see :func:`log_residuals`.
    typical, spread : float
        :math:`\tau` and :math:`\sigma`; see :func:`typical_log_residual`.
    depth : float
        :math:`D`: the log of typical mass against the background.

    Returns
    -------
    Tensor of shape (n,)

    Examples
    --------
    >>> log_familiarity(torch.tensor([1.0, 3.5, 6.0]), typical=0.0, spread=1.0, depth=5.0)
    tensor([ -0.,  -5., -20.])
    """
    deviations = (log_residual - typical) / spread
    return -depth * ((deviations - FAMILIAR) / (FOREIGN - FAMILIAR)).clamp(min=0).square()
