"""Draws of ``tables30.npz`` for the studies of the method: what its parts and its constants are worth.

How good the default is beside others is measured by ``pnca benchmark``.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca import PNCAClassifier
from pnca_studies.data.tables import TABLES

FloatArray = NDArray[np.float64]

#: Tables on which the method was set.
TUNING = tuple(name for name, table in TABLES.items() if table.is_tuning)
N_FOLDS = 5
#: Probability that a model gives at least to a class that it does not know.
_LEAST = 1e-9
_MOST_TESTED = 1000


class Draw(NamedTuple):
    """Rows to train on and to test on; encoded, as numbers without holes, and as they came."""

    inputs: FloatArray  # (n, p)
    labels: NDArray[np.int64]  # (n,), from 0 to c - 1
    tested: FloatArray  # (n_test, p)
    truth: NDArray[np.int64]  # (n_test,)
    raw: FloatArray  # (n, columns), categories as codes, holes NaN
    raw_tested: FloatArray  # (n_test, columns)
    categories: list[int]  # columns of raw that are categories


class Answer(NamedTuple):
    """Log class probabilities out of fold (n, c), None where a model has none, and of the tested rows."""

    out_of_fold: FloatArray
    tested: FloatArray


def draw_from(data: Any, name: str, size: str, seed: int) -> Draw:
    """Draw rows of a table at random; tested are at most 1,000 others, of classes that were drawn."""
    table, names, columns = data[f"{name}/X"].astype(float), data[f"{name}/y"], data[f"{name}/cat"]
    n = len(names) // 2 if size == "half" else int(size)
    order = np.random.RandomState(seed).permutation(len(names))
    train, test = order[:n], order[n:][:_MOST_TESTED]
    test = test[np.isin(names[test], names[train])]
    known, labels = np.unique(names[train], return_inverse=True)
    categories = np.flatnonzero(columns) if columns.dtype == bool else columns.astype(int)
    inputs, tested = encode(table[train], table[test], set(categories.tolist()))
    return Draw(
        inputs,
        labels.astype(np.int64),
        tested,
        np.searchsorted(known, names[test]),
        table[train],
        table[test],
        categories.tolist(),
    )


def encode(train: FloatArray, test: FloatArray, categories: set[int]) -> tuple[FloatArray, FloatArray]:
    """Categories as one column for each value (two values: one), holes as the median, no constant columns."""
    parts: list[tuple[FloatArray, FloatArray]] = []
    for number, (a, b) in enumerate(zip(train.T, test.T, strict=True)):
        known = np.unique(a[~np.isnan(a)])
        if number in categories:
            parts += [((a == v) * 1.0, (b == v) * 1.0) for v in (known[:1] if len(known) == 2 else known)]
        else:
            middle = float(np.median(a[~np.isnan(a)])) if len(known) else 0.0
            parts.append((np.nan_to_num(a, nan=middle), np.nan_to_num(b, nan=middle)))
    parts = [(a, b) for a, b in parts if a.std() > 0]
    return np.stack([a for a, _ in parts], axis=1), np.stack([b for _, b in parts], axis=1)


def default(draw: Draw, seed: int) -> Answer:
    """Fit the default."""
    model = PNCAClassifier(random_state=seed, device="cpu").fit(draw.inputs, draw.labels)
    return Answer(np.log(model.oof_proba_.clip(_LEAST)), model.predict_log_proba(draw.tested))
