"""Predict a table with a model, part by part."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.drift import Drift
from pnca.exceptions import InvalidInputError
from pnca.sources import TableSource
from pnca.tables.files import TableFile, typed
from pnca.tables.names import column_of
from pnca.tables.values import DATE, DURATION, EMPTY, NUMBER, TEXT, TRUTH, as_text, tidied
from pnca.tables.writing import write_table
from pnca.workflows.answers import SAMPLE_ROWS, Answers, Settings

if TYPE_CHECKING:
    import pandas as pd

#: Rows that are predicted and written at once.
_ROWS = 4096
#: How the warning of a model begins that meets values which were never seen in training.
NEW_VALUES = "X holds values that no"
#: Values of a column that were never seen in training, of which so many are kept to be shown.
_SHOWN_VALUES = 100


@dataclass(frozen=True, kw_only=True)
class PredictedFile:
    """What was predicted, and what a user should know of it."""

    path: Path
    n: int
    counts: Mapping[str, int]  # of each reason
    drift: Drift | None
    notes: tuple[str, ...]


@dataclass
class _Seen:
    """Values of categories that were never seen in training, by column."""

    known: dict[str, set[str]]
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, X: pd.DataFrame) -> None:
        for name, known in self.known.items():
            values = X[name].dropna()
            new = values[~values.isin(known)]
            found = self.counts.setdefault(name, Counter())
            for value, n in new.value_counts().items():
                if value in found or len(found) < _SHOWN_VALUES:
                    found[str(value)] += int(n)

    def notes(self) -> list[str]:
        return [
            f"{name!r} has values that were never seen in training, such as {found.most_common(1)[0][0]!r} "
            f"({n} row{'s' * (n > 1)}): each takes half of the say of an answer"
            for name, found in self.counts.items()
            if (n := sum(found.values()))
        ]


def predict_table(
    model: Any,  # noqa: ANN401
    table: TableFile,
    path: str | Path,
    settings: Settings | None = None,
    *,
    id: str | None = None,
    overwrite: bool = False,
    advance: Callable[[int], None] | None = None,
) -> PredictedFile:
    """Predict the rows of a table, some at a time, and write what is said of each.

    Memory does not grow with the table. Drift is judged by at most 2,000 rows, drawn from all.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit``, or on a pandas table.
    table : TableFile
        From :func:`pnca.tables.open_table`. Columns are found by their names.
    path : str or Path
        The file that is written, whole or not at all: ``.csv``, ``.tsv`` or ``.parquet``.
    settings : Settings, optional
        What is asked of the model.
    id : str, optional
        The column that names rows; by custom that of the fit, or else their number.
    overwrite : bool
        Whether ``path`` may be replaced.
    advance : callable, optional
        Called with the number of rows after each part.

    Returns
    -------
    PredictedFile
    """
    inputs, answers = TableInputs(model, table, id), Answers(model, settings)
    with write_table(path, overwrite=overwrite) as writer, warnings.catch_warnings():
        warnings.filterwarnings("ignore", NEW_VALUES)  # said once, in the end
        for part in inputs.parts():
            said = named(answers.frame(part.X, part.groups), inputs.name, part.names)
            writer.write(said)
            if advance is not None:
                advance(len(said))
    notes = [*inputs.notes(), *answers.broken_promises]
    return PredictedFile(
        path=Path(path), n=answers.n, counts=answers.counts, drift=answers.drift(), notes=tuple(notes)
    )


def named(said: pd.DataFrame, name: str, names: Any) -> pd.DataFrame:  # noqa: ANN401
    """What is said of inputs, after a column of their names (n,)."""
    said.insert(0, name if name not in said.columns else "id", names)
    return said


@dataclass(frozen=True, eq=False)
class TablePart:
    """Some rows of a table."""

    X: Any  # (n, ...), as the model takes them
    names: Any  # (n,), of the rows
    groups: NDArray[Any] | None  # (n,), if the table has the column of the fit


class TableInputs:
    """The rows of a table as a model takes them, some at a time, and what a user should know of them."""

    def __init__(self, model: Any, table: TableFile, id: str | None = None) -> None:  # noqa: ANN401
        self.model, self.table, self.source = model, table, source_of(model)
        check_columns(table, self.source)
        self._id = _id_column(table, self.source, id)
        self._group = self.source.group if self.source.group in table.names else None
        self._seen = _Seen(_known_values(model, self.source))

    @property
    def name(self) -> str:
        """What the names of the rows are called."""
        return "row" if self._id is None else self._id

    def parts(self) -> Iterator[TablePart]:
        """The rows; an error if there are none."""
        numbers = [name for name, sort in self.source.sorts.items() if sort == NUMBER]
        row = 0
        for raw in self.table.frames(numbers):
            for start in range(0, len(raw), _ROWS):
                yield self._part(raw.iloc[start : start + _ROWS].reset_index(drop=True), row)
                row += len(raw.iloc[start : start + _ROWS])
        if not row:
            raise InvalidInputError(f"{self.table.path} has a header and no rows.")

    def notes(self) -> list[str]:
        """What was not used, and which values were never seen in training, in the parts so far."""
        return [*self.table.notes, *_unused(self.table, self.source, self._id), *self._seen.notes()]

    def _part(self, some: pd.DataFrame, row: int) -> TablePart:
        X = inputs_of(some, self.table, self.source, row)
        self._seen.count(X)
        group = self._group
        groups = None if group is None else as_text(some[group]).fillna("").to_numpy(dtype=object)
        names = (
            np.arange(row + 1, row + len(some) + 1) if self._id is None else tidied(as_text(some[self._id]))
        )
        return TablePart(as_fitted(self.model, X), names, groups)


def source_of(model: Any) -> TableSource:  # noqa: ANN401
    """How a table for this model is read: as that of its fit, or as its columns say."""
    source = getattr(model, "source_", None)
    if isinstance(source, TableSource):
        return source
    columns = getattr(model, "columns_", None)
    if source is not None or columns is None:
        raise InvalidInputError(
            "This model was not fitted on a table, but on images, or within a pipeline: what a row "
            "of a table is to it cannot be known."
        )
    return TableSource(target="", sorts={str(column.name): _sort_of_kind(column) for column in columns})


def _sort_of_kind(column: Any) -> str:  # noqa: ANN401
    if column.kind != "category":
        return {"number": NUMBER, "date": DATE, "duration": DURATION}.get(column.kind, EMPTY)
    kinds = {type(value) for value in (*column.values, *column.others)}
    if kinds <= {bool}:
        return TRUTH
    return NUMBER if kinds <= {int, float} else TEXT


def check_columns(table: TableFile, source: TableSource) -> None:
    """Every column of the model that holds something is there."""
    needed = [name for name, sort in source.sorts.items() if sort != EMPTY]
    missing = [name for name in needed if name not in table.names]
    if not missing:
        return
    if len(missing) == 1:
        column_of(missing[0], table.names, table.path, "the model was fitted with it", source.sorts)
    shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    raise InvalidInputError(
        f"{table.path} lacks {len(missing)} of the {len(needed)} columns that the model was fitted with: "
        f"{shown}. Add them; a field may be empty where a value is not known."
    )


def _id_column(table: TableFile, source: TableSource, given: str | None) -> str | None:
    if given is not None:
        return column_of(given, table.names, table.path, "--id")
    return source.id if source.id in table.names else None


def inputs_of(part: pd.DataFrame, table: TableFile, source: TableSource, row: int) -> pd.DataFrame:
    """The model's columns in some rows of a table, after ``row`` others; what was empty may be absent."""
    lacking = [name for name in source.sorts if name not in part.columns]
    whole = part.assign(**dict.fromkeys(lacking, np.nan)) if lacking else part
    return typed(whole, table, source.sorts, row=row, holes=source.holes)


def as_fitted(model: Any, X: pd.DataFrame) -> Any:  # noqa: ANN401
    """The table as the model takes it: a model of arrays knows no names."""
    return X if hasattr(model, "feature_names_in_") else X.to_numpy()


def _known_values(model: Any, source: TableSource) -> dict[str, set[str]]:  # noqa: ANN401
    """Values of text columns in training, but of those in which new ones are expected."""
    texts = {name for name, sort in source.sorts.items() if sort == TEXT}
    return {
        column.name: {*column.values, *column.others}
        for column in getattr(model, "columns_", ())
        if column.name in texts and column.kind == "category" and not column.expects_new
    }


def _unused(table: TableFile, source: TableSource, id_column: str | None) -> list[str]:
    known = {*source.sorts, source.target, source.group, source.id, id_column}
    unused = [name for name in table.names if name not in known]
    if not unused:
        return []
    shown = ", ".join(map(repr, unused[:5])) + (f" and {len(unused) - 5} more" if len(unused) > 5 else "")
    return [f"not used, because the model was fitted without: {shown}"]


def drift_note(drift: Drift | None, n: int) -> str:
    """A warning where a batch as a whole is less familiar than the training examples, or nothing."""
    if drift is None or drift.p_value >= 0.05:
        return ""
    of_sample = f" (judged by {drift.n} rows drawn from {n})" if n > SAMPLE_ROWS and drift.n < n else ""
    return f"drift: {drift.summary()}{of_sample}. Promises are for inputs like the training examples"
