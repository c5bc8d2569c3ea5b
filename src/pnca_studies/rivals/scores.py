"""Two scores of unfamiliarity that know no labels; a model's own score should do better than they."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]

#: Numbers held at once: rows are scored in chunks. It bounds memory, results do not depend on it.
CHUNK_NUMBERS = 2**22


def nearest_distance(train: ArrayLike, x: ArrayLike) -> FloatArray:
    r"""Euclidean distance to the nearest training input.

    .. math:: s(x) = \min_i \|x - x_i\|

    Parameters
    ----------
    train : array-like of shape (n, p)
        Training inputs :math:`x_i`.
    x : array-like of shape (k, p)
        Inputs to score.

    Returns
    -------
    ndarray of shape (k,)
        Larger means less familiar.

    Examples
    --------
    >>> nearest_distance([[0.0, 0.0], [3.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]])
    array([4., 0.])
    """
    known, inputs = _as_rows(train, x)
    half_squares = 0.5 * (known**2).sum(axis=1)  # (n,)
    distances = np.empty(len(inputs))
    for rows in _chunks(len(inputs), width=max(known.shape)):
        # The products find the neighbour; the distance is then computed anew, because the difference of
        # squares would cancel digits where it is small.
        chunk = inputs[rows].astype(np.float64)
        nearest = (half_squares - chunk @ known.T).argmin(axis=1)
        distances[rows] = np.linalg.norm(chunk - known[nearest], axis=1)
    return distances


def pca_residual(train: ArrayLike, x: ArrayLike, n_components: int = 30) -> FloatArray:
    r"""Norm of what the principal components of the training inputs leave unexplained.

    .. math:: s(x) = \|(x - \mu) - V V^\top (x - \mu)\|

    Parameters
    ----------
    train : array-like of shape (n, p)
        Training inputs, of mean :math:`\mu`.
    x : array-like of shape (k, p)
        Inputs to score.
    n_components : int, default=30
        Number of columns of :math:`V`, the principal directions. At most half of min(n, p) are used: with all
        of them every training input, or every input, would have no residual.

    Returns
    -------
    ndarray of shape (k,)
        Larger means less familiar.

    Examples
    --------
    >>> line = np.outer(np.arange(4), [1.0, 1.0])
    >>> pca_residual(line, [[5.0, 5.0], [2.0, 0.0]]).round(3) + 0.0
    array([0.   , 1.414])
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
