"""How sure a mean of paired differences is: two models on the same draws."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def paired_interval(
    a: NDArray[np.float64], b: NDArray[np.float64], level: float = 0.95
) -> tuple[float, float, float]:
    """Mean of the paired differences a - b, and its t interval.

    Parameters
    ----------
    a, b : ndarray of shape (r,)
        Values on the same draws.
    level : float
        Its confidence level.

    Returns
    -------
    mean, low, high : float
        The ends are NaN with fewer than two pairs.

    Examples
    --------
    >>> [round(value, 2) for value in paired_interval(np.array([1.0, 2.0, 3.0]), np.zeros(3))]
    [2.0, -0.48, 4.48]
    """
    difference = _known(np.asarray(a) - np.asarray(b))
    mean = float(difference.mean()) if len(difference) else float("nan")
    if len(difference) < 2:
        return mean, float("nan"), float("nan")
    half = stats.t.ppf((1 + level) / 2, len(difference) - 1) * stats.sem(difference)
    return mean, mean - float(half), mean + float(half)


def bootstrap_interval(
    differences: ArrayLike, level: float = 0.95, n_resamples: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """Mean of paired differences, and the percentile bootstrap interval of that mean.

    The differences are drawn again with replacement, as many as there are; the interval holds the middle
    of the means of such resamples. It supposes no distribution, but of few differences it is narrow: of
    ten, about a fifth narrower than the t interval.

    Parameters
    ----------
    differences : array-like of shape (r,)
        One a draw; NaN are left out.
    level : float
        Share of the resampled means that the interval holds.
    n_resamples : int
        How many resamples.
    seed : int
        Of the resampling: the same differences have the same interval.

    Returns
    -------
    mean, low, high : float
        The ends are NaN with fewer than two differences.

    Examples
    --------
    >>> bootstrap_interval([0.25, 0.25, 0.25])
    (0.25, 0.25, 0.25)
    """
    known = _known(np.asarray(differences, dtype=np.float64))
    mean = float(known.mean()) if len(known) else float("nan")
    if len(known) < 2:
        return mean, float("nan"), float("nan")
    picked = np.random.default_rng(seed).integers(len(known), size=(n_resamples, len(known)))
    low, high = np.quantile(known[picked].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return mean, float(low), float(high)


def _known(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    return differences[np.isfinite(differences)]
