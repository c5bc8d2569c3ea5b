"""Columns that are not what a model should learn from: identifiers, constants, copies, and leaks."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np

from pnca.calibration.conformal import FloatArray, IntArray

#: A measured column so free of repetitions has at most this probability.
_CHANCE = 1e-3
#: Names of columns of identifiers.
_NAMES = re.compile(r"(?i:(^|[\W_])(id|ids|nr|no|number|index|key|code|column 1)$)|[a-z](Id|ID|Nr|No)$")
#: Fewer rows tell nothing about an order.
_FEWEST = 10
#: Columns say the same if their correlation is so near to one: differences by 1e-5 of their spread.
_EQUAL = 1e-10
#: A column that tells the classes apart so well alone, as well as all together up to so much, and better
#: than any other by so much.
_DECIDES, _AS_WELL, _BETTER = 0.97, 0.005, 0.05


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

    reason: str  # "row order", "no repetition", "name", "even spacing" or "group"
    probability: float  # with which measured values would look so


class Decider(NamedTuple):
    """A column that tells the classes apart alone."""

    auroc: float  # out of fold
    next_best: float  # of the other columns, copies aside


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


def identifier(values: FloatArray, name: object = "") -> Identifier | None:
    r"""Say why numbers (n,), in the order of the rows, look like a name of the row, or None.

    Whole numbers that rise or fall with every row; whole numbers with fewer repetitions than measured values
    of their range would have; whole numbers that are all different in a column whose name says so, such as
    ``nr`` or ``patientId``; and numbers that are all different and evenly spaced.

    >>> identifier(np.arange(100.0)).reason
    'row order'
    >>> identifier(np.random.RandomState(0).permutation(100) + 7.0).reason
    'no repetition'
    >>> identifier(np.random.RandomState(0).poisson(50, size=100).astype(float))
    >>> identifier(np.array([52.0, 7, 911, 430, 88, 12, 650, 3, 77, 801]), "case_nr").reason
    'name'
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
        if p <= _CHANCE:
            return Identifier("no repetition", p)
        return Identifier("name", p) if not n_repeated and _NAMES.search(str(name)) else None
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


def is_constant(column: ColumnValues) -> bool:
    """Whether all rows have the same value; a column that is left out has none.

    >>> is_constant(ColumnValues("site", "number", np.ones((5, 1))))
    True
    """
    return bool(column.places.shape[1]) and bool((column.places == column.places[:1]).all())


def copies(columns: list[ColumnValues]) -> list[tuple[int, int]]:
    """Columns that say the same as an earlier one, perhaps in other units: pairs of positions (copy, first).

    >>> celsius = np.array([[20.0], [21.5], [19.0]])
    >>> pairs = [ColumnValues("C", "number", celsius), ColumnValues("F", "number", 32 + 1.8 * celsius)]
    >>> copies(pairs)
    [(1, 0)]
    """
    there = [j for j, column in enumerate(columns) if column.places.shape[1] and not is_constant(column)]
    first_of: dict[int, int] = {}
    codes: dict[bytes, int] = {}
    for j in there:
        if not columns[j].is_ordered:
            first = codes.setdefault(_codes(columns[j].places), j)
            if first != j:
                first_of[j] = first
    ordered = [j for j in there if columns[j].is_ordered]
    numbers = np.stack([columns[j].places[:, 0] for j in ordered], axis=1) if ordered else np.empty((0, 0))
    z = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0) if ordered else numbers
    for a, b in zip(*np.nonzero(np.triu(np.abs(z.T @ z) > (1 - _EQUAL) * len(z), 1)), strict=True):
        marks, other_marks = (columns[ordered[k]].places[:, 1:] for k in (a, b))
        if marks.shape == other_marks.shape and (marks == other_marks).all():
            first_of.setdefault(ordered[b], ordered[a])
    return sorted(first_of.items())


def _codes(places: FloatArray) -> bytes:
    """Categories (n, k) numbered in the order in which they occur."""
    _, first, codes = np.unique(places, axis=0, return_index=True, return_inverse=True)
    found: bytes = np.argsort(np.argsort(first))[codes.reshape(-1)].tobytes()
    return found


def mean_auroc(proba: FloatArray, labels: IntArray) -> float:
    r"""AUROC of each class against the others, averaged over the classes that have examples.

    >>> mean_auroc(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))
    1.0
    """
    from scipy.stats import rankdata

    n, found = len(labels), []
    ranks = rankdata(proba, axis=0)
    for c in np.unique(labels):
        own = labels == c
        k = int(own.sum())
        if k < n:
            found.append((ranks[own, c].sum() - k * (k + 1) / 2) / (k * (n - k)))
    return float(np.mean(found))


def alone(places: FloatArray, labels: IntArray, folds: IntArray, n_classes: int) -> FloatArray:
    """Probabilities (n, c) out of fold by a small tree of one column (n, k)."""
    from sklearn.tree import DecisionTreeClassifier

    proba = np.zeros((len(labels), n_classes))
    for fold in np.unique(folds):
        shown, held_out = folds != fold, folds == fold
        tree = DecisionTreeClassifier(max_leaf_nodes=4 * n_classes, min_samples_leaf=2, random_state=0)
        tree.fit(places[shown], labels[shown])
        proba[np.ix_(held_out, tree.classes_)] = tree.predict_proba(places[held_out])
    return proba


def deciders(
    columns: list[ColumnValues], labels: IntArray, folds: IntArray, proba: FloatArray
) -> dict[int, Decider]:
    r"""Find columns that decide the class alone while no other is near.

    A column is one if the AUROC of a small tree of it, out of fold, is at least .97, no more than .005 below
    that of the model of all columns, and more than .05 above that of every other column that is not its copy.

    Parameters
    ----------
    columns : list of ColumnValues
        Of the training examples.
    labels, folds : ndarray of int, shape (n,)
        Their classes, and the folds of a fit.
    proba : ndarray of shape (n, c)
        Out-of-fold probabilities of the model.

    Returns
    -------
    dict from position to Decider
    """
    there = [j for j, column in enumerate(columns) if column.places.shape[1] and not is_constant(column)]
    found = {j: mean_auroc(alone(columns[j].places, labels, folds, proba.shape[1]), labels) for j in there}
    of_model, same = mean_auroc(proba, labels), dict(copies(columns))
    deciding = {}
    for j, auroc in found.items():
        others = [found[k] for k in there if same.get(k, k) != same.get(j, j)]
        next_best = max(others, default=0.5)
        if auroc >= max(_DECIDES, of_model - _AS_WELL) and auroc > next_best + _BETTER:
            deciding[j] = Decider(auroc, next_best)
    return deciding
