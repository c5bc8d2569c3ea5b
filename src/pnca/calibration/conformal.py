r"""Conformal p-values: how many calibration examples are no more usual than a new one.

Scores are such that larger is more usual, as evidence is. Examples may come in groups, such as images of one
patient: then groups are exchangeable and their members are not, and each group counts once (hierarchical
conformal prediction; Lee, Barber and Willett, 2023).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

#: Products such as .05 * 20 are rounded; a p-value that equals a level must not be told from it.
ROUNDING = 1e-9


def unit_weights(n: int, groups: IntArray | None = None) -> FloatArray:
    """Weight (n,) of each example in its group, whose members share one; without groups each is one.

    >>> unit_weights(3, np.array([7, 7, 2])).tolist()
    [0.5, 0.5, 1.0]
    """
    if groups is None:
        return np.ones(n)
    _, number, size = np.unique(groups, return_inverse=True, return_counts=True)
    return 1.0 / size[number]


def conformal_p_values(
    calibration: FloatArray, scores: FloatArray, groups: IntArray | None = None
) -> FloatArray:
    r"""Share of calibration examples, the new one among them, whose score is no larger: (n',).

    .. math:: p(s) = \frac{1}{G + 1} \Big( 1 + \sum_{g=1}^{G} \frac{1}{n_g}
              \, \# \{ i \in g : s_i \le s \} \Big)

    Without groups every example is a group, and :math:`G = n`. If the new example is exchangeable with the
    calibration examples (with groups: one drawn from a new group that is exchangeable with theirs), then
    :math:`P(p \le a) \le a` for every a.

    Parameters
    ----------
    calibration : ndarray of shape (n,)
        Scores :math:`s_i` of the calibration examples.
    scores : ndarray of shape (n',) or any other
        Scores of new ones.
    groups : ndarray of int, shape (n,), optional
        The group of each calibration example.

    Examples
    --------
    >>> conformal_p_values(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 9.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    weights = unit_weights(len(calibration), groups)
    order = np.argsort(calibration, kind="stable")
    below = np.concatenate([[0.0], weights[order].cumsum()])  # mass of the k smallest
    found = below[np.searchsorted(calibration[order], scores, side="right")]
    p_values: FloatArray = np.minimum((1 + found) / (1 + round(below[-1])), 1.0)
    return p_values


def held_out_p_values(scores: FloatArray, groups: IntArray | None = None) -> FloatArray:
    r"""Conformal p-values of the calibration examples themselves, each without its own group: (n,).

    .. math:: p_i = \frac{1}{G + 1} \Big( 1 + \sum_{g \ne g_i} \frac{1}{n_g}
              \, \# \{ j \in g : s_j \le s_i \} \Big)

    The denominator is that of :func:`conformal_p_values`, so that both lie on the same side of a level
    exactly where scores lie on the same side of one order statistic. Examples above an order statistic are
    independent draws from what lies above it, which thresholds are certified with.

    >>> held_out_p_values(np.array([3.0, 1.0, 2.0])).tolist()
    [0.75, 0.25, 0.5]
    """
    weights = unit_weights(len(scores), groups)
    n_groups = round(weights.sum())
    p_values = conformal_p_values(scores, scores, groups)
    within = np.ones(len(scores))
    for rows in [] if groups is None else members(groups):
        inside = np.sort(scores[rows])
        within[rows] = np.searchsorted(inside, scores[rows], side="right") / len(rows)
    held_out: FloatArray = p_values - within / (1 + n_groups)
    return held_out


def members(groups: IntArray) -> list[NDArray[np.intp]]:
    """Rows of each group (n,), in the order of their names.

    >>> [rows.tolist() for rows in members(np.array([4, 2, 4]))]
    [[1], [0, 2]]
    """
    order = np.argsort(groups, kind="stable")
    edges = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, edges)


def class_p_values(
    calibration: FloatArray,
    labels: IntArray,
    scores: FloatArray,
    groups: IntArray | None = None,
    *,
    by_class: bool = True,
) -> FloatArray:
    r"""Conformal p-value of each class: (n', c).

    .. math:: p_c(x) = \frac{1}{n_c + 1} \Big( 1 + \# \{ i : y_i = c,\; s_i \le s_c(x) \} \Big)

    against the calibration examples of that class alone (Mondrian), or with ``by_class=False`` of all.

    Parameters
    ----------
    calibration : ndarray of shape (n,)
        Score of each calibration example in its own class.
    labels : ndarray of int, shape (n,)
        Its class, from 0 to c - 1; each has an example.
    scores : ndarray of shape (n', c)
        Scores of new examples in each class.
    groups : ndarray of int, shape (n,), optional
        The group of each calibration example; within a class a group counts once.

    Examples
    --------
    >>> own, labels = np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1])
    >>> class_p_values(own, labels, np.array([[1.5, 1.5]])).round(2).tolist()
    [[0.67, 0.5]]
    """
    if not by_class:
        return conformal_p_values(calibration, scores, groups)
    columns = []
    for c in range(scores.shape[1]):
        rows = labels == c
        own_groups = None if groups is None else groups[rows]
        columns.append(conformal_p_values(calibration[rows], scores[:, c], own_groups))
    return np.stack(columns, axis=1)


def prediction_sets(p_values: FloatArray, best: IntArray, coverage: float) -> BoolArray:
    r"""Classes that cannot be ruled out, and always the most probable one: (n, c).

    .. math:: C(x) = \{ c : p_c(x) > 1 - \mathrm{coverage} \} \cup \{ \hat y(x) \}

    Parameters
    ----------
    p_values : ndarray of shape (n, c)
        From :func:`class_p_values`.
    best : ndarray of int, shape (n,)
        The most probable class :math:`\hat y`.
    coverage : float
        Share of the sets that should hold the true class.

    Examples
    --------
    >>> prediction_sets(np.array([[0.5, 0.2], [0.05, 0.01]]), np.array([0, 0]), 0.9).tolist()
    [[True, True], [True, False]]
    """
    sets: BoolArray = p_values > 1 - coverage + ROUNDING
    sets[np.arange(len(sets)), best] = True
    return sets
