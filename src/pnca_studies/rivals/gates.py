"""What a practitioner would do: a classifier that is not heard about inputs that look foreign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state

from pnca.calibration.conformal import conformal_p_values, held_out_p_values
from pnca_studies.rivals.encoding import fit_with_groups
from pnca_studies.rivals.scores import SCORES
from pnca_studies.rivals.tuning import stratified_folds

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]
#: The gate is shut on inputs that are more foreign than this share of the training examples out of fold: the
#: default level of ``decide``. With fewer than a hundred, on those more foreign than all of them.
LEVEL = 0.01


class GatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier behind a gate: where an out-of-distribution score is high, it answers the class shares.

    The score's own cross-validation (five folds of the training examples) says what is high.
    """

    def __init__(self, model: Any, score: str, *, random_state: Any = None) -> None:  # noqa: ANN401
        self.model = model
        self.score = score
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Fit the classifier, and the score of each training example (n, p) out of fold."""
        X = np.asarray(X, dtype=np.float64)
        self.model_ = fit_with_groups(clone(self.model), X, y, groups)
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        self.inputs_, self.labels_ = X, y
        self.groups_ = None if groups is None else np.unique(groups, return_inverse=True)[1]
        self.held_out_ = np.full(len(y), -np.inf)  # a class of one example is held out nowhere
        for train, rest in stratified_folds(y, check_random_state(self.random_state), groups):
            self.held_out_[rest] = -SCORES[self.score](X[train], y[train], X[rest])
        if hasattr(self.model_, "oof_proba_"):
            is_shut = self._is_shut(held_out_p_values(self.held_out_, self.groups_))
            self.oof_proba_ = np.where(is_shut[:, None], self.shares_, self.model_.oof_proba_)
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        is_shut = self._is_shut(conformal_p_values(self.held_out_, self.evidence(X), self.groups_))
        answers: FloatArray = np.where(is_shut[:, None], self.shares_, self.model_.predict_proba(X))
        return answers

    def evidence(self, X: NDArray[Any]) -> FloatArray:
        """Return minus the score (n,)."""
        return -SCORES[self.score](self.inputs_, self.labels_, np.asarray(X, dtype=np.float64))

    def _is_shut(self, p_values: FloatArray) -> NDArray[np.bool_]:
        n = len(self.held_out_) if self.groups_ is None else int(self.groups_.max()) + 1
        is_shut: NDArray[np.bool_] = p_values < max(LEVEL, 1.5 / (n + 1))
        return is_shut
