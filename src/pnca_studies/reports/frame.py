"""The tidy table of a run, and how numbers are taken from it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, Any]


class Frame:
    """Rows of a run's tidy table.

    Parameters
    ----------
    rows : iterable of mapping
        One a cell and test set.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)

    def where(self, **columns: Any) -> "Frame":  # noqa: ANN401
        """Keep the rows with these values.

        Parameters
        ----------
        **columns
            Column names and values.

        Returns
        -------
        Frame
        """
        return Frame(row for row in self.rows if all(row.get(k) == value for k, value in columns.items()))

    def unique(self, column: str) -> list[Any]:
        """Values of a column, in order of appearance.

        Parameters
        ----------
        column : str
            Its name.

        Returns
        -------
        list
        """
        return list(dict.fromkeys(row[column] for row in self.rows if column in row))

    def values(self, measure: str) -> NDArray[np.float64]:
        """A measure in each repetition: each draw, or each fold of each partition.

        Parameters
        ----------
        measure : str
            Its column.

        Returns
        -------
        ndarray of shape (r,)
            In order of the draws; NaN where it does not exist.
        """
        return np.array(list(self.by_repetition(measure).values()))

    def by_repetition(self, measure: str) -> dict[tuple[int, ...], float]:
        """A measure by the number of the draw, or those of partition and fold, in order.

        Parameters
        ----------
        measure : str
            Its column.

        Returns
        -------
        dict of tuple of int to float
        """
        found: dict[tuple[int, ...], list[float]] = {}
        for row in self.rows:
            value = row.get(measure)
            repetition = (row["trial"], row["fold"]) if "trial" in row else (row["draw"],)
            found.setdefault(repetition, []).append(np.nan if value is None else value)
        return {repetition: float(np.mean(found[repetition])) for repetition in sorted(found)}

    def mean(self, measure: str) -> float:
        """Mean of a measure over repetitions.

        Parameters
        ----------
        measure : str
            Its column.

        Returns
        -------
        float
            NaN where there is none.
        """
        values = self.values(measure)
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else float("nan")

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)
