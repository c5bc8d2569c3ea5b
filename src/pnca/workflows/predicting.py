"""Predict a table with a model, part by part."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from pnca.tables.parts import PartsTable
from pnca.tables.values import DATE, DURATION, EMPTY, NUMBER, TEXT, TRUTH, as_text, text_of, tidied
from pnca.tables.writing import write_table
from pnca.workflows.answers import SAMPLE_ROWS, Answers, Settings, Tally

if TYPE_CHECKING:
    import pandas as pd

    from pnca.workflows.clusters import Cluster

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
class Seen:
    """Values of categories that were never seen in training, by column."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, X: pd.DataFrame, known: Mapping[str, set[str]]) -> None:
        """Count what is not among the known values of a column."""
        for name, values in known.items():
            given = X[name].dropna()
            self._add(name, given[~given.isin(values)].value_counts().items())

    def merge(self, other: Seen) -> None:
        """Count what was seen elsewhere, after this."""
        for name, found in other.counts.items():
            self._add(name, found.items())

    def _add(self, name: str, counts: Iterable[tuple[Any, int]]) -> None:
        found = self.counts.setdefault(name, Counter())
        for value, n in counts:
            if value in found or len(found) < _SHOWN_VALUES:
                found[str(value)] += int(n)

    def notes(self) -> list[str]:
        """Say which columns have such values, and in how many rows."""
        return [
            f"{name!r} has values that were never seen in training, such as {found.most_common(1)[0][0]!r} "
            f"({n} row{'s' * (n > 1)}): each moves the answer half of the way to the class shares"
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
    cluster: Cluster | None = None,
) -> PredictedFile:
    """Predict the rows of a table, some at a time, and write what is said of each.

    Memory does not grow with the table. Drift is judged by at most 2,000 rows, drawn from all.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit``, or on a pandas table.
    table : TableFile
        From :func:`pnca.tables.open_table`, or :func:`pnca.tables.open_parts`: then each row is named by the
        file of its part too. Columns are found by their names.
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
    cluster : Cluster, optional
        Where parts are predicted: processes of Dask. None is this process.

    Returns
    -------
    PredictedFile
    """
    seen, total = Seen(), Answers(model, settings)
    inputs = TableInputs(model, table, id, seen)
    with write_table(path, overwrite=overwrite) as writer:
        predicted = _predicted_here if cluster is None else cluster.predicted_parts
        for said in predicted(model, settings, _parts_of(table, inputs.id), total.tally, seen):
            writer.write(said)
            if advance is not None:
                advance(len(said))
        if not total.n:
            raise no_rows(table)
    notes = [*inputs.notes(), *total.broken_promises]
    return PredictedFile(
        path=Path(path), n=total.n, counts=total.counts, drift=total.drift(), notes=tuple(notes)
    )


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table, or one of several files of it, and how its rows are named."""

    table: TableFile
    id: str | None  # the column that names rows; None where they are counted from 1
    label: str | None  # what the part is called; None of a table in one file
    seed: int  # of the rows by which drift is judged


def _parts_of(table: TableFile, name: str | None) -> list[Part]:
    """The files of a table whose rows are named by this column."""
    if not isinstance(table, PartsTable):
        return [Part(table=table, id=name, label=None, seed=0)]
    return [
        Part(table=part, id=name, label=label, seed=seed)
        for seed, (part, label) in enumerate(zip(table.parts, table.labels, strict=True))
    ]


def _predicted_here(
    model: Any,  # noqa: ANN401
    settings: Settings | None,
    parts: Sequence[Part],
    tally: Tally,
    seen: Seen,
) -> Iterator[pd.DataFrame]:
    """What is said of the rows of each part, one after the other."""
    for part in parts:
        yield from predicted_rows(model, settings, part, tally, seen)


def predicted_rows(
    model: Any,  # noqa: ANN401
    settings: Settings | None,
    part: Part,
    tally: Tally,
    seen: Seen,
) -> Iterator[pd.DataFrame]:
    """What is said of the rows of a part, some at a time; they are counted when all have been asked for.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted on a table.
    settings : Settings or None
        What is asked of it.
    part : Part
        Where the rows are.
    tally : Tally
        To which the part is added.
    seen : Seen
        To which values are added that were never seen in training.
    """
    answers, inputs = Answers(model, settings, part.seed), TableInputs(model, part.table, part.id, seen)
    for some in inputs.parts():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", NEW_VALUES)  # said once, in the end
            said = named(answers.frame(some.X, some.groups), inputs.name, some.names)
        if part.label is not None:
            said.insert(0, "part" if "part" not in said.columns else "file", part.label)
        yield said
    tally.merge(answers.tally)


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

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        table: TableFile,
        id: str | None = None,
        seen: Seen | None = None,
    ) -> None:
        self.model, self.table, self.source = model, table, source_of(model)
        check_columns(table, self.source)
        self.id = id_column(table, self.source, id)
        self._group = self.source.group if self.source.group in table.names else None
        self._known, self._seen = _known_values(model, self.source), Seen() if seen is None else seen

    @property
    def name(self) -> str:
        """What the names of the rows are called."""
        return "row" if self.id is None else self.id

    def parts(self) -> Iterator[TablePart]:
        """The rows, in their order."""
        numbers = [name for name, sort in self.source.sorts.items() if sort == NUMBER]
        row = 0
        for raw in self.table.frames(numbers):
            for start in range(0, len(raw), _ROWS):
                yield self._part(raw.iloc[start : start + _ROWS].reset_index(drop=True), row)
                row += len(raw.iloc[start : start + _ROWS])

    def notes(self) -> list[str]:
        """What was not used, and which values were never seen in training, in the parts so far."""
        return [
            *dict.fromkeys(self.table.notes),
            *unused_columns(self.table, self.source, self.id),
            *self._seen.notes(),
        ]

    def _part(self, some: pd.DataFrame, row: int) -> TablePart:
        X = inputs_of(some, self.table, self.source, row)
        self._seen.count(X, self._known)
        group = self._group
        groups = None if group is None else as_text(some[group]).fillna("").to_numpy(dtype=object)
        names = ids_of(some, self.id, row, ())[1]
        return TablePart(as_fitted(self.model, X), names, groups)


def no_rows(table: TableFile) -> InvalidInputError:
    """What is said of a table without rows."""
    return InvalidInputError(f"{table.path} has a header and no rows.")


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
    kinds = _types_of(column)
    if kinds <= {bool}:
        return TRUTH
    return NUMBER if kinds <= {int, float} else TEXT


def _types_of(column: Any) -> set[type]:  # noqa: ANN401
    """Types of the values of a category."""
    return {type(value) for value in (*column.values, *column.others)}


def _is_written(column: Any) -> bool:  # noqa: ANN401
    """Whether a table in a file has the values of a category as they are: all text, truth values or codes."""
    kinds = _types_of(column)
    return any(kinds <= known for known in ({str}, {bool}, {int, float}))


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


def id_column(table: TableFile, source: TableSource, given: str | None) -> str | None:
    """The column that names rows: the given one, or that of the fit if it is there."""
    if given is not None:
        return column_of(given, table.names, table.path, "--id")
    return source.id if source.id in table.names else None


def inputs_of(part: pd.DataFrame, table: TableFile, source: TableSource, row: int) -> pd.DataFrame:
    """The model's columns in some rows of a table, after ``row`` others; what was empty may be absent."""
    lacking = [name for name in source.sorts if name not in part.columns]
    whole = part.assign(**dict.fromkeys(lacking, np.nan)) if lacking else part
    return typed(whole, table, source.sorts, row=row, holes=source.holes)


def as_fitted(model: Any, X: pd.DataFrame) -> Any:  # noqa: ANN401
    """The table as the model takes it: with the values and the names of its fit, which may be no text.

    A model of arrays knows no names.
    """
    columns = getattr(model, "columns_", ())
    if not hasattr(model, "feature_names_in_") and all(c.kind in ("number", "left out") for c in columns):
        return X.to_numpy()
    changed = {}
    for column in columns:
        known = {text_of(value): value for value in (*column.values, *column.others)}
        if column.kind == "category" and not _is_written(column):  # such as the intervals of pandas.cut
            texts = as_text(X[str(column.name)]).astype(object)
            changed[str(column.name)] = texts.map(lambda text, known=known: known.get(text, text))
    named: pd.DataFrame = X.assign(**changed) if changed else X
    if hasattr(model, "feature_names_in_"):
        return named
    return named.set_axis([column.name for column in columns], axis=1)


def ids_of(
    part: pd.DataFrame, name: str | None, row: int, taken: Collection[str]
) -> tuple[str, NDArray[Any] | pd.Series[Any]]:
    """Name and values of the column that says which rows are meant; other columns have ``taken`` names."""
    if name is None:
        return "row", np.arange(row + 1, row + len(part) + 1)
    values = tidied(as_text(part[name]))
    return (name if name not in taken else "id"), values


def _known_values(model: Any, source: TableSource) -> dict[str, set[str]]:  # noqa: ANN401
    """Values of text columns in training, but of those in which new ones are expected."""
    texts = {name for name, sort in source.sorts.items() if sort == TEXT}
    return {
        str(column.name): set(map(text_of, (*column.values, *column.others)))
        for column in getattr(model, "columns_", ())
        if str(column.name) in texts and column.kind == "category" and not column.expects_new
    }


def unused_columns(table: TableFile, source: TableSource, name_of_id: str | None) -> list[str]:
    """A note of the columns that the model does not know, if there are some."""
    known = {*source.sorts, source.target, source.group, source.id, name_of_id}
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
