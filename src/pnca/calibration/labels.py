"""Labels that a model doubts which was not trained on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pnca.calibration.conformal import FloatArray, IntArray

#: Chosen on five-in-a-hundred flipped labels of twelve tables (docs/audit.md has the measurement on others):
#: the given class below so much of what its own examples get, the other above so much of what its get.
_MOST_OF_GIVEN, _LEAST_OF_OTHER = 0.3, 0.8


class Doubts(NamedTuple):
    """Examples whose label is doubted, the least believed first."""

    rows: IntArray  # (k,)
    given: FloatArray  # (k,), probability of the label
    others: IntArray  # (k,), the class that is believed instead
    believed: FloatArray  # (k,), its probability


def self_confidence(proba: FloatArray, labels: IntArray) -> FloatArray:
    r"""Mean probability that the examples of each class get for it: (c,).

    .. math:: t_c = \frac{1}{n_c} \sum_{i : y_i = c} p_{i c}

    A class without examples has one.

    >>> self_confidence(np.array([[0.8, 0.2], [0.6, 0.4]]), np.array([0, 0])).tolist()
    [0.7, 1.0]
    """
    n_classes = proba.shape[1]
    own = proba[np.arange(len(labels)), labels]
    counts = np.bincount(labels, minlength=n_classes)
    sums = np.bincount(labels, weights=own, minlength=n_classes)
    means: FloatArray = np.divide(sums, counts, out=np.ones(n_classes), where=counts > 0)
    return means


def doubted_labels(proba: FloatArray, labels: IntArray) -> Doubts:
    r"""Find labels that are improbable where another class is as sure as its own examples are.

    .. math:: p_{i y_i} \le 0.3 \, t_{y_i} \quad \text{and} \quad p_{i k} \ge 0.8 \, t_k,
              \qquad k = \arg\max_c p_{i c} \ne y_i

    with the self-confidence :math:`t_c` of a class, as in confident learning (Northcutt, Jiang and Chuang,
    2021). That takes :math:`p_{i k} \ge t_k` and no bound on the given class. Where classes overlap it
    doubts examples that are merely hard, which the first condition prevents; the second is relaxed because
    wrong labels lower the confidence of all.

    Parameters
    ----------
    proba : ndarray of shape (n, c)
        Class probabilities of examples by models that were not trained on them.
    labels : ndarray of int, shape (n,)
        Given classes, from 0 to c - 1.

    Returns
    -------
    Doubts

    Examples
    --------
    >>> proba = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.8, 0.2], [0.05, 0.95]])
    >>> doubted_labels(proba, np.array([0, 0, 1, 1, 0, 0])).rows.tolist()
    [5]
    """
    typical = self_confidence(proba, labels)
    n, best = np.arange(len(labels)), proba.argmax(axis=1)
    own, top = proba[n, labels], proba[n, best]
    is_doubted = own <= _MOST_OF_GIVEN * typical[labels]
    is_doubted &= (top >= _LEAST_OF_OTHER * typical[best]) & (best != labels)
    rows = np.flatnonzero(is_doubted)
    rows = rows[np.argsort(own[rows], kind="stable")]
    return Doubts(rows, own[rows], best[rows], top[rows])
