"""Confidence intervals for the mean of paired differences: two models on the same draws of the data."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from pnca.evaluation._validation import check_count, check_differences, check_fraction, check_same_length


def paired_interval(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of the paired differences a - b, and the ends of its t interval.

    Pairs with NaN are left out; the ends are NaN with fewer than two pairs.

    Parameters
    ----------
    a, b : array-like of shape (r,)
        Values on the same draws.
    level : float, default=0.95
        Confidence level, in (0, 1).

    Examples
    --------
    >>> [round(value, 2) for value in paired_interval(np.array([1.0, 2.0, 3.0]), np.zeros(3))]
    [2.0, -0.48, 4.48]
    """
    first, second = check_differences("a", a), check_differences("b", b)
    check_same_length("a", first, "b", second)
    level = check_fraction("level", level, zero_allowed=False)
    known, mean = _known_and_mean(first - second)
    if len(known) < 2:
        return mean, math.nan, math.nan
    half = stats.t.ppf((1 + level) / 2, len(known) - 1) * stats.sem(known)
    return mean, mean - float(half), mean + float(half)


def bootstrap_interval(
    differences: ArrayLike, level: float = 0.95, n_resamples: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """Mean of paired differences, and the ends of its percentile bootstrap interval.

    No distribution is assumed, but with few differences the interval is too narrow: with ten, about a fifth
    narrower than the t interval. The ends are NaN with fewer than two differences.

    Parameters
    ----------
    differences : array-like of shape (r,)
        One per draw; NaN are left out.
    level : float, default=0.95
        Share of the resampled means inside the interval.
    n_resamples, seed : int
        Number of resamples with replacement, each of size r, and the seed of their generator.

    Examples
    --------
    >>> bootstrap_interval([0.25, 0.25, 0.25])
    (0.25, 0.25, 0.25)
    """
    level = check_fraction("level", level, zero_allowed=False)
    n_resamples = check_count("n_resamples", n_resamples)
    known, mean = _known_and_mean(check_differences("differences", differences))
    if len(known) < 2:
        return mean, math.nan, math.nan
    picked = np.random.default_rng(seed).integers(len(known), size=(n_resamples, len(known)))
    low, high = np.quantile(known[picked].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return mean, float(low), float(high)


def _known_and_mean(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    known = differences[np.isfinite(differences)]
    return known, float(known.mean()) if len(known) else math.nan
