"""How inputs look to a reader: the columns of a table, or pictures; and what is typical of each column."""

from __future__ import annotations

import datetime
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca import columns as tables
from pnca.explanations.case import Column
from pnca.record import Record, is_missing, is_table

FloatArray = NDArray[np.float64]


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
            return [self.shape.picture(np.asarray(X[row])) for row in rows]
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
    ) -> tuple[Column, ...]:
        """The columns of one input, the most unusual first, from its residuals (p,) and squares (p,)."""
        found, start = [], 0
        in_all = [None if part is None else float(part.sum()) for part in (_squared(residuals), squares)]
        for part, value, usual in zip(self.parts, given, typical, strict=True):
            own = slice(start, start + part.n_places)
            start = own.stop
            residual = None if residuals is None else _signed(residuals[own]) / unit
            distance = None if squares is None else float(np.sqrt(squares[own].sum())) / unit
            found.append(
                Column(
                    name=part.name,
                    value=value,
                    typical=usual.value,
                    low=usual.low,
                    high=usual.high,
                    residual=residual,
                    residual_share=_share(residual, in_all[0], unit),
                    distance=distance,
                    distance_share=_share(distance, in_all[1], unit),
                    is_new=_is_new(part, value),
                )
            )
        return tuple(sorted(found, key=lambda column: (not column.is_new, -column.part)))

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


def _signed(residuals: FloatArray) -> float:
    """Length of what a column has in the residual; of one number with its sign."""
    if not len(residuals):
        return 0.0
    length = float(np.sqrt(np.square(residuals).sum()))
    return float(np.sign(residuals[0]) or 1.0) * length if len(residuals) <= 2 else length


def _share(length: float | None, in_all: float | None, unit: float) -> float | None:
    if length is None or in_all is None:
        return None
    return (length * unit) ** 2 / in_all if in_all > 0 else 0.0


def _is_new(part: tables.Column, value: Any) -> bool:  # noqa: ANN401
    if part.kind != "category" or is_missing(value) or part.expects_new:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy compares text with numbers
        return value not in part.values and value not in part.others
