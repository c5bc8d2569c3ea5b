"""How inputs look to a reader: the columns of a table, or pictures; and what is typical of each column."""

from __future__ import annotations

import datetime
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca import columns as tables
from pnca.explanations.case import Column
from pnca.record import Record, is_missing, is_table

FloatArray = NDArray[np.float64]

#: Columns of a case that are kept.
MOST_COLUMNS = 100


class PictureShape(NamedTuple):
    """How the numbers of an input form a picture."""

    height: int
    width: int
    channels: int
    channels_last: bool

    def picture(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """One input as a picture (h, w), or (h, w, channels) in colour."""
        if self.channels_last:
            found = numbers.reshape(self.height, self.width, self.channels)
        else:
            found = np.moveaxis(numbers.reshape(self.channels, self.height, self.width), 0, 2)
        return found[:, :, 0] if self.channels == 1 else found

    def root(self, squares: FloatArray) -> FloatArray:
        """Squares of an input (p,) summed up over the channels of each pixel, and their root (h, w)."""
        found = self.picture(squares)
        summed: FloatArray = found if found.ndim == 2 else found.sum(axis=2)
        return np.sqrt(summed)


class _Folded(NamedTuple):
    """What columns have of the squares of a row."""

    lengths: FloatArray  # (q,), in standard deviations; nan where not known
    shares: FloatArray  # (q,)


class Typical(NamedTuple):
    """What is typical of a column: the median and the range, or the most frequent value."""

    value: Any = None
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Looks:
    """How inputs are shown: by columns, as pictures, or not at all."""

    parts: tuple[tables.Column, ...]  # of a table or rows of numbers; none of other inputs
    shape: PictureShape | None = None

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of the columns."""
        return tuple(part.name for part in self.parts)

    def shown(self, X: Any, rows: Sequence[int]) -> list[Any]:  # noqa: ANN401
        """Some rows of inputs: the values of each, or its picture; None of what cannot be shown."""
        if self.shape is not None:
            pixels = np.asarray(X)  # perhaps of a table
            return [self.shape.picture(pixels[row]) for row in rows]
        if not self.parts:
            return [None] * len(rows)
        return list(zip(*(values_of(X, j, rows) for j in range(len(self.parts))), strict=True))

    def typical(self, record: Record) -> list[Typical]:
        """What is typical of each column: by the record, or without its inputs by what predictions keep."""
        if record.inputs is None:
            return [Typical(part.values[0] if part.values else part.middle) for part in self.parts]
        return [_typical_of(record.inputs, j, part) for j, part in enumerate(self.parts)]

    def unusual(
        self,
        given: Sequence[Any],
        typical: Sequence[Typical],
        residuals: FloatArray | None,
        squares: FloatArray | None,
        unit: float,
        class_parts: FloatArray | None = None,
    ) -> tuple[Column, ...]:
        """The most unusual columns of one input, from its residuals, squares and class parts (p,), in order.

        Columns whose value no training example had come first; there are at most a hundred in all.
        """
        of_residual = self._folded(None if residuals is None else np.square(residuals), unit)
        of_distance = self._folded(squares, unit)
        new = np.zeros(len(self.parts), dtype=bool)
        for j in self._categories:
            new[j] = _is_new(self.parts[j], given[j])
        of_class = self._folded(class_parts, unit)
        parts = np.fmax(np.fmax(of_residual.shares, of_distance.shares), of_class.shares)
        order = np.lexsort((-np.nan_to_num(parts), ~new))[:MOST_COLUMNS]
        signs = self._signs(residuals)
        return tuple(
            Column(
                name=self.parts[j].name,
                value=given[j],
                typical=typical[j].value,
                low=typical[j].low,
                high=typical[j].high,
                residual=_known(signs[j] * of_residual.lengths[j]),
                residual_share=_known(of_residual.shares[j]),
                distance=_known(of_distance.lengths[j]),
                distance_share=_known(of_distance.shares[j]),
                class_share=_known(of_class.shares[j]),
                is_new=bool(new[j]),
            )
            for j in order.tolist()
        )

    @cached_property
    def _categories(self) -> list[int]:
        return [j for j, part in enumerate(self.parts) if part.kind == "category"]

    @cached_property
    def _n_places(self) -> list[int]:
        return [part.n_places for part in self.parts]

    def _folded(self, squares: FloatArray | None, unit: float) -> _Folded:
        """Squares of the places (p,) of a row as lengths of the columns (q,) and their shares in all."""
        n = len(self.parts)
        if squares is None:
            return _Folded(np.full(n, np.nan), np.full(n, np.nan))
        column_of = np.repeat(np.arange(n), self._n_places)
        of_columns = np.bincount(column_of, weights=squares, minlength=n)
        total = of_columns.sum()
        return _Folded(np.sqrt(of_columns.clip(0)) / unit, of_columns / (total if total > 0 else 1.0))

    def _signs(self, residuals: FloatArray | None) -> FloatArray:
        """Sign of the residual of each column that is a number, and one of all others: (q,)."""
        signs, places = np.ones(len(self.parts)), np.cumsum([0, *self._n_places])
        if residuals is None:
            return signs
        is_number = np.array(self._n_places) > 0
        is_number[self._categories] = False
        first = residuals[places[:-1][is_number]]
        signs[is_number] = np.where(first < 0, -1.0, 1.0)
        return signs

    def maps(
        self, residuals: FloatArray | None, squares: FloatArray | None, unit: float
    ) -> dict[str, FloatArray]:
        """Where a picture is unusual: maps (h, w) of its residuals (p,) and squares (p,)."""
        if self.shape is None:
            return {}
        parts = {"residual": _squared(residuals), "distance": squares}
        return {name: self.shape.root(part) / unit for name, part in parts.items() if part is not None}


def values_of(X: Any, column: int, rows: Sequence[int]) -> list[Any]:  # noqa: ANN401
    """Values of a column of a table or an array in these rows, as Python's own."""
    some = X.iloc[list(rows), column] if is_table(X) else np.asarray(X)[list(rows), column]
    values: list[Any] = some.tolist()
    return values


def _typical_of(inputs: Any, j: int, part: tables.Column) -> Typical:  # noqa: ANN401
    values = [value for value in values_of(inputs, j, range(len(inputs))) if not is_missing(value)]
    if not values:
        return Typical()
    if part.kind == "category" or isinstance(values[0], str):
        return Typical(Counter(values).most_common(1)[0][0])
    try:
        if isinstance(values[0], (datetime.date, datetime.timedelta)):
            ordered = sorted(values)
            return Typical(ordered[len(ordered) // 2], ordered[0], ordered[-1])
        return Typical(float(np.median(np.asarray(values, dtype=float))), min(values), max(values))
    except (TypeError, ValueError):  # of several sorts
        return Typical()


def _squared(residuals: FloatArray | None) -> FloatArray | None:
    return None if residuals is None else np.square(residuals)


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


def _is_new(part: tables.Column, value: Any) -> bool:  # noqa: ANN401
    if is_missing(value) or part.expects_new:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy compares text with numbers
        return value not in part.values and value not in part.others
