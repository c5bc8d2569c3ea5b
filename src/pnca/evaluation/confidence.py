"""Curves over a confidence threshold: what is kept, and how good it is (Ovadia et al., NeurIPS 2019).

The confidence of an example is its largest class probability. A threshold keeps the examples at or above it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pnca.evaluation._validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_fraction,
    check_labels_and_probabilities,
    check_probabilities,
    check_scores,
)
from pnca.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class ConfidenceCurve:
    """A quantity as a function of the confidence threshold.

    Attributes
    ----------
    thresholds, values : ndarray of shape (t,)
        Confidence levels, in the order asked for, and the quantity at each.

    Examples
    --------
    >>> ConfidenceCurve(np.array([0.0, 1.0]), np.array([7, 2])).values
    array([7, 2])
    """

    thresholds: FloatArray
    values: FloatArray | IntArray


def accuracy_vs_confidence(
    labels: ArrayLike, probabilities: ArrayLike, thresholds: ArrayLike | None = None
) -> ConfidenceCurve:
    r"""Accuracy among the examples with at least a given confidence.

    .. math:: a(\tau) = \frac{\sum_i \mathbf{1}[\hat y_i = y_i,\, \max_k p_{ik} \ge \tau]}
                             {\sum_i \mathbf{1}[\max_k p_{ik} \ge \tau]},
              \qquad \hat y_i = \arg\max_k p_{ik}

    NaN where no example is confident enough.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.
    thresholds : array-like of shape (t,), optional
        Confidence levels :math:`\tau`; by default 0, 0.05, ..., 1.

    Examples
    --------
    >>> accuracy_vs_confidence([0, 1], [[0.9, 0.1], [0.6, 0.4]], thresholds=[0.5, 0.8, 1.0]).values
    array([0.5, 1. , nan])
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    levels = _thresholds_or_default(thresholds)
    kept = _kept(proba, levels)  # (t, n)
    n_kept = kept.sum(axis=1)  # (t,)
    n_correct = (kept & (proba.argmax(axis=1) == true)).sum(axis=1)  # (t,)
    values = np.divide(n_correct, n_kept, out=np.full(len(levels), np.nan), where=n_kept > 0)
    return ConfidenceCurve(levels, values)


def count_vs_confidence(probabilities: ArrayLike, thresholds: ArrayLike | None = None) -> ConfidenceCurve:
    r"""Count the examples with at least a given confidence.

    .. math:: n(\tau) = \sum_i \mathbf{1}[\max_k p_{ik} \ge \tau]

    The counts are integers. On out-of-distribution data a trustworthy model falls to zero early.

    Parameters
    ----------
    probabilities : array-like of shape (n, c)
        Class probabilities :math:`p_{ik}`.
    thresholds : array-like of shape (t,), optional
        Confidence levels :math:`\tau`; by default 0, 0.05, ..., 1.

    Examples
    --------
    >>> count_vs_confidence([[0.9, 0.1], [0.6, 0.4]], thresholds=[0.5, 0.8, 1.0]).values
    array([2, 1, 0])
    """
    proba = check_probabilities(probabilities)
    levels = _thresholds_or_default(thresholds)
    return ConfidenceCurve(levels, _kept(proba, levels).sum(axis=1))


def share_above(probabilities: ArrayLike, threshold: float = 0.9) -> float:
    r"""Share of the examples whose confidence exceeds a threshold.

    .. math:: \frac{1}{n} \sum_i \mathbf{1}[\max_k p_{ik} > \tau]

    The inequality is strict, unlike that of the two curves.

    Parameters
    ----------
    probabilities : array-like of shape (n, c)
        Class probabilities :math:`p_{ik}`.
    threshold : float, default=0.9
        Confidence level :math:`\tau`.

    Examples
    --------
    >>> share_above([[0.95, 0.05], [0.9, 0.1]])
    0.5
    """
    proba = check_probabilities(probabilities)
    return float((proba.max(axis=1) > check_fraction("threshold", threshold)).mean())


def _thresholds_or_default(thresholds: ArrayLike | None) -> FloatArray:
    if thresholds is None:  # dividing gives the float64 nearest to each decimal, unlike linspace
        return np.arange(21) / 20
    levels = check_scores("thresholds", thresholds)
    if levels.min() < 0 or levels.max() > 1:
        raise InvalidInputError(
            f"thresholds range from {levels.min():.4g} to {levels.max():.4g}: pass confidences in [0, 1]."
        )
    return levels


def _kept(proba: FloatArray, levels: FloatArray) -> BoolArray:
    kept: BoolArray = proba.max(axis=1)[None, :] >= levels[:, None]  # (t, n)
    return kept
