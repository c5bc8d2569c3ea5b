"""Inputs that came together, what a model says of them, and each of them as a case."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.decisions import Decisions
from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanation, WhatIf
from pnca.pipelines import explain, last_step
from pnca.sources import ImageSource
from pnca.tables.extras import require
from pnca.workflows.answers import Answers, Scores, Settings
from pnca.workflows.predicting import TableInputs, TablePart, drift_note, named, no_rows

if TYPE_CHECKING:
    import pandas as pd

    from pnca.tables import TableFile

#: What a model takes: rows of a table, image files, or rows of numbers without names.
Kind = Literal["table", "images", "numbers"]
TABLE: Final = "table"
IMAGES: Final = "images"
NUMBERS: Final = "numbers"
#: Columns of the predictions by which they can be put in order, beside the first.
SORTED_BY = ("name", "label", "reason", "confidence", "familiarity")


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Inputs that came together, with what the model says of them.

    Attributes
    ----------
    name : str
        What their names are called, such as ``"row"`` or ``"image"``.
    names : sequence of n
        Their names.
    X : DataFrame or ndarray of shape (n, ...)
        As the model takes them.
    scores : Scores
        What the model says of them.
    groups : ndarray of shape (n,), optional
        Groups, if the table has the column of the fit.
    notes : tuple of str
        What a user should know of how they were read.
    pictures : tuple of n bytes
        Images as PNG, to be shown; empty for tables.
    """

    name: str
    names: Sequence[Any]
    X: Any
    scores: Scores
    groups: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    pictures: tuple[bytes, ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def n_bytes(self) -> int:
        """Memory that it takes, about."""
        arrays = (self.scores.inputs, self.scores.proba, self.scores.rows, self.scores.shares)
        return 2 * sum(array.nbytes for array in arrays) + sum(map(len, self.pictures)) + 200 * len(self)

    def input(self, row: int) -> Any:  # noqa: ANN401
        """One input (1, ...)."""
        return self.X.iloc[[row]] if hasattr(self.X, "iloc") else self.X[row : row + 1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answered:
    """What is said of a batch by some settings.

    Attributes
    ----------
    frame : DataFrame
        A row for each input, as ``pnca predict`` writes it.
    decisions : Decisions
        The same decisions.
    classes : ndarray of shape (c,)
        The labels.
    sets : ndarray of bool, shape (n, c)
        The conformal set of classes of each input.
    coverage : float
        How often such a set has the true class, at least.
    counts : dict
        How many inputs have each reason.
    notes : tuple of str
        What a user should know of the reading, and of drift; promises that cannot be made are in
        ``decisions.summary()``.
    """

    frame: pd.DataFrame
    decisions: Decisions
    classes: NDArray[Any]
    sets: NDArray[np.bool_]
    coverage: float
    counts: Mapping[str, int]
    notes: tuple[str, ...]


def kind_of(model: Any) -> Kind:  # noqa: ANN401
    """What a model takes: ``"table"``, ``"images"`` or ``"numbers"``; an error if that cannot be said."""
    source = getattr(model, "source_", None)
    if isinstance(source, ImageSource):
        return IMAGES
    if source is not None or hasattr(model, "columns_"):
        return TABLE
    last, _ = last_step(model, None, "decide")
    if hasattr(model, "feature_names_in_") or len(last.input_shape_) != 1:
        raise InvalidInputError(
            "It is not known what an input of this model is: it was fitted on arrays of images, or is a "
            "pipeline of a table. Fit it with pnca fit, on files."
        )
    return NUMBERS


@dataclass(frozen=True)
class RowsTable:
    """A table of values that came as such and not as a file."""

    rows: Sequence[Mapping[str, Any] | Sequence[Any]]
    columns: Sequence[str] = ()  # in which order rows are that are no mappings
    path: Path = Path("rows")
    notes: tuple[str, ...] = ()
    has_commas: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(dict.fromkeys(name for row in self._named() for name in row))

    def frames(self, numbers: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """One table with all rows."""
        names = self.names
        cells = [[row.get(name) for name in names] for row in self._named()]
        yield require("pandas").DataFrame(cells, columns=list(names), dtype=object)

    def _named(self) -> Iterator[Mapping[str, Any]]:
        for number, row in enumerate(self.rows, start=1):
            if isinstance(row, Mapping):
                yield row
            elif len(row) == len(self.columns):
                yield dict(zip(self.columns, row, strict=True))
            else:
                raise InvalidInputError(
                    f"Row {number} has {len(row)} values, but the model has {len(self.columns)} columns: "
                    f"{', '.join(map(repr, self.columns[:5]))}{' and others' * (len(self.columns) > 5)}."
                )


def table_parts(model: Any, table: TableFile, most: int) -> tuple[TableInputs, list[TablePart]]:  # noqa: ANN401
    """Read a table as a model takes it; more rows than ``most`` are an error.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted on a table.
    table : TableFile
        From :func:`pnca.tables.open_table`, or rows.
    most : int
        Rows that it may have.

    Returns
    -------
    inputs : TableInputs
        With notes on what was read.
    parts : list of TablePart
        The rows.
    """
    inputs, parts, n = TableInputs(model, table), [], 0
    for part in inputs.parts():
        n += len(part.X)
        if n > most:
            raise InvalidInputError(
                f"{table.path} has more than {most:,} rows: divide it, or use pnca predict, which has no "
                "limit."
            )
        parts.append(part)
    if not n:
        raise no_rows(table)
    return inputs, parts


def batch_of_table(inputs: TableInputs, parts: Sequence[TablePart], scores: Scores) -> Batch:
    """Put the rows of a table and what the model says of them together."""
    is_table = hasattr(parts[0].X, "iloc")
    frames = [part.X for part in parts]
    X = require("pandas").concat(frames, ignore_index=True) if is_table else np.concatenate(frames)
    has_groups = parts[0].groups is not None
    return Batch(
        name=inputs.name,
        names=[name for part in parts for name in part.names],
        X=X,
        scores=scores,
        groups=np.concatenate([part.groups for part in parts]) if has_groups else None,
        notes=tuple(inputs.notes()),
    )


def answered(model: Any, batch: Batch, settings: Settings) -> Answered:  # noqa: ANN401
    """Decide all inputs of a batch by these settings.

    Parameters
    ----------
    model : PNCAClassifier
        By which the batch was scored.
    batch : Batch
        The inputs.
    settings : Settings
        What is asked.

    Returns
    -------
    Answered
    """
    answers = Answers(model, replace(settings, n_examples=batch.scores.rows.shape[1]))
    frame = named(answers.said(batch.scores, batch.groups), batch.name, batch.names)
    drifted = drift_note(answers.drift(), len(batch))
    notes = (*batch.notes, *([drifted] if drifted else []))
    return Answered(
        frame=frame,
        decisions=answers.decisions(batch.scores),
        classes=answers.last.classes_,
        sets=answers.sets(batch.scores),
        coverage=settings.coverage,
        counts=answers.counts,
        notes=notes,
    )


def arranged(
    frame: pd.DataFrame, *, by: str = "", descending: bool = False, reason: str = ""
) -> NDArray[np.int64]:
    """Rows of the predictions that have a reason, in the order of one of their columns.

    Parameters
    ----------
    frame : DataFrame
        From :func:`answered`.
    by : str
        One of ``SORTED_BY``; empty keeps the order of the inputs.
    descending : bool
        Whether the largest come first.
    reason : str
        The only reason that is wanted; empty wants all.

    Returns
    -------
    ndarray of int
    """
    if by and by not in SORTED_BY:
        raise InvalidInputError(f"Predictions are sorted by one of {', '.join(SORTED_BY)}, not by {by!r}.")
    rows = np.arange(len(frame))
    if reason:
        rows = rows[(frame["reason"] == reason).to_numpy()]
    if by:
        column = frame.columns[0] if by == "name" else by
        order = frame[column].iloc[rows].reset_index(drop=True)
        order = order.sort_values(ascending=not descending, kind="stable", na_position="last")
        rows = rows[order.index.to_numpy()]
    elif descending:
        rows = rows[::-1]
    return rows


def explain_input(model: Any, batch: Batch, row: int, k: int = 5) -> Explanation:  # noqa: ANN401
    """Explain the answer for one input of a batch, which is called by its number from 1."""
    found: Explanation = explain(model, batch.input(row), k)[0]
    return replace(found, row=row + 1)


def without_rows(case: Explanation, rows: Collection[int]) -> WhatIf:
    """Answer a case without some training examples, by their rows."""
    ids, n = case.source.record.ids, len(case.source.record)
    if wrong := [row for row in rows if not 0 <= row < n]:
        raise InvalidInputError(f"There is no training example {wrong[0] + 1}: they are 1 to {n}.")
    names = list(dict.fromkeys(rows)) if ids is None else [ids.tolist()[row] for row in dict.fromkeys(rows)]
    # The case may have another number than the row of its input.
    return replace(case, row=0).without(names)
