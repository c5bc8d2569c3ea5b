"""Draws of a data set: training examples and test sets, foreign ones among them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca_studies.experiments.benchmark.catalogue import TEST, DataSet

#: A test set: inputs (n, ...) and, unless no class is right, labels (n,).
TestSet = tuple[NDArray[Any], NDArray[np.int64] | None]
#: Most rows of a test set of a table.
MOST_TESTED = 1000
#: A unit error is made in a column with at least this share of values that are neither zero nor missing.
_SHARE_OF_NUMBERS = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One draw. Tables are raw: categories are codes, holes NaN."""

    inputs: NDArray[Any]  # (n, p) or (n, h, w)
    labels: NDArray[np.int64]  # (n,), from 0 to n_classes - 1
    tests: Mapping[str, TestSet]  # "test", and foreign ones
    n_classes: int
    kind: str  # of the data set
    categories: tuple[int, ...] = ()
    groups: NDArray[np.int64] | None = None  # (n,), patients


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A data set that was loaded; a draw is made from a size and a seed, the same for every model."""

    data_set: DataSet
    draw: Callable[[str, int], Problem] = field(repr=False)
    arrays: tuple[NDArray[np.generic], ...] = field(default=(), repr=False)  # all of the data


def draw_table(
    inputs: NDArray[Any],
    labels: NDArray[np.int64],
    n: int,
    seed: int,
    *,
    left_out: int | None = None,
    with_unit_error: bool = True,
    **given: Any,  # noqa: ANN401
) -> Problem:
    """Draw n rows of a table (n, p) at random; tested are others, of classes that were drawn.

    Rows of a class that is left out are a test set of their own, and so is a unit error, unless it is not
    wanted or there is no column to make it in.
    """
    is_known = labels != left_out
    rows = np.random.RandomState(seed).permutation(len(labels))
    rows, unseen = rows[is_known[rows]], rows[~is_known[rows]]
    train, test = rows[:n], rows[n:][:MOST_TESTED]
    classes, codes = np.unique(labels[train], return_inverse=True)
    test = test[np.isin(labels[test], classes)]
    tests: dict[str, TestSet] = {TEST: (inputs[test], np.searchsorted(classes, labels[test]))}
    if len(unseen):
        tests["unseen class"] = inputs[unseen[:MOST_TESTED]], None
    if with_unit_error and (
        wrong := unit_error(inputs[train], inputs[test], seed, given.get("categories", ()))
    ):
        tests["unit error"] = wrong[0], tests[TEST][1]
    return Problem(
        inputs=inputs[train],
        labels=codes.astype(np.int64),
        tests=tests,
        n_classes=len(classes),
        **given,
    )


def unit_error(
    train: NDArray[Any], test: NDArray[Any], seed: int, categories: Sequence[int] = ()
) -> tuple[NDArray[Any]] | None:
    """Return test rows (k, p) with one column times ten, as a tuple of one; None if no column will do."""
    is_number = np.isfinite(train) & (train != 0)
    possible = (is_number.mean(axis=0) >= _SHARE_OF_NUMBERS) & (np.nanstd(train, axis=0) > 0)
    possible[list(categories)] = False
    if not possible.any():
        return None
    column = np.random.RandomState(seed).choice(np.flatnonzero(possible))
    wrong = np.array(test)
    wrong[:, column] *= 10
    return (wrong,)
