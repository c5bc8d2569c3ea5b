"""Pipelines of scikit-learn that end with one of our classifiers: transformers of a fixed table, no others.

A transformer is its constructor's parameters and what its fit left in it: plain values, arrays of numbers,
other transformers. Nothing is imported by a name that a file gives, and no attribute of a class is hidden.
"""

from __future__ import annotations

import functools
import warnings
from collections import UserList
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError
from pnca.persistence.classifiers import read_classifier, write_classifier
from pnca.persistence.encoding import MalformedError, decode, encode
from pnca.persistence.layouts import Store
from pnca.persistence.requests import NAME, requests_of, set_requests

#: The transformers that a file may name, by module; and the functions that SelectKBest scores by.
_TABLE = {
    "sklearn.preprocessing": "StandardScaler MinMaxScaler RobustScaler PowerTransformer QuantileTransformer "
    "OneHotEncoder OrdinalEncoder FunctionTransformer",
    "sklearn.impute": "SimpleImputer MissingIndicator",
    "sklearn.decomposition": "PCA",
    "sklearn.feature_selection": "VarianceThreshold SelectKBest",
    "sklearn.compose": "ColumnTransformer",
    "sklearn.pipeline": "Pipeline",
}
_SCORES = ("chi2", "f_classif", "f_regression", "mutual_info_classif", "mutual_info_regression")
#: Types that parameters name, by their names.
_TYPES = {
    **{kind.__name__: kind for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_, np.number)},
    **{kind.__name__: kind for kind in (object, bool, int, float, str)},
}
#: Types of arrays that are tensors in the file; others are lists of plain values.
_NUMBERS = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_))


def classifier_of(model: BaseEstimator) -> ParticleClassifier:
    """The classifier that is saved: the model itself, or the last step of a pipeline."""
    found = model.steps[-1][1] if _name_of(model) == "Pipeline" else model
    if not isinstance(found, ParticleClassifier):
        cure = ": save its best_estimator_" if hasattr(found, "best_estimator_") else ""
        raise InvalidInputError(
            f"{type(found).__name__} cannot be saved{cure}. A model file is of a classifier of pnca, or of a "
            "Pipeline that ends with one."
        )
    return found


def write_estimator(model: BaseEstimator, store: Store) -> dict[str, Any]:
    """JSON of a classifier, or of a pipeline that ends with one; tensors go to the store."""
    last = classifier_of(model)
    if last is model:
        return write_classifier(last, store)
    names = [name for name, _ in model.steps]
    steps = [_write(step, f"steps.{i}", store) for i, (_, step) in enumerate(model.steps[:-1])]
    others = {key: value for key, value in model.get_params(deep=False).items() if key != "steps"}
    return {
        "class": "Pipeline",
        "sklearn": sklearn.__version__,
        "names": encode(names, "The names of the steps"),
        "parameters": {key: encode(value, f"The parameter {key!r}") for key, value in others.items()},
        "steps": steps,
        "last": write_classifier(last, store),
    }


def read_estimator(found: Any, store: Store, device: str) -> Any:  # noqa: ANN401
    """The classifier or pipeline of this JSON; a MalformedError if it is of none."""
    if not isinstance(found, dict) or found.get("class") != "Pipeline":
        return read_classifier(found, store, device)
    if found.keys() != {"class", "sklearn", "names", "parameters", "steps", "last"}:
        raise MalformedError("a pipeline of other fields")
    names, parameters, steps = decode(found["names"]), found["parameters"], found["steps"]
    _demand(isinstance(parameters, dict) and isinstance(steps, list) and isinstance(names, list))
    _demand(len(names) == len(steps) + 1 == len(set(map(str, names))))
    _demand(all(isinstance(name, str) and name and "__" not in name for name in names))
    _warn_of_version(found["sklearn"])
    read = [_read(step, f"steps.{i}", store) for i, step in enumerate(steps)]
    _demand(all(isinstance(step, BaseEstimator) or step in (None, "passthrough") for step in read))
    read.append(read_classifier(found["last"], store, device))
    kind = _classes()["Pipeline"]
    return _made(kind, {"steps": list(zip(names, read, strict=True)), **_decoded(parameters)})


@functools.cache
def _classes() -> dict[str, type]:
    return {name: getattr(import_module(m), name) for m, names in _TABLE.items() for name in names.split()}


def _name_of(estimator: BaseEstimator) -> str:
    """The name of an estimator in the table; nothing of another one, a subclass too."""
    name = type(estimator).__name__
    return name if _classes().get(name) is type(estimator) else ""


def _demand(is_right: bool) -> None:
    if not is_right:
        raise MalformedError("a pipeline that is none")


def _decoded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: decode(value) for key, value in parameters.items()}


def _made(kind: type, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """An estimator with these parameters; none may name a folder, of which pickles would be read."""
    _demand(parameters.keys() <= set(kind._get_param_names()))  # type: ignore[attr-defined]
    _demand(parameters.get("memory") is None)
    return kind(**parameters)


def _warn_of_version(version: Any) -> None:  # noqa: ANN401
    _demand(isinstance(version, str) and len(version) < 40)
    if version != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name="Pipeline",
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=version,
            ),
            stacklevel=4,
        )


# --- values: each is an object of one name -----------------------------------------------------------


def _write(value: Any, path: str, store: Store) -> dict[str, Any]:  # noqa: ANN401
    if isinstance(value, BaseEstimator):
        return {"estimator": _write_transformer(value, path, store)}
    if isinstance(value, np.ndarray) and value.dtype in _NUMBERS and value.ndim:
        return {"tensor": store.put(path, torch.from_numpy(value.copy(order="K")))}
    if isinstance(value, list | tuple | UserList) and type(value).__name__ in ("list", "tuple", *_LISTS):
        items = [_write(item, f"{path}.{i}", store) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if type(value) is dict:
        pairs = [[encode(k, path), _write(v, f"{path}.{i}", store)] for i, (k, v) in enumerate(value.items())]
        return {"dict": pairs}
    return _write_name(value, path)


#: Lists of another name, of which the items count.
_LISTS = ("_RemainderColsList",)


def _write_name(value: Any, path: str) -> dict[str, Any]:  # noqa: ANN401
    """What is known by a name, or a plain value."""
    if isinstance(value, slice):
        return {"slice": encode([value.start, value.stop, value.step], path)}
    if isinstance(value, np.dtype):
        return {"dtype": value.str} if value.kind in "biuf" else {"dtype": "|O"}
    if isinstance(value, type) and (name := next((n for n, t in _TYPES.items() if t is value), "")):
        return {"type": name}
    if path.endswith(".score_func") and getattr(value, "__name__", "") in _SCORES:
        return {"score": value.__name__}
    return {"plain": encode(value, f"The pipeline, in {path.removeprefix('steps.')},")}


def _write_transformer(value: BaseEstimator, path: str, store: Store) -> dict[str, Any]:
    if not (name := _name_of(value)):
        names = " ".join(_TABLE.values()).split()
        raise InvalidInputError(
            f"{type(value).__name__} cannot be saved: a pipeline in a model file is of "
            f"{', '.join(names)}. Save the classifier alone, and make the other steps where it is loaded."
        )
    parameters = value.get_params(deep=False)
    if parameters.get("memory") is not None:
        raise InvalidInputError("A Pipeline with memory cannot be saved: set_params(memory=None) first.")
    fitted = {key: part for key, part in vars(value).items() if key not in parameters}
    if NAME in fitted:
        fitted[NAME] = requests_of(value)
    return {
        "class": name,
        "parameters": {key: _write(part, f"{path}.{key}", store) for key, part in parameters.items()},
        "fitted": {key: _write(part, f"{path}.{key}", store) for key, part in fitted.items()},
    }


def _read(found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
    """The value of an object that :func:`_write` made."""
    _demand(isinstance(found, dict) and len(found) == 1)
    ((name, content),) = found.items()
    if name == "estimator":
        return _read_transformer(content, path, store)
    if name == "tensor":
        return store.take(path, content).numpy()
    if name in ("list", "tuple"):
        _demand(isinstance(content, list))
        items = [_read(item, f"{path}.{i}", store) for i, item in enumerate(content)]
        return items if name == "list" else tuple(items)
    if name == "dict":
        return dict(_pairs(content, path, store))
    return _read_name(name, content)


def _pairs(content: Any, path: str, store: Store) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    _demand(isinstance(content, list) and all(isinstance(p, list) and len(p) == 2 for p in content))
    for i, (key, value) in enumerate(content):
        read = decode(key)
        _demand(read is None or isinstance(read, str | int | float))
        yield read, _read(value, f"{path}.{i}", store)


def _read_name(name: str, content: Any) -> Any:  # noqa: ANN401
    if name == "plain":
        return decode(content)
    if name == "slice":
        parts = decode(content)
        _demand(isinstance(parts, list) and len(parts) == 3)
        return slice(*parts)
    _demand(isinstance(content, str))
    if name == "dtype":
        _demand(
            content in {np.dtype(f"{kind}{size}").str for kind in "iuf" for size in "248"} | {"|O", "|b1"}
        )
        return np.dtype(content)
    if name == "type":
        _demand(content in _TYPES)
        return _TYPES[content]
    _demand(name == "score" and content in _SCORES)
    return getattr(import_module("sklearn.feature_selection"), content)


def _read_transformer(found: Any, path: str, store: Store) -> BaseEstimator:  # noqa: ANN401
    _demand(isinstance(found, dict) and found.keys() == {"class", "parameters", "fitted"})
    name, parameters, fitted = found["class"], found["parameters"], found["fitted"]
    _demand(isinstance(name, str) and name in _classes())
    _demand(isinstance(parameters, dict) and isinstance(fitted, dict))
    kind = _classes()[name]
    made = _made(kind, {key: _read(part, f"{path}.{key}", store) for key, part in parameters.items()})
    # An attribute of the class, such as a method, is not to be hidden by one of the file.
    _demand(all(key.isidentifier() and not hasattr(kind, key) for key in fitted))
    for key, part in fitted.items():
        read = _read(part, f"{path}.{key}", store)
        set_requests(made, read) if key == NAME else setattr(made, key, read)
    return made
