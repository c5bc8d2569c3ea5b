"""What the values of a column are, and how they become numbers, dates, truth values or text."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.tables.extras import require

if TYPE_CHECKING:
    import pandas as pd

#: Texts that stand for a missing value, in every column.
HOLES = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "<NA>", "NULL", "null", "?")
#: Errors of a spreadsheet's formulas, which are no values.
FORMULA_ERRORS = ("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
#: Texts that stand for a missing value where all others are numbers or dates: elsewhere they may be
#: categories.
HOLES_AMONG_NUMBERS = ("None", "none", "-", ".", "missing")

NUMBER, DATE, TRUTH, TEXT, DURATION, EMPTY = "number", "date", "truth value", "text", "duration", "empty"
#: Dates by how they are written; what is plain "date" has the year first, as ISO 8601 says.
DATE_FORMATS = {
    DATE: "ISO8601",
    "date year/month/day": "%Y/%m/%d",
    "date day.month.year": "%d.%m.%Y",
    "date day/month/year": "%d/%m/%Y",
    "date month/day/year": "%m/%d/%Y",
}
#: All that a column may be taken for.
SORTS = (NUMBER, TRUTH, TEXT, DURATION, EMPTY, *DATE_FORMATS)
_ISO = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?Z|[+-]\d{2}:?\d{2})?)?"
_WRITTEN = {
    DATE: _ISO,
    "date year/month/day": r"\d{4}/\d{1,2}/\d{1,2}",
    "date day.month.year": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "date day/month/year": r"\d{1,2}/\d{1,2}/\d{4}",
    "date month/day/year": r"\d{1,2}/\d{1,2}/\d{4}",
}
_POINT = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMMA = r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?"
_COMMA_OR_WHOLE = r"[+-]?(?:\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?"
#: 007 is a code: as a number it would lose its zeros.
_CODE = r"[+-]?0\d+"
_TRUTHS = {"true": True, "false": False}


def sort_of(column: pd.Series[Any], *, has_commas: bool = False) -> str:
    """What a column (n,) holds: one of the names above, or of ``DATE_FORMATS``.

    A single text among numbers makes a column text. ``has_commas`` says that 3,5 is a number.
    """
    values = tidied(column)
    if values.isna().all():
        return EMPTY
    if (typed := _sort_of_type(values)) is not None:
        return typed
    there = values.dropna()
    if there.str.lower().isin(_TRUTHS).all():
        return TRUTH
    there = there[~there.isin(HOLES_AMONG_NUMBERS)]
    if not len(there):
        return TEXT
    patterns = (_POINT, _COMMA_OR_WHOLE) if has_commas else (_POINT,)
    if not there.str.fullmatch(_CODE).any() and any(there.str.fullmatch(p).all() for p in patterns):
        return NUMBER
    return _sort_of_dates(there)


def converted(
    column: pd.Series[Any], sort: str, *, has_commas: bool = False
) -> tuple[pd.Series[Any], NDArray[np.bool_]]:
    """Values (n,) of a column as a sort, and which of them (n,) are none of that sort.

    Those are missing in the values.
    """
    pandas = require("pandas")
    if sort == EMPTY:
        return pandas.Series(np.full(len(column), np.nan), index=column.index), np.zeros(len(column), bool)
    if sort == NUMBER and column.dtype == np.float64:
        return _checked_numbers(column)
    values = tidied(column)
    if sort == TEXT:
        return as_text(values), np.zeros(len(values), dtype=bool)
    if sort == TRUTH:
        return _truths(values), np.zeros(len(values), dtype=bool)
    found = _numbers(values, has_commas) if sort == NUMBER else _dates(values, sort)
    is_hole = values.isna()
    if _is_text(values):
        is_hole |= values.isin(HOLES_AMONG_NUMBERS)
    return found, (found.isna() & ~is_hole).to_numpy(dtype=bool)


def tidied(column: pd.Series[Any], holes: Iterable[str] = ()) -> pd.Series[Any]:
    """A column without spaces around its texts, in which texts that stand for a hole are one.

    Objects of several types become texts, those of one type become that.
    """
    pandas = require("pandas")
    if isinstance(column.dtype, pandas.CategoricalDtype):
        column = column.astype(object)
    if column.dtype == object:
        column = _of_one_type(column)
    if not _is_text(column):
        return column
    stripped = column.str.strip()
    return stripped.mask(stripped.isin([*HOLES, *FORMULA_ERRORS, *holes]))


def as_text(values: pd.Series[Any]) -> pd.Series[Any]:
    """Values as they would be written; a whole number has no point."""
    if _is_text(values):
        return values
    pandas = require("pandas")
    texts = [None if pandas.isna(value) else text_of(value) for value in values.astype(object)]
    return pandas.Series(texts, index=values.index, name=values.name, dtype="str")


def text_of(value: Any) -> str:  # noqa: ANN401
    """A value as it would be written.

    >>> text_of(3.0), text_of(True), text_of(datetime.date(2024, 5, 1))
    ('3', 'True', '2024-05-01')
    """
    if isinstance(value, datetime.date):  # and datetime, which is one
        return value.isoformat()
    is_number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_, Integral))
    return str(int(value)) if is_number and float(value).is_integer() else str(value)


def _is_text(values: pd.Series[Any]) -> bool:
    """Whether all values that are there are texts."""
    from pandas.api import types

    if values.dtype == object:
        return all(isinstance(value, str) for value in values[values.notna()])
    return bool(types.is_string_dtype(values.dtype))


def _of_one_type(column: pd.Series[Any]) -> pd.Series[Any]:
    """Objects as the type that all of them have, otherwise as texts."""
    pandas = require("pandas")
    there = column[column.notna()]
    kinds = {_kind_of(value) for value in there}
    if kinds == {NUMBER}:
        return pandas.Series(
            [math.nan if pandas.isna(value) else float(value) for value in column],
            index=column.index,
            name=column.name,
        )
    if kinds <= {TRUTH} or kinds == {DURATION} or kinds == {TEXT}:
        return column
    if kinds == {DATE}:
        return pandas.to_datetime(column, utc=True, errors="coerce").dt.tz_localize(None)
    return as_text(column)


def _kind_of(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, (bool, np.bool_)):
        return TRUTH
    if isinstance(value, (Real, Decimal)):
        return NUMBER
    if isinstance(value, datetime.date):
        return DATE
    return DURATION if isinstance(value, datetime.timedelta) else TEXT


def _sort_of_type(values: pd.Series[Any]) -> str | None:
    """The sort of values that have a type; None of texts."""
    from pandas.api import types

    if types.is_bool_dtype(values.dtype):
        return TRUTH
    if types.is_numeric_dtype(values.dtype):
        return NUMBER
    if types.is_datetime64_any_dtype(values.dtype):
        return DATE
    if types.is_timedelta64_dtype(values.dtype):
        return DURATION
    if values.dtype == object:
        kinds = {_kind_of(value) for value in values[values.notna()]}
        return None if kinds == {TEXT} else next(iter(kinds))
    return None


def _sort_of_dates(there: pd.Series[Any]) -> str:
    """How dates are written, if they are; of two ways none, where no date has a 13th or later."""
    fitting = [
        sort
        for sort, pattern in _WRITTEN.items()
        if there.str.fullmatch(pattern).all() and _dates(there, sort).notna().all()
    ]
    return fitting[0] if len(fitting) == 1 else TEXT


def _numbers(values: pd.Series[Any], has_commas: bool) -> pd.Series[Any]:
    """Numbers, NaN where a text is none."""
    pandas = require("pandas")
    if not _is_text(values):
        found = pandas.to_numeric(values, errors="coerce")
        return _checked_numbers(found.astype(np.float64))[0]
    if has_commas:
        is_comma = values.str.fullmatch(_COMMA, na=False).astype(bool)
        values = values.where(~is_comma, values.str.replace(",", "."))
    is_number = values.str.fullmatch(_POINT, na=False).astype(bool)
    numbers = values.astype(object).where(is_number, math.nan).astype(np.float64)
    return _checked_numbers(numbers)[0]


def _checked_numbers(numbers: pd.Series[Any]) -> tuple[pd.Series[Any], NDArray[np.bool_]]:
    """Numbers that are finite, and which are not: of those 1e999 is one."""
    is_infinite = np.isinf(numbers.to_numpy())
    return (numbers.mask(is_infinite) if is_infinite.any() else numbers), is_infinite


def _dates(values: pd.Series[Any], sort: str) -> pd.Series[Any]:
    """Dates without a time zone, NaT where a text is none."""
    pandas = require("pandas")
    if sort not in DATE_FORMATS:
        return values  # durations come as such
    found = pandas.to_datetime(values, format=DATE_FORMATS[sort], errors="coerce", utc=True)
    return found.dt.tz_localize(None)


def _truths(values: pd.Series[Any]) -> pd.Series[Any]:
    """Truth values as objects; a text that is none stays one, and is a value that was never seen."""
    if not _is_text(values):
        return values.astype(object)
    objects = values.astype(object)
    truths = objects.str.lower().map(_TRUTHS)
    return truths.where(truths.notna(), objects).astype(object)
