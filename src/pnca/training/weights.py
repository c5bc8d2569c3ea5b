"""What examples count for beside their classes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
