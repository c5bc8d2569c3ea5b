"""Baselines from scikit-learn, set up as one would for a few hundred examples.

Hyperparameters are selected by cross-validation on the training examples (:mod:`pnca_studies.rivals.tuning`),
those of the Gaussian process by its marginal likelihood. Nothing rescales its inputs, and every fit runs on
one core.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pnca.calibration import apply_temperature, fit_temperature
from pnca_studies.rivals.tuning import (
    Fold,
    TunedClassifier,
    errors,
    log_loss,
    squared_error,
    stratified_folds,
)

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]

N_TREES = 500
#: Of each of the five forests that are calibrated.
_TREES_IN_FOLDS = 200
#: Rows whose latent variances are computed at once, to bound memory.
PREDICTION_ROWS = 1024


def logistic_regression(random_state: int) -> TunedClassifier:
    """Build a multinomial logistic regression; the penalty is selected by log loss."""
    grid = {"C": [1, 0.1, 0.01, 0.001, 10, 100]}
    return TunedClassifier(LogisticRegression(max_iter=1000), grid, loss=log_loss, random_state=random_state)


def shrinkage_lda(random_state: int) -> LinearDiscriminantAnalysis:
    """Build linear discriminant analysis, its covariance shrunk by the rule of Ledoit and Wolf."""
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


class CalibratedForest(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A forest with a sigmoid for each class, fitted to predictions out of five folds (Platt scaling)."""

    def __init__(self, forest: Any, *, random_state: Any = None) -> None:  # noqa: ANN401
        self.forest = forest
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Train in the folds, in which groups (n,) are not split, and average what comes of them."""
        rng = check_random_state(self.random_state)
        forest = clone(self.forest).set_params(random_state=int(rng.randint(2**31)))
        folds = stratified_folds(np.asarray(y), rng, groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a fold may lack a rare class
            self.model_ = CalibratedClassifierCV(forest, cv=folds).fit(X, y) if folds else forest.fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class (n, c)."""
        probabilities: FloatArray = self.model_.predict_proba(X)
        return probabilities

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Predict the most probable class."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


def nearest_neighbours(random_state: int) -> TunedClassifier:
    """Build k nearest neighbours; k and the weights of the votes are selected by Brier score.

    Log loss would be dominated by the examples that no neighbour votes for, and always prefer a large k.
    """
    return TunedClassifier(
        KNeighborsClassifier(), _neighbour_grid, loss=squared_error, random_state=random_state
    )


def nca_neighbours(random_state: int) -> TunedClassifier:
    """Build scikit-learn's (linear) NCA followed by k nearest neighbours.

    The dimension of the embedding, k and the weights of the votes are selected by Brier score. The embedding
    is fitted in each fold again: it uses the labels, and a vote among examples that it has seen would look
    too good.
    """
    return TunedClassifier(
        KNeighborsClassifier(),
        _neighbour_grid,
        loss=squared_error,
        transformer=NeighborhoodComponentsAnalysis(init="pca", random_state=random_state),
        transformer_grid=_embedding_grid,
        random_state=random_state,
    )


def _neighbour_grid(X: NDArray[Any]) -> dict[str, list[Any]]:
    # No more neighbours than the smallest training part of the folds has, which is never below n / 2.
    counts = [k for k in (5, 3, 1, 10, 20) if k <= max(1, len(X) // 2)]
    return {"n_neighbors": counts, "weights": ["distance", "uniform"]}


def _embedding_grid(X: NDArray[Any]) -> dict[str, list[int]]:
    # Started from PCA, which has at most as many components as rows.
    largest = max(1, min(X.shape[1], len(X) // 2))
    return {"n_components": sorted({min(d, largest) for d in (10, 30)})}


def _svm_grid(X: NDArray[Any]) -> dict[str, list[float]]:
    # Around scikit-learn's own rule, gamma = 1 / (p var X).
    usual = 1 / (X.shape[1] * (float(X.var()) or 1.0))
    return {"C": [10.0, 1.0, 100.0], "gamma": [usual * factor for factor in (1.0, 0.25, 0.0625, 4.0)]}


class CalibratedSVM(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""A support vector machine with Gaussian kernel and temperature-scaled scores.

    .. math:: p_k(x) \propto e^{s_k(x) / T}

    C and gamma are selected by the cross-validated number of errors. The temperature is then fitted to the
    scores of examples held out in five folds (1 if there are none); the machine itself is trained on all
    examples. Platt scaling has two parameters per class, too many for a few scores: with 50 images of digits
    it lost four per cent of the accuracy.
    """

    def __init__(self, *, random_state: Any = None) -> None:  # noqa: ANN401
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any] | None = None) -> Self:
        """Select C and gamma, train and calibrate; groups (n,) share a fold."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        rng = check_random_state(self.random_state)
        machine = SVC(random_state=0)  # without a seed it would draw one from numpy's global generator
        tuned = TunedClassifier(machine, _svm_grid, loss=errors, random_state=rng).fit(X, y, groups)
        self.best_params_ = tuned.best_params_
        self.machine_, self.classes_ = tuned.estimator_, tuned.classes_
        self._calibrate(X, y, stratified_folds(y, rng, groups))
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class."""
        check_is_fitted(self)
        scores = _class_scores(self.machine_, np.asarray(X, dtype=np.float64))
        return np.exp(apply_temperature(scores, self.temperature_))

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Predict the most probable class."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def _calibrate(self, X: NDArray[Any], y: NDArray[Any], folds: list[Fold]) -> None:
        """Fit the temperature to held-out scores, and keep the probabilities that it makes of them."""
        self.temperature_ = 1.0
        if not folds:
            return
        scores = np.full((len(y), len(self.classes_)), np.nan)
        for train, rest in folds:
            machine = clone(self.machine_).fit(X[train], y[train])
            # A class that is not among the training examples of a group's fold is out of the question.
            scores[rest] = -np.inf
            known = np.searchsorted(self.classes_, machine.classes_)
            scores[np.ix_(rest, known)] = _class_scores(machine, X[rest])
        held_out = np.isfinite(scores).any(axis=1)
        columns = np.searchsorted(self.classes_, y[held_out])
        # Scores are no log-probabilities: nothing says that their temperature is near one.
        self.temperature_ = fit_temperature(scores[held_out], columns, spread=None)
        self.oof_proba_ = np.full(scores.shape, np.nan)
        self.oof_proba_[held_out] = np.exp(apply_temperature(scores[held_out], self.temperature_))


def _class_scores(machine: SVC, X: NDArray[Any]) -> FloatArray:
    """Return scores (n, c) of all classes; of two classes the machine scores the second alone."""
    scores: FloatArray = machine.decision_function(X)
    return scores if scores.ndim == 2 else np.stack([np.zeros_like(scores), scores], axis=1)


class MedianGaussianProcess(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Gaussian process classification, one class against the rest, from a length scale that suits the data.

    .. math:: k(x, x') = a \exp\!\left(-\frac{\|x - x'\|^2}{2 l^2}\right)

    The amplitude a and the length scale l of each class maximise the marginal likelihood (Laplace
    approximation), from a = 10 and l the median distance of the training inputs. From scikit-learn's own
    start, l = 1, images would all be unrelated and the gradient would vanish. A fit costs in proportion to
    ``max_iter``, the steps of L-BFGS per class; ten come close to the maximum.
    """

    def __init__(self, *, max_iter: int = 10, random_state: Any = None) -> None:  # noqa: ANN401
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Fit the kernels and the posteriors."""
        X = np.asarray(X, dtype=np.float64)
        scale = _median_distance(X, check_random_state(self.random_state))
        kernel = ConstantKernel(10, (1e-2, 1e4)) * RBF(scale, (scale / 100, scale * 100))
        model = GaussianProcessClassifier(kernel, optimizer=partial(_few_steps, max_iter=self.max_iter))
        with warnings.catch_warnings():
            # On separable data the kernel may end at the edge of these wide bounds.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_ = model.fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Predict the probability of each class."""
        check_is_fitted(self)
        probabilities: FloatArray = self.model_.predict_proba(np.asarray(X, dtype=np.float64))
        return probabilities

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Predict the most probable class."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def evidence(self, X: NDArray[Any]) -> FloatArray:
        r"""Return minus the variance (n,) of the latent function relative to the prior: from -1 to 0.

        .. math:: -\frac{1}{c} \sum_k \frac{\operatorname{Var}[f_k(x)]}{a_k}, \qquad
                  \operatorname{Var}[f_k(x)] = a_k - \left\| L^{-1} W^{1/2} k(X, x) \right\|^2

        with :math:`W` the curvature of the likelihood and :math:`L L^\top = I + W^{1/2} K W^{1/2}`
        (Rasmussen & Williams, algorithm 3.2).
        """
        check_is_fitted(self)
        inputs = np.asarray(X, dtype=np.float64)
        # One class against the rest is a list of binary processes; of two classes there is but one.
        processes = getattr(self.model_.base_estimator_, "estimators_", [self.model_.base_estimator_])
        chunks = [inputs[start : start + PREDICTION_ROWS] for start in range(0, len(inputs), PREDICTION_ROWS)]
        variances = [
            np.mean([_relative_variance(process, x) for process in processes], axis=0) for x in chunks
        ]
        return -np.concatenate(variances)


def _relative_variance(process: Any, X: NDArray[Any]) -> FloatArray:  # noqa: ANN401
    """Return the latent variance (n,) of a fitted binary process at X, divided by its prior variance."""
    explained = solve_triangular(
        process.L_, process.W_sr_[:, None] * process.kernel_(process.X_train_, X), lower=True
    )
    relative: FloatArray = 1 - (explained**2).sum(axis=0) / process.kernel_.diag(X)
    return relative


def _median_distance(X: NDArray[Any], rng: np.random.RandomState, n_rows: int = 1000) -> float:
    """Return the median distance between at most 1000 of the inputs; 1 if they are all the same."""
    rows = X if len(X) <= n_rows else X[rng.choice(len(X), n_rows, replace=False)]
    distances = pdist(rows)
    return float(np.median(distances[distances > 0])) if distances.any() else 1.0


def _few_steps(
    loss: Callable[..., Any], start: FloatArray, bounds: FloatArray, *, max_iter: int
) -> tuple[FloatArray, float]:
    """Optimise in at most so many steps, with the signature that scikit-learn's Gaussian processes need."""
    found = minimize(loss, start, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": max_iter})
    return found.x, found.fun


#: By name, the simplest first; each is built with ``random_state=``.
CLASSICAL: dict[str, Callable[..., Any]] = {
    "logistic regression": logistic_regression,
    "RBF-SVM": CalibratedSVM,
    "random forest": partial(RandomForestClassifier, N_TREES),
    "ExtraTrees": partial(ExtraTreesClassifier, N_TREES),
    "calibrated random forest": partial(CalibratedForest, RandomForestClassifier(_TREES_IN_FOLDS)),
    "calibrated ExtraTrees": partial(CalibratedForest, ExtraTreesClassifier(_TREES_IN_FOLDS)),
    "shrinkage LDA": shrinkage_lda,
    "k-NN": nearest_neighbours,
    "NCA + k-NN (scikit-learn)": nca_neighbours,
    "Gaussian process": MedianGaussianProcess,
}
