"""Hyperparameters selected by cross-validation, also where a class has one or two examples.

scikit-learn's grid search has no place for a grid that depends on the inputs, for a transformer that all
candidates of a fold share, or for labels of which nothing can be held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]
#: Rows of the training part and of the held-out part.
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
#: From a fitted model, inputs and labels to the loss summed over the rows.
Loss = Callable[[Any, NDArray[Any], NDArray[Any]], float]
#: The values to try for each hyperparameter, the usual ones first; or a function of the inputs (n, p).
Grid = Mapping[str, Sequence[Any]] | Callable[[NDArray[Any]], Mapping[str, Sequence[Any]]]

N_FOLDS = 5


def stratified_folds(labels: NDArray[Any], rng: np.random.RandomState) -> list[Fold]:
    """Split examples into at most five folds whose training parts have every class.

    The members of a class go to the folds in turn, so that a class of two or more is never held out whole. A
    class of one example is in every training part and held out nowhere; without any other there is no fold.
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]  # class by class, shuffled within
    dealt = order[counts[codes[order]] > 1]
    fold = np.full(len(codes), -1)
    fold[dealt] = np.arange(len(dealt)) % N_FOLDS
    parts = [fold == number for number in range(N_FOLDS)]
    return [(np.flatnonzero(~part), np.flatnonzero(part)) for part in parts if part.any()]


def log_loss(model: Any, X: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401
    """Sum the negative log-probabilities of the true classes; zero counts as float64's precision."""
    probabilities = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(-np.log(probabilities.clip(np.finfo(np.float64).eps)).sum())


def squared_error(model: Any, X: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401
    """Sum the Brier scores: proper like the log loss, but finite where a model votes zero."""
    return float(((model.predict_proba(X) - (y[:, None] == model.classes_)) ** 2).sum())


def errors(model: Any, X: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401
    """Count the wrong predictions."""
    return float((model.predict(X) != y).sum())


class TunedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with the hyperparameters of least cross-validated loss.

    Candidates are compared by their loss summed over the held-out examples of :func:`stratified_folds`; the
    first of several equals wins, also where nothing can be held out.
    """

    def __init__(
        self,
        estimator: Any,  # noqa: ANN401
        grid: Grid,
        *,
        loss: Loss = log_loss,
        transformer: Any = None,  # noqa: ANN401  (fitted to each training part, once for all candidates)
        transformer_grid: Grid | None = None,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.loss = loss
        self.transformer = transformer
        self.transformer_grid = transformer_grid
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Select the hyperparameters, then fit with them to all examples."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        folds = stratified_folds(y, check_random_state(self.random_state))
        with warnings.catch_warnings():
            # A candidate that stops before it has converged is judged, like all others, by what it predicts.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.best_transformer_params_, self.best_params_ = self._best(X, y, folds)
            self.transformer_ = self._fitted_transformer(self.best_transformer_params_, X, y)
            self.estimator_ = clone(self.estimator).set_params(**self.best_params_)
            self.estimator_.fit(_transform(self.transformer_, X), y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class."""
        check_is_fitted(self)
        probabilities: FloatArray = self.estimator_.predict_proba(_transform(self.transformer_, X))
        return probabilities

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Predict a class."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.estimator_.predict(_transform(self.transformer_, X))
        return labels

    def _best(
        self, X: NDArray[Any], y: NDArray[Any], folds: list[Fold]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the hyperparameters of the transformer and of the estimator of least loss."""
        outer, inner = _candidates(self.transformer_grid, X), _candidates(self.grid, X)
        losses = np.zeros((len(outer), len(inner)))
        if losses.size > 1:
            for train, held_out in folds:
                for i, settings in enumerate(outer):
                    transformer = self._fitted_transformer(settings, X[train], y[train])
                    known, new = _transform(transformer, X[train]), _transform(transformer, X[held_out])
                    for j, candidate in enumerate(inner):
                        model = clone(self.estimator).set_params(**candidate).fit(known, y[train])
                        losses[i, j] += self.loss(model, new, y[held_out])
        best = int(losses.argmin())
        return outer[best // len(inner)], inner[best % len(inner)]

    def _fitted_transformer(self, settings: dict[str, Any], X: NDArray[Any], y: NDArray[Any]) -> Any:  # noqa: ANN401
        return self.transformer and clone(self.transformer).set_params(**settings).fit(X, y)


def _transform(transformer: Any, X: NDArray[Any]) -> FloatArray:  # noqa: ANN401
    inputs: FloatArray = np.asarray(X, dtype=np.float64)
    return inputs if transformer is None else transformer.transform(inputs)


def _candidates(grid: Grid | None, X: NDArray[Any]) -> list[dict[str, Any]]:
    return list(ParameterGrid((grid(X) if callable(grid) else grid) or {}))
