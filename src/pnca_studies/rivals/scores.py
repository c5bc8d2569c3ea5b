"""Out-of-distribution scores that need no classifier, and a classifier that answers the class shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import NearestNeighbors

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Self

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


def mahalanobis(train: ArrayLike, labels: ArrayLike, x: ArrayLike) -> FloatArray:
    r"""Return the Mahalanobis distance (k,) of inputs (k, p) to the nearest class mean (Lee et al., 2018).

    .. math:: s(x) = \min_c (x - \mu_c)^\top \Sigma^{-1} (x - \mu_c)

    The covariance is that within the classes, shrunk by the rule of Ledoit and Wolf.
    """
    known, inputs = _as_rows(train, x)
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    means = np.stack([known[codes == k].mean(axis=0) for k in range(len(classes))])
    precision = LedoitWolf(assume_centered=True).fit(known - means[codes]).precision_
    distances = np.empty(len(inputs))
    for rows in _chunks(len(inputs), width=known.shape[1]):
        apart = [inputs[rows].astype(np.float64) - mean for mean in means]
        distances[rows] = np.min([np.einsum("ij,ij->i", a @ precision, a) for a in apart], axis=0)
    return distances


def neighbour_distance(train: ArrayLike, x: ArrayLike, n_neighbors: int = 5) -> FloatArray:
    """Return the distance (k,) of inputs (k, p) to the fifth nearest training input (Sun et al., 2022)."""
    known, inputs = _as_rows(train, x)
    search = NearestNeighbors(n_neighbors=min(n_neighbors, len(known))).fit(known)
    distances: FloatArray = search.kneighbors(inputs.astype(np.float64))[0][:, -1]
    return distances


def isolation(train: ArrayLike, x: ArrayLike, random_state: int = 0) -> FloatArray:
    """Return how soon random splits of the training inputs isolate inputs (k, p) (Liu et al., 2008)."""
    known, inputs = _as_rows(train, x)
    scores: FloatArray = (
        -IsolationForest(n_estimators=300, random_state=random_state).fit(known).score_samples(inputs)
    )
    return scores


#: From training inputs (n, p), their labels (n,) and inputs (k, p) to scores (k,), larger for foreign ones.
SCORES: dict[str, Callable[[FloatArray, NDArray[Any], FloatArray], FloatArray]] = {
    "nearest distance": lambda train, labels, x: nearest_distance(train, x),
    "PCA residual": lambda train, labels, x: pca_residual(train, x),
    "Mahalanobis": mahalanobis,
    "k-NN distance": lambda train, labels, x: neighbour_distance(train, x),
    "isolation forest": lambda train, labels, x: isolation(train, x),
}


class ClassShares(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The constant answer: the class shares of the training examples, whatever is asked."""

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Count the classes."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Return the class shares for each input (n, c)."""
        return np.tile(self.shares_, (len(X), 1))


class ScoreAlone(ClassShares):
    """One of :data:`SCORES` as evidence; as a classifier it answers the class shares."""

    def __init__(self, score: str) -> None:
        self.score = score

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Keep the training inputs (n, ...), flattened, and count the classes."""
        super().fit(X, y)
        self.inputs_, self.labels_ = _flat(X), y
        return self

    def evidence(self, X: NDArray[Any]) -> FloatArray:
        """Return minus the score (n,)."""
        return -SCORES[self.score](self.inputs_, self.labels_, _flat(X))


def _flat(X: NDArray[Any]) -> FloatArray:
    return np.asarray(X, dtype=np.float64).reshape(len(X), -1)


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
