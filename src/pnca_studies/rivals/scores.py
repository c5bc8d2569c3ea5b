"""Two out-of-distribution scores that need no labels, which a model's own score should beat."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]

#: Numbers held at once: rows are scored in chunks, to bound memory.
CHUNK_NUMBERS = 2**22


def nearest_distance(train: ArrayLike, x: ArrayLike) -> FloatArray:
    r"""Return the distance (k,) of inputs (k, p) to the nearest of the training inputs (n, p).

    .. math:: s(x) = \min_i \|x - x_i\|
    """
    known, inputs = _as_rows(train, x)
    half_squares = 0.5 * (known**2).sum(axis=1)  # (n,)
    distances = np.empty(len(inputs))
    for rows in _chunks(len(inputs), width=max(known.shape)):
        # The products find the neighbour; the distance is then computed from the difference, because that of
        # the squares would cancel digits where it is small.
        chunk = inputs[rows].astype(np.float64)
        nearest = (half_squares - chunk @ known.T).argmin(axis=1)
        distances[rows] = np.linalg.norm(chunk - known[nearest], axis=1)
    return distances


def pca_residual(train: ArrayLike, x: ArrayLike, n_components: int = 30) -> FloatArray:
    r"""Return the norm (k,) of what the principal components of the training inputs leave unexplained.

    .. math:: s(x) = \|(x - \mu) - V V^\top (x - \mu)\|

    At most half of min(n, p) components are used: with all of them there would be no residual.
    """
    if n_components < 1:
        raise InvalidInputError(f"n_components is {n_components}: pass a whole number of at least 1.")
    known, inputs = _as_rows(train, x)
    mean = known.mean(axis=0)  # (p,)
    _, _, directions = np.linalg.svd(known - mean, full_matrices=False)
    kept = directions[: min(n_components, min(known.shape) // 2)]  # (d, p)
    residuals = np.empty(len(inputs))
    for rows in _chunks(len(inputs), width=known.shape[1]):
        centred = inputs[rows].astype(np.float64) - mean
        residuals[rows] = np.linalg.norm(centred - centred @ kept.T @ kept, axis=1)
    return residuals


def _as_rows(train: ArrayLike, x: ArrayLike) -> tuple[FloatArray, NDArray[Any]]:
    known, inputs = np.asarray(train, dtype=np.float64), np.asarray(x)
    if known.ndim != 2 or inputs.ndim != 2 or known.shape[1] != inputs.shape[1] or len(known) == 0:
        raise InvalidInputError(
            f"train has shape {known.shape} and x has shape {inputs.shape}: pass two tables with the same "
            "columns, train with at least one row."
        )
    return known, inputs


def _chunks(n_rows: int, *, width: int) -> list[slice]:
    size = max(1, CHUNK_NUMBERS // width)
    return [slice(start, start + size) for start in range(0, n_rows, size)]
