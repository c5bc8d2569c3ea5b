"""What is known of the inputs alone: their scale, their distances, and how novel another input is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pnca.maths.kernels import input_factor_weight, log_input_factor, neighbour_scale, sq_distances
from pnca.maths.neighbours import class_log_masses, leave_one_out, log_class_probabilities

#: Standard deviation of scaled inputs: almost all numbers lie between -1 and 1, like grey values.
UNIT = 1 / 3
#: Scaled inputs beyond are equally far away; their squares are still numbers in float32.
_FARTHEST = 1e15
#: Share of the distinct values of a column that must stay distinct when they are rounded to float32.
_DISTINCT = 0.9
#: Inverse widths of the kernel that :func:`neighbour_loss` tries, relative to the neighbour scale.
_WEIGHTS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Share of the variance that the principal directions carry. Residuals are what is left.
SHARE = 0.97
#: In standard deviations of the log residual: up to the first an input is familiar, and at the second the
#: background has as much mass as the examples.
USUAL, NOVEL = 1.0, 3.5
#: Quantile of the residuals from which their spread is estimated, and that quantile of a normal distribution.
_HIGH, _HIGH_DEVIATIONS = 0.95, 1.645
#: Squared distance, as a part of the variance, below which a residual means nothing: 1 % of the width.
_NOISE = 1e-4


@dataclass(frozen=True, eq=False)
class Scaler:
    """Centres and divides inputs; see :func:`column_scale` and :func:`common_scale`."""

    centre: Tensor  # (p,), float64
    spread: Tensor  # (p,), float64

    def apply(self, inputs: Tensor) -> Tensor:
        """Scale inputs (n, p) in float64, where a large offset costs no digits: (n, p), float32."""
        centred = inputs.double() - self.centre.to(inputs.device)
        return (centred / self.spread.to(inputs.device)).clamp(-_FARTHEST, _FARTHEST).float()


def column_scale(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Centre (p,) and divisor (p,) of each column of inputs (n, p), for tables of mixed units.

    The divisor is three standard deviations, or one for a constant column.

    >>> column_scale(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    (tensor([1., 5.]), tensor([3., 1.]))
    """
    centre = inputs.mean(dim=0)
    deviations = inputs - centre
    width = deviations.abs().amax(dim=0)
    spread = width * (deviations / width).square().mean(dim=0).sqrt()  # squares of tiny numbers are zero
    # Rounding can leave a constant column a spread of its own.
    noise = 8 * torch.finfo(inputs.dtype).eps * inputs.abs().amax(dim=0)
    return centre, torch.where(spread > noise, spread / UNIT, 1.0)


def common_scale(inputs: Tensor, *, same_centre: bool = False) -> tuple[Tensor, Tensor]:
    """Centre (p,) and one divisor (p,) for all columns of inputs (n, p), as of pixels or spectra.

    Columns are centred, unless most numbers are zero: zero is then the background and stays. The divisor is
    three times the root mean square of the centred inputs, or one if they are constant. Images have the
    ``same_centre`` in all columns, since augmentation shifts their pixels.

    >>> common_scale(torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    (tensor([0., 0.]), tensor([3., 3.]))
    """
    is_sparse = (inputs == 0).double().mean() > 0.5
    centre = inputs.mean().expand(inputs.shape[1]) if same_centre else inputs.mean(dim=0)
    centre = torch.zeros_like(centre) if is_sparse else centre
    deviations = inputs - centre
    width = deviations.abs().max()
    spread = width * (deviations / width).square().mean().sqrt()
    noise = 8 * torch.finfo(inputs.dtype).eps * inputs.abs().amax()
    spread = torch.where(spread > noise, spread / UNIT, 1.0)
    return centre, spread.expand(inputs.shape[1])


def merged_columns(inputs: Tensor, rounded: Tensor) -> list[int]:
    """Columns of inputs (n, p) of which rounding (n, p) leaves fewer than nine in ten distinct values.

    >>> inputs = torch.tensor([[0.0, 1e9], [1.0, 1e9 + 1], [2.0, 1e9 + 2]], dtype=torch.float64)
    >>> merged_columns(inputs, inputs.float())
    [1]
    """
    before, after = (1 + (part.sort(dim=0).values.diff(dim=0) > 0).sum(dim=0) for part in (inputs, rounded))
    return (after < _DISTINCT * before).nonzero().flatten().tolist()


def neighbour_loss(
    inputs: Tensor, labels: Tensor, n_classes: int, background: float, groups: Tensor | None = None
) -> float:
    r"""Mean leave-one-out loss of a kernel classifier on the inputs themselves, at its best kernel width.

    .. math:: \min_\lambda \; -\frac{1}{n} \sum_i \log p_{i y_i}, \quad
              K_{ij} = \exp\left(\lambda (1 - \|x_i - x_j\|^2 / s)\right)

    with :math:`s` the :func:`pnca.maths.kernels.neighbour_scale`. It compares ways to scale the inputs (n, p)
    of classes ``labels`` (n,). Points of one group (n,) are not each other's neighbours.

    >>> inputs = torch.tensor([[0.0], [1.0], [9.0], [10.0]])
    >>> apart, mixed = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    >>> neighbour_loss(inputs, apart, 2, 0.1) < neighbour_loss(inputs, mixed, 2, 0.1)
    True
    """
    closeness = 1 - sq_distances(inputs, inputs) / neighbour_scale(inputs, groups)
    log_prior = (labels.bincount(minlength=n_classes).to(inputs) / len(labels)).log()
    losses = []
    for weight in _WEIGHTS:
        log_masses = class_log_masses(leave_one_out(weight * closeness, groups), labels, n_classes)
        log_probabilities = log_class_probabilities(log_masses, background, log_prior)
        losses.append(-log_probabilities.gather(1, labels[:, None]).mean().item())
    return min(losses)


@dataclass(frozen=True)
class InputFactor:
    """Factor of the kernel that falls with the distance between the inputs themselves."""

    scale: float  # see pnca.maths.kernels.neighbour_scale
    weight: float  # positive; see pnca.maths.kernels.log_input_factor

    @classmethod
    def fit(cls, inputs: Tensor, groups: Tensor | None, weight: float | None, every: int = 1) -> InputFactor:
        """Measure one in ``every`` scaled inputs (n, ...); a weight that is not given follows from them."""
        points = inputs.flatten(start_dim=1).double()
        scale = neighbour_scale(points, groups, every=every)
        found = float(input_factor_weight(points[::every], scale)) if weight is None else weight
        return cls(float(scale), found)

    def log(self, a: Tensor, b: Tensor) -> Tensor:
        """Log factor (..., n_a, n_b) between inputs (..., n_a, *) and (n_b, *)."""
        n_before = a.dim() - b.dim()
        a, b = a.flatten(start_dim=n_before + 1), b.flatten(start_dim=1)
        return log_input_factor(a, b, self.scale, self.weight)


@dataclass(frozen=True, eq=False)
class Novelty:
    """Factor of the mass of an input that falls with its distance from the plane of the training inputs."""

    plane: Plane  # in float32
    typical: float  # median of the log residuals of held-out training inputs
    spread: float  # of their upper half, as a standard deviation
    depth: float = 0.0  # by how much the log mass falls at a residual that is out of distribution

    @classmethod
    def fit(cls, inputs: Tensor, rows: Tensor, folds: Tensor) -> tuple[Novelty, Tensor]:
        """Find the plane through some rows of the inputs (n, ...), of which these are the folds.

        Returns the factor, its depth still zero, and the log residual (n,) of each input, itself held out.
        """
        inputs = inputs.flatten(start_dim=1)
        points = inputs[rows].double()
        plane = plane_through(points)
        held_out = held_out_log_residuals(points, folds)
        typical, spread = typical_log_residual(held_out)
        # Inputs that are not among the rows are held out already.
        parts = torch.split(inputs, max(1, len(rows)))
        residuals = torch.cat([log_residuals(part.double(), plane) for part in parts])
        residuals[rows] = held_out
        single = Plane(plane.centre.float(), plane.directions.float(), plane.noise)
        return cls(single, float(typical), float(spread)), residuals

    def with_depth(self, typical_mass: float, background: float) -> Novelty:
        """Let typical mass fall to the background's at a residual that is out of distribution."""
        return replace(self, depth=novelty_depth(typical_mass, background))

    def log_of(self, residuals: Tensor) -> Tensor:
        """Log factor (n,) of inputs with these log residuals (n,)."""
        return log_novelty_factor(residuals, self.typical, self.spread, self.depth)

    def log(self, inputs: Tensor) -> Tensor:
        """Log factor (n,) of scaled inputs (n, ...)."""
        return self.log_of(log_residuals(inputs.flatten(start_dim=1), self._plane(inputs)))

    def parts(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Residual (n, p) of scaled inputs (n, ...), and its deviations (n,) from the typical one."""
        points, plane = inputs.flatten(start_dim=1), self._plane(inputs)
        return residual_vectors(points, plane), (log_residuals(points, plane) - self.typical) / self.spread

    def _plane(self, like: Tensor) -> Plane:
        return Plane(self.plane.centre.to(like), self.plane.directions.to(like), self.plane.noise)


class Plane(NamedTuple):
    """Principal subspace of the training inputs, through their centre."""

    centre: Tensor  # (p,)
    directions: Tensor  # (k, p), orthonormal, k less than p
    noise: float  # squared distance from the plane that means nothing


def plane_through(points: Tensor, share: float = SHARE) -> Plane:
    """Principal subspace of inputs (n, p): directions that carry this share of the variance, but not all p.

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

    >>> log_residuals(torch.tensor([[7.0, 1.0]]), Plane(torch.zeros(2), torch.tensor([[1.0, 0.0]]), 0.0))
    tensor([0.])
    """
    residuals = residual_vectors(points, plane)
    smallest = max(plane.noise, torch.finfo(points.dtype).tiny)
    return (residuals.square().sum(dim=1) + smallest).log()


def residual_vectors(points: Tensor, plane: Plane) -> Tensor:
    r"""What the plane leaves of inputs (n, p), column by column: (n, p).

    .. math:: (I - V^\top V)(x_i - \mu)

    >>> residual_vectors(torch.tensor([[7.0, 1.0]]), Plane(torch.zeros(2), torch.tensor([[1.0, 0.0]]), 0.0))
    tensor([[0., 1.]])
    """
    centred = points - plane.centre
    return centred - centred @ plane.directions.mT @ plane.directions


def held_out_log_residuals(points: Tensor, folds: Tensor) -> Tensor:
    """Log residual (n,) of each input (n, p) from the plane through the inputs of the other ``folds`` (n,).

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

    >>> typical_log_residual(torch.zeros(5))
    (tensor(0.), tensor(0.1000))
    """
    typical = held_out.quantile(0.5)
    spread = (held_out.quantile(_HIGH) - typical) / _HIGH_DEVIATIONS
    return typical, spread.clamp(min=0.1)


def novelty_depth(typical_mass: float, background: float) -> float:
    r"""Fall of a typical mass :math:`S` in log space at which the background mass :math:`\alpha` equals it.

    .. math:: D = \max(0, \log S - \log \alpha)
    """
    return max(0.0, math.log(typical_mass) - math.log(background))


def log_novelty_factor(log_residual: Tensor, typical: float, spread: float, depth: float) -> Tensor:
    r"""Log of the factor (n,) by which an unusual residual shrinks the kernel mass of an input.

    .. math:: \log F(x) = -D \max\left(0, \frac{z(x) - z_0}{z_1 - z_0}\right)^2, \quad
              z(x) = \frac{\log r(x) - \tau}{\sigma}

    with :math:`z_0` = 1, :math:`z_1` = 3.5, the :func:`log_residuals` :math:`\log r` (n,), :math:`\tau` and
    :math:`\sigma` from :func:`typical_log_residual`, and the :func:`novelty_depth` :math:`D`. It is one for
    inputs like those of the training, and :math:`e^{-D}` at :math:`z_1`.

    >>> log_novelty_factor(torch.tensor([1.0, 3.5, 6.0]), typical=0.0, spread=1.0, depth=5.0)
    tensor([ -0.,  -5., -20.])
    """
    deviations = (log_residual - typical) / spread
    return -depth * ((deviations - USUAL) / (NOVEL - USUAL)).clamp(min=0).square()
