import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from pnca_studies.rivals.tuning import (
    TunedClassifier,
    errors,
    log_loss,
    probabilities_of,
    squared_error,
    stratified_folds,
)


def labels_with_counts(counts, seed):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


@pytest.mark.parametrize("counts", [(20, 20), (7, 2, 3), (2, 2), (12, 1, 2, 1), (6, 5, 4)])
def test_folds__every_training_part_has_every_class(counts):
    for seed in range(20):
        y = labels_with_counts(counts, seed)
        folds = stratified_folds(y, np.random.RandomState(seed))
        lone = np.isin(y, np.flatnonzero(np.array(counts) == 1))
        held_out = np.concatenate([test for _, test in folds])
        assert sorted(held_out) == np.flatnonzero(~lone).tolist()  # each once, but for the lone ones
        for train, test in folds:
            assert set(y[train]) == set(y)
            assert not set(train) & set(test)
            assert len(train) + len(test) == len(y)


def test_folds__are_stratified():
    for seed in range(20):
        y = labels_with_counts((50, 25), seed)
        for _, test in stratified_folds(y, np.random.RandomState(seed)):
            assert np.bincount(y[test]).tolist() == [10, 5]


def test_folds__there_are_none_if_every_class_is_alone():
    assert stratified_folds(np.arange(4), np.random.RandomState(0)) == []


def test_folds__depend_on_the_seed_alone():
    y = labels_with_counts((10, 10), 0)
    first, again, other = (stratified_folds(y, np.random.RandomState(seed)) for seed in (1, 1, 2))
    same = [np.array_equal(a[1], b[1]) for a, b in zip(first, again, strict=True)]
    assert all(same)
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(first, other, strict=True))


def test_folds__with_groups_split_none():
    y, groups = labels_with_counts((20, 20), 0), np.arange(40) // 4
    for train, test in stratified_folds(y, np.random.RandomState(0), groups):
        assert not set(groups[train]) & set(groups[test])
        assert len(train) + len(test) == 40


def test_losses__match_their_definitions():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.array(["a", "b", "c"])[rng.integers(0, 3, 60)]
    model = KNeighborsClassifier(20).fit(X, y)
    proba, columns = model.predict_proba(X), np.searchsorted(model.classes_, y)
    assert log_loss(proba, columns) == pytest.approx(60 * sklearn_log_loss(y, proba))
    slow = sum(
        (p - (label == name)) ** 2
        for row, label in zip(proba, y, strict=True)
        for p, name in zip(row, "abc", strict=True)
    )
    assert squared_error(proba, columns) == pytest.approx(slow)
    assert errors(proba, columns) == pytest.approx(60 * (1 - model.score(X, y)))


def test_log_loss__of_an_impossible_label_is_finite():
    assert log_loss(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(52 * np.log(2))


def test_probabilities__of_classes_that_a_model_does_not_know_are_zero():
    model = KNeighborsClassifier(1).fit([[0.0], [1.0]], ["b", "d"])
    classes = np.array(["a", "b", "c", "d"])
    assert probabilities_of(model, np.array([[1.0]]), classes).tolist() == [[0, 0, 0, 1]]
    # A model without probabilities is certain.
    assert probabilities_of(SVC().fit([[0.0], [1.0]], ["b", "d"]), np.array([[0.1]]), classes).tolist() == [
        [0, 1, 0, 0]
    ]


def test_tuned__keeps_what_the_selected_candidate_predicted_out_of_fold(blobs):
    X, y = blobs
    tuned = TunedClassifier(KNeighborsClassifier(), {"n_neighbors": [40, 1]}, random_state=3).fit(X, y)
    expected = np.full((60, 3), np.nan)
    for train, test in stratified_folds(y, np.random.RandomState(3)):
        best = KNeighborsClassifier(**tuned.best_params_).fit(X[train], y[train])
        expected[test] = best.predict_proba(X[test])
    np.testing.assert_array_equal(tuned.oof_proba_, expected)
    assert not hasattr(TunedClassifier(KNeighborsClassifier(), {}).fit(X, y), "oof_proba_")


def test_tuned__with_groups_is_tuned_on_unseen_groups(blobs):
    """Groups of near copies: only a fold that splits them finds that one neighbour is best."""
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(30, 2)), 4, axis=0), np.repeat(rng.integers(0, 2, 30), 4)
    groups, grid = np.repeat(np.arange(30), 4), {"n_neighbors": [1, 40]}
    tuned = TunedClassifier(KNeighborsClassifier(), grid, random_state=0)
    assert clone(tuned).fit(X, y).best_params_ == {"n_neighbors": 1}
    assert clone(tuned).fit(X, y, groups).best_params_ == {"n_neighbors": 40}


def test_tuned__picks_what_a_loop_over_folds_picks(blobs):
    rng = np.random.default_rng(0)
    X = blobs[0] + 2 * rng.normal(size=blobs[0].shape)
    y, grid = blobs[1], {"n_neighbors": [1, 5, 15, 40]}
    losses = []
    for k in grid["n_neighbors"]:
        model, total = KNeighborsClassifier(k), 0.0
        for train, test in stratified_folds(y, np.random.RandomState(3)):
            fitted = clone(model).fit(X[train], y[train])
            total += squared_error(fitted.predict_proba(X[test]), np.searchsorted(fitted.classes_, y[test]))
        losses.append(total)
    expected = grid["n_neighbors"][int(np.argmin(losses))]
    assert expected not in (1, 40)  # a problem with a best value in between
    tuned = TunedClassifier(KNeighborsClassifier(), grid, loss=squared_error, random_state=3).fit(X, y)
    assert tuned.best_params_ == {"n_neighbors": expected}
    reference = KNeighborsClassifier(expected).fit(X, y)
    np.testing.assert_array_equal(tuned.predict_proba(X), reference.predict_proba(X))
    np.testing.assert_array_equal(tuned.predict(X), reference.predict(X))


def test_tuned__grid_may_depend_on_the_inputs(blobs):
    seen = []

    def grid(X):
        seen.append(X.shape)
        return {"n_neighbors": [len(X) // 20]}

    tuned = TunedClassifier(KNeighborsClassifier(), grid, random_state=0).fit(*blobs)
    assert seen == [(60, 5)]
    assert tuned.best_params_ == {"n_neighbors": 3}


def test_tuned__without_two_examples_of_any_class_takes_the_first_candidate():
    X, y = np.arange(4.0)[:, None], np.arange(4)
    tuned = TunedClassifier(KNeighborsClassifier(), {"n_neighbors": [2, 1]}, random_state=0).fit(X, y)
    assert tuned.best_params_ == {"n_neighbors": 2}


class Recorder(BaseEstimator):
    """A transformer that shifts its inputs, and writes down what it has seen."""

    fits: list = []  # noqa: RUF012

    def __init__(self, shift=0):
        self.shift = shift

    def fit(self, X, y):
        self.fits.append((self.shift, len(X)))
        return self

    def transform(self, X):
        return X + self.shift


def test_tuned__transformer_learns_from_training_parts_only_and_once_for_all_candidates(blobs, monkeypatch):
    monkeypatch.setattr(Recorder, "fits", [])
    tuned = TunedClassifier(
        DummyClassifier(),
        {"strategy": ["prior", "uniform", "most_frequent"]},
        transformer=Recorder(),
        transformer_grid={"shift": [0, 1]},
        random_state=0,
    ).fit(*blobs)
    assert Recorder.fits == [(0, 48), (1, 48)] * 5 + [(0, 60)]
    assert tuned.transformer_.transform(1) == 1
