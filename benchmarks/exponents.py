"""Powers by which a cost grows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class GrowthLaw:
    """A line through logarithms.

    Attributes
    ----------
    exponent, error : float
        Slope and its standard error; the error is NaN with two points.
    at_end : float
        Slope between the last two points, where the part that grows fastest shows most.
    """

    exponent: float
    error: float
    at_end: float


def growth_law(sizes: Sequence[float], costs: Sequence[float]) -> GrowthLaw | None:
    r"""Fit :math:`\log \text{cost} = a + b \log \text{size}` by least squares.

    Parameters
    ----------
    sizes, costs : sequence of float
        Points; those with a cost that is not positive are left out.

    Returns
    -------
    GrowthLaw or None
        None with fewer than two sizes.

    Examples
    --------
    >>> round(growth_law([1, 2, 4], [3, 12, 48]).exponent, 6)
    2.0
    """
    points = sorted((size, cost) for size, cost in zip(sizes, costs, strict=True) if size > 0 and cost > 0)
    if len({size for size, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points, dtype=np.float64)).T
    centred = x - x.mean()
    exponent = float(centred @ y / (centred @ centred))
    residuals = y - y.mean() - exponent * centred
    n_free = len(x) - 2
    error = float(np.sqrt(residuals @ residuals / n_free / (centred @ centred))) if n_free else float("nan")
    steps = np.flatnonzero(np.diff(x) > 0)
    last = int(steps[-1])
    at_end = float((y[last + 1] - y[last]) / (x[last + 1] - x[last]))
    return GrowthLaw(exponent=exponent, error=error, at_end=at_end)
