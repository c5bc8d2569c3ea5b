"""Intervals for a share of right answers, and for a mean."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from pnca.calibration.arguments import check_share
from pnca.evaluation._validation import check_correct, check_differences
from pnca.training.sampling import numbered_groups


def share_interval(
    correct: ArrayLike, groups: ArrayLike | None = None, level: float = 0.95
) -> tuple[float, float, float]:
    r"""Share of right answers, and the ends of its interval (Wilson's score).

    .. math:: \frac{\hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} + \frac{z^2}{4 n^2}}}
              {1 + \frac{z^2}{n}}

    With groups n is the number of independent answers that would vary as much as these,
    :math:`\hat p (1 - \hat p) / v` with :math:`v = \frac{G}{G - 1} n^{-2} \sum_g \big( \sum_{i \in g} (c_i -
    \hat p) \big)^2`, at most the number of answers, and the number of groups G where they do not vary.

    Parameters
    ----------
    correct : array-like of bool, shape (n,)
        Whether each answer :math:`c_i` is right.
    groups : array-like of shape (n,), optional
        Equal for answers that are not independent.
    level : float, default=0.95
        Confidence level, in (0, 1).

    Examples
    --------
    >>> [round(end, 3) for end in share_interval([True] * 95 + [False] * 5)]
    [0.95, 0.888, 0.978]
    """
    right, level = check_correct(correct).astype(np.float64), check_share("level", level)
    share, n = float(right.mean()), float(len(right))
    if groups is not None:
        n = _independent(right - share, numbered_groups(groups, len(right)), share)
    z = float(stats.norm.ppf((1 + level) / 2))
    middle = share + z**2 / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)
    return share, max(0.0, low), min(1.0, high)


def mean_interval(
    values: ArrayLike, groups: ArrayLike | None = None, level: float = 0.95
) -> tuple[float, float, float]:
    r"""Mean of values, and the ends of its t interval.

    .. math:: \bar v \pm t_{G - 1} \sqrt{\frac{G}{G - 1} \, \frac{1}{n^2}
              \sum_g \Big( \sum_{i \in g} (v_i - \bar v) \Big)^2}

    with G groups, or without them G = n. The ends are NaN where there is only one.

    Parameters
    ----------
    values : array-like of shape (n,)
        Such as differences between two models, by example.
    groups : array-like of shape (n,), optional
        Equal for values that are not independent.
    level : float, default=0.95
        Confidence level, in (0, 1).

    Examples
    --------
    >>> [round(end, 2) for end in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    found, level = check_differences("values", values), check_share("level", level)
    mean, n = float(found.mean()), len(found)
    numbers = np.arange(n) if groups is None else numbered_groups(groups, n)
    sums = np.bincount(numbers, weights=found - mean)
    n_groups = len(sums)
    if n_groups < 2:
        return mean, math.nan, math.nan
    error = math.sqrt(n_groups / (n_groups - 1) * float((sums**2).sum())) / n
    half = float(stats.t.ppf((1 + level) / 2, n_groups - 1)) * error
    return mean, mean - half, mean + half


def _independent(deviations: NDArray[np.float64], groups: NDArray[np.int64], share: float) -> float:
    """Independent answers that would vary as much."""
    sums, n_groups, n = np.bincount(groups, weights=deviations), groups.max() + 1, len(deviations)
    if n_groups < 2:
        return 1.0
    variance = n_groups / (n_groups - 1) * float((sums**2).sum()) / n**2
    return float(n_groups if variance <= 0 else np.clip(share * (1 - share) / variance, 1, n))
