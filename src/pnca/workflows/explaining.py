"""Explain what a model says of one row of a table, or of one image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pnca.estimators.explains import NO_RECORD
from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanations
from pnca.pipelines import explain
from pnca.record import Record
from pnca.tables.files import TableFile
from pnca.tables.values import as_text, tidied
from pnca.workflows.images import image_inputs, image_source_of
from pnca.workflows.predicting import as_fitted, check_columns, inputs_of, source_of

if TYPE_CHECKING:
    from pnca.vision import Backbone


def explain_row(
    model: Any,  # noqa: ANN401
    table: TableFile,
    *,
    row: int | None = None,
    name: str | None = None,
    k: int = 5,
) -> Explanations:
    """Explain the answer for one row of a table.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit``, or on a pandas table.
    table : TableFile
        From :func:`pnca.tables.open_table`.
    row : int, optional
        From 1 below the header, as in the predictions.
    name : str, optional
        The row by its name instead, in the column that named examples in the fit.
    k : int
        Training examples that are named.

    Returns
    -------
    Explanations
        One case.
    """
    source = source_of(model)
    check_columns(table, source)
    if (row is None) == (name is None):
        raise InvalidInputError(
            "Say which row is to be explained: --row with its number, or --case with its name."
        )
    if name is not None and source.id not in table.names:
        raise InvalidInputError(
            f"{table.path} has no column that names rows ({source.id or 'the fit had none'}): pass --row."
        )
    before = 0
    for raw in table.frames():
        if row is not None:
            place = row - 1 - before if before < row <= before + len(raw) else None
        else:
            is_it = (tidied(as_text(raw[source.id])) == name).to_numpy(dtype=bool)
            place = int(is_it.argmax()) if is_it.any() else None
        if place is not None:
            one = raw.iloc[[place]].reset_index(drop=True)
            X = inputs_of(one, table, source, before + place)
            return _numbered(explain(with_numbers(model), as_fitted(model, X), k), before + place + 1)
        before += len(raw)
    what = f"row {row}: there are {before}" if name is None else f"row whose {source.id!r} is {name!r}"
    raise InvalidInputError(f"{table.path} has no {what}.")


def explain_image(
    model: Any,  # noqa: ANN401
    path: Path,
    backbone: Backbone | None = None,
    k: int = 5,
) -> Explanations:
    """Explain the answer for one image; see :func:`explain_row`.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit`` on images.
    path : Path
        The image.
    backbone : Backbone, optional
        From :func:`backbone_of`, of a model of features.
    k : int
        Training examples that are named.

    Returns
    -------
    Explanations
        One case.
    """
    X = image_inputs([path], image_source_of(model), backbone)
    return _numbered(explain(with_numbers(model), np.asarray(X), k), 1)


def with_numbers(model: Any) -> Any:  # noqa: ANN401
    """The model; one whose examples have no names calls them by their row from 1, as predictions do."""
    rows = np.array([f"row {row}" for row in range(1, model.n_samples_fit_ + 1)], dtype=object)
    record: Record | None = getattr(model, "record_", None)
    if record is None:
        labels = model.classes_[model.support_labels_]
        model.record_ = Record(inputs=None, labels=labels, ids=rows, missing=NO_RECORD)
    elif record.ids is None:
        model.record_ = replace(record, ids=rows)
    return model


def _numbered(cases: Explanations, row: int) -> Explanations:
    """The case by its number in the file."""
    return Explanations([replace(cases[0], row=row)])
