"""Examples that are equal, or nearer to each other than chance brings them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.conformal import FloatArray, IntArray

#: Pairs that chance may bring, on average, in a whole table.
_BY_CHANCE = 0.05
#: Neighbours that say how dense the examples lie around one.
_AROUND = 10
#: However many columns there are, a pair this much nearer than the tenth neighbour is no duplicate.
_MOST = 0.25
#: Fewer examples say nothing of what is near; of more, only equal rows are looked for.
_FEWEST, MOST_COMPARED = 20, 10_000


class Pairs(NamedTuple):
    """Pairs of examples that are alike."""

    rows: IntArray  # (k, 2), the smaller row first
    ratios: FloatArray  # (k,), their distance relative to that of the tenth neighbour; zero if equal


def intrinsic_dimension(first: FloatArray, second: FloatArray) -> float:
    r"""Dimension of a cloud of points from the distances to the first and second neighbours.

    .. math:: D = \frac{\log 2}{\operatorname{median} \log (r_2 / r_1)}

    The ratio exceeds x with probability :math:`x^{-D}` wherever the density hardly changes between the two
    (Facco et al., 2017); the median, because duplicates are outliers here.

    Parameters
    ----------
    first, second : ndarray of shape (n,)
        Distances :math:`r_1 \le r_2`, positive.

    Examples
    --------
    >>> round(intrinsic_dimension(np.ones(3), np.array([1.0, 2.0, 9.0])), 6)
    1.0
    """
    middle = float(np.median(np.log(second / first)))
    return math.log(2) / middle if middle > 0 else math.inf


def largest_ratio(n: int, dimension: float) -> float:
    r"""Ratio of distances below which chance brings fewer than .05 of n examples.

    .. math:: n \, P(r_1 / r_{10} \le x) \le 9 n x^D = 0.05

    since the nine nearer neighbours lie uniformly in the ball of the tenth; and never above a quarter.

    >>> round(largest_ratio(100, 2.0), 5)
    0.00745
    """
    return min(_MOST, math.pow(_BY_CHANCE / ((_AROUND - 1) * n), 1 / dimension))


def near_duplicates(inputs: FloatArray) -> Pairs:
    """Find pairs of examples that are equal, or much nearer than chance brings neighbours.

    Distances are compared with that of the tenth neighbour, so that dense regions are no duplicates, and
    equal rows are one point for that.

    Parameters
    ----------
    inputs : ndarray of shape (n, q)
        Scaled rows of numbers.

    Returns
    -------
    Pairs
        Sorted by rows; of more than 10,000 different rows only the equal ones. Of more than two equal rows
        the first is paired with each of the others.

    Examples
    --------
    >>> near_duplicates(np.array([[0.0, 1.0], [2.0, 0.5], [0.0, 1.0]])).rows.tolist()
    [[0, 2]]
    """
    distinct, first, of_row = np.unique(inputs, axis=0, return_index=True, return_inverse=True)
    of_row = of_row.reshape(-1)
    again = np.flatnonzero(first[of_row] != np.arange(len(inputs)))
    equal = np.stack([first[of_row[again]], again], axis=1)
    near, ratios = _near(distinct)
    pairs = np.sort(np.concatenate([equal, first[near]]), axis=1)
    all_ratios = np.concatenate([np.zeros(len(equal)), ratios])
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return Pairs(pairs[order], all_ratios[order])


def _near(points: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Pairs (k, 2) of different points that are near duplicates, and their ratios (k,)."""
    from sklearn.neighbors import NearestNeighbors

    n = len(points)
    if not _FEWEST <= n <= MOST_COMPARED:
        return np.empty((0, 2), dtype=np.intp), np.empty(0)
    distances, neighbours = NearestNeighbors(n_neighbors=_AROUND + 1).fit(points).kneighbors(points)
    # A point is its own nearest neighbour, but for rounding.
    distances, neighbours = distances[:, 1:], neighbours[:, 1:]
    is_far = distances[:, 0] > 0
    bound = largest_ratio(n, intrinsic_dimension(distances[is_far, 0], distances[is_far, 1]))
    ratios = distances / distances[:, -1:]
    i, k = np.nonzero(ratios <= bound)
    found: dict[tuple[int, int], float] = {}
    for a, b, ratio in zip(i.tolist(), neighbours[i, k].tolist(), ratios[i, k].tolist(), strict=True):
        if a != b:
            pair = (min(a, b), max(a, b))
            found[pair] = min(ratio, found.get(pair, math.inf))
    pairs = np.array(list(found), dtype=np.intp).reshape(-1, 2)
    return pairs, np.array(list(found.values()), dtype=float)


def clusters(pairs: IntArray, n: int) -> list[IntArray]:
    """Rows that are connected by pairs (k, 2) of n rows, each cluster sorted, by their first rows.

    >>> [rows.tolist() for rows in clusters(np.array([[0, 2], [2, 3]]), 5)]
    [[0, 2, 3]]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, of_row = connected_components(graph, directed=False)
    found = [np.flatnonzero(of_row == name) for name in np.unique(of_row[pairs.reshape(-1)])]
    return sorted(found, key=lambda rows: int(rows[0]))


def equal_rows(inputs: NDArray[Any], others: NDArray[Any]) -> IntArray:
    """Find inputs that equal another one, number by number.

    Parameters
    ----------
    inputs : ndarray of shape (n, ...)
        Of which each is looked for.
    others : ndarray of shape (n', ...)
        Among these, of the same shape.

    Returns
    -------
    ndarray of int, shape (n,)
        A row of ``others`` that equals each, -1 where there is none.

    Examples
    --------
    >>> equal_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 4.0]])).tolist()
    [-1, 0]
    """
    # Zero is added because -0.0 equals 0.0 and has other bytes.
    known = {(row + 0.0).tobytes(): place for place, row in enumerate(others)}
    return np.array([known.get((row + 0.0).tobytes(), -1) for row in inputs], dtype=np.int64)
