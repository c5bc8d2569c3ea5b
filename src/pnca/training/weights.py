"""What examples count for: weights of their own, and of their classes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight
from torch import Tensor

from pnca.exceptions import InvalidInputError
from pnca.training.sampling import as_numpy


def sample_weights(given: ArrayLike, n: int) -> NDArray[np.float64]:
    """Weight (n,) of each example as it was given; an error that names one that is none."""
    if isinstance(given, np.ma.MaskedArray):
        raise InvalidInputError("sample_weight is a masked array: give masked examples a weight of zero.")
    try:
        raw = np.asarray(as_numpy(given) if isinstance(given, Tensor) else given)
        if raw.dtype.kind not in "biufO":
            raise TypeError(f"it is of type {raw.dtype}")
        weights = raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"sample_weight must hold numbers: {error}.") from error
    if weights.shape != (n,):
        raise InvalidInputError(
            f"sample_weight must have one number for each of the {n} examples; its shape is {weights.shape}."
        )
    wrong = np.flatnonzero(~((weights >= 0) & (weights < np.finfo(np.float64).max / max(n, 1))))
    if len(wrong):
        raise InvalidInputError(
            f"sample_weight must hold finite numbers, none below zero; it is {weights[wrong[0]]} in row "
            f"{wrong[0]}."
        )
    if n and not weights.any():
        raise InvalidInputError("All sample weights are zero: no example would be left.")
    return weights


def relative_weights(weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Positive weights (n,) with a mean of one; None if all are alike, as if none were given.

    >>> relative_weights(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    return weights / weights.mean() if len(set(weights.tolist())) > 1 else None


def class_weights(
    given: Any,  # noqa: ANN401
    classes: NDArray[Any],
    targets: NDArray[Any],
    sample_weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Weight of each class (c,); an error that names a class whose weight is none.

    Classes of ``targets`` (n,) are balanced by the weights of the examples (n,), if there are some.
    """
    if sample_weight is not None and isinstance(given, str):
        # Releases of scikit-learn before 1.7 balance by counts alone.
        totals = np.bincount(np.searchsorted(classes, targets), sample_weight)
        balanced: NDArray[np.float64] = totals.sum() / (len(classes) * totals)
        return balanced
    try:
        weights: NDArray[np.float64] = compute_class_weight(given, classes=classes, y=targets)
        wrong = ~((weights > 0) & (weights < np.finfo(np.float64).max / len(targets)))
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"class_weight must hold positive, finite numbers: {error}.") from error
    if wrong.any():
        wrong_ones = ", ".join(
            f"{name!r}: {value}" for name, value in zip(classes[wrong].tolist(), weights[wrong], strict=True)
        )
        raise InvalidInputError(f"class_weight must hold positive, finite numbers; got {wrong_ones}.")
    return weights
