import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pnca_studies.rivals import (
    SCORES,
    ClassShares,
    GatedClassifier,
    LinearAndForest,
    ScoreAlone,
    tuned_ensemble,
)
from pnca_studies.rivals.scores import isolation, mahalanobis, neighbour_distance
from pnca_studies.rivals.tuning import TunedClassifier

FOREIGN = np.array([0.0, 0.0, 9.0])


@pytest.fixture(scope="module")
def two():
    """Two classes on a line in three dimensions."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3 // 2
    X = rng.normal(size=(90, 3)) * [1, 1, 0.1] + 3 * y[:, None] * [1, 0, 0]
    return X, y


@pytest.mark.parametrize("score", SCORES)
def test_score__is_larger_for_foreign_inputs(score, two):
    X, y = two
    foreign = X[:20] + FOREIGN
    assert (SCORES[score](X, y, foreign) > np.median(SCORES[score](X, y, X))).all()


def test_mahalanobis__of_white_noise_is_the_squared_distance_to_the_nearest_mean():
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 2
    X = rng.normal(size=(20_000, 2)) + 6 * y[:, None]
    asked = np.array([[0.0, 3.0], [6.0, 6.0]])
    np.testing.assert_allclose(mahalanobis(X, y, asked), [9, 0], atol=0.3)


def test_neighbour_distance__is_that_of_the_fifth():
    assert neighbour_distance(np.arange(9.0)[:, None], np.array([[0.0]])).tolist() == [4.0]
    assert neighbour_distance(np.arange(2.0)[:, None], np.array([[0.0]])).tolist() == [1.0]


def test_isolation__does_not_depend_on_the_other_rows(two):
    X, _ = two
    np.testing.assert_array_equal(isolation(X, X)[:5], isolation(X, X[:5]))


@pytest.mark.parametrize("score", ["PCA residual", "nearest distance"])
def test_gate__answers_the_class_shares_where_inputs_are_foreign_and_else_the_line(score, two):
    X, y = two
    model = GatedClassifier(LogisticRegression(), score, random_state=0).fit(X, y)
    line = LogisticRegression().fit(X, y)
    ordinary, foreign = X[:30], X[:30] + FOREIGN
    is_same = (model.predict_proba(ordinary) == line.predict_proba(ordinary)).all(axis=1)
    assert is_same.mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(foreign), np.tile([2 / 3, 1 / 3], (30, 1)))
    assert (model.evidence(foreign) < model.evidence(ordinary)).all()


def test_gate__its_predictions_out_of_fold_are_the_line_s_behind_the_gate(two):
    X, y = two
    tuned = TunedClassifier(LogisticRegression(), {"C": [1, 10]}, random_state=0)
    model = GatedClassifier(tuned, "nearest distance", random_state=0).fit(X, y)
    is_shut = (model.oof_proba_ != model.model_.oof_proba_).any(axis=1)
    # With 90 examples it is shut on those more foreign than all others: on one.
    assert is_shut.sum() <= 1
    assert model.held_out_[is_shut].tolist() in ([], [model.held_out_.min()])


def test_gate__groups_count_once(two):
    X, y = two
    groups = np.arange(90) // 30
    model = GatedClassifier(LogisticRegression(), "nearest distance", random_state=0).fit(X, y, groups)
    # No input is more foreign than all of three groups by so much that a share of one in four would tell.
    assert model.groups_.max() == 2
    assert (model.predict_proba(X + 100) == [2 / 3, 1 / 3]).all()


def test_class_shares__and_a_score_alone_answer_the_shares(two):
    X, y = two
    for model in (ClassShares(), ScoreAlone("nearest distance")):
        np.testing.assert_allclose(model.fit(X, y).predict_proba(X[:2]), [[2 / 3, 1 / 3]] * 2)
    np.testing.assert_allclose(model.evidence(X[:4]), 0, atol=1e-9)
    assert not hasattr(ClassShares(), "evidence")


def test_linear_and_forest__learn_and_keep_predictions_out_of_fold(two):
    X, y = two
    model = LinearAndForest(random_state=0).fit(X[:60], y[:60], np.arange(60) // 2)
    assert (model.predict_proba(X[60:]).argmax(axis=1) == y[60:]).mean() > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.oof_proba_.shape == (60, 2)
    assert float(model.weights_.sum()) == pytest.approx(1)


def test_ensemble__dropout_is_chosen_out_of_fold(two):
    X, y = two
    model = tuned_ensemble(0, hidden_layer_sizes=(8,), max_epochs=2).fit(X, y)
    assert model.best_params_["dropout"] in (0.0, 0.2, 0.5)
    assert np.isfinite(model.oof_proba_).all()
