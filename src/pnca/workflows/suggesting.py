"""What to label next of the rows of a table, or of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.labelling import Suggestions
from pnca.exceptions import InvalidInputError
from pnca.explanations.text import MOST_IN_CASES, decimal, in_columns, short
from pnca.pipelines import suggest
from pnca.tables.extras import require
from pnca.tables.files import TableFile
from pnca.tables.values import NUMBER
from pnca.tables.writing import write_table
from pnca.vision.folders import ImageFiles
from pnca.workflows.images import broken_images, image_inputs, image_source_of
from pnca.workflows.predicting import (
    as_fitted,
    check_columns,
    id_column,
    ids_of,
    inputs_of,
    no_rows,
    source_of,
    unused_columns,
)

if TYPE_CHECKING:
    import pandas as pd

    from pnca.vision import Backbone

_COLUMNS = ("score", "reason", "confidence", "familiarity")


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedSuggestions:
    """What to label next, by the names in the file, and what a user should know of it."""

    found: Suggestions
    column: str  # of the file that names rows; "row" where they are counted from 1; of images "image"
    names: NDArray[np.object_]  # (k,)
    notes: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each suggestion, the most useful first."""
        columns = {name: getattr(self.found, name) for name in _COLUMNS}
        frame: pd.DataFrame = require("pandas").DataFrame(columns)
        frame.insert(0, self.column, self.names)
        return frame

    def text(self) -> str:
        """What a user reads: a summary, and a line for each suggestion."""
        head = [self.column, "stands for", "reason", "confidence", "familiarity"]
        rows = [
            [short(name, MOST_IN_CASES), f"{score:.2g}", reason, decimal(sure), decimal(familiar)]
            for name, (score, reason, sure, familiar) in zip(self.names.tolist(), self._values(), strict=True)
        ]
        return f"{self.found.summary()}.\n{in_columns(head, rows)}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "n": self.found.n,
            "n_compared": self.found.n_compared,
            "expected_mistakes": self.found.expected_mistakes,
            "summary": self.found.summary(),
            "named_by": self.column,
            "suggestions": [
                {"name": name, **dict(zip(_COLUMNS, values, strict=True))}
                for name, values in zip(self.names.tolist(), self._values(), strict=True)
            ],
            "notes": list(self.notes),
        }

    def _values(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(getattr(self.found, name).tolist() for name in _COLUMNS), strict=True)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table, whole or not at all: ``.csv``, ``.tsv`` or ``.parquet``."""
        with write_table(path, overwrite=overwrite) as table:
            table.write(self.to_frame())


def suggest_rows(
    model: Any,  # noqa: ANN401
    table: TableFile,
    k: int = 10,
    *,
    id: str | None = None,
) -> NamedSuggestions:
    """Suggest which rows of a table to label next.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit``, or on a pandas table.
    table : TableFile
        The pool, from :func:`pnca.tables.open_table`. Columns are found by their names.
    k : int
        Suggestions.
    id : str, optional
        The column that names rows; by custom that of the fit, or else their number.

    Returns
    -------
    NamedSuggestions
    """
    source = source_of(model)
    check_columns(table, source)
    name_of_id = id_column(table, source, id)
    numbers = [name for name, sort in source.sorts.items() if sort == NUMBER]
    inputs, names, column, row = [], [], "row", 0
    for raw in table.frames(numbers):
        inputs.append(inputs_of(raw, table, source, row))
        column, found = ids_of(raw, name_of_id, row, _COLUMNS)
        names.append(np.asarray(found, dtype=object))
        row += len(raw)
    if not row:
        raise no_rows(table)
    X = require("pandas").concat(inputs, ignore_index=True)
    suggestions = suggest(model, as_fitted(model, X), k)
    return NamedSuggestions(
        found=suggestions,
        column=column,
        names=np.concatenate(names)[suggestions.rows],
        notes=(*table.notes, *unused_columns(table, source, name_of_id)),
    )


def suggest_images(
    model: Any,  # noqa: ANN401
    files: ImageFiles,
    backbone: Backbone | None = None,
    k: int = 10,
    *,
    skip_broken: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> NamedSuggestions:
    """Suggest which images to label next; see :func:`suggest_rows`.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit`` on images.
    files : ImageFiles
        The pool.
    backbone : Backbone, optional
        From :func:`backbone_of`, of a model of features.
    k : int
        Suggestions.
    skip_broken : bool
        Whether images that cannot be read are left out and named; they are an error otherwise.
    progress : callable, optional
        ``progress(done, n)`` is called after each image.

    Returns
    -------
    NamedSuggestions
    """
    source, notes = image_source_of(model), list(files.notes)
    if skip_broken:
        broken = broken_images(files.paths)
        notes += [f"left out: {reason}" for reason in broken.values()]
        whole = tuple(path for place, path in enumerate(files.paths) if place not in broken)
        if not whole:
            raise InvalidInputError(f"None of the {len(broken)} images of {files.folder} can be read.")
        files = replace(files, paths=whole)
    suggestions = suggest(model, image_inputs(files.paths, source, backbone, progress), k)
    names = np.array(files.names, dtype=object)[suggestions.rows]
    return NamedSuggestions(found=suggestions, column="image", names=names, notes=tuple(notes))
