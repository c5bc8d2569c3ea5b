"""Labelled cases in files, as a fitted model takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError
from pnca.tables import Roles, TableFile, match_labels, read_rows
from pnca.tables.extras import require
from pnca.tables.files import whole
from pnca.tables.names import column_of
from pnca.tables.values import as_text, tidied
from pnca.vision.folders import ImageFiles, classes_of, image_files, listed_files
from pnca.workflows.images import LabelledImages, image_inputs, image_source_of, without_broken
from pnca.workflows.predicting import as_fitted, check_columns, inputs_of, source_of

if TYPE_CHECKING:
    from pnca.vision import Backbone


@dataclass(frozen=True, kw_only=True, eq=False)
class Cases:
    """Inputs, with their labels where these are asked for."""

    name: str  # of the file or folder
    X: Any  # (n, ...), as the model takes them
    names: NDArray[np.object_]  # (n,)
    labels: NDArray[np.int64] | None = None  # (n,), positions among the model's classes; -1: none of them
    unknown: Mapping[str, int] | None = None  # labels that are no class, with their counts
    groups: NDArray[np.object_] | None = None  # (n,)
    paths: tuple[Path, ...] | None = None  # of images
    notes: tuple[str, ...] = ()


def cases_of_table(
    model: Any,  # noqa: ANN401
    table: TableFile,
    *,
    target: str | None = None,
    skip_missing: bool = False,
) -> Cases:
    """Labelled rows of a table.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit``, or on a pandas table.
    table : TableFile
        From :func:`pnca.tables.open_table`.
    target : str, optional
        The column of the label; by custom that of the fit.
    skip_missing : bool
        Whether rows without a label are left out.

    Returns
    -------
    Cases
    """
    source = source_of(model)
    check_columns(table, source)
    group = source.group if source.group in table.names else None
    roles = Roles(target=_target(target, source.target, table), group=group)
    found = read_rows(table, roles, skip_missing=skip_missing, holes=source.holes)
    labels, unknown = match_labels(found.raw[roles.target], _classes(model), has_commas=table.has_commas)
    _check_known(labels, unknown, _classes(model), f"column {roles.target!r} of {table.path}")
    return Cases(
        name=table.path.name,
        X=as_fitted(model, inputs_of(found.raw, table, source, 0)),
        names=_names(found.raw, source.id, found.rows),
        labels=labels,
        unknown=unknown,
        groups=found.groups,
        notes=found.notes,
    )


def ood_cases_of_table(model: Any, table: TableFile) -> Cases:  # noqa: ANN401
    """Rows of a table that belong to no class of the model; see :func:`cases_of_table`."""
    source = source_of(model)
    check_columns(table, source)
    raw = whole(table)
    X = as_fitted(model, inputs_of(raw, table, source, 0))
    return Cases(name=table.path.name, X=X, names=_names(raw, source.id, np.arange(1, len(raw) + 1)))


def labelled_images(
    model: Any,  # noqa: ANN401
    data: Path,
    table: TableFile | None,
    *,
    target: str | None = None,
    path_column: str | None = None,
    folder: Path | None = None,
    skip_missing: bool = False,
) -> LabelledImages:
    """Images of a folder that has a folder for each class, or those that a table names.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit`` on images.
    data : Path
        The folder, or the file of the table.
    table : TableFile, optional
        From :func:`pnca.tables.open_table`.
    target, path_column : str, optional
        Columns of the label and of the path; by custom those of the fit.
    folder : Path, optional
        To which paths are relative; by custom the folder of the table.
    skip_missing : bool
        Whether rows without a label or path are left out.

    Returns
    -------
    LabelledImages
        Labels as text, whatever they are.
    """
    source = image_source_of(model)
    if table is None:
        files = image_files(data)
        return LabelledImages(files=files, y=np.array(classes_of(files), dtype=object), notes=files.notes)
    path = path_column_of(model, table, path_column)
    group = source.group if source.group in table.names else None
    roles = Roles(target=_target(target, source.target, table), group=group, path=path)
    found = read_rows(table, roles, skip_missing=skip_missing)
    return LabelledImages(
        files=listed_files(folder or data.parent, as_text(found.raw[path])),
        y=as_text(found.raw[roles.target]).to_numpy(dtype=object),
        groups=found.groups,
        notes=found.notes,
    )


def cases_of_images(
    model: Any,  # noqa: ANN401
    images: LabelledImages,
    name: str,
    backbone: Backbone | None = None,
    *,
    skip_broken: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Cases:
    """Labelled images as inputs; see :func:`cases_of_table`.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted by ``pnca fit`` on images.
    images : LabelledImages
        From :func:`labelled_images`.
    name : str
        What they are called.
    backbone : Backbone, optional
        Of a model of features.
    skip_broken : bool
        Whether images that cannot be read are left out.
    progress : callable, optional
        ``progress(done, n)`` is called after each image.

    Returns
    -------
    Cases
    """
    kept = without_broken(images) if skip_broken else images
    labels, unknown = match_labels(require("pandas").Series(kept.y, dtype="str"), _classes(model))
    _check_known(labels, unknown, _classes(model), name)
    found = ood_images(model, kept.files, name, backbone, progress=progress)
    return Cases(
        **vars(found) | {"labels": labels, "unknown": unknown, "groups": kept.groups, "notes": kept.notes}
    )


def ood_images(
    model: Any,  # noqa: ANN401
    files: ImageFiles,
    name: str,
    backbone: Backbone | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Cases:
    """Images without labels; see :func:`cases_of_images`."""
    X = image_inputs(files.paths, image_source_of(model), backbone, progress)
    names = np.array(files.names, dtype=object)
    return Cases(name=name, X=np.asarray(X), names=names, paths=files.paths, notes=files.notes)


def path_column_of(model: Any, table: TableFile, given: str | None = None) -> str:  # noqa: ANN401
    """The column of a table that names image files: as given, or that of the fit."""
    name = given or image_source_of(model).path
    if not name:
        raise InvalidInputError(
            f"Say which column of {table.path} names the image files, with --path-column: there are "
            f"{', '.join(map(repr, table.names[:20]))}."
        )
    return column_of(name, table.names, table.path, "--path-column")


def _target(given: str | None, of_fit: str, table: TableFile) -> str:
    if not (given or of_fit):
        shown = ", ".join(map(repr, table.names[:20]))
        raise InvalidInputError(
            f"Say which column of {table.path} is the class, with --target: there are {shown}."
        )
    return given or of_fit


def _classes(model: Any) -> NDArray[Any]:  # noqa: ANN401
    classes: NDArray[Any] = (model[-1] if hasattr(model, "steps") else model).classes_
    return classes


def _check_known(
    labels: NDArray[np.int64], unknown: Mapping[str, int], classes: NDArray[Any], where: str
) -> None:
    if (labels < 0).all():
        shown, known = ", ".join(map(repr, list(unknown)[:5])), ", ".join(map(repr, classes.tolist()[:10]))
        raise InvalidInputError(
            f"None of the labels in {where} is a class of the model: there are {shown}, and the classes are "
            f"{known}. Name the right column with --target, or pass such cases as --ood."
        )


def _names(raw: Any, id_column: str | None, rows: NDArray[np.int64]) -> NDArray[np.object_]:  # noqa: ANN401
    """What rows are called: their identifiers where the fit had some, otherwise their number."""
    numbers = np.array([f"row {row}" for row in rows.tolist()], dtype=object)
    if id_column is None or id_column not in raw.columns:
        return numbers
    ids = tidied(as_text(raw[id_column]))
    return np.where(ids.notna(), ids.to_numpy(dtype=object), numbers)
