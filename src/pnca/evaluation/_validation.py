"""Checks shared by every metric: each returns a clean array or raises one sentence with the remedy."""

from numbers import Integral
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
_Scalar = TypeVar("_Scalar", bound=np.generic)

# A float32 softmax over a thousand classes misses one by less than 1e-5, logits and percentages by far more.
SUM_TOLERANCE = 1e-4


def check_probabilities(probabilities: ArrayLike) -> FloatArray:
    """Return class probabilities as float64 of shape (n, c), rounding outside [0, 1] clipped away.

    Parameters
    ----------
    probabilities : array-like of shape (n, c)
        One row per example, with at least two columns; each row sums to one within ``SUM_TOLERANCE``.

    Examples
    --------
    >>> check_probabilities([[0.25, 0.75]])
    array([[0.25, 0.75]])
    """
    values = _as_floats("probabilities", probabilities)
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(
            f"probabilities has shape {values.shape}: pass one row per example and one column per class, "
            "at least two columns."
        )
    _require_not_empty("probabilities", values)
    _require_no_nan("probabilities", values)
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
    """Return labels of shape (n,) and probabilities of shape (n, c), every label one of the c columns.

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        Column numbers 0 to c - 1.
    probabilities : array-like of shape (n, c)
        Class probabilities.

    Examples
    --------
    >>> labels, probabilities = check_labels_and_probabilities([1], [[0.25, 0.75]])
    >>> labels
    array([1])
    """
    clean = check_probabilities(probabilities)
    columns = _as_vector("labels", np.asarray(labels))
    if columns.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels has dtype {columns.dtype}: pass the integer column number of each true class, "
            "for example np.searchsorted(classes, y)."
        )
    require_same_length("labels", columns, "probabilities", clean)
    n_classes = clean.shape[1]
    if columns.min() < 0 or columns.max() >= n_classes:
        raise InvalidInputError(
            f"labels range from {columns.min()} to {columns.max()}, but probabilities has {n_classes} "
            f"columns: pass column numbers 0 to {n_classes - 1}."
        )
    return columns.astype(np.int64), clean


def check_scores(name: str, scores: ArrayLike) -> FloatArray:
    """Return scores as float64 of shape (n,); infinities may pass, since only the order matters.

    Parameters
    ----------
    name : str
        What an error message calls the argument.
    scores : array-like of shape (n,)
        Numbers to be ranked.

    Examples
    --------
    >>> check_scores("confidence", [1, 2])
    array([1., 2.])
    """
    values = _as_vector(name, _as_floats(name, scores))
    _require_no_nan(name, values)
    return values


def check_correct(correct: ArrayLike) -> BoolArray:
    """Return the hits and misses as booleans of shape (n,).

    Parameters
    ----------
    correct : array-like of bool or 0/1, shape (n,)
        Whether each prediction was right.

    Examples
    --------
    >>> check_correct([1, 0])
    array([ True, False])
    """
    values = _as_vector("correct", _as_floats("correct", correct))
    if not np.isin(values, (0, 1)).all():
        raise InvalidInputError(
            "correct holds values other than 0 and 1: pass booleans such as predicted == labels."
        )
    return values.astype(np.bool_)


def check_thresholds(thresholds: ArrayLike) -> FloatArray:
    """Return confidence thresholds as float64 of shape (t,), all within [0, 1].

    Parameters
    ----------
    thresholds : array-like of shape (t,)
        Confidence levels.

    Examples
    --------
    >>> check_thresholds([0, 0.5])
    array([0. , 0.5])
    """
    values = check_scores("thresholds", thresholds)
    if values.min() < 0 or values.max() > 1:
        raise InvalidInputError(
            f"thresholds range from {values.min():.4g} to {values.max():.4g}: "
            "pass confidences between 0 and 1."
        )
    return values


def check_fraction(name: str, value: float, *, zero_allowed: bool = True) -> float:
    """Return a setting that must lie in [0, 1], or in (0, 1] when zero makes no sense.

    Parameters
    ----------
    name : str
        What an error message calls the setting.
    value : float
        Its value.
    zero_allowed : bool, default=True
        Whether 0 itself may pass.

    Examples
    --------
    >>> check_fraction("coverage", 0.8)
    0.8
    """
    # Written so that NaN, for which every comparison is false, is refused too.
    if not (0 <= value <= 1 and (zero_allowed or value > 0)):
        opening = "[" if zero_allowed else "("
        raise InvalidInputError(f"{name} is {value}: pass a fraction in {opening}0, 1].")
    return float(value)


def check_n_bins(n_bins: int) -> int:
    """Return the number of bins, a whole number of at least one.

    Parameters
    ----------
    n_bins : int
        Number of bins.

    Examples
    --------
    >>> check_n_bins(15)
    15
    """
    if not isinstance(n_bins, Integral) or n_bins < 1:
        raise InvalidInputError(f"n_bins is {n_bins!r}: pass a whole number of at least 1.")
    return int(n_bins)


def require_same_length(
    name: str, values: NDArray[np.generic], other: str, others: NDArray[np.generic]
) -> None:
    """Raise unless both arrays have the same number of rows.

    Parameters
    ----------
    name, other : str
        What an error message calls the two arrays.
    values, others : ndarray
        Arrays whose first axis counts examples.

    Examples
    --------
    >>> require_same_length("correct", np.ones(2), "confidence", np.zeros(2))
    """
    if len(values) != len(others):
        raise InvalidInputError(
            f"{name} has {len(values)} rows and {other} has {len(others)}: pass one of each per example."
        )


def _as_floats(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name} cannot be read as an array of numbers: pass a regular numeric array."
        ) from error


def _as_vector(name: str, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    if values.ndim != 1:
        raise InvalidInputError(f"{name} has shape {values.shape}: pass a one-dimensional array.")
    _require_not_empty(name, values)
    return values


def _require_not_empty(name: str, values: NDArray[_Scalar]) -> None:
    if values.size == 0:
        raise InvalidInputError(f"{name} is empty: pass at least one example.")


def _require_no_nan(name: str, values: FloatArray) -> None:
    if np.isnan(values).any():
        raise InvalidInputError(
            f"{name} contains NaN: remove those examples or repair the model that gave them."
        )
