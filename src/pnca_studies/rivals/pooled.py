"""The pool of the default without its particles: what neighbours add can be read off the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from pnca import PNCAClassifier
from pnca.maths.pool import Answers, pool_weights
from pnca.models.experts import fit_forest, fit_linear
from pnca.models.options import Options
from pnca.models.plan import scaled
from pnca.models.pooling import prior_counts
from pnca.training.sampling import Examples, assign_folds

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]
_N_FOLDS = 5


class LinearAndForest(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A logistic regression and a forest, pooled by weights that are learnt out of fold."""

    def __init__(self, *, random_state: Any = None) -> None:  # noqa: ANN401
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Fit both to numbers (n, p), and in the folds, in which no group is split."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        n, n_classes = len(y), len(self.classes_)
        given = Examples(
            inputs=np.asarray(X, dtype=np.float64),
            labels=labels.astype(np.int64),
            classes=np.arange(n_classes),
            class_weight=np.ones(n_classes),
            input_shape=X.shape[1:],
        )
        examples = scaled(Options.of(PNCAClassifier()).settled(given.input_shape), given)
        rng = check_random_state(self.random_state)
        codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
        folds, seed = assign_folds(given.labels, _N_FOLDS, rng, codes), int(rng.randint(2**31))
        self.fits_ = [fit(examples, folds, seed) for fit in (fit_linear, fit_forest)]
        self.scaler_ = examples.scaler
        held_out = torch.stack([fit.log_probabilities for fit in self.fits_])  # (2, n, c)
        likelihoods = held_out[:, torch.arange(n), torch.from_numpy(given.labels)].exp()
        counts = prior_counts(len(self.fits_), n_classes, X.shape[1])[1:]
        self.weights_ = pool_weights(likelihoods, torch.ones(n).double(), counts)
        self.oof_proba_ = self._pooled(held_out)
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        inputs = torch.from_numpy(np.asarray(X, dtype=np.float64))
        asked = inputs if self.scaler_ is None else self.scaler_.apply(inputs)
        return self._pooled(torch.stack([fit.expert.log_probabilities(asked) for fit in self.fits_]))

    def _pooled(self, answers: torch.Tensor) -> FloatArray:
        pooled: FloatArray = Answers(answers, self.weights_.log()[:, None]).mean().exp().numpy()
        return pooled
