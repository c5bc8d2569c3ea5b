"""Hyperparameters selected by cross-validation, also where a class has one or two examples.

scikit-learn's grid search has no place for a grid that depends on the inputs, for a transformer that all
candidates of a fold share, for labels of which nothing can be held out, or for keeping what the selected
candidate predicted out of fold, to which a temperature is fitted.
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

from pnca.training.sampling import assign_folds

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]
#: Rows of the training part and of the held-out part.
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
#: From class probabilities (k, c) and true columns (k,) to the loss summed over the rows.
Loss = Callable[[FloatArray, NDArray[np.intp]], float]
#: The values to try for each hyperparameter, the usual ones first; or a function of the inputs (n, p).
Grid = Mapping[str, Sequence[Any]] | Callable[[NDArray[Any]], Mapping[str, Sequence[Any]]]

N_FOLDS = 5


def stratified_folds(
    labels: NDArray[Any],
    rng: np.random.RandomState,
    groups: NDArray[Any] | None = None,
    n_folds: int = N_FOLDS,
) -> list[Fold]:
    """Split examples into at most ``n_folds`` folds, stratified by class.

    The members of a class go to the folds in turn, so that a class of two or more is never held out whole. A
    class of one example is in every training part and held out nowhere; without any other there is no fold.
    With groups, no group is split, and a training part may lack a class.
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if groups is not None:
        fold = assign_folds(codes, n_folds, rng, np.unique(groups, return_inverse=True)[1])
    else:
        order = rng.permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]  # class by class, shuffled within
        dealt = order[counts[codes[order]] > 1]
        fold = np.full(len(codes), -1)
        fold[dealt] = np.arange(len(dealt)) % n_folds
    parts = [fold == number for number in range(n_folds)]
    return [(np.flatnonzero(~part), np.flatnonzero(part)) for part in parts if part.any()]


def log_loss(probabilities: FloatArray, columns: NDArray[np.intp]) -> float:
    """Sum the negative log-probabilities of the true classes; zero counts as float64's precision."""
    of_labels = probabilities[np.arange(len(columns)), columns]
    return float(-np.log(of_labels.clip(np.finfo(np.float64).eps)).sum())


def squared_error(probabilities: FloatArray, columns: NDArray[np.intp]) -> float:
    """Sum the Brier scores: proper like the log loss, but finite where a model votes zero."""
    truth = columns[:, None] == np.arange(probabilities.shape[1])
    return float(((probabilities - truth) ** 2).sum())


def errors(probabilities: FloatArray, columns: NDArray[np.intp]) -> float:
    """Count the wrong predictions."""
    return float((probabilities.argmax(axis=1) != columns).sum())


def probabilities_of(model: Any, X: NDArray[Any], classes: NDArray[Any]) -> FloatArray:  # noqa: ANN401
    """Probabilities (k, c) of all ``classes``; one that the model does not know has zero.

    The prediction of a model without probabilities counts as certain.
    """
    columns = np.searchsorted(classes, model.classes_)
    found = np.zeros((len(X), len(classes)))
    if hasattr(model, "predict_proba"):
        found[:, columns] = model.predict_proba(X)
    else:
        found[np.arange(len(X)), np.searchsorted(classes, model.predict(X))] = 1
    return found


class TunedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with the hyperparameters of least cross-validated loss.

    Candidates are compared by their loss summed over the held-out examples of :func:`stratified_folds`; the
    first of several equals wins, also where nothing can be held out. Of several candidates, ``oof_proba_``
    (n, c) has what the selected one predicted out of fold; NaN of examples that were held out nowhere.
    """

    def __init__(
        self,
        estimator: Any,  # noqa: ANN401
        grid: Grid,
        *,
        loss: Loss = log_loss,
        transformer: Any = None,  # noqa: ANN401  (fitted to each training part, once for all candidates)
        transformer_grid: Grid | None = None,
        n_folds: int = N_FOLDS,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.loss = loss
        self.transformer = transformer
        self.transformer_grid = transformer_grid
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Select the hyperparameters, then fit with them to all examples; groups (n,) share a fold."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_ = np.unique(y)
        folds = stratified_folds(y, check_random_state(self.random_state), groups, self.n_folds)
        with warnings.catch_warnings():
            # A candidate that stops before it has converged is judged, like all others, by what it predicts.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.best_transformer_params_, self.best_params_ = self._best(X, y, folds)
            self.transformer_ = self._fitted_transformer(self.best_transformer_params_, X, y)
            self.estimator_ = clone(self.estimator).set_params(**self.best_params_)
            self.estimator_.fit(_transform(self.transformer_, X), y)
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
        losses, columns = np.zeros((len(outer), len(inner))), np.searchsorted(self.classes_, y)
        if losses.size > 1:
            held_out = np.full((*losses.shape, len(y), len(self.classes_)), np.nan)
            for train, rest in folds:
                for i, settings in enumerate(outer):
                    transformer = self._fitted_transformer(settings, X[train], y[train])
                    known, new = _transform(transformer, X[train]), _transform(transformer, X[rest])
                    for j, candidate in enumerate(inner):
                        model = clone(self.estimator).set_params(**candidate).fit(known, y[train])
                        held_out[i, j, rest] = probabilities_of(model, new, self.classes_)
                        losses[i, j] += self.loss(held_out[i, j, rest], columns[rest])
            self.oof_proba_ = held_out.reshape(-1, *held_out.shape[2:])[losses.argmin()]
        best = int(losses.argmin())
        return outer[best // len(inner)], inner[best % len(inner)]

    def _fitted_transformer(self, settings: dict[str, Any], X: NDArray[Any], y: NDArray[Any]) -> Any:  # noqa: ANN401
        return self.transformer and clone(self.transformer).set_params(**settings).fit(X, y)


def _transform(transformer: Any, X: NDArray[Any]) -> FloatArray:  # noqa: ANN401
    inputs: FloatArray = np.asarray(X, dtype=np.float64)
    return inputs if transformer is None else transformer.transform(inputs)


def _candidates(grid: Grid | None, X: NDArray[Any]) -> list[dict[str, Any]]:
    return list(ParameterGrid((grid(X) if callable(grid) else grid) or {}))
