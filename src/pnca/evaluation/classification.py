"""Accuracy, proper scores and calibration of class probabilities against labels.

In every function ``labels`` holds column numbers into ``probabilities``: label 2 means that the third
column is the true class. The predicted class is the column of largest probability, the leftmost one on a tie.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, log_loss, recall_score

from pnca.evaluation._validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_count,
    check_labels_and_probabilities,
)


def accuracy(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Share of the examples whose most probable class is the true one.

    .. math:: \frac{1}{n} \sum_i \mathbf{1}[\arg\max_k p_{ik} = y_i]

    Between 0 and 1; larger is better.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.

    Examples
    --------
    >>> accuracy([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    0.5
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    return float(accuracy_score(true, proba.argmax(axis=1)))


def balanced_accuracy(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Mean recall over the classes that occur in ``labels``.

    .. math:: \frac{1}{|C|} \sum_{k \in C} \frac{\sum_i \mathbf{1}[y_i = k,\, \arg\max_l p_{il} = k]}
                                                {\sum_i \mathbf{1}[y_i = k]},
              \qquad C = \{y_1, \dots, y_n\}

    Between 0 and 1; larger is better.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.

    Examples
    --------
    >>> balanced_accuracy([0, 0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]])
    0.8333333333333333
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    # Not balanced_accuracy_score: it warns whenever a class is predicted that no label holds.
    return float(recall_score(true, proba.argmax(axis=1), labels=np.unique(true), average="macro"))


def negative_log_likelihood(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Mean negative log-probability of the true class, in nats.

    .. math:: -\frac{1}{n} \sum_i \log \operatorname{clip}(p_{i y_i},\, \epsilon,\, 1 - \epsilon)

    Probabilities are clipped as in :func:`sklearn.metrics.log_loss`, with the machine precision of float64
    (:math:`\epsilon = 2^{-52} \approx 2.2 \cdot 10^{-16}`), whatever the dtype given. The result is
    therefore finite: a true class of probability zero costs 36.04 nats. Smaller is better.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`; rounding in the row
        sums is divided out.

    Examples
    --------
    >>> round(negative_log_likelihood([0, 1], [[0.5, 0.5], [0.75, 0.25]]), 4)
    1.0397
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    # log_loss warns about row sums off by 1e-8, which every float32 softmax is.
    proba /= proba.sum(axis=1, keepdims=True)
    return float(log_loss(true, proba, labels=np.arange(proba.shape[1])))


def brier_score(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Multi-class Brier score: squared error summed over the classes, averaged over the examples.

    .. math:: \frac{1}{n} \sum_i \sum_k (p_{ik} - \mathbf{1}[y_i = k])^2

    This is Brier's original definition, twice the one-column score that some libraries report for two
    classes. Between 0 and 2 (certain and always wrong); smaller is better.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.

    Examples
    --------
    >>> brier_score([0, 1], [[1.0, 0.0], [0.5, 0.5]])
    0.25
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    # brier_score_loss knows more than two classes only from scikit-learn 1.7 on; 1.6 is supported here.
    errors = proba - np.eye(proba.shape[1])[true]  # (n, c)
    return float((errors**2).sum(axis=1).mean())


def expected_calibration_error(labels: ArrayLike, probabilities: ArrayLike, n_bins: int = 15) -> float:
    r"""Top-label calibration error over equal-width confidence bins.

    .. math:: \sum_b \frac{|B_b|}{n} \left| \operatorname{acc}(B_b) - \operatorname{conf}(B_b) \right|, \qquad
              B_b = \left\{ i : \tfrac{b - 1}{n_{bins}} < \max_k p_{ik} \le \tfrac{b}{n_{bins}} \right\}

    Bins are closed on the right, so a confidence of exactly one falls in the last bin. Between 0 and 1;
    smaller is better. Few examples bias it upwards.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.
    n_bins : int, default=15
        Number of bins :math:`n_{bins}`.

    Examples
    --------
    >>> round(expected_calibration_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 4)
    0.4
    """
    binned = confidence_bins(labels, probabilities, n_bins)
    # The bin sizes cancel: |B| / n * |mean(correct) - mean(confidence)| = |sum(correct - confidence)| / n.
    gaps = np.bincount(binned.bins, weights=binned.correct - binned.confidence)
    return float(np.abs(gaps).sum() / len(binned.bins))


class ConfidenceBins(NamedTuple):
    """Predictions in bins of equal width by their confidence."""

    bins: IntArray  # (n,), the bin of each prediction
    confidence: FloatArray  # (n,)
    correct: BoolArray  # (n,)
    edges: FloatArray  # (n_bins + 1,)


def confidence_bins(labels: ArrayLike, probabilities: ArrayLike, n_bins: int = 15) -> ConfidenceBins:
    r"""Sort predictions into the bins of :func:`expected_calibration_error`.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.
    n_bins : int, default=15
        Number of bins.

    Examples
    --------
    >>> confidence_bins([0, 1], [[0.9, 0.1], [0.6, 0.4]], n_bins=4).bins
    array([3, 2])
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    n_bins = check_count("n_bins", n_bins)
    confidence = proba.max(axis=1)  # (n,)
    # Dividing, unlike linspace's multiplying by a rounded step, puts b / n_bins exactly on its own edge.
    edges = np.arange(n_bins + 1) / n_bins
    bins = np.searchsorted(edges[1:-1], confidence, side="left")  # (n,)
    return ConfidenceBins(bins, confidence, proba.argmax(axis=1) == true, edges)


def auroc(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Area under the ROC curve of each class against the others, averaged over the classes.

    Only classes count that some labels hold and some do not; with two classes both have the same area. NaN
    where all labels are of one class. Between 0 and 1; larger is better.

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.

    Examples
    --------
    >>> auroc([0, 0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [0.2, 0.8]])
    0.75
    """
    return float(auroc_contributions(labels, probabilities).mean())


def auroc_contributions(labels: ArrayLike, probabilities: ArrayLike) -> FloatArray:
    r"""What each example contributes to :func:`auroc`, to first order: (n,), with the AUROC as their mean.

    .. math:: A + \frac{n}{n_+} (V_i - A) \text{ for an example of the class}, \qquad
              A + \frac{n}{n_-} (V_i - A) \text{ for another}

    with the area :math:`A` and the placement :math:`V_i`: the share of the other side's examples that are
    ranked rightly relative to this one, ties half (DeLong, DeLong and Clarke-Pearson, 1988). The variance of
    their mean is that of the area, also of differences between two models, and with groups (Obuchowski,
    1997).

    Parameters
    ----------
    labels, probabilities : array-like of shape (n,) and (n, c)
        Columns :math:`y_i` of the true classes, and class probabilities :math:`p_{ik}`.

    Examples
    --------
    >>> auroc_contributions([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    array([1., 1.])
    """
    true, proba = check_labels_and_probabilities(labels, probabilities)
    counts = np.bincount(true, minlength=proba.shape[1])
    found = [
        _contributions(true == c, proba[:, c]) for c in np.flatnonzero((counts > 0) & (counts < len(true)))
    ]
    return np.mean(found, axis=0) if found else np.full(len(true), np.nan)


def _contributions(is_own: BoolArray, scores: FloatArray) -> FloatArray:
    own, others = np.sort(scores[is_own]), np.sort(scores[~is_own])
    # The scores of the own class shall be above: count those below its members, and above the others.
    placements = np.where(is_own, _share_below(others, scores), 1 - _share_below(own, scores))
    area = placements[is_own].mean()
    of_side = np.where(is_own, len(own), len(others))
    contributions: FloatArray = area + len(scores) / of_side * (placements - area)
    return contributions


def _share_below(among: FloatArray, scores: FloatArray) -> FloatArray:
    left, right = (np.searchsorted(among, scores, side=side) for side in ("left", "right"))
    return (left + right) / (2 * len(among))
