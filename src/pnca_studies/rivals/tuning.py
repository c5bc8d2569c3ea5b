"""Settings picked by cross-validation, also where a class has one or two examples."""

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
#: Row numbers of a training part and of the part that is tested on.
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
#: From a fitted model, inputs and labels to the sum of the losses of the rows.
Loss = Callable[[Any, NDArray[Any], NDArray[Any]], float]
#: The values to try for each setting, or a function that says so of the inputs.
Grid = Mapping[str, Sequence[Any]] | Callable[[NDArray[Any]], Mapping[str, Sequence[Any]]]

N_FOLDS = 5


def stratified_folds(labels: NDArray[Any], rng: np.random.RandomState) -> list[Fold]:
    """Deal examples into five folds whose training parts hold every class.

    The members of a class are dealt in turn, so that a class of two or more is never tested as a whole. A
    class of a single example stays in every training part, without which the model could not name it, and is
    tested nowhere.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The classes.
    rng : numpy.random.RandomState
        Source of the order within a class.

    Returns
    -------
    list of (training rows, tested rows)
        No tested part is empty; there is no fold at all if no class has two examples.

    Examples
    --------
    >>> folds = stratified_folds(np.array(["a", "a", "b", "c", "a"]), np.random.RandomState(0))
    >>> [len(tested) for _, tested in folds], [bool({2, 3} <= set(trained)) for trained, _ in folds]
    ([1, 1, 1], [True, True, True])
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    is_lone = counts[codes] == 1  # (n,)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]  # class by class, shuffled within
    dealt = order[~is_lone[order]]
    fold = np.full(len(codes), -1)
    fold[dealt] = np.arange(len(dealt)) % N_FOLDS
    tested = [fold == number for number in range(N_FOLDS)]
    return [(np.flatnonzero(~part), np.flatnonzero(part)) for part in tested if part.any()]


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
    """A classifier whose settings are those of least cross-validated loss.

    Candidates are compared by their loss summed over all tested examples of :func:`stratified_folds`; the
    first of several equals wins. Where nothing can be tested, because no class has two examples, the first
    candidate is taken.

    Parameters
    ----------
    estimator : classifier
        What is tuned; it is cloned, never fitted itself.
    grid : mapping of str to sequence, or callable
        Values to try for each setting of ``estimator``, the usual ones first; or a function of the inputs
        (n, p) that returns such a mapping.
    loss : callable
        ``loss(model, X, y)``, summed over the rows.
    transformer : transformer or None
        What maps the inputs first; it is learnt anew from each training part, and once for all candidates.
    transformer_grid : mapping of str to sequence, or callable
        Values to try for its settings.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        The labels, in the order of the columns of :meth:`predict_proba`.
    estimator_, transformer_ : fitted estimator, fitted transformer or None
        Fitted to all examples.
    best_params_, best_transformer_params_ : dict
        The settings picked.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"n_neighbors": [1, 10, 100]}
    >>> TunedClassifier(KNeighborsClassifier(), grid, loss=log_loss, random_state=0).fit(X, y).best_params_
    {'n_neighbors': 10}
    """

    def __init__(
        self,
        estimator: Any,  # noqa: ANN401
        grid: Grid,
        *,
        loss: Loss = log_loss,
        transformer: Any = None,  # noqa: ANN401
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
        """Pick the settings, then fit with them to all examples.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Inputs.
        y : ndarray of shape (n,)
            Labels.

        Returns
        -------
        self
        """
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
        """Predict the probability of each class.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Inputs.

        Returns
        -------
        ndarray of shape (n, c)
        """
        check_is_fitted(self)
        probabilities: FloatArray = self.estimator_.predict_proba(_transform(self.transformer_, X))
        return probabilities

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Predict a class.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self.estimator_.predict(_transform(self.transformer_, X))
        return labels

    def _best(
        self, X: NDArray[Any], y: NDArray[Any], folds: list[Fold]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the transformer and of the estimator whose summed loss is least."""
        outer, inner = _candidates(self.transformer_grid, X), _candidates(self.grid, X)
        losses = np.zeros((len(outer), len(inner)))
        if losses.size > 1:
            for trained, tested in folds:
                for i, settings in enumerate(outer):
                    transformer = self._fitted_transformer(settings, X[trained], y[trained])
                    known, new = _transform(transformer, X[trained]), _transform(transformer, X[tested])
                    for j, candidate in enumerate(inner):
                        model = clone(self.estimator).set_params(**candidate).fit(known, y[trained])
                        losses[i, j] += self.loss(model, new, y[tested])
        best = int(losses.argmin())
        return outer[best // len(inner)], inner[best % len(inner)]

    def _fitted_transformer(self, settings: dict[str, Any], X: NDArray[Any], y: NDArray[Any]) -> Any:  # noqa: ANN401
        return self.transformer and clone(self.transformer).set_params(**settings).fit(X, y)


def _transform(transformer: Any, X: NDArray[Any]) -> FloatArray:  # noqa: ANN401
    inputs: FloatArray = np.asarray(X, dtype=np.float64)
    return inputs if transformer is None else transformer.transform(inputs)


def _candidates(grid: Grid | None, X: NDArray[Any]) -> list[dict[str, Any]]:
    return list(ParameterGrid((grid(X) if callable(grid) else grid) or {}))
