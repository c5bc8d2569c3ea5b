"""Far from all training examples the class shares decide; uncertainty and evidence say so."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from models import make

# The guarantee: far from all training examples the class shares decide


@st.composite
def problems(draw):
    """Random inputs of random classes, of which one at least has two examples."""
    n, p, c = draw(st.integers(8, 14)), draw(st.integers(1, 5)), draw(st.integers(2, 4))
    rng = np.random.RandomState(draw(st.integers(0, 10_000)))
    unit = 10.0 ** draw(st.integers(-3, 3))
    y = rng.permutation(np.r_[np.arange(c), np.arange(c), rng.randint(c, size=n)])
    X = unit * rng.normal(size=(len(y), p)) + unit * rng.normal(size=p)
    direction = rng.normal(size=p)
    return X, y, X[0], unit * direction / np.linalg.norm(direction), int(rng.randint(1000))


def fitted(X, y, **others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few epochs of noise teach nothing
        return make("PNCA", n_particles=2, **others).fit(X, y)


@settings(max_examples=15, deadline=None)
@given(problem=problems(), max_epochs=st.sampled_from([1, 8]), n_folds=st.sampled_from([None, 3]))
def test_guarantee__far_in_input_space_the_prediction_is_the_class_shares(problem, max_epochs, n_folds):
    X, y, start, direction, seed = problem
    model = fitted(X, y, max_epochs=max_epochs, n_folds=n_folds, random_state=seed)
    far = start + np.array([[100.0], [1e4], [1e8]]) * direction
    np.testing.assert_allclose(
        model.predict_proba(far), np.tile(np.bincount(y) / len(y), (3, 1)), rtol=0, atol=1e-6
    )
    evidence = model.evidence(far)
    assert (np.diff(evidence) < 0).all()
    assert evidence[0] < model.evidence(X).min() - 10


@settings(max_examples=15, deadline=None)
@given(problem=problems(), n_folds=st.sampled_from([None, 3]))
def test_guarantee__far_in_the_latent_space_the_prediction_is_the_class_shares(problem, n_folds):
    X, y, start, direction, seed = problem
    p = X.shape[1]
    model = fitted(
        X,
        y,
        input_weight=0.0,
        module=lambda: nn.Linear(p, p + 2),  # nothing is lost
        n_folds=n_folds,
        max_epochs=3,
        random_state=seed,
    )
    unit = np.linalg.norm(direction)
    far = start + np.array([[1e6], [1e8]]) * direction / min(unit, 1)
    np.testing.assert_allclose(
        model.predict_proba(far), np.tile(np.bincount(y) / len(y), (2, 1)), rtol=0, atol=1e-6
    )


def test_guarantee__does_not_hold_without_a_background(noisy):
    model = make("PNCA", background=0.0, max_epochs=3).fit(*noisy)
    assert model.predict_proba(1e4 * np.ones((1, 3))).max() > 0.9


@pytest.mark.parametrize("expectation", ["shared", "cross"])
def test_guarantee__holds_for_images_and_their_inversion(expectation, digits):
    X, y = digits
    model = make("PNCA", expectation=expectation, max_epochs=10).fit(X, y)
    strange = np.stack([16 * (np.indices((8, 8)).sum(axis=0) % 2), 100 * X[0], -50 * X[1]])
    np.testing.assert_allclose(
        model.predict_proba(strange)[1:], np.tile(model.class_prior_, (2, 1)), atol=1e-6
    )
    assert model.evidence(strange).max() < np.quantile(model.evidence(X), 0.02)


# Class shares


@pytest.fixture(scope="module")
def lopsided():
    """Four examples of class 0 for one of class 1, which overlap: 200 to learn from, 1,000 to test."""
    rng = np.random.RandomState(2)
    y = (np.arange(1200) % 5 == 0).astype(int)
    X = (rng.normal(size=(1200, 3)) + y[:, None]).astype(np.float32)
    return X[:200], y[:200], X[200:]


def test_imbalance__the_rare_class_is_predicted_as_often_as_it_is_there(lopsided):
    X, y, new = lopsided
    model = make("PNCA").fit(X, y)
    np.testing.assert_allclose(model.class_prior_, [0.8, 0.2])
    assert model.predict_proba(new)[:, 1].mean() == pytest.approx(0.2, abs=0.05)
    assert model.oof_proba_[:, 1].mean() == pytest.approx(0.2, abs=0.05)
    far = model.predict_proba(1000 * np.ones((1, 3)))
    np.testing.assert_allclose(far, [[0.8, 0.2]], atol=1e-6)


def test_imbalance__balanced_weights_make_the_classes_equal(lopsided):
    X, y, new = lopsided
    model = make("PNCA", class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.class_prior_, [0.5, 0.5])
    np.testing.assert_allclose(model.predict_proba(1000 * np.ones((1, 3))), [[0.5, 0.5]], atol=1e-6)
    plain = make("PNCA").fit(X, y)
    assert model.predict_proba(new)[:, 1].mean() > plain.predict_proba(new)[:, 1].mean() + 0.1


# Uncertainty and evidence


def test_uncertainty__far_away_it_is_the_entropy_of_the_class_shares(noisy):
    model = make("PNCA").fit(*noisy)
    far = 1e5 * np.ones((1, 3))
    total, _, epistemic = model.uncertainty(far)
    assert total[0] == pytest.approx(math.log(2))
    assert epistemic[0] == pytest.approx(0, abs=1e-6)  # all agree that they do not know
    assert model.evidence(far)[0] < model.evidence(noisy[0]).min() - 100


def test_uncertainty__between_two_classes_it_is_larger_than_within(blobs):
    X, y = blobs
    model = make("PNCA").fit(X, y)
    within = model.uncertainty(np.full((1, 5), -2.0)).total[0]
    between = model.uncertainty(np.full((1, 5), -1.0)).total[0]
    assert between > within + 0.2


def test_uncertainty__one_particle_or_crossed_particles_do_not_disagree(noisy):
    for alike in ({"n_particles": 1}, {"expectation": "cross"}):
        epistemic = make("PNCA", max_epochs=5, **alike).fit(*noisy).uncertainty(noisy[0]).epistemic
        np.testing.assert_allclose(epistemic, 0, atol=1e-12)
    assert make("PNCA", max_epochs=5).fit(*noisy).uncertainty(noisy[0]).epistemic.max() > 1e-4
