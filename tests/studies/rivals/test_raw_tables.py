"""Models of raw tables: the encoder, and boosted trees."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pnca_studies.rivals import CatBoost, EncodedClassifier, hist_gradient_boosting, light_gbm
from pnca_studies.rivals.boosting import LightGBM
from pnca_studies.rivals.encoding import table_encoder


@pytest.fixture(scope="module")
def raw():
    """A number with holes, and a category of four values in which alone the label can be read."""
    rng = np.random.default_rng(0)
    category = rng.integers(0, 4, 120)
    numbers = rng.normal(5, 3, 120)
    numbers[::10] = np.nan
    X = np.stack([numbers, category.astype(float)], axis=1)
    X.setflags(write=False)
    return X, (category % 2).astype(int)


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_encoder__standardises_numbers_fills_holes_and_opens_categories():
    X = np.array([[1.0, 0.0, 7.0], [3.0, 1.0, 8.0], [np.nan, 0.0, 9.0], [5.0, 1.0, 7.0]])
    encoder = table_encoder([1, 2], 3).fit(X)
    known, new = encoder.transform(X), encoder.transform(np.array([[3.0, 1.0, 5.0]]))
    np.testing.assert_allclose(known[:, 0].mean(), 0, atol=1e-12)
    assert known[2, 0] == known[1, 0]  # the median is 3
    assert known[:, 1].tolist() == [0, 1, 0, 1]  # of two values one column
    assert known[:, 2:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert new[0, 2:].tolist() == [0, 0, 0]  # was not there


def test_encoded__a_line_reads_the_category(raw):
    X, y = raw
    model = EncodedClassifier(LogisticRegression(), (1,)).fit(X[:80], y[:80])
    assert (model.predict_proba(X[80:]).argmax(axis=1) == y[80:]).all()
    assert not hasattr(model, "evidence")
    assert not hasattr(model, "oof_proba_")


@pytest.mark.parametrize("build", [light_gbm, hist_gradient_boosting, CatBoost])
def test_boosted__read_the_category_and_keep_predictions_out_of_fold(build, raw):
    X, y = raw
    model = build(random_state=0, categories=(1,))
    if build is CatBoost:
        model.set_params(iterations=30)
    else:
        model.set_params(grid={key: values[:1] for key, values in model.grid.items()})
        model.set_params(grid={**model.grid, next(iter(model.grid)): [10, 20]})
    model.fit(X[:80], y[:80])
    assert (model.predict_proba(X[80:]).argmax(axis=1) == y[80:]).all()
    assert model.classes_.tolist() == [0, 1]
    assert (model.oof_proba_.argmax(axis=1) == y[:80]).mean() > 0.95
    assert not np.array_equal(model.oof_proba_, model.predict_proba(X[:80]))


def test_boosted__categories_are_no_numbers(raw):
    """Odd values of twelve against even ones, ten rows each: leaves of forty rows tell categories alone."""
    category = np.arange(120) % 12
    X, y = np.stack([raw[0][:, 0], category], axis=1), category % 2
    few = LightGBM(n_estimators=30, min_child_samples=40)
    as_numbers = few.fit(X, y).predict_proba(X)
    few.set_params(categories=(1,), min_child_samples=10)
    assert (few.fit(X, y).predict_proba(X).argmax(axis=1) == y).all()
    assert (as_numbers.argmax(axis=1) == y).mean() < 0.8


def test_catboost__the_number_of_trees_is_that_of_least_loss():
    """Labels at random: many trees are a mistake, and folds see it."""
    rng = np.random.default_rng(0)
    model = CatBoost(iterations=300, random_state=0).fit(rng.normal(size=(60, 3)), rng.integers(0, 2, 60))
    assert model.n_trees_ <= 90
    assert model.model_.tree_count_ == model.n_trees_
