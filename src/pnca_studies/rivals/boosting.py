"""Boosted trees. They take raw tables (n, p): holes are NaN, and categories are codes in named columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import check_random_state

from pnca.exceptions import MissingExtraError
from pnca_studies.rivals.tuning import TunedClassifier, log_loss, probabilities_of, stratified_folds

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]

#: With more columns, each split looks at a tenth of them, as CatBoost's guide advises for the sake of time.
_MANY_COLUMNS = 500


def hist_gradient_boosting(random_state: int, categories: Sequence[int] = ()) -> TunedClassifier:
    """Build scikit-learn's; the number of trees and the least examples of a leaf are selected by log loss.

    A leaf of 20 examples, the default, leaves a hundred examples next to no splits.
    """
    model = HistGradientBoostingClassifier(
        categorical_features=list(categories) or None, early_stopping=False, random_state=random_state
    )
    grid = {"max_iter": [100, 30], "min_samples_leaf": [20, 5]}
    return TunedClassifier(model, grid, random_state=random_state)


def light_gbm(random_state: int, categories: Sequence[int] = ()) -> TunedClassifier:
    """Build LightGBM; the number of trees and the least examples of a leaf are selected by log loss."""
    grid = {"n_estimators": [100, 30], "min_child_samples": [20, 5]}
    return TunedClassifier(LightGBM(categories=tuple(categories)), grid, random_state=random_state)


class LightGBM(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """LightGBM on one core, with the categories among its columns."""

    def __init__(
        self, *, categories: Sequence[int] = (), n_estimators: int = 100, min_child_samples: int = 20
    ) -> None:
        self.categories = categories
        self.n_estimators = n_estimators
        self.min_child_samples = min_child_samples

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Train on a raw table (n, p)."""
        try:
            from lightgbm import LGBMClassifier
        except ImportError as error:
            raise MissingExtraError("lightgbm", "benchmark") from error
        model = LGBMClassifier(
            n_estimators=self.n_estimators,
            min_child_samples=self.min_child_samples,
            # The default, a hundred examples of a category, would leave small tables without any.
            min_data_per_group=self.min_child_samples,
            n_jobs=1,
            verbose=-1,
            deterministic=True,
        )
        with _quiet():
            self.model_ = model.fit(X, y, categorical_feature=list(self.categories) or "auto")
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        with _quiet():
            return np.asarray(self.model_.predict_proba(X), dtype=np.float64)


class CatBoost(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """CatBoost on one core; the number of trees is that of least log loss out of fold.

    One fit in each fold has every number of trees as its beginning. ``oof_proba_`` (n, c) has what they
    predict with the number that was selected.
    """

    def __init__(
        self,
        *,
        categories: Sequence[int] = (),
        iterations: int = 300,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.categories = categories
        self.iterations = iterations
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Select the number of trees and train on a raw table (n, p)."""
        self.classes_, columns = np.unique(y, return_inverse=True)
        rng = check_random_state(self.random_state)
        self._seed, self.n_features_in_ = int(rng.randint(2**31)), X.shape[1]
        table, sizes = self._as_given(X), self._sizes()
        held_out = np.full((len(sizes), len(y), len(self.classes_)), np.nan)
        rate = None
        for train, rest in stratified_folds(y, rng, groups):
            model = self._build(self.iterations, rate).fit(table[train], columns[train])
            rate = model.learning_rate_
            for k, n_trees in enumerate(sizes):
                asked = _Beginning(model, n_trees)
                held_out[k, rest] = probabilities_of(asked, table[rest], np.arange(len(self.classes_)))
        known = np.isfinite(held_out[0, :, 0])
        losses = [log_loss(given[known], columns[known]) for given in held_out]
        best = int(np.argmin(losses)) if known.any() else len(sizes) - 1
        self.n_trees_ = int(sizes[best])
        if known.any():
            self.oof_proba_ = held_out[best]
        self.model_ = self._build(self.n_trees_, rate).fit(table, columns)
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        probabilities: FloatArray = self.model_.predict_proba(self._as_given(X))
        return probabilities

    def _sizes(self) -> list[int]:
        """Numbers of trees to choose from."""
        return sorted({max(1, self.iterations * k // 10) for k in (1, 2, 3, 5, 7, 10)})

    def _build(self, n_trees: int, learning_rate: float | None) -> Any:  # noqa: ANN401
        """Build the model; CatBoost's own rate depends on the number of trees, so all fits share one."""
        try:
            from catboost import CatBoostClassifier
        except ImportError as error:
            raise MissingExtraError("catboost", "benchmark") from error
        return CatBoostClassifier(
            iterations=n_trees,
            learning_rate=learning_rate,
            rsm=0.1 if self.n_features_in_ > _MANY_COLUMNS else None,
            random_seed=self._seed,
            cat_features=list(self.categories),
            thread_count=1,
            verbose=0,
            allow_writing_files=False,
        )

    def _as_given(self, X: NDArray[Any]) -> NDArray[Any]:
        """CatBoost takes categories as words; a hole is one of them."""
        table: NDArray[Any] = np.asarray(X, dtype=np.float64)
        if len(self.categories):
            table = table.astype(object)
            for column in self.categories:
                table[:, column] = [str(value) for value in table[:, column]]
        return table


class _Beginning:
    """The first trees of a fitted model."""

    def __init__(self, model: Any, n_trees: int) -> None:  # noqa: ANN401
        self.classes_ = model.classes_
        self.predict_proba = partial(model.predict_proba, ntree_end=n_trees)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what is said of names of columns, which an array does not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
