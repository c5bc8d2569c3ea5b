"""What is said, and not refused, of the columns of a fit and of the inputs that a model is asked about."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.suspicious import ColumnValues, identifier, names_groups
from pnca.columns import Columns, read_column
from pnca.record import is_table

#: Names, values and characters of a value that a message shows.
_MOST_NAMES, _MOST_VALUES, _MOST_CHARACTERS = 5, 3, 40
#: Holes are far more frequent than in training if there are twice as many, and that is so improbable.
_FAR_MORE, _CHANCE = 2, 1e-3
#: Rows that are enough to see what a column is.
_MANY_ROWS = 1000
#: Packages between a user's line and ours.
_BETWEEN = ("pnca", "sklearn", "joblib")

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
_THOUSANDS_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something in the line of the user's that led here, through whatever of ours."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_columns(
    columns: Columns,
    X: Any,  # noqa: ANN401
    groups: NDArray[np.int64] | None = None,
    *,
    takes_ids: bool = False,
) -> None:
    """Say what of X (n, p) is not used by a fit, what is perhaps not meant, and what names rows or groups."""
    keep = "leave it out (--ignore)"
    keep += ", or pass it to fit as ids= (--id)" if takes_ids else ""
    unused = [column for column in columns.parts if column.kind == "left out"]
    for reason, names in (
        ("every value is missing", [c.name for c in unused if c.has_holes]),
        (f"no value occurs twice; if it names the rows, {keep}", [c.name for c in unused if not c.has_holes]),
    ):
        if names:
            warn(f"Not used: {_shown(map(repr, names), len(names))}, in which {reason}.")
    X = X.iloc[:_MANY_ROWS] if is_table(X) else np.asarray(X)[:_MANY_ROWS]
    groups = None if groups is None else groups[:_MANY_ROWS]
    if is_table(X):
        for position, column in enumerate(columns.parts):
            if column.kind in ("category", "left out"):
                _warn_of_text(column.name, X.iloc[:, position])
    for position, column in enumerate(columns.parts):
        if column.kind in ("category", "number"):
            _warn_of_names(column.name, *_codes(X, position, column.name), groups, keep)


def _warn_of_text(name: Any, values: Any) -> None:  # noqa: ANN401
    """Say that a column (n,) of text is one of numbers or dates."""
    texts = {value for value in values.dropna().unique() if isinstance(value, str)}
    n_read = {cure: sum(map(reads, texts)) for cure, (_, reads) in _READINGS.items()}
    cure = max(n_read, key=lambda name: n_read[name])  # the first of those with as many
    if n_read[cure] > len(texts) / 2:
        what = _READINGS[cure][0]
        warn(
            f"Column {name!r} holds {what} as text, and each is taken for a category of its own: "
            f"{cure} makes {what.split()[0]} of them."
        )


def _reads(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text.strip()) is not None


def _is_date(text: str) -> bool:
    try:
        return len(text) >= 8 and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


#: How to read text as what it is, what that is, and whether a value can be read so.
_READINGS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "pandas.to_numeric(column, errors='coerce')": ("numbers", _reads(_PLAIN)),
    "pandas.read_csv(..., decimal=',', thousands='.')": (
        "numbers with a decimal comma",
        _reads(_DECIMAL_COMMA),
    ),
    "pandas.read_csv(..., thousands=',')": ("numbers with commas", _reads(_THOUSANDS_COMMA)),
    "pandas.to_datetime(column, errors='coerce')": ("dates", _is_date),
}


def _codes(X: Any, position: int, name: Any) -> tuple[str, NDArray[np.float64]]:  # noqa: ANN401
    """Kind of a column of X, and a number (n,) for each value: itself, or the same for the same category."""
    given = read_column(X, position, name)
    if given.kind != "category":
        return given.kind, given.numbers
    number = {value: float(k) for k, value in enumerate(dict.fromkeys(given.values))}
    return given.kind, np.array([number[value] for value in given.values])


def _warn_of_names(
    name: Any,  # noqa: ANN401
    kind: str,
    values: NDArray[np.float64],
    groups: NDArray[np.int64] | None,
    keep: str,
) -> None:
    """Say that a column (n,) names the rows or the groups, of which new inputs have others."""
    if groups is not None and names_groups(ColumnValues(name, kind, values[:, None]), groups):
        warn(
            f"Column {name!r} tells the groups apart one to one, as a name of them does: a new group has "
            "another, which makes its inputs unfamiliar. Leave it out; groups= knows it."
        )
    elif kind == "number" and (found := identifier(values, name)):
        how = {
            "row order": "rise or fall from row to row",
            "no repetition": "never or hardly ever repeat",
            "name": "never repeat, and its name says so",
        }
        if found.reason in how:
            warn(
                f"Column {name!r} looks like a number of the rows: its whole numbers {how[found.reason]}. It "
                f"is used as a measured number. If it is none, {keep}."
            )


def warn_of_inputs(columns: Columns, X: Any, n_train: int) -> None:  # noqa: ANN401
    """Say where X (n, p) lacks values that the training data had, or holds values that they lacked."""
    parts, n_holes = [], _count_holes(X)
    pairs = zip(columns.parts, n_holes, strict=True)
    if names := [_short(c.name) for c, n in pairs if n and not c.has_holes and c.kind != "left out"]:
        parts.append(
            "X lacks values in columns of which the training data lacked none "
            f"({_shown(names, len(names))}): the median, or the shares of the categories, stand for them."
        )
    if more := _more_holes(columns, n_holes, len(X), n_train):
        parts.append(f"X lacks far more values than the training data in {_shown(more, len(more))}.")
    if unseen := _unseen_values(columns, X):
        texts = (f"{_short(name)}: {_counted(counts)}" for name, counts in unseen.items())
        parts.append(f"X holds values that no training example had ({_shown(texts, len(unseen), '; ')}).")
    if parts:
        warn(" ".join(parts))


def _count_holes(X: Any) -> list[int]:  # noqa: ANN401
    """Values that each column of X (n, p) lacks."""
    is_hole: Any = X.isna().to_numpy() if is_table(X) else np.isnan(np.asarray(X, dtype=np.float64))
    return [int(n_holes) for n_holes in is_hole.sum(axis=0)]


def _more_holes(columns: Columns, n_holes: list[int], n: int, n_train: int) -> list[str]:
    """Columns of which n rows lack values, as those of the training data did, but far more often."""
    from scipy.stats import hypergeom

    found = []
    for column, k in zip(columns.parts, n_holes, strict=True):
        share = column.share_of_holes
        if share is None or k <= _FAR_MORE * share * n:
            continue
        before = round(share * n_train)
        if hypergeom.sf(k - 1, n_train + n, before + k, n) < _CHANCE / len(columns.parts):
            found.append(f"{_short(column.name)} ({k} of {n} rows, {100 * share:.2g} % in training)")
    return found


def _unseen_values(columns: Columns, X: Any) -> dict[Any, Counter[Any]]:  # noqa: ANN401
    """Values in X (n, p) that a category did not have in training, by column, and how often."""
    found = {}
    for position, column in enumerate(columns.parts):
        if column.kind == "category" and not column.expects_new:
            given, known = (
                read_column(X, position, column.name).as_category(),
                {*column.values, *column.others},
            )
            pairs = zip(given.values, given.is_hole, strict=True)
            if unseen := Counter(value for value, hole in pairs if not hole and value not in known):
                found[column.name] = unseen
    return found


def _counted(counts: Counter[Any]) -> str:
    """The most frequent values and in how many rows each is: ``'West' in 12 rows``."""
    texts = (
        f"{_short(value)} in {count} row{'s' * (count > 1)}"
        for value, count in counts.most_common(_MOST_VALUES)
    )
    return ", ".join(texts) + ", ..." * (len(counts) > _MOST_VALUES)


def _shown(texts: Iterable[str], n: int, separator: str = ", ") -> str:
    """The first of n texts."""
    first = [text for text, _ in zip(texts, range(_MOST_NAMES), strict=False)]
    return separator.join(first) + f"{separator}..." * (n > _MOST_NAMES)


def _short(value: Any) -> str:  # noqa: ANN401
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
