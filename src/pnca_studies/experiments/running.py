"""Means over the cells that are finished, while others still run."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pnca_studies.experiments.store import CellResult

#: Columns over which a mean is taken.
_REPEATS = ("experiment", "draw", "trial", "fold")


class RunningMeans:
    """Mean of a few measures for each kind of cell.

    Parameters
    ----------
    headline : sequence of (test set, measure)
        Which.
    """

    def __init__(self, headline: Sequence[tuple[str, str]]) -> None:
        self.headline = list(headline)
        self.identifiers: list[str] = []
        self._values: dict[tuple[Any, ...], list[list[float]]] = {}

    def add(self, result: CellResult) -> None:
        """Count a finished cell.

        Parameters
        ----------
        result : CellResult
            What it found.
        """
        columns = {key: value for key, value in result.columns.items() if key not in _REPEATS}
        self.identifiers = list(columns)
        rows = {row["test_set"]: row for row in result.rows()}
        values = [rows[test_set][measure] for test_set, measure in self.headline]
        numbers = [np.nan if value is None else float(value) for value in values]
        self._values.setdefault(tuple(columns.values()), []).append(numbers)

    def rows(self) -> Iterator[tuple[tuple[str, ...], int, list[float]]]:
        """What identifies a kind of cell, how many are finished, and their means.

        Yields
        ------
        identity : tuple of str
        n : int
        means : list of float
        """
        for identity, values in sorted(self._values.items(), key=lambda item: item[0][:-1]):
            means = [
                np.mean(known) if (known := _known(column)) else np.nan
                for column in zip(*values, strict=True)
            ]
            yield tuple(map(str, identity)), len(values), [float(mean) for mean in means]


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if np.isfinite(value)]
