"""The scale of the inputs, and the weight of the distances between them."""

import numpy as np
import pytest

from models import make


def table(n=120, informative=1e-3, noise=1e3):
    """What matters is in tiny units, noise in huge ones."""
    rng = np.random.RandomState(0)
    y = np.arange(n) % 2
    X = np.stack([informative * (rng.normal(size=n) + 5 * y), noise * rng.normal(size=n) + 2e3], axis=1)
    return X, y


def test_scaling__finds_a_tiny_column_beside_a_huge_one():
    X, y = table()
    model = make("PNCA").fit(X[:60], y[:60])
    assert model.score(X[60:], y[60:]) > 0.9
    assert (model.oof_proba_.argmax(axis=1) == y[:60]).mean() > 0.9
    centre, spread = X[:60].mean(axis=0), 3 * X[:60].std(axis=0)
    np.testing.assert_allclose(model.input_centre_, centre, rtol=1e-5)
    np.testing.assert_allclose(model.input_spread_, spread, rtol=1e-5)


def test_scaling__takes_one_unit_where_small_columns_are_noise():
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = np.hstack([rng.normal(size=(60, 2)) + 4 * y[:, None], 0.02 * rng.normal(size=(60, 60))])
    assert np.unique(make("PNCA", max_epochs=1).fit(X, y).input_spread_).size == 1
    assert np.unique(make("PNCA", max_epochs=1, scaling="columns").fit(X, y).input_spread_).size == 62


def test_scaling__of_many_examples_does_not_depend_on_their_order():
    X, y = table(n=1200)  # the classes take turns
    order = np.random.RandomState(0).permutation(1200)
    for rows in (order, np.arange(1200)):
        model = make("PNCA", n_folds=None, max_epochs=1).fit(X[rows], y[rows])
        assert np.unique(model.input_spread_).size == 2


def test_scaling__of_images_has_one_spread_even_if_their_columns_differ():
    X, y = table(n=40)  # as a table it would get a spread for each column
    with pytest.warns(UserWarning, match="become equal"):
        model = make("PNCA", max_epochs=1).fit(X[:, None, :], y)
    assert np.unique(model.input_spread_).size == 1


def test_scaling__unit_of_the_inputs_does_not_matter(noisy):
    X, y = noisy
    expected = make("PNCA").fit(X, y)
    # A power of two changes no digit; a thousand rounds, and training makes a little more of that.
    for unit, tolerance in ((1024.0, 1e-12), (1000.0, 0.01)):
        model = make("PNCA").fit(unit * X, y)
        np.testing.assert_allclose(model.predict_proba(unit * X), expected.predict_proba(X), atol=tolerance)
        np.testing.assert_allclose(model.oof_proba_, expected.oof_proba_, atol=tolerance)


def test_scaling__none_leaves_inputs_alone(noisy):
    X, y = noisy
    model = make("PNCA", scaling=None, max_epochs=1).fit(X, y)
    assert not hasattr(model, "input_centre_")
    assert np.array_equal(model.support_inputs_, X)
    refitted = make("PNCA", max_epochs=1).fit(X, y).set_params(scaling=None).fit(X, y)
    assert np.array_equal(refitted.predict_proba(X), model.predict_proba(X))


def test_auto__input_weight_follows_from_the_distances_alone(noisy):
    X, y = noisy
    first, second = (make("PNCA", max_epochs=1).fit(X, labels) for labels in (y, np.roll(y, 7) * 3))
    assert first.input_weight_ == second.input_weight_ > 0
    assert make("PNCA", max_epochs=1, input_weight=0.7).fit(X, y).input_weight_ == 0.7


@pytest.mark.parametrize("offset", [1e6, 1e8, 1e9, -1e12])
def test_offset__of_columns_costs_nothing(noisy, offset):
    X, y = noisy
    X = np.round(X.astype(np.float64) * 1024) / 1024  # so that the sum is exact
    expected, model = make("PNCA").fit(X, y), make("PNCA").fit(X + offset, y)
    np.testing.assert_allclose(model.predict_proba(X + offset), expected.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("unit", [1e-300, 1e-30, 1e30])
def test_unit__however_small_or_large_is_scaled_away(noisy, unit):
    X, y = noisy
    expected, model = make("PNCA").fit(X, y), make("PNCA").fit(unit * X.astype(np.float64), y)
    found = model.predict_proba(unit * X.astype(np.float64))
    np.testing.assert_allclose(found, expected.predict_proba(X), atol=0.01)


def test_query__beyond_all_scaled_numbers_gets_the_class_shares(noisy):
    X, y = noisy
    model = make("PNCA").fit(1e-300 * X.astype(np.float64), y)
    np.testing.assert_allclose(model.predict_proba(np.full((1, X.shape[1]), 3e38)), [model.class_prior_])


def with_offset(n=40):
    rng = np.random.RandomState(0)
    return np.stack([rng.normal(size=n), 1e9 + np.arange(n)], axis=1), np.arange(n) % 2


@pytest.mark.filterwarnings("ignore:Column 1 looks like a number of the rows")
def test_values_that_merge__are_named_where_nothing_is_scaled():
    X, y = with_offset()
    for name, parameters in (("DNN", {}), ("PNCA", {"scaling": None})):
        with pytest.warns(
            UserWarning, match=r"\(1; the first is column 0\).*subtract large offsets"
        ) as caught:
            make(name, max_epochs=1, **parameters).fit(X, y)
        assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:Column 1 looks like a number of the rows")
def test_values_that_merge__are_named_beside_an_outlier():
    X, y = with_offset()
    X[0, 0] = 1e12
    with pytest.warns(UserWarning, match=r"\(0; the first is column 0\).*tame outliers"):
        make("PNCA", max_epochs=1, scaling="columns").fit(X, y)


@pytest.mark.filterwarnings("ignore:Column 1 looks like a number of the rows")
def test_values_that_stay_apart__are_not_warned_of(noisy):
    X, y = with_offset()
    make("PNCA", max_epochs=1, scaling="columns").fit(X, y)  # pytest makes an error of a warning
    rng = np.random.RandomState(0)
    many = rng.uniform(size=(3000, 2))
    make("DNN", max_epochs=1).fit(many, np.arange(3000) % 2)
