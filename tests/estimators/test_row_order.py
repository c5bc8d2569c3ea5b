"""The order in which training examples come in does not matter; what is said of them is in that order."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

import pnca
from models import make

IRIS = load_iris(return_X_y=True)
ORDER = np.random.RandomState(0).permutation(150)
PER_EXAMPLE = ["oof_proba_", "oof_evidence_", "folds_", "support_labels_", "support_inputs_"]


def iris(rows):
    return IRIS[0][rows], np.array(["setosa", "versicolor", "virginica"])[IRIS[1][rows]]


def shuffled(model, X, y, groups=None):
    """The same fit with rows as they are, and in another order."""
    order = np.random.RandomState(1).permutation(len(X))
    extra = [{} if groups is None else {"groups": groups[rows]} for rows in (np.arange(len(X)), order)]
    return model().fit(X, y, **extra[0]), model().fit(X[order], y[order], **extra[1]), order


CASES = {
    "PNCA": {},
    "batches": {"batch_size": 16, "max_epochs": 6},
    "cross": {"expectation": "cross", "update": "functional"},
    "positive": {"kernel": "positive"},
    "no folds": {"n_folds": None},
}


@pytest.mark.parametrize("case", CASES)
def test_pnca__is_the_same_whatever_the_order_of_rows(case):
    X, y = iris(ORDER[:80])
    X[7], y[7] = X[3], y[3]  # equal rows
    first, second, order = shuffled(lambda: make("PNCA", **CASES[case]), X, y)
    new = IRIS[0][ORDER[80:]]
    np.testing.assert_allclose(first.predict_proba(new), second.predict_proba(new), atol=1e-9)
    np.testing.assert_allclose(first.evidence(new), second.evidence(new), atol=1e-9)
    for name in PER_EXAMPLE:
        if hasattr(first, name):
            np.testing.assert_allclose(
                getattr(first, name)[order], getattr(second, name), atol=1e-9, err_msg=name
            )
    if not hasattr(first, "class_features_"):
        np.testing.assert_allclose(first.support_embeddings_[:, order], second.support_embeddings_, atol=1e-9)


@pytest.mark.parametrize("name", ["NCA", "DNN", "BNN", "Ensemble"])
def test_others__are_the_same_whatever_the_order_of_rows(name):
    X, y = iris(ORDER[:60])
    first, second, _ = shuffled(lambda: make(name, max_epochs=5), X, y)
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), atol=1e-9)


def test_groups__and_images_are_the_same_whatever_the_order_of_rows():
    X, y = load_digits(return_X_y=True)
    images, y, groups = X[:60].reshape(60, 8, 8), y[:60], np.array([f"patient {i}" for i in range(20)] * 3)
    first, second, order = shuffled(lambda: make("PNCA", max_epochs=4), images, y, groups)
    np.testing.assert_allclose(first.predict_proba(images), second.predict_proba(images), atol=1e-9)
    assert (first.folds_[order] == second.folds_).all()
    for group in np.unique(groups):
        assert len(set(first.folds_[groups == group])) == 1


def test_neighbors__are_rows_as_they_were_given():
    X, y = iris(ORDER[:50])
    model = make("PNCA").fit(X, y)
    rows, _ = model.neighbors(X, k=1)
    # The nearest to a training example is itself, or its equal.
    assert (X[rows[:, 0]] == X).all(axis=1).mean() > 0.9
    by_class = np.zeros((50, 3))
    every_row, every_share = model.neighbors(X)
    np.add.at(by_class, (np.arange(50)[:, None], np.searchsorted(model.classes_, y)[every_row]), every_share)
    background = 1 - every_share.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(by_class + background * model.class_prior_, model.predict_proba(X), atol=1e-9)


def test_out_of_fold__probabilities_belong_to_the_rows_as_they_were_given():
    X, y = iris(ORDER[:80])
    model = pnca.PNCAClassifier(max_epochs=30, n_particles=4, hidden_layer_sizes=(20,), random_state=0).fit(
        X, y
    )
    assert (model.classes_[model.oof_proba_.argmax(axis=1)] == y).mean() > 0.85
    assert (model.support_labels_ == np.searchsorted(model.classes_, y)).all()
    np.testing.assert_allclose(model.embed(X), model.support_embeddings_, atol=1e-5)
