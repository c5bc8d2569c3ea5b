"""How far an input lies from every class, and how much say answers keep there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pnca.maths.inputs import typical_log_residual
from pnca.maths.kernels import sq_distances

#: Squared deviations that mean nothing, and the least variance as a part of the mean one: 1 % of the width.
_NOISE = 1e-4
#: From which deviation on answers lose their say, and how much of its log for each further one, where classes
#: lie wholly apart, and for its square.
_NEAR, _SLOPE, _CURVE = 0.25, 0.25, 0.025
#: Classes that are left out, the largest.
_LEFT_OUT = 20


@dataclass(frozen=True, eq=False)
class Say:
    """Say that is left to a pool's answers where an input lies far from every class."""

    shape: ClassShape  # of the classes in the training inputs, in float32
    typical: float  # median of the log distances of held-out training inputs to the nearest class
    spread: float  # of their upper half, as a standard deviation
    apartness: float  # from zero to one, how surely a class tells itself from all others by this distance

    @classmethod
    def fit(cls, inputs: Tensor, labels: Tensor, rows: Tensor, folds: Tensor) -> tuple[Say, Tensor]:
        """Find the shape of classes ``labels`` (n,) by some rows of the inputs (n, ...), in these folds (n,).

        Returns it with the log distance (n,) of each input to the nearest class, itself held out.
        """
        points = inputs.flatten(start_dim=1).double()
        is_row = torch.zeros(len(points), dtype=torch.bool).index_fill_(0, rows, True)
        held_out = points.new_empty(len(points))
        for fold in set(folds.tolist()):
            shown = folds != fold
            shape = class_shape(points[shown], labels[shown], is_row[shown])
            held_out[~shown] = log_class_distances(points[~shown], shape)
        typical, spread = typical_log_residual(held_out)
        shape, apart = (
            class_shape(points, labels, is_row),
            apartness(held_out, _left_out(points, labels, is_row)),
        )
        return cls(shape.to(torch.float32), float(typical), float(spread), apart), held_out

    def log_of(self, log_distances: Tensor) -> Tensor:
        """Log of the say (n,) at these log distances (n,)."""
        return log_say((log_distances - self.typical) / self.spread, self.apartness)

    def parts(self, inputs: Tensor) -> Tensor:
        """What each column has (n, p) in the squared distance of scaled inputs (n, ...) from their class."""
        return class_distance_parts(inputs.flatten(start_dim=1), self.shape.to(inputs))

    def log(self, inputs: Tensor) -> Tensor:
        """Log of the say (n,) for scaled inputs (n, ...)."""
        return self.log_of(log_class_distances(inputs.flatten(start_dim=1), self.shape.to(inputs)))


class ClassShape(NamedTuple):
    """Centres of the classes, and the spread that they have in common."""

    centres: Tensor  # (c, p), of the classes that are there
    directions: Tensor  # (k, p), orthonormal, in which classes spread
    spreads: Tensor  # (k,), standard deviations along them
    beside: Tensor  # (), standard deviation in all other directions

    def to(self, like: torch.dtype | Tensor) -> ClassShape:
        """The same in a type, or in a tensor's type on its device."""
        return ClassShape(*(part.to(like) for part in self))


def class_shape(points: Tensor, labels: Tensor, used: Tensor) -> ClassShape:
    r"""Centres of classes ``labels`` (n,) of points (n, p), and their common covariance by the ``used`` (n,).

    .. math:: \Sigma = (1 - s) \, \frac{1}{n} \sum_i r_i r_i^\top + s \nu I, \quad
              r_i = x_i - \mu_{y_i}, \quad \nu = \frac{1}{n p} \sum_i \|r_i\|^2

    with the share :math:`s` of :func:`shrinkage_share`, so that it has full rank with fewer points than
    columns too.
    """
    present, labels = torch.unique(labels, return_inverse=True)
    counts = labels.bincount().to(points)
    centres = points.new_zeros(len(present), points.shape[1]).index_add_(0, labels, points) / counts[:, None]
    deviations = (points - centres[labels])[used if used.any() else slice(None)]
    _, singular, directions = torch.linalg.svd(deviations, full_matrices=False)
    variances, mean = singular.square() / len(deviations), deviations.square().mean()
    share = shrinkage_share(deviations, variances)
    mean = torch.where(mean > 0, mean, torch.ones_like(mean))  # of classes that are points each
    beside = (share * mean).clamp_min(_NOISE * mean)
    spreads = ((1 - share) * variances + share * mean).maximum(beside)
    return ClassShape(centres, directions, spreads.sqrt(), beside.sqrt())


def shrinkage_share(deviations: Tensor, variances: Tensor) -> Tensor:
    r"""Share that Ledoit and Wolf (2004) give to a multiple of the identity in the covariance: ().

    .. math:: s = \min\left(1, \frac{1}{n} \cdot
              \frac{\frac{1}{n} \sum_i \|r_i\|^4 - \sum_k \lambda_k^2}{\sum_k \lambda_k^2 - p \nu^2}\right)

    from centred points :math:`r` (n, p), the eigenvalues :math:`\lambda` (k,) of their covariance that are
    not zero, and :math:`\nu` the mean of all p.

    >>> square = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.1], [0.0, -0.1]])
    >>> shrinkage_share(square, torch.tensor([0.5, 0.005]))
    tensor(0.5102)
    """
    n, p = deviations.shape
    squares = variances.square().sum()
    apart = squares - p * (variances.sum() / p).square()
    unsure = (deviations.square().sum(dim=1).square().mean() - squares) / n
    return torch.where(apart > unsure, (unsure / apart).clamp(min=0), torch.ones_like(apart))


def log_class_distances(points: Tensor, shape: ClassShape) -> Tensor:
    r"""Log distance of points to the nearest class, in its deviations: (n, p) -> (n,).

    .. math:: \log d_i, \quad d_i^2 = \min_c \, (x_i - \mu_c)^\top \Sigma^{-1} (x_i - \mu_c) + \epsilon

    >>> directions, spreads = torch.tensor([[1.0, 0.0]]), torch.tensor([10.0])
    >>> shape = ClassShape(torch.zeros(1, 2), directions, spreads, beside=torch.tensor(1.0))
    >>> log_class_distances(torch.tensor([[10.0, 0.0], [0.0, 10.0]]), shape).exp().round()
    tensor([ 1., 10.])
    """
    a, b = (_in_deviations(part, shape) for part in (points, shape.centres))
    squares = sq_distances(a, b).amin(dim=1)
    return (squares + _NOISE).log() / 2


def class_distance_parts(points: Tensor, shape: ClassShape) -> Tensor:
    r"""What each column has in the squared distance from the nearest class: (n, p) -> (n, p).

    .. math:: \delta_{ij} \, (\Sigma^{-1} \delta_i)_j, \quad \delta_i = x_i - \mu_{c(i)}

    They add up to :math:`d_i^2` without its :math:`\epsilon`; a part is negative where a column lies as its
    neighbours would have it and they do not.

    >>> directions, spreads = torch.tensor([[1.0, 0.0]]), torch.tensor([10.0])
    >>> shape = ClassShape(torch.zeros(1, 2), directions, spreads, beside=torch.tensor(1.0))
    >>> class_distance_parts(torch.tensor([[10.0, 3.0]]), shape)
    tensor([[1., 9.]])
    """
    a, b = (_in_deviations(part, shape) for part in (points, shape.centres))
    apart = points - shape.centres[sq_distances(a, b).argmin(dim=1)]
    along = apart @ shape.directions.mT
    beside = (apart - along @ shape.directions) / shape.beside.square()
    return apart * ((along / shape.spreads.square()) @ shape.directions + beside)


def _in_deviations(points: Tensor, shape: ClassShape) -> Tensor:
    """Points (n, p) as deviations along the directions and beside them: (n, k + p)."""
    along = points @ shape.directions.mT
    beside = points - along @ shape.directions
    return torch.cat([along / shape.spreads, beside / shape.beside], dim=1)


def _left_out(points: Tensor, labels: Tensor, used: Tensor) -> Tensor:
    """Log distances of the points of each class to the nearest other one, as if theirs were not known."""
    largest = labels.bincount().argsort(descending=True, stable=True)[:_LEFT_OUT].tolist()
    if len(set(labels.tolist())) < 2:
        return points.new_empty(0)
    found = []
    for own in (labels == label for label in largest):
        if own.any():
            found.append(
                log_class_distances(points[own], class_shape(points[~own], labels[~own], used[~own]))
            )
    return torch.cat(found)


def apartness(known: Tensor, unknown: Tensor) -> float:
    r"""How surely points of unknown classes lie farther out than held-out points of known ones.

    .. math:: A = \max(0, \; P(d_u > d_k) - P(d_u < d_k))

    from their distances (n,) and (n',): twice the area under the ROC curve less one.

    >>> apartness(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 3.0]))
    0.5
    """
    ordered = known.sort().values
    below, not_above = (torch.searchsorted(ordered, unknown, right=right) for right in (False, True))
    wins, losses = below.double(), len(known) - not_above.double()
    return max(0.0, float((wins - losses).mean()) / len(known)) if len(unknown) else 0.0


def log_say(deviations: Tensor, apartness: float) -> Tensor:
    r"""Log of the say :math:`g` (n,) that answers keep so many deviations (n,) out.

    .. math:: \log g(x) = -\frac{u(x)}{4} \Big( A^2 + \frac{u(x)}{10} \Big), \quad
              u = \max\left(0, z - \tfrac14\right), \quad z(x) = \frac{\log d(x) - \tau}{\sigma}

    with :math:`\tau, \sigma` from :func:`typical_log_residual` and :math:`A` the :func:`apartness`:
    where one class does not lie apart from the others, distance cannot tell a class that was never seen
    either, and little likelihood is spent on it. Far away the say falls faster than a power of the distance.

    >>> log_say(torch.tensor([1.0, 2.25, 10.25]), apartness=1.0).exp()
    tensor([0.8175, 0.5488, 0.0067])
    """
    beyond = (deviations - _NEAR).clamp(min=0)
    return -beyond * (_SLOPE * apartness**2 + _CURVE * beyond)
