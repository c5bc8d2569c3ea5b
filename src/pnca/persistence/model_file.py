"""Saving a fitted model to one file, and loading it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.files import check_target, write_bytes
from pnca.persistence.container import Content, packed, refuse, unpacked
from pnca.persistence.encoding import MalformedError
from pnca.persistence.layouts import Store

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from torch import nn


def save(model: BaseEstimator, path: str | Path, *, overwrite: bool = False, store: str = "full") -> Path:
    """Save a fitted model to a file, without pickle.

    The file is a zip archive of JSON and tensors with checksums. It holds all that predictions need, and
    what :func:`load` gives back: parameters, classes, columns, the network and the examples as they are
    compared with. It is written whole or not at all, and read once more before it is.

    Parameters
    ----------
    model : estimator
        One of the five classifiers, fitted; or a scikit-learn Pipeline that ends with one, of transformers
        that are named in the guide.
    path : str or Path
        The file, by custom ``NAME.pnca``; its folder must exist.
    overwrite : bool
        Whether a file that is there may be replaced.
    store : "full" or "predictive"
        Whether the record of the fit (``record_``: inputs as they were given, ids, groups) is kept, for
        explanations and audits. ``"predictive"`` leaves it out; ``docs/files.md`` says what could be
        recovered from either file.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, pnca
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = pnca.DNNClassifier(max_epochs=5, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pnca.save(model, folder + "/iris.pnca")
    ...     again = pnca.load(file)
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    if store not in ("full", "predictive"):
        raise InvalidInputError(f"store must be 'full' or 'predictive'; got {store!r}.")
    target = check_target(path, overwrite=overwrite)
    pieces = packed(content_of(model, has_record=store == "full"))
    try:
        return write_bytes(target, *pieces)
    except OSError as error:
        raise InvalidInputError(
            f"{target} cannot be written ({error.strerror or error}): make room, or name another folder."
        ) from error


def load(
    path: str | Path, device: str = "cpu", module: nn.Module | Callable[[], nn.Module] | None = None
) -> Any:  # noqa: ANN401
    """Load a model that :func:`save` wrote.

    Nothing of a file is executed, and every checksum, type, shape and index in it is looked at: a file that
    was damaged or forged is refused. With the same versions, threads and device the model answers as the one
    that was saved, bit for bit.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str
        Where the model predicts from now on, whatever it was fitted on: its parameter ``device``.
    module : nn.Module or callable, optional
        What was given as ``module`` when the model was fitted, if anything was: code is in no file. Its
        parameters must have the names and shapes of those in the file.

    Returns
    -------
    estimator
        Of the class that was saved, fitted.

    Examples
    --------
    See :func:`save`.
    """
    from pnca.models.fitted import resolve_device

    if not isinstance(device, str):
        raise InvalidInputError(f"device must be the name of a device, such as 'cpu'; got {device!r}.")
    resolve_device(device)
    path = _as_path(path)
    try:
        content = unpacked(path)
    except OSError as error:
        if isinstance(error, MissingDataError):
            raise
        reason = error.strerror or error
        raise InvalidInputError(f"{path} cannot be read ({reason}): take another copy of it.") from error
    try:
        return model_of(content, device, module)
    except MalformedError as error:
        refuse(path, f"it has {error}")
    except RecursionError:
        refuse(path, "its parts lie too deep in each other")
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error


def content_of(model: BaseEstimator, *, has_record: bool = True) -> Content:
    """What a file of this model holds; it has been read back."""
    from safetensors.torch import save as to_bytes

    from pnca import __version__
    from pnca.persistence.pipelines import classifier_of, write_estimator

    store = Store(has_record=has_record)
    try:
        found = write_estimator(model, store)
        last = classifier_of(model)
        about = {
            "pnca": __version__,
            "model": type(last).__name__,
            "examples": last.n_samples_fit_,
            "classes": len(last.classes_),
            "groups": len(set(last.groups_.tolist())) if hasattr(last, "groups_") else None,
        }
        content = Content(about, found, to_bytes(store.tensors))
        model_of(content, "cpu", last.module)
    except MalformedError as error:
        raise InvalidInputError(
            f"This {type(model).__name__} cannot be saved: it has {error}; fit it again."
        ) from error
    return content


def model_of(content: Content, device: str, module: Any) -> Any:  # noqa: ANN401
    """The model of a content; a MalformedError if it is of none."""
    from pnca.persistence.pipelines import read_estimator

    store = Store(_tensors(content.tensors), module=module)
    model = read_estimator(content.model, store, device)
    if store.used != store.tensors.keys():
        raise MalformedError("tensors that belong to nothing")
    return model


def _tensors(content: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    try:
        return from_bytes(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise MalformedError("tensors that cannot be read") from error


def _as_path(path: Any) -> Path:  # noqa: ANN401
    if not isinstance(path, str | os.PathLike) or "\0" in str(path) or not str(path):
        raise InvalidInputError(f"path must be the name of a file; got {path!r}.")
    return Path(path)
