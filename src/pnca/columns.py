"""Columns of a table as they come: what each was taken for, and how its values become numbers."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]

#: Values of a category that get a place of their own: those that occur so often, and at most so many.
_OFTEN, _MOST_VALUES = 2, 30
#: Where more than this share of the rows hold a value that occurs once, new values are nothing unusual.
_EXPECTED = 0.05
#: Rows that are enough for a median.
_MANY_ROWS = 1000
#: Microseconds of a day: in nanoseconds years beyond 2262 would wrap around.
_DAY = 86_400e6
_DATES, _DURATIONS = (datetime.date, np.datetime64), (datetime.timedelta, np.timedelta64)
#: What a category may be, as Python has it: all that a model file can hold.
_PLAIN: set[type] = {type(None), str, bytes, bool, int, float, Decimal}
_PLAIN |= {datetime.date, datetime.datetime, datetime.time, datetime.timedelta}


@dataclass(frozen=True, kw_only=True, repr=False)
class Column:
    """One column: what it was taken for, and what was seen in it."""

    name: Any  # as in the table, or the position
    kind: str  # "number", "date", "duration", "category", or "left out" (with has_holes: all is missing)
    middle: float = 0.0  # of numbers, dates in days since 1970 or durations in days: stands for a hole
    values: tuple[Any, ...] = ()  # of a category, each with a place, the most frequent first; the only number
    others: tuple[Any, ...] = ()  # rarer values, which share one more place
    shares: tuple[float, ...] = ()  # of a category's places, which a new value takes; of a number's holes
    expects_new: bool = False  # so many values are rare that a new one tells nothing
    has_holes: bool = False  # there were some: a hole is a sign of its own

    def __repr__(self) -> str:
        """What a user reads: ``smoker: category of 'no', 'yes', with holes``."""
        what = self.kind
        if self.kind == "category":
            shown = ", ".join(map(repr, self.values[:5])) + (", ..." if len(self.values) > 5 else "")
            what += f" of {shown}"
        what += " and others" * bool(self.others)
        if self.kind == "left out":
            return f"{self.name}: left out, " + ("all missing" if self.has_holes else "no value twice")
        if self.is_constant:
            return f"{self.name}: {self.kind}, always the same"
        return f"{self.name}: {what}" + ", with holes" * self.has_holes

    @property
    def is_constant(self) -> bool:
        """Whether every training example had the same number."""
        return self.kind not in ("category", "left out") and bool(self.values)

    @property
    def share_of_holes(self) -> float | None:
        """Share of the training examples that lacked a value; None if none did, or if that is not known."""
        return self.shares[-1] if self.has_holes and self.shares else None

    @property
    def n_places(self) -> int:
        """Numbers that a value becomes."""
        if self.kind == "left out":
            return 0
        if self.kind != "category":
            return 1 + self.has_holes
        n_values = self._n_values
        return n_values if n_values > 2 else n_values - 1  # two are one number

    def encode(self, given: _Given) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Places (n, k) of values (n,), and which of them (n,) are of a sort that was never seen."""
        if self.kind == "left out":
            return np.empty((len(given.is_hole), 0)), np.zeros(len(given.is_hole), dtype=bool)
        self._check(given)
        if self.kind == "category":
            return self._encode_category(given)
        places = np.where(given.is_hole, self.middle, given.numbers)[:, None]
        if self.has_holes:
            return np.hstack([places, given.is_hole[:, None]]), np.zeros(len(places), dtype=bool)
        return places, given.is_hole

    @property
    def _n_values(self) -> int:
        return len(self.values) + bool(self.others) + self.has_holes

    def _encode_category(self, given: _Given) -> tuple[FloatArray, NDArray[np.bool_]]:
        n_known, nowhere = len(self.values), -1
        places = {value: place for place, value in enumerate(self.values)}
        places |= dict.fromkeys(self.others, n_known)
        of_new = n_known if self.others and self.expects_new else nowhere
        of_holes = self._n_values - 1 if self.has_holes else nowhere
        rows = list(zip(given.as_category().values, given.is_hole, strict=True))
        found = np.array([of_holes if hole else places.get(v, of_new) for v, hole in rows], dtype=np.int64)
        is_new = np.array(
            [not self.has_holes if hole else v not in places and not self.expects_new for v, hole in rows],
            dtype=bool,
        )
        marks = (found[:, None] == np.arange(self._n_values)).astype(np.float64)
        marks[found == nowhere] = self.shares
        if self._n_values <= 2:
            marks = marks[:, self._n_values - self.n_places :]
        return marks, is_new

    def _check(self, given: _Given) -> None:
        """Refuse values of another kind than those of the fit."""
        if given.is_hole.all():
            return
        if given.kind != self.kind and (self.kind, given.kind) != ("category", "number"):
            raise InvalidInputError(
                f"Column {self.name!r} was a {self.kind} when the model was fitted, and is a {given.kind} "
                "now: give it the same type."
            )
        if self.kind != "category":
            return
        there = [v for v, hole in zip(given.as_category().values, given.is_hole, strict=True) if not hole]
        were_text = {isinstance(value, str) for value in (*self.values, *self.others)}
        if were_text.isdisjoint(isinstance(value, str) for value in there):
            raise InvalidInputError(
                f"Column {self.name!r} held {'text' if True in were_text else 'no text'} when the model was "
                f"fitted, such as {self.values[0]!r}, and now holds {there[0]!r}: give it the same type."
            )


@dataclass(frozen=True)
class Columns:
    """All columns of a table, and how a row of it becomes a row of numbers."""

    parts: tuple[Column, ...]
    is_plain: bool = False  # numbers without holes, which are rows of numbers already

    @classmethod
    def fit(cls, X: Any, categorical: Sequence[Any] | None = None) -> Columns:  # noqa: ANN401
        """Look at a table X (n, p): a pandas DataFrame, or an array in which NaN is a hole.

        ``categorical`` names columns, or their positions, whose numbers are codes; or says so of each.
        """
        names = _names(X)
        if not len(X):
            raise InvalidInputError("X has no rows.")
        coded = _positions(names, categorical)
        found = [_look(read_column(X, j, names[j]), names[j], is_coded=j in coded) for j in range(len(names))]
        if not sum(column.n_places for column in found):
            raise InvalidInputError(
                "X has no column that tells its rows apart: all values of a column are missing, or the "
                "same, or no text occurs twice."
            )
        return cls(tuple(found), is_plain=all(c.kind == "number" and not c.has_holes for c in found))

    @classmethod
    def of_numbers(cls, X: Any, inputs: NDArray[np.floating[Any]]) -> Columns:  # noqa: ANN401
        """Columns of a table X of which none lacks a number; ``inputs`` (n, p) are those numbers."""
        middles = np.median(inputs[:: max(1, len(inputs) // _MANY_ROWS)], axis=0).tolist()
        is_constant = (inputs == inputs[:1]).all(axis=0).tolist()
        names = _names(X) if _is_frame(X) else range(len(middles))
        found = [
            Column(name=name, kind="number", middle=m, values=(m,) if constant else ())
            for name, m, constant in zip(names, middles, is_constant, strict=True)
        ]
        return cls(tuple(found), is_plain=True)

    def encode(self, X: Any) -> FloatArray:  # noqa: ANN401
        """Rows of numbers (n, q); one more column counts what was never seen in training."""
        if not len(X):
            raise InvalidInputError("X has no rows.")
        names, n_columns = _names(X), len(self.parts)
        if len(names) != n_columns:
            raise InvalidInputError(f"X has {len(names)} columns, but the model was fitted on {n_columns}.")
        encoded = [column.encode(read_column(X, j, column.name)) for j, column in enumerate(self.parts)]
        n_new = np.sum([is_new for _, is_new in encoded], axis=0, dtype=float)
        return np.hstack([*(places for places, _ in encoded), n_new[:, None]])


def are_needed(X: Any) -> bool:  # noqa: ANN401
    """Whether X is a table with text, categories, dates or holes, so that it is no array of numbers yet."""
    is_plain = not _is_frame(X) or all(getattr(kind, "kind", "") in "biuf" for kind in X.dtypes)
    return not is_plain or has_holes(X)


def has_holes(X: Any) -> bool:  # noqa: ANN401
    """Whether values are missing in a pandas table, or NaN in rows of numbers.

    >>> has_holes([[1.0, float("nan")]])
    True
    """
    if _is_frame(X):
        return bool(X.isna().to_numpy().any())
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X)
        except (ValueError, TypeError, OverflowError):
            return False
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and bool(np.isnan(X).any())


def as_numbers(X: Any) -> Any:  # noqa: ANN401
    """Objects as an array of numbers, with NaN where one is missing; anything else as it is.

    >>> as_numbers([[1, None], [2, 3]]).tolist()
    [[1.0, nan], [2.0, 3.0]]
    """
    if isinstance(X, (list, tuple)) and any(isinstance(row, (list, tuple)) and None in row for row in X):
        try:
            X = np.array(X, dtype=object)
        except ValueError:  # rows of several lengths, of which scikit-learn says what is wrong
            return X
    if not isinstance(X, np.ndarray) or X.dtype != object or X.ndim != 2:
        return X
    is_missing = np.array([[v is None or type(v).__name__ == "NAType" for v in row] for row in X], dtype=bool)
    filled = np.where(is_missing.reshape(X.shape), math.nan, X)
    try:
        return filled.astype(np.float64) if is_missing.any() else X
    except (ValueError, TypeError):
        return X


def _is_frame(X: Any) -> bool:  # noqa: ANN401
    return hasattr(X, "iloc") and hasattr(X, "columns")


@dataclass(frozen=True)
class _Given:
    """Values of a column as they were given, of one kind."""

    kind: str
    is_hole: NDArray[np.bool_]  # (n,)
    numbers: FloatArray  # (n,), with kind "number", "date" or "duration"
    values: list[Any]  # (n,), of a category

    @classmethod
    def of_numbers(cls, numbers: FloatArray, kind: str = "number") -> _Given:
        return cls(kind, np.isnan(numbers), numbers, [])

    def as_category(self) -> _Given:
        """Numbers as codes."""
        if self.kind == "category":
            return self
        if np.isinf(self.numbers).any():
            raise InvalidInputError("A column of codes holds infinity.")
        codes = [int(code) if code.is_integer() else code for code in self.numbers.tolist()]
        return _Given("category", self.is_hole, self.numbers, codes)


def _names(X: Any) -> list[Any]:  # noqa: ANN401
    return list(X.columns) if hasattr(X, "columns") else list(range(np.shape(X)[1]))


def _positions(names: list[Any], categorical: Sequence[Any] | None) -> set[int]:
    """Positions of the columns that are named, numbered or marked."""
    if categorical is None:
        return set()
    marks = list(categorical)
    if marks and all(isinstance(mark, (bool, np.bool_)) for mark in marks):
        if len(marks) != len(names):
            raise InvalidInputError(f"categorical_features marks {len(marks)} columns; X has {len(names)}.")
        return set(np.flatnonzero(marks).tolist())
    found = set()
    for mark in marks:
        if isinstance(mark, Hashable) and mark in names:
            found.add(names.index(mark))
        elif isinstance(mark, Integral) and 0 <= int(mark) < len(names):
            found.add(int(mark))
        else:
            raise InvalidInputError(f"categorical_features names {mark!r}, which is no column of X.")
    return found


def read_column(X: Any, position: int, name: Any) -> _Given:  # noqa: ANN401
    """Values of a column of a table or array X (n, p), and what they look like."""
    if not hasattr(X, "iloc"):
        return _Given.of_numbers(_as_numbers(np.asarray(X)[:, position], name))
    import pandas as pd
    from pandas.api import types

    column = X.iloc[:, position]
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if types.is_datetime64_any_dtype(column.dtype):
        return _dates(column if column.dt.tz is None else column.dt.tz_convert("UTC"))
    if types.is_timedelta64_dtype(column.dtype):
        return _dates(column, "duration")
    is_number = types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)
    if is_number and not isinstance(column.dtype, pd.CategoricalDtype):
        if types.is_complex_dtype(column.dtype):
            raise InvalidInputError(f"Column {name!r} holds complex numbers: take their parts.")
        return _Given.of_numbers(column.to_numpy(dtype=np.float64, na_value=np.nan))
    is_hole, values = column.isna().to_numpy(dtype=bool), column.astype(object).tolist()
    there = [value for value, hole in zip(values, is_hole, strict=True) if not hole]
    is_object = column.dtype == object and bool(there)
    if is_object and all(_is_number(value) for value in there):
        numbers = [math.nan if hole else value for value, hole in zip(values, is_hole, strict=True)]
        return _Given.of_numbers(_as_numbers(numbers, name))
    for kind, sorts in (("date", _DATES), ("duration", _DURATIONS)):
        if is_object and all(isinstance(value, sorts) for value in there):
            return _dates(_as_dates(column, kind, name), kind)
    plain = [None if hole else _plain(value) for value, hole in zip(values, is_hole, strict=True)]
    others = [v for v in plain if not (isinstance(v, pd.Interval) and _is_number(v.left))]  # pandas.cut's
    if wrong := [v for v in others if type(v) not in _PLAIN]:
        raise InvalidInputError(
            f"Column {name!r} holds {wrong[0]!r}: a value must be a number, a text, a truth value or a date."
        )
    return _Given("category", is_hole, np.full(len(is_hole), np.nan), plain)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """A value of numpy's, of pandas' or of an enumeration of texts as Python's own."""
    for method in ("item", "to_pydatetime", "to_pytimedelta"):
        if hasattr(value, method):
            return getattr(value, method)()
    return str.__str__(value) if isinstance(value, str) else value


def _dates(column: Any, kind: str = "date") -> _Given:  # noqa: ANN401
    """Dates or durations in days."""
    unit = "datetime64[us]" if kind == "date" else "timedelta64[us]"
    plain = column.dt.tz_localize(None) if kind == "date" else column
    counts = plain.to_numpy(dtype=unit).astype(np.int64) / _DAY
    return _Given.of_numbers(np.where(column.isna().to_numpy(), np.nan, counts), kind)


def _as_dates(column: Any, kind: str, name: Any) -> Any:  # noqa: ANN401
    """Python's dates or durations as pandas'."""
    import pandas as pd

    try:
        return pd.to_datetime(column, utc=True) if kind == "date" else pd.to_timedelta(column)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidInputError(f"Column {name!r} holds a {kind} that cannot be read: {error}.") from error


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, (Real, Decimal)) and not isinstance(value, (bool, np.bool_))


def _as_numbers(values: Any, name: Any) -> FloatArray:  # noqa: ANN401
    if np.iscomplexobj(values):  # numpy would drop the imaginary parts
        raise InvalidInputError(f"Column {name!r} holds complex numbers: take their parts.")
    if getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M"):  # and count nanoseconds
        raise InvalidInputError(f"Column {name!r} of the array holds dates: pass a pandas table.")
    try:
        return np.asarray(values, dtype=np.float64)
    except OverflowError as error:
        raise InvalidInputError(f"Column {name!r} holds a number that is too large: {error}.") from error
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"Column {name!r} of the array is not of numbers ({error}): pass a pandas table."
        ) from error


def _look(given: _Given, name: Any, *, is_coded: bool) -> Column:  # noqa: ANN401
    """What a column is taken for."""
    if given.is_hole.all():
        return Column(name=name, kind="left out", has_holes=True)
    has_holes = bool(given.is_hole.any())
    if given.kind != "category" and not is_coded:
        middle = float(np.median(given.numbers[~given.is_hole]))
        shares = (float(given.is_hole.mean()),) if has_holes else ()
        only = (middle,) if (given.numbers == middle).all() else ()
        return Column(
            name=name, kind=given.kind, middle=middle, values=only, shares=shares, has_holes=has_holes
        )
    there = [v for v, hole in zip(given.as_category().values, given.is_hole, strict=True) if not hole]
    counts = Counter(there)
    ordered = sorted(counts, key=lambda value: (-counts[value], repr(value)))
    known = tuple(value for value in ordered if counts[value] >= _OFTEN)[:_MOST_VALUES]
    if not known:
        return Column(name=name, kind="left out")
    n_once = sum(count == 1 for count in counts.values())
    n_of_places = [counts[value] for value in known]
    if len(known) < len(ordered):
        n_of_places.append(len(there) - sum(n_of_places))
    if has_holes:
        n_of_places.append(int(given.is_hole.sum()))
    return Column(
        name=name,
        kind="category",
        values=known,
        others=tuple(value for value in ordered if value not in known),
        shares=tuple(count / len(given.is_hole) for count in n_of_places),
        expects_new=n_once > _EXPECTED * len(there),
        has_holes=has_holes,
    )
