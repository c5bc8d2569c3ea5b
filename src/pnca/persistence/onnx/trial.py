"""A graph is run on some rows and compared with the model that it was made of."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.conformal import conformal_p_values
from pnca.columns import Column, read_column
from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError
from pnca.models.fitted import Fitted
from pnca.persistence.onnx.inputs import Entry, entries
from pnca.persistence.onnx.preprocessing import inputs_of
from pnca.persistence.onnx.running import run

FloatArray = NDArray[np.float64]

#: How far the graph may be from the model: probabilities and p-values, and evidence as a part of itself.
TOLERANCE = 1e-5
#: Part of the evidence by which rounding may move it across that of a training example.
_ROUNDING = 1e-8
#: Rows that are compared.
_N_ROWS = 100


def compare(content: bytes, model: Any, last: ParticleClassifier, X: Any) -> None:  # noqa: ANN401
    """Run a graph on rows like the training examples, and on the user's; an error if it answers otherwise."""
    trials: list[tuple[Any, list[Entry] | None]] = []
    if last is model:
        trials.append((rows_like(last.fitted_), entries(last.fitted_)))
    if X is not None:
        trials.append((X, entries(last.fitted_) if last is model else None))
    for rows, wanted in trials:
        found = run(content, fed(rows, wanted))
        for name, expected in answers(model, last, rows).items():
            _demand(_agree(name, found, expected, last), name)


def some_rows(X: Any, model: Any) -> Any:  # noqa: ANN401
    """The first rows of a table or array, for which the model has an answer; its error if it has none."""
    first = X.iloc[:_N_ROWS] if hasattr(X, "iloc") else np.atleast_1d(np.asarray(X))[:_N_ROWS]
    model.predict(first)
    return first


def fed(X: Any, wanted: list[Entry] | None) -> dict[str, NDArray[Any]]:  # noqa: ANN401
    """A table or array as inputs of a graph: days for dates, an empty text for a hole in a text."""
    if wanted is None:
        return inputs_of(X)
    if len(wanted) == 1 and not hasattr(X, "iloc"):
        return {wanted[0].name: np.asarray(X, dtype=np.float64).reshape(-1, *wanted[0].shape)}
    if len(wanted) == 1 and wanted[0].kind == "double":
        columns = [read_column(X, j, name).numbers for j, name in enumerate(X.columns)]
        return {wanted[0].name: np.column_stack(columns)}
    return {entry.name: _column(X, j, entry.kind) for j, entry in enumerate(wanted)}


def _column(X: Any, position: int, kind: str) -> NDArray[Any]:  # noqa: ANN401
    values = read_column(X, position, X.columns[position])
    if kind == "double":
        return values.numbers[:, None]
    if kind == "bool":
        return np.array(values.values, dtype=bool)[:, None]
    pairs = zip(values.values, values.is_hole, strict=True)
    return np.array(["" if hole else value for value, hole in pairs], dtype=object)[:, None]


def rows_like(fitted: Fitted) -> Any:  # noqa: ANN401
    """Rows such as the model was fitted on, some far away; with holes where columns may have them."""
    rng = np.random.RandomState(0)
    if fitted.columns is not None and any(column.kind != "number" for column in fitted.columns.parts):
        return _table(fitted.columns.parts, rng)
    if fitted.columns is not None:
        middles = np.array([column.middle for column in fitted.columns.parts])
        rows = _around(fitted, middles, rng)
        rows[::7, 0] = np.nan
        return rows
    scaler = fitted.scaler
    centre = np.zeros(math.prod(fitted.input_shape)) if scaler is None else scaler.centre.numpy()
    return _around(fitted, centre, rng).reshape(-1, *fitted.input_shape)


def _around(fitted: Fitted, centre: FloatArray, rng: np.random.RandomState) -> FloatArray:
    """Rows (n, p) around a centre, as far apart as the scale of the inputs says."""
    width = 1.0 if fitted.scaler is None else float(fitted.scaler.spread.median())
    steps = rng.normal(size=(_N_ROWS, len(centre))) * np.geomspace(0.01, 10, _N_ROWS)[:, None]
    kept = getattr(getattr(fitted.reader, "support", None), "inputs", None)
    rows: FloatArray = centre + width * steps
    if kept is not None and (flat := kept.reshape(len(kept), -1).double().numpy()).shape[1] == len(centre):
        examples = flat[: _N_ROWS // 2]
        if fitted.scaler is not None:
            examples = examples * fitted.scaler.spread.numpy() + fitted.scaler.centre.numpy()
        rows[: len(examples)] = examples
    return rows


def _table(columns: tuple[Column, ...], rng: np.random.RandomState) -> Any:  # noqa: ANN401
    """Rows of a table with values of every sort that its columns know, and new ones."""
    import pandas as pd

    found: dict[Any, Any] = {}
    for column in columns:
        numbers = column.middle + rng.normal(size=_N_ROWS) * (1 + abs(column.middle) / 10)
        numbers[::9] = np.nan
        if column.kind == "category":
            values = [*column.values, *column.others]
            is_bool = all(isinstance(value, bool) for value in values)
            if all(isinstance(value, str) for value in values):
                values += ["a new value", None]
            drawn = [values[i] for i in rng.randint(len(values), size=_N_ROWS)]
            found[column.name] = pd.Series(drawn, dtype=bool if is_bool else None)
        elif column.kind == "date":
            found[column.name] = pd.to_datetime(pd.Series(numbers.round()), unit="D")
        elif column.kind == "duration":
            found[column.name] = pd.to_timedelta(pd.Series(numbers.round()), unit="D")
        else:
            found[column.name] = numbers
    return pd.DataFrame(found)


def answers(model: Any, last: ParticleClassifier, X: Any) -> dict[str, NDArray[Any]]:  # noqa: ANN401
    """What the model says, by the names of the outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of holes in columns that had none
        found = {"probabilities": model.predict_proba(X), "label": model.predict(X)}
        if hasattr(last, "evidence"):
            rows = X if last is model or len(model) == 1 else model[:-1].transform(X)
            found["evidence"] = last.evidence(rows)
    return found


def _agree(
    name: str, found: Mapping[str, NDArray[Any]], expected: NDArray[Any], last: ParticleClassifier
) -> bool:
    if name == "label":  # where two classes are as probable, either
        proba = np.sort(found["probabilities"], axis=1)
        is_clear = proba[:, -1] - proba[:, -2] > TOLERANCE
        return bool((np.asarray(found[name])[is_clear] == expected[is_clear]).all())
    if name == "probabilities":
        return bool((np.abs(found[name] - expected) <= TOLERANCE).all())
    is_near = np.abs(found[name] - expected) <= TOLERANCE * np.maximum(1, np.abs(expected))
    return bool(is_near.all()) and _is_familiar(found, expected, last)


def _is_familiar(found: Mapping[str, NDArray[Any]], evidence: FloatArray, last: Any) -> bool:  # noqa: ANN401
    """Whether the familiarity is that of this evidence, but for rounding."""
    if "familiarity" not in found:
        return not hasattr(last, "oof_evidence_")
    groups, width = getattr(last, "groups_", None), _ROUNDING * np.maximum(1, np.abs(evidence))
    low, high = (conformal_p_values(last.oof_evidence_, evidence + way * width, groups) for way in (-1, 1))
    is_within = (found["familiarity"] >= low - TOLERANCE) & (found["familiarity"] <= high + TOLERANCE)
    return bool(is_within.all())


def _demand(is_right: bool, name: str) -> None:
    if not is_right:
        raise InvalidInputError(
            f"The graph gives other {name} than the model, so no file is written: give the steps before the "
            "classifier float64, or export the classifier alone and transform inputs before it."
        )
