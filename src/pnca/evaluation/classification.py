"""Accuracy, proper scores and calibration of class probabilities against labels.

In every function ``labels`` holds column numbers into ``probabilities``: label 2 means that the third
column is the true class. The predicted class is the column of largest probability, the leftmost one on a tie.
"""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, log_loss, recall_score

from pnca.evaluation._validation import check_count, check_labels_and_probabilities


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
    true, proba = check_labels_and_probabilities(labels, probabilities)
    n_bins = check_count("n_bins", n_bins)
    confidence = proba.max(axis=1)  # (n,)
    # Dividing, unlike linspace's multiplying by a rounded step, puts b / n_bins exactly on its own edge.
    inner_edges = np.arange(1, n_bins) / n_bins
    bins = np.searchsorted(inner_edges, confidence, side="left")  # (n,)
    # The bin sizes cancel: |B| / n * |mean(correct) - mean(confidence)| = |sum(correct - confidence)| / n.
    gaps = np.bincount(bins, weights=(proba.argmax(axis=1) == true) - confidence)
    return float(np.abs(gaps).sum() / len(true))
