"""Whether a batch of inputs as a whole is unlike the training data, and which columns moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, stdtr

from pnca.calibration.conformal import FloatArray, IntArray, members, unit_weights

_LARGEST_SHOWN = 5
#: The final model's evidence of new inputs differs a little from that of fold models: without drift the share
#: was .50 to .54 in the mean over draws of a data set (benchmarks/decisions.py). This much is no drift.
TOLERANCE = 0.05
#: A p-value below which a summary calls it drift; and below which nobody who did not ask is told of it.
_UNLIKELY, _CLEAR = 0.05, 0.001


class RankTest(NamedTuple):
    """Whether new scores are lower than calibration scores."""

    share: float  # probability that a new score is lower than a calibration score; ties count half
    p_value: float  # one-sided


class ColumnDrift(NamedTuple):
    """How far a column of a batch lies from the training data."""

    name: Any
    statistic: float  # largest difference of the distribution functions, from zero to one
    p_value: float  # corrected for the number of columns


@dataclass(frozen=True, repr=False)
class Drift:
    """Whether a batch is less familiar than the training data.

    Attributes
    ----------
    p_value : float
        Of the rank test, one-sided: small where the share is above .55 for certain. Shares up to that are
        put down to the difference between the model and its fold models.
    share : float
        Probability that an input of the batch has less evidence than a training example: without drift one
        half.
    n : int
        Inputs in the batch.
    columns : tuple of ColumnDrift
        Columns by their p-value, the smallest first, corrected for their number (Holm); then by how far they
        moved.
    note : str
        Why there are no columns; empty where there are.
    """

    p_value: float
    share: float
    n: int
    columns: tuple[ColumnDrift, ...] = ()
    note: str = ""

    def __repr__(self) -> str:
        return f"<Drift: {self.summary()}>"

    def summary(self) -> str:
        """Say in a sentence or two whether the batch is less familiar, and which columns moved."""
        verdict = "less familiar than" if self.p_value < _UNLIKELY else "not shown to be less familiar than"
        text = (
            f"the {self.n} inputs are {verdict} the training examples (p = {self.p_value:.2g}); an input has "
            f"less evidence than a training example with probability {self.share:.2f}"
        )
        if self.note:
            return f"{text}. {self.note}"
        moved = [column for column in self.columns if column.p_value < _UNLIKELY]
        if not moved:
            return f"{text}. No column moved for certain"
        shown = ", ".join(f"{c.name} (p = {c.p_value:.2g})" for c in moved[:_LARGEST_SHOWN])
        more = f", and {len(moved) - _LARGEST_SHOWN} more" if len(moved) > _LARGEST_SHOWN else ""
        return f"{text}. Moved: {shown}{more}"

    @property
    def is_clear(self) -> bool:
        """Whether the batch is unlike the training data beyond doubt: a p-value is below .001."""
        return min([self.p_value, *(column.p_value for column in self.columns)]) < _CLEAR

    def warning(self) -> str:
        """Say that promises do not hold for this batch, which is clearly unlike the training data."""
        moved = [repr(column.name) for column in self.columns if column.p_value < _CLEAR]
        how = "its inputs are less familiar"
        if moved:
            n_more = len(moved) - _LARGEST_SHOWN
            how = f"in column{'s' * (len(moved) > 1)} {', '.join(moved[:_LARGEST_SHOWN])}"
            how += f" and {n_more} more" * (n_more > 0)
        return (
            f"The batch as a whole is unlike the training data ({how}), so the promise does not hold for it"
        )


def batch_drift(
    calibration: FloatArray,
    evidence: FloatArray,
    compared: tuple[FloatArray, FloatArray, Sequence[Any]] | str,
    groups: IntArray | None = None,
    new_groups: IntArray | None = None,
) -> Drift:
    """Compare a batch with the training examples: evidence, and columns where there are some.

    Parameters
    ----------
    calibration, evidence : ndarray of shape (n,) and (n',)
        Evidence of the training examples out of fold, and of the batch.
    compared : tuple or str
        Training inputs (n, q), those of the batch (n', q) and the column of each number; or why there are
        none. groups, new_groups : ndarray of int, optional
        Groups of either.
    """
    found = rank_test(calibration, evidence, groups, new_groups, TOLERANCE)
    if isinstance(compared, str):
        return Drift(found.p_value, found.share, len(evidence), note=compared)
    columns = column_drift(*compared, groups, new_groups)
    return Drift(found.p_value, found.share, len(evidence), columns)


def rank_test(
    calibration: FloatArray,
    scores: FloatArray,
    groups: IntArray | None = None,
    new_groups: IntArray | None = None,
    tolerance: float = 0.0,
) -> RankTest:
    r"""Test whether new scores tend to be lower than calibration scores, by more than a tolerance.

    .. math:: \theta = \frac{1}{n n'} \sum_{i, j} \Big( 1[s'_j < s_i] + \tfrac12 \, 1[s'_j = s_i] \Big)

    is one half without drift. Without groups this is the test of Mann and Whitney (1947): given the pooled
    scores every choice of n' of them is as likely, so it does not matter that all p-values of a batch share
    their calibration examples. With groups both samples are of independent groups whose members are not: each
    member is placed among the other sample, the placements are averaged within groups, and
    :math:`\theta` is compared with one half by the t-test of Brunner and Munzel (2000). That is of large
    samples; below about ten groups on either side it is a guide.

    Parameters
    ----------
    calibration, scores : ndarray of shape (n,) and (n',)
        Scores, larger where more usual.
    groups, new_groups : ndarray of int, shape (n,) and (n',), optional
        Groups of either; without them each example is one.
    tolerance : float
        By how much :math:`\theta` may exceed one half where there is no drift. Above zero, the t-test is
        for one half plus this, and without groups the larger p-value of both tests counts.

    Examples
    --------
    >>> rank_test(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 2.5]))
    RankTest(share=1.0, p_value=0.05)
    """
    weights, new_weights = (unit_weights(len(s), g) for s, g in ((calibration, groups), (scores, new_groups)))
    of_new = 1 - _placements(scores, calibration, weights)  # calibration mass above each
    of_old = _placements(calibration, scores, new_weights)
    share = float(of_new @ new_weights / new_weights.sum())
    has_groups, p_values = groups is not None or new_groups is not None, [0.0]
    if not has_groups:
        from scipy.stats import mannwhitneyu

        p_values.append(float(mannwhitneyu(scores, calibration, alternative="less", method="auto").pvalue))
    if has_groups or tolerance:
        by_group = _group_means(of_new, new_groups), _group_means(of_old, groups)
        p_values.append(_unequal_t_test(*by_group, 0.5 + tolerance))
    return RankTest(share, max(p_values))


def _placements(scores: FloatArray, among: FloatArray, weights: FloatArray) -> FloatArray:
    """Share of the mass of others below each score, ties half: (n,)."""
    order = np.argsort(among, kind="stable")
    mass = np.concatenate([[0.0], weights[order].cumsum()])
    left, right = (np.searchsorted(among[order], scores, side=side) for side in ("left", "right"))
    placements: FloatArray = (mass[left] + mass[right]) / (2 * mass[-1])
    return placements


def _group_means(values: FloatArray, groups: IntArray | None) -> FloatArray:
    if groups is None:
        return values
    return np.array([values[rows].mean() for rows in members(groups)])


def _unequal_t_test(of_new: FloatArray, of_old: FloatArray, null: float) -> float:
    """One-sided p-value for a mean placement above the null, by Welch's t; never below a permutation's."""
    n, k = len(of_new), len(of_old)
    least = math.exp(gammaln(n + 1) + gammaln(k + 1) - gammaln(n + k + 1))
    if min(n, k) < 2:
        return 1.0  # one group says nothing of how groups differ
    parts = np.array([of_new.var(ddof=1) / n, of_old.var(ddof=1) / k])
    variance, excess = parts.sum(), float(of_new.mean()) - null
    if variance <= 0:
        return least if excess > 0 else 1.0
    freedom = variance**2 / (parts**2 / (np.array([n, k]) - 1)).sum()
    return max(float(stdtr(freedom, -excess / math.sqrt(variance))), least)


def column_drift(
    train: FloatArray,
    new: FloatArray,
    names: Sequence[Any],
    groups: IntArray | None = None,
    new_groups: IntArray | None = None,
) -> tuple[ColumnDrift, ...]:
    r"""Compare the columns of two samples by the test of Kolmogorov and Smirnov, corrected as by Holm.

    .. math:: D = \sup_t | F(t) - F'(t) |, \qquad
              p \approx P\left( \sup |B| > D \sqrt{\tfrac{G G'}{G + G'}} \right)

    with a Brownian bridge B. With groups each group counts once in the distribution functions, and G counts
    groups, which is cautious. Places with equal names (a category's) are one column: the smallest p-value
    times their number.

    Parameters
    ----------
    train, new : ndarray of shape (n, q) and (n', q)
        Rows of numbers.
    names : sequence of length q
        The column of each number.
    groups, new_groups : ndarray of int, optional
        Groups of either.

    Returns
    -------
    tuple of ColumnDrift
        The smallest p-value first.

    Examples
    --------
    >>> t = np.linspace(0, 1, 50)[:, None]
    >>> [c.name for c in column_drift(np.hstack([t, t]), np.hstack([t, t + 1]), ["a", "b"])]
    ['b', 'a']
    """
    weights, new_weights = unit_weights(len(train), groups), unit_weights(len(new), new_groups)
    n_effective = round(weights.sum() * new_weights.sum() / (weights.sum() + new_weights.sum()))
    found: dict[Any, list[float]] = {}
    for name, a, b in zip(names, train.T, new.T, strict=True):
        found.setdefault(name, []).append(ks_distance(a, b, weights, new_weights))
    from scipy.stats import kstwo

    raw = {
        name: min(1.0, len(distances) * float(kstwo.sf(max(distances), max(1, n_effective))))
        for name, distances in found.items()
    }
    columns = zip(found, holm(np.array(list(raw.values()))).tolist(), strict=True)
    drifts = [ColumnDrift(name, max(found[name]), p_value) for name, p_value in columns]
    return tuple(sorted(drifts, key=lambda column: (column.p_value, -column.statistic)))


def ks_distance(a: FloatArray, b: FloatArray, weights: FloatArray, new_weights: FloatArray) -> float:
    """Largest difference of two weighted distribution functions.

    >>> ks_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]), np.ones(2), np.ones(2))
    0.5
    """
    values = np.concatenate([a, b])
    steps = np.concatenate([weights / weights.sum(), -new_weights / new_weights.sum()])
    order = np.argsort(values, kind="stable")
    gaps = np.abs(steps[order].cumsum())
    is_end = np.append(np.diff(values[order]) > 0, True)  # not within ties
    return float(gaps[is_end].max())


def holm(p_values: FloatArray) -> FloatArray:
    r"""Correct p-values (k,) for their number, as by Holm (1979).

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min\big( 1, (k - j + 1) \, p_{(j)} \big)

    >>> holm(np.array([0.04, 0.01, 0.5])).round(2).tolist()
    [0.08, 0.03, 0.5]
    """
    k = len(p_values)
    order = np.argsort(p_values, kind="stable")
    scaled = (p_values[order] * np.arange(k, 0, -1)).clip(max=1)
    corrected = np.empty(k)
    corrected[order] = np.maximum.accumulate(scaled)
    return corrected
