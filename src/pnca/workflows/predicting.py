"""Predict a table with a model, part by part."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
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
    source = source_of(model)
    check_columns(table, source)
    name_of_id = _id_column(table, source, id)
    group = source.group if source.group in table.names else None
    answers, seen = Answers(model, settings), _Seen(_known_values(model, source))
    numbers = [name for name, sort in source.sorts.items() if sort == NUMBER]
    with write_table(path, overwrite=overwrite) as writer, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X holds values that no")  # said once, in the end
        row = 0
        for raw in table.frames(numbers):
            for start in range(0, len(raw), _ROWS):
                part = raw.iloc[start : start + _ROWS].reset_index(drop=True)
                X = inputs_of(part, table, source, row)
                seen.count(X)
                groups = None if group is None else as_text(part[group]).fillna("").to_numpy(dtype=object)
                said = answers.frame(as_fitted(model, X), groups)
                said.insert(0, *_ids(part, name_of_id, row, said))
                writer.write(said)
                row += len(part)
                if advance is not None:
                    advance(len(part))
        if not row:
            raise InvalidInputError(f"{table.path} has a header and no rows.")
    notes = [*table.notes, *_unused(table, source, name_of_id), *seen.notes(), *answers.broken_promises]
    return PredictedFile(
        path=Path(path), n=answers.n, counts=answers.counts, drift=answers.drift(), notes=tuple(notes)
    )


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


def _ids(
    part: pd.DataFrame, name: str | None, row: int, said: pd.DataFrame
) -> tuple[str, NDArray[Any] | pd.Series[Any]]:
    """Name and values of the first column of the predictions."""
    if name is None:
        return "row", np.arange(row + 1, row + len(part) + 1)
    values = tidied(as_text(part[name]))
    return (name if name not in said.columns else "id"), values


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
