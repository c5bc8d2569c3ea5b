"""Inputs that have something the training inputs do not: they lose kernel mass."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.estimators.base import Examples
from pnca.exceptions import InvalidInputError
from pnca.maths.novelty import (
    Plane,
    held_out_log_residuals,
    log_familiarity,
    log_residuals,
    novelty_depth,
    plane_through,
    typical_log_residual,
)
from pnca.training.batches import spread_rows

#: Rows, and numbers in them, that are enough to find the plane; but not so few that none can be held out.
_MANY_ROWS, _MANY_NUMBERS, _FEWEST_ROWS = 1000, 2**24, 20
#: Folds where the model has none.
_FOLDS = 5


class NoveltyFactor:
    """What neighbour classifiers know of the plane along which their training inputs vary."""

    novelty: bool = False
    input_mean_: NDArray[np.float32]
    input_directions_: NDArray[np.float32]
    input_noise_: float
    typical_log_residual_: float
    log_residual_spread_: float
    novelty_depth_: float

    def _set_plane(self, examples: Examples, folds: NDArray[np.int64] | None) -> Tensor:
        """Find the plane; return the log residual of each training input (n,), itself held out."""
        inputs = torch.from_numpy(examples.inputs).flatten(start_dim=1)
        n_rows = min(_MANY_ROWS, max(_FEWEST_ROWS, _MANY_NUMBERS // inputs.shape[1]))
        picked = spread_rows(len(inputs), n_rows)
        points = inputs[picked].double()
        of_points = torch.from_numpy(_deal(examples) if folds is None else folds)[picked]
        if len(set(of_points.tolist())) < 2:  # one group may have almost all
            of_points = torch.arange(len(points)) % _FOLDS
        plane = plane_through(points)
        held_out = held_out_log_residuals(points, of_points)
        typical, spread = typical_log_residual(held_out)
        self.input_mean_, self.input_directions_ = (a.float().numpy() for a in plane[:2])
        self.input_noise_ = plane.noise
        self.typical_log_residual_, self.log_residual_spread_ = float(typical), float(spread)
        # Those that were not picked are held out already.
        residuals = torch.cat([log_residuals(some.double(), plane) for some in torch.split(inputs, n_rows)])
        residuals[picked] = held_out
        return residuals

    def _set_depth(self, typical_mass: float, background: float) -> None:
        """How far mass may fall: to the background, at a residual that is foreign."""
        self.novelty_depth_ = novelty_depth(typical_mass, background)

    def _log_familiarity_of(self, residuals: Tensor) -> Tensor:
        return log_familiarity(
            residuals, self.typical_log_residual_, self.log_residual_spread_, self.novelty_depth_
        )

    def _log_familiarity(self, inputs: Tensor) -> Tensor:
        """Log of what the novelty of scaled inputs (n, ...) leaves of their kernel mass: (n,)."""
        if not self.novelty:
            return inputs.new_zeros(len(inputs))
        if not hasattr(self, "novelty_depth_"):
            raise InvalidInputError("novelty was set to True after the fit; fit again.")
        centre, directions = (
            torch.from_numpy(a).to(inputs) for a in (self.input_mean_, self.input_directions_)
        )
        plane = Plane(centre, directions, self.input_noise_)
        return self._log_familiarity_of(log_residuals(inputs.flatten(start_dim=1), plane))


def _deal(examples: Examples) -> NDArray[np.int64]:
    """Folds where the model has none: those who belong together stay together."""
    n = len(examples.labels)
    groups = np.arange(n) if examples.groups is None else examples.groups
    n_groups = int(groups.max()) + 1
    folds: NDArray[np.int64] = np.random.RandomState(0).permutation(n_groups)[groups] % min(_FOLDS, n_groups)
    return folds
