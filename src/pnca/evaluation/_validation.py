"""Checks shared by the metrics: scikit-learn's, with the argument named, and those of probabilities."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# A float32 softmax over a thousand classes misses one by less than 1e-5, logits and percentages by far more.
SUM_TOLERANCE = 1e-4


def check_probabilities(probabilities: ArrayLike) -> FloatArray:
    """Return class probabilities as a new float64 array of shape (n, c), c >= 2, clipped to [0, 1].

    Rows must sum to one within ``SUM_TOLERANCE``.
    """
    values: FloatArray = _check(
        "probabilities", probabilities, dtype=np.float64, ensure_2d=False, allow_nd=True
    )
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(
            f"probabilities has shape {values.shape}: pass one row per example and one column per class."
        )
    if values.min() < -SUM_TOLERANCE or values.max() > 1 + SUM_TOLERANCE:
        raise InvalidInputError(
            f"probabilities range from {values.min():.4g} to {values.max():.4g}: "
            "pass values between 0 and 1, for logits their softmax."
        )
    error = np.abs(values.sum(axis=1) - 1)  # (n,)
    if error.max() > SUM_TOLERANCE:
        row = int(error.argmax())
        raise InvalidInputError(
            f"probabilities of row {row} sum to {values[row].sum():.6g}: "
            "normalise each row so that it sums to one."
        )
    return values.clip(0, 1)


def check_labels_and_probabilities(
    labels: ArrayLike, probabilities: ArrayLike
) -> tuple[IntArray, FloatArray]:
    """Return labels of shape (n,) and probabilities of shape (n, c), every label one of the c columns."""
    clean = check_probabilities(probabilities)
    columns = _check_vector("labels", labels, dtype=None)
    if columns.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels has dtype {columns.dtype}: pass the integer column number of each true class, "
            "for example np.searchsorted(classes, y)."
        )
    check_same_length("labels", columns, "probabilities", clean)
    if columns.min() < 0 or columns.max() >= clean.shape[1]:
        raise InvalidInputError(
            f"labels range from {columns.min()} to {columns.max()}, but probabilities has {clean.shape[1]} "
            f"columns: pass column numbers 0 to {clean.shape[1] - 1}."
        )
    return columns.astype(np.int64), clean


def check_scores(name: str, scores: ArrayLike) -> FloatArray:
    """Return scores as float64 of shape (n,), without NaN; infinities pass, since only the order matters."""
    values: FloatArray = _check_vector(name, scores, dtype=np.float64)
    if np.isnan(values).any():
        raise InvalidInputError(f"{name} contains NaN: leave those examples out.")
    return values


def check_differences(name: str, values: ArrayLike) -> FloatArray:
    """Return values of draws as float64 of shape (r,); there may be none, and NaN where one is not known."""
    return _check_vector(name, values, dtype=np.float64, ensure_min_samples=0)


def check_count(name: str, value: int) -> int:
    """Return a whole number of at least one."""
    if not isinstance(value, Integral) or value < 1:
        raise InvalidInputError(f"{name} is {value!r}: pass a whole number of at least 1.")
    return int(value)


def check_correct(correct: ArrayLike) -> BoolArray:
    """Return booleans, or numbers that are 0 or 1, as booleans of shape (n,)."""
    values = _check_vector("correct", correct, dtype=np.float64)
    if not np.isin(values, (0, 1)).all():
        raise InvalidInputError(
            "correct holds values other than 0 and 1: pass booleans such as predicted == labels."
        )
    return values.astype(np.bool_)


def check_fraction(name: str, value: float, *, zero_allowed: bool = True) -> float:
    """Return a setting that must lie in [0, 1], or in (0, 1] where zero makes no sense."""
    # Not scikit-learn's check_scalar: NaN, for which every comparison is false, would pass it.
    if not (isinstance(value, Real) and 0 <= value <= 1 and (zero_allowed or value > 0)):
        raise InvalidInputError(
            f"{name} is {value!r}: pass a fraction in {'[' if zero_allowed else '('}0, 1]."
        )
    return float(value)


def check_same_length(name: str, values: NDArray[Any], other: str, others: NDArray[Any]) -> None:
    """Raise unless both arrays have one entry per example."""
    try:
        check_consistent_length(values, others)
    except ValueError as error:
        raise InvalidInputError(f"{name}, {other}: {error}") from error


def _check(name: str, values: ArrayLike, **options: Any) -> NDArray[Any]:  # noqa: ANN401
    try:
        if getattr(getattr(values, "dtype", None), "kind", "") in ("m", "M"):
            raise ValueError("dates and durations are no numbers.")
        if isinstance(values, np.ma.MaskedArray):
            raise ValueError("masked arrays are not taken: leave the masked examples out, or fill them.")
        checked: NDArray[Any] = check_array(values, **options)
    except (TypeError, ValueError, RuntimeError) as error:  # not all of these messages name the argument
        raise InvalidInputError(f"{name}: {error}") from error
    return checked


def _check_vector(
    name: str, values: ArrayLike, *, dtype: type | None, ensure_min_samples: int = 1
) -> NDArray[Any]:
    vector = _check(
        name,
        values,
        dtype=dtype,
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        ensure_min_samples=ensure_min_samples,
    )
    if vector.ndim != 1:  # scikit-learn's column_or_1d would flatten a column
        raise InvalidInputError(f"{name} has shape {vector.shape}: pass a one-dimensional array.")
    return vector
