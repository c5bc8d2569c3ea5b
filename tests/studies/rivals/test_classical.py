import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.model_selection import KFold

from pnca_studies.rivals import build_rival
from pnca_studies.rivals.classical import MedianGaussianProcess


@pytest.mark.parametrize("name", ["RBF-SVM", "Gaussian process"])
def test_kernel_rival__answer_does_not_depend_on_the_unit_of_the_inputs(name, iris):
    X, y = iris
    fits = [build_rival(name, random_state=0).fit(unit * X[:60], y[:60]) for unit in (1, 64)]
    answers = [fit.predict_proba(unit * X[60:]) for fit, unit in zip(fits, (1, 64), strict=True)]
    np.testing.assert_allclose(*answers, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.skipif(
    "temperature" not in str(CalibratedClassifierCV._parameter_constraints["method"][0]),
    reason="new in scikit-learn 1.8",
)
def test_svm__temperature_is_scikit_learns(iris, n_classes):
    rng = np.random.default_rng(0)
    X, y = iris[0].astype(np.float64) + rng.normal(size=(150, 4)), iris[1] % n_classes
    model = build_rival("RBF-SVM", random_state=0).fit(X, y)
    folds = list(KFold(5).split(X))
    theirs = CalibratedClassifierCV(clone(model.machine_), method="temperature", cv=folds, ensemble=False)
    model._calibrate(X, y, folds)
    np.testing.assert_allclose(model.predict_proba(X), theirs.fit(X, y).predict_proba(X), atol=1e-4)


def test_svm__settings_come_from_the_grid_and_probabilities_are_calibrated(iris):
    X, y = iris
    model = build_rival("RBF-SVM", random_state=0).fit(X[:100], y[:100])
    assert model.best_params_["C"] in (1.0, 10.0, 100.0)
    proba = model.predict_proba(X[100:])
    assert (model.predict(X[100:]) == model.classes_[proba.argmax(axis=1)]).all()
    nll = -np.log(proba[np.arange(50), np.searchsorted(model.classes_, y[100:])]).mean()
    assert nll < 0.3  # guessing would cost log 3 = 1.1


@pytest.mark.parametrize("name", ["k-NN", "NCA + k-NN (scikit-learn)"])
def test_neighbours__never_asks_for_more_than_there_are(name, iris):
    for n in (4, 6, 15):
        X, y = iris[0][:n], np.arange(n) % 3
        model = build_rival(name, random_state=0).fit(X, y)
        assert model.best_params_["n_neighbors"] <= n // 2
        assert model.predict_proba(iris[0]).shape == (150, 3)


def test_nca__dimension_is_limited_by_columns_and_rows(iris):
    assert build_rival("NCA + k-NN (scikit-learn)", random_state=0).fit(*iris).best_transformer_params_ == {
        "n_components": 4
    }


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.skipif(
    not hasattr(GaussianProcessClassifier, "latent_mean_and_variance"), reason="new in scikit-learn 1.7"
)
def test_gaussian_process__evidence_is_that_of_scikit_learns_latent_variance(iris, n_classes, monkeypatch):
    X, y = iris[0][:40], iris[1][:40] % n_classes
    model = MedianGaussianProcess(random_state=0).fit(X, y)
    base = model.model_.base_estimator_
    processes = base.estimators_ if n_classes > 2 else [base]
    new = np.concatenate([X, 3 * X, X + 1])
    relative = [p.latent_mean_and_variance(new)[1] / p.kernel_.diag(new) for p in processes]
    monkeypatch.setattr("pnca_studies.rivals.classical.PREDICTION_ROWS", 17)
    np.testing.assert_allclose(model.evidence(new), -np.mean(relative, axis=0), rtol=1e-6)


def test_gaussian_process__far_away_nothing_is_known(iris):
    model = build_rival("Gaussian process", random_state=0).fit(iris[0][::3], iris[1][::3])
    np.testing.assert_allclose(model.evidence(iris[0] + 1e4), -1)
    assert model.evidence(iris[0]).mean() > -0.8


def test_gaussian_process__more_steps_find_a_likelier_kernel(iris):
    X, y = iris[0][::3], iris[1][::3]
    few, many = (MedianGaussianProcess(max_iter=n).fit(X, y).model_ for n in (1, 20))
    assert many.log_marginal_likelihood_value_ > few.log_marginal_likelihood_value_
