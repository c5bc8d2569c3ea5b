"""What a model file holds, for people and for machines."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca.files import open_to_read
from pnca.persistence.container import unpacked
from pnca.persistence.model_file import load
from pnca.sources import ImageSource
from pnca.workflows.promises import promises_of


def about_model(path: str | Path) -> dict[str, Any]:
    """Describe a model file: classes, columns, counts, settings, versions, checksum and promises.

    Parameters
    ----------
    path : str or Path
        From ``pnca fit`` or :func:`pnca.save`.

    Returns
    -------
    dict
        Plain values, as JSON has them.
    """
    manifest, model = unpacked(path).about, load(path)
    last = model[-1] if hasattr(model, "steps") else model
    return {
        "file": str(path),
        "sha256": sha256_of(path),
        "pnca": manifest["pnca"],
        "format": manifest["format"],
        "model": manifest["model"],
        "n_examples": last.n_samples_fit_,
        "n_groups": manifest["groups"],
        "classes": _classes(last),
        "columns": _columns(last),
        "source": _source(last),
        "input_shape": list(last.input_shape_),
        "settings": _settings(last),
        "was_interrupted": last.was_interrupted_,
        "promises": _promises(last),
    }


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    checksum = hashlib.sha256()
    with open_to_read(path, "file") as file:
        while block := file.read(2**20):
            checksum.update(block)
    return checksum.hexdigest()


def _classes(model: Any) -> dict[str, int]:  # noqa: ANN401
    """Training examples of each class; of models that keep no examples none are counted."""
    import numpy as np

    names = [str(label) for label in model.classes_.tolist()]
    labels = getattr(model, "support_labels_", None)
    counts = [0] * len(names) if labels is None else np.bincount(labels, minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


def _columns(model: Any) -> list[str]:  # noqa: ANN401
    """What each column was taken for; features of images have no names."""
    if isinstance(getattr(model, "source_", None), ImageSource):
        return []
    sorts = getattr(getattr(model, "source_", None), "sorts", {})
    written = {name: sort.removeprefix("date ") for name, sort in sorts.items() if sort.startswith("date ")}
    return [
        repr(column) + (f", written {written[column.name]}" if column.name in written else "")
        for column in getattr(model, "columns_", ())
    ]


def _source(model: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """What the model remembers of the files that it was fitted on."""
    source = getattr(model, "source_", None)
    if source is None:
        return None
    plain = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(source).items()
    }
    of_pixels = isinstance(source, ImageSource) and not source.has_features
    left_out = {"sorts", *(("mode", "interpolation") if of_pixels else ())}
    return {name: value for name, value in plain.items() if name not in left_out and value}


def _settings(model: Any) -> dict[str, Any]:  # noqa: ANN401
    """Parameters that are not the default ones."""
    defaults = type(model)().get_params()
    given = model.get_params(deep=False)
    return {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in given.items()
        if name != "device" and repr(value) != repr(defaults[name])
    }


def _promises(model: Any) -> dict[str, Any] | None:  # noqa: ANN401
    try:
        return promises_of(model).as_dict()
    except InvalidInputError:
        return None
