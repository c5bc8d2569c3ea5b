"""Raw tables as numbers, for models that take nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import has_fit_parameter

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]


def table_encoder(categories: Sequence[int], n_columns: int) -> ColumnTransformer:
    """Build what turns a raw table (n, p), holes NaN, into numbers, as scikit-learn's guide recommends it.

    Numbers: holes become the median, then columns are standardised. Categories: one column for each value
    (of two values: one), and zeros for a value that was not in the training examples; a hole is a value.
    """
    numbers = [column for column in range(n_columns) if column not in set(categories)]
    one_hot = OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            ("categories", one_hot, list(categories)),
        ]
    )


def fit_with_groups(
    model: Any,  # noqa: ANN401
    X: NDArray[Any],
    y: NDArray[Any],
    groups: NDArray[Any] | None,
) -> Any:  # noqa: ANN401
    """Fit a model; it gets the groups (n,) if it has a use for them."""
    if groups is not None and has_fit_parameter(model, "groups"):
        return model.fit(X, y, groups=groups)
    return model.fit(X, y)


class EncodedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of numbers behind :func:`table_encoder`; its evidence and its ``oof_proba_`` show."""

    def __init__(self, model: Any, categories: Sequence[int] = ()) -> None:  # noqa: ANN401
        self.model = model
        self.categories = categories

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Fit the encoder and the model to a raw table (n, p)."""
        self.encoder_ = table_encoder(self.categories, X.shape[1]).fit(X)
        self.model_ = fit_with_groups(clone(self.model), self._encoded(X), y, groups)
        self.classes_ = self.model_.classes_
        if hasattr(self.model_, "oof_proba_"):
            self.oof_proba_ = self.model_.oof_proba_
        if hasattr(self.model_, "evidence"):
            self.evidence = lambda inputs: self.model_.evidence(self._encoded(inputs))
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c) of a raw table (n, p)."""
        probabilities: FloatArray = self.model_.predict_proba(self._encoded(X))
        return probabilities

    def _encoded(self, X: NDArray[Any]) -> FloatArray:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Found unknown categories")  # zeros, as is meant
            encoded: FloatArray = self.encoder_.transform(np.asarray(X, dtype=np.float64))
        return encoded
