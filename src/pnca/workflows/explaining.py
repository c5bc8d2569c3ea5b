"""Explain what a model says of some rows of a table, or of some images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanations
from pnca.pipelines import explain
from pnca.tables.extras import require
from pnca.tables.files import TableFile
from pnca.tables.values import as_text, tidied
from pnca.vision.folders import ImageFiles
from pnca.workflows.answers import with_names
from pnca.workflows.images import image_inputs, image_source_of
from pnca.workflows.predicting import as_fitted, check_columns, inputs_of, source_of

if TYPE_CHECKING:
    import pandas as pd

    from pnca.sources import TableSource
    from pnca.vision import Backbone

_NOTHING_NAMED = "Say which {} to be explained: --row with a number, or --case with a name."


class _Found(NamedTuple):
    """A row of a table."""

    number: int  # from 1 below the header
    name: str | None
    X: pd.DataFrame  # (1, p)


def explain_rows(
    model: Any,  # noqa: ANN401
    table: TableFile,
    *,
    rows: Sequence[int] = (),
    names: Sequence[str] = (),
    k: int = 5,
) -> Explanations:
    """Explain the answers for some rows of a table.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit``, or on a pandas table.
    table : TableFile
        From :func:`pnca.tables.open_table`.
    rows : sequence of int
        From 1 below the header, as in the predictions.
    names : sequence of str
        More rows by their names, in the column that named examples in the fit.
    k : int
        Training examples that are named.

    Returns
    -------
    Explanations
        A case for each, in the order of ``rows`` and ``names``, called by its name in the table.
    """
    source = source_of(model)
    check_columns(table, source)
    if not rows and not names:
        raise InvalidInputError(_NOTHING_NAMED.format("row is"))
    if names and source.id not in table.names:
        raise InvalidInputError(
            f"{table.path} has no column that names rows ({source.id or 'the fit had none'}): pass --row."
        )
    found, n = _find(table, source, set(rows), set(names))
    by_number = {one.number: one for one in found}
    by_name = {one.name: one for one in reversed(found)}  # of two of one name the first
    if absent := [row for row in rows if row not in by_number]:
        raise InvalidInputError(f"{table.path} has no row {absent[0]}: there are {n}.")
    if unknown := [name for name in names if name not in by_name]:
        raise InvalidInputError(f"{table.path} has no row whose {source.id!r} is {unknown[0]!r}.")
    wanted = [*(by_number[row] for row in rows), *(by_name[name] for name in names)]
    X = require("pandas").concat([one.X for one in wanted], ignore_index=True)
    cases = explain(with_names(model), as_fitted(model, X), k)
    pairs = zip(cases, wanted, strict=True)
    return Explanations(replace(case, name=one.name, number=one.number) for case, one in pairs)


def _find(table: TableFile, source: TableSource, rows: set[int], names: set[str]) -> tuple[list[_Found], int]:
    """The rows with these numbers or names, in their order, and how many rows were read until all were."""
    found: list[_Found] = []
    before = 0
    for raw in table.frames():
        is_wanted = np.isin(np.arange(before + 1, before + len(raw) + 1), list(rows))
        called = None
        if source.id in table.names:
            called = tidied(as_text(raw[source.id]))
            is_wanted |= called.isin(names).to_numpy(dtype=bool)
        for place in np.flatnonzero(is_wanted).tolist():
            one = raw.iloc[[place]].reset_index(drop=True)
            name = None if called is None or called.isna().iloc[place] else str(called.iloc[place])
            found.append(_Found(before + place + 1, name, inputs_of(one, table, source, before + place)))
        before += len(raw)
        if rows <= {one.number for one in found} and names <= {one.name for one in found}:
            break
    return found, before


def explain_images(
    model: Any,  # noqa: ANN401
    files: ImageFiles,
    backbone: Backbone | None = None,
    *,
    rows: Sequence[int] = (),
    names: Sequence[str] = (),
    k: int = 5,
) -> Explanations:
    """Explain the answers for some images; see :func:`explain_rows`.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit`` on images.
    files : ImageFiles
        From :func:`pnca.vision.folders.image_files`; a single image need not be named.
    backbone : Backbone, optional
        From :func:`backbone_of`, of a model of features.
    rows : sequence of int
        Which of the files, from 1 in their order.
    names : sequence of str
        More of them by their paths below the folder.
    k : int
        Training examples that are named.

    Returns
    -------
    Explanations
    """
    source = image_source_of(model)
    called = files.names
    if absent := [row for row in rows if row > len(called)]:
        raise InvalidInputError(f"{files.folder} has no image {absent[0]}: there are {len(called)}.")
    if unknown := [name for name in names if name not in called]:
        raise InvalidInputError(f"{files.folder} has no image {unknown[0]!r}: it has {called[0]!r}.")
    places: Iterable[int] = [*(row - 1 for row in rows), *map(called.index, names)]
    if not rows and not names:
        if len(called) > 1:
            raise InvalidInputError(_NOTHING_NAMED.format(f"of {len(called)} images are"))
        places = [0]
    X = image_inputs([files.paths[place] for place in places], source, backbone)
    cases = explain(with_names(model), np.asarray(X), k)
    pairs = zip(cases, places, strict=True)
    return Explanations(replace(case, name=called[place]) for case, place in pairs)
