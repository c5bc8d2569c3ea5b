"""What is known of the inputs alone: their scale, their distances, the plane along which they vary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pnca.maths.kernels import input_factor_weight, log_input_factor, neighbour_scale
from pnca.maths.novelty import (
    Plane,
    held_out_log_residuals,
    log_familiarity,
    log_residuals,
    novelty_depth,
    plane_through,
    typical_log_residual,
)


@dataclass(frozen=True, eq=False)
class Scaler:
    """Centres and divides inputs.

    Attributes
    ----------
    centre, spread : Tensor of shape (p,), float64
        See :func:`pnca.maths.scaling.column_scale` and :func:`pnca.maths.scaling.common_scale`.
    """

    centre: Tensor
    spread: Tensor

    def apply(self, inputs: Tensor) -> Tensor:
        """Scale inputs (n, p): (n, p)."""
        return (inputs - self.centre.to(inputs)) / self.spread.to(inputs)


@dataclass(frozen=True)
class InputFactor:
    """Factor of the kernel that falls with the distance between the inputs themselves.

    Attributes
    ----------
    scale : float
        See :func:`pnca.maths.kernels.neighbour_scale`.
    weight : float
        See :func:`pnca.maths.kernels.log_input_factor`; positive.
    """

    scale: float
    weight: float

    @classmethod
    def fit(cls, inputs: Tensor, groups: Tensor | None, weight: float | None, every: int = 1) -> InputFactor:
        """Measure scaled inputs (n, ...); without a given weight it follows from their distances.

        Of many inputs every so-manieth is enough.
        """
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
    """Factor of the mass of an input that falls with its distance from the plane of the training inputs.

    Attributes
    ----------
    plane : Plane
        In float32.
    typical, spread : float
        Median of the log residuals of held-out training inputs, and the spread of their upper half.
    depth : float
        How far the log mass falls at a residual that is out of distribution.
    """

    plane: Plane
    typical: float
    spread: float
    depth: float = 0.0

    @classmethod
    def fit(cls, inputs: Tensor, rows: Tensor, folds: Tensor) -> tuple[Novelty, Tensor]:
        """Find the plane through some rows of the inputs (n, ...), of which these are the folds.

        Returns the factor, its depth still zero, and the log residual of each input (n,), itself held out.
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
        return log_familiarity(residuals, self.typical, self.spread, self.depth)

    def log(self, inputs: Tensor) -> Tensor:
        """Log factor (n,) of scaled inputs (n, ...)."""
        plane = Plane(self.plane.centre.to(inputs), self.plane.directions.to(inputs), self.plane.noise)
        return self.log_of(log_residuals(inputs.flatten(start_dim=1), plane))
