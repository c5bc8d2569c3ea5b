"""Columns that are not what a model should learn from: names of rows and of groups."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pnca.calibration.conformal import FloatArray, IntArray

#: A measured column so free of repetitions has at most this probability.
_CHANCE = 1e-3
#: Fewer rows tell nothing about an order.
_FEWEST = 10


class ColumnValues(NamedTuple):
    """A column of the training examples as numbers."""

    name: Any
    kind: str  # "number", "date", "duration", "category" or "left out"
    places: FloatArray  # (n, k): a number and perhaps a mark of holes, or marks of categories

    @property
    def is_ordered(self) -> bool:
        """Whether it has numbers, with an order and distances."""
        return self.kind in ("number", "date", "duration")


class Identifier(NamedTuple):
    """Why a column looks like a name of the rows."""

    reason: str  # "row order", "no repetition", "even spacing" or "group"
    probability: float  # with which measured values would look so


def probability_of_few_repetitions(n: int, n_possible: float, n_repeated: int) -> float:
    r"""Probability that n values repeat in so few pairs, where so many values are possible.

    .. math:: P(N \le r), \qquad N \sim \text{Poisson}\Big( \frac{n (n - 1)}{2 R} \Big)

    for R values that are equally probable; any other distribution repeats more. (Birthdays: with R = 365
    and n = 23 there is no pair with probability one half.)

    >>> round(probability_of_few_repetitions(23, 365, 0), 1)
    0.5
    """
    from scipy.stats import poisson

    return float(poisson.cdf(n_repeated, n * (n - 1) / (2 * n_possible)))


def identifier(values: FloatArray) -> Identifier | None:
    r"""Say why numbers (n,), in the order of the rows, look like a name of the row, or None.

    Whole numbers that rise or fall with every row; whole numbers with fewer repetitions than measured values
    of their range would have; and numbers that are all different and evenly spaced.

    >>> identifier(np.arange(100.0)).reason
    'row order'
    >>> identifier(np.random.RandomState(0).permutation(100) + 7.0).reason
    'no repetition'
    >>> identifier(np.random.RandomState(0).poisson(50, size=100).astype(float))
    """
    n = len(values)
    if n < _FEWEST or not np.isfinite(values).all():
        return None
    ordered = np.sort(values)
    gaps, steps = np.diff(ordered), np.diff(values)
    is_whole = bool((values == np.round(values)).all())
    if is_whole and ((steps > 0).all() or (steps < 0).all()):
        return Identifier("row order", math.exp(math.log(2) - math.lgamma(n + 1)))
    counts = np.unique(values, return_counts=True)[1]
    if is_whole:
        n_repeated = int((counts * (counts - 1) // 2).sum())
        p = probability_of_few_repetitions(n, float(ordered[-1] - ordered[0] + 1), n_repeated)
        return Identifier("no repetition", p) if p <= _CHANCE else None
    if len(counts) == n and np.ptp(gaps) <= 1e-6 * gaps.mean():
        return Identifier("even spacing", 0.0)
    return None


def names_groups(column: ColumnValues, groups: IntArray) -> Identifier | None:
    """Say that a column names the groups (n,) of the rows, or None: one value a group, as identifiers are.

    >>> groups = np.repeat(np.arange(12), 3)
    >>> names_groups(ColumnValues("patient", "number", 100.0 + groups[:, None]), groups).reason
    'group'
    """
    first = np.unique(groups, return_index=True)[1]
    of_group = column.places[first]
    if (
        len(first) < _FEWEST
        or not (column.places == of_group[np.unique(groups, return_inverse=True)[1]]).all()
    ):
        return None
    if column.is_ordered:
        found = identifier(of_group[:, 0])
        return None if found is None else Identifier("group", found.probability)
    return Identifier("group", 0.0) if len(np.unique(of_group, axis=0)) == len(first) else None
