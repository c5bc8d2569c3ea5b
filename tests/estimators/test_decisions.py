"""Decisions of fitted models: from what a fit keeps, in the order of its rows, or refused."""

from copy import deepcopy

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError

from models import digits, make
from pnca.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(iris):
    return make("PNCA pooled").fit(*iris)


@pytest.fixture(scope="module")
def grouped():
    """Sixty examples of twelve groups, and a model of them."""
    rng = np.random.RandomState(0)
    groups = np.array([f"p{k:02d}" for k in rng.permutation(np.arange(60) % 12)])
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + 2 * y[:, None]
    return X, y, groups, make("PNCA").fit(X, y, groups=groups)


def test_familiarity__is_the_rank_of_the_evidence(model, iris):
    X = iris[0][::7] + 0.1
    expected = [(1 + (model.oof_evidence_ <= e).sum()) / 151 for e in model.evidence(X)]
    np.testing.assert_allclose(model.familiarity(X), expected)
    of_classes = model.familiarity(X, by_class=True)
    for c in range(3):
        own = model.oof_evidence_[iris[1] == c]
        np.testing.assert_allclose(of_classes[:, c], [(1 + (own <= e).sum()) / 51 for e in model.evidence(X)])


def test_familiarity__of_groups_counts_each_once(grouped):
    X, _, groups, model = grouped
    names = np.unique(groups)
    assert np.array_equal(names[model.groups_], groups)  # in the order of the rows as they came
    for x, p in zip(X[:5], model.familiarity(X[:5]), strict=True):
        evidence = model.evidence(x[None])[0]
        shares = [(model.oof_evidence_[groups == name] <= evidence).mean() for name in names]
        assert p == pytest.approx((1 + sum(shares)) / 13)


def test_decide__far_away_is_unfamiliar_and_named_so(model, iris):
    found = model.decide(np.r_[iris[0][::10], iris[0][:2] + 1000])
    assert found.reason[-2:].tolist() == ["unfamiliar", "unfamiliar"]
    assert (found.reason == "answered").sum() > 8
    is_answered = found.reason == "answered"
    predicted = model.predict(iris[0][::10])
    assert np.array_equal(found.label[:15][is_answered[:15]].astype(int), predicted[is_answered[:15]])
    np.testing.assert_allclose(found.confidence[:15], model.predict_proba(iris[0][::10]).max(axis=1))


def test_decide__labels_are_those_of_the_classes(blobs):
    X, y = blobs
    model = make("PNCA").fit(X, y)
    found = model.decide(X, max_error={"ash": 0.3, "birch": 0.3, "cedar": 0.3}, confidence=0.5)
    assert set(found.promises) == {"ash", "birch", "cedar"}
    assert {type(label) for label in found.label} <= {str, type(None)}
    of_priors = model.decide(X, priors={"ash": 0.6, "birch": 0.2, "cedar": 0.2}, max_error=0.3)
    assert set(of_priors.promises) == {None}


def test_decide__priors_of_the_training_change_nothing(model, iris):
    plain = model.decide(iris[0])
    same = model.decide(iris[0], priors=model.class_prior_)
    np.testing.assert_allclose(same.confidence, plain.confidence)
    assert plain.promises[None].n_answered == same.promises[None].n_answered


def test_decisions__do_not_depend_on_the_order_of_the_training_rows(iris):
    X, y = iris
    order = np.random.RandomState(0).permutation(150)
    groups = np.arange(150) // 3
    a = make("PNCA", max_epochs=5).fit(X, y, groups=groups)
    b = make("PNCA", max_epochs=5).fit(X[order], y[order], groups=groups[order])
    assert np.array_equal(a.familiarity(X), b.familiarity(X))
    assert a.decide(X).promises == b.decide(X).promises
    assert np.array_equal(a.predict_set(X), b.predict_set(X))
    assert a.drift(X[:40]) == b.drift(X[:40])


def test_predict_set__holds_what_its_equation_says(model, iris):
    X, y = iris
    proba = model.predict_proba(X[::5])
    of_truth = model.oof_proba_[np.arange(150), y]
    found = model.predict_set(X[::5], coverage=0.95)
    for i, row in enumerate(proba):
        for c in range(3):
            p = (1 + (of_truth <= row[c]).sum()) / 151
            assert found[i, c] == (p > 0.05 + 1e-9 or c == row.argmax())
    assert found.dtype == bool
    assert model.predict_set(X[:3], coverage=0.999).all()
    by_class = model.predict_set(X[::5], coverage=0.9, by_class=True)
    own = of_truth[y == 1]
    p = np.array([(1 + (own <= q).sum()) / 51 for q in proba[:, 1]])
    assert np.array_equal(by_class[:, 1], (p > 0.1 + 1e-9) | (proba.argmax(axis=1) == 1))


def test_drift__names_the_column_that_moved_by_its_name():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    y = np.arange(80) % 2
    table = pandas.DataFrame(rng.normal(size=(80, 2)) + 2 * y[:, None], columns=["age", "dose"])
    table["colour"] = np.where(rng.uniform(size=80) < 0.5, "red", "blue")
    model = make("PNCA", max_epochs=10).fit(table, y)
    moved = table.assign(dose=table["dose"] + 5)
    found = model.drift(moved)
    assert found.columns[0].name == "dose"
    assert {column.name for column in found.columns} == {"age", "dose", "colour"}
    assert found.p_value < 0.05
    assert found.share > 0.7
    assert "dose" in repr(found)
    assert model.drift(table.assign(colour="red")).columns[0].name == "colour"


def test_drift__says_why_columns_are_not_compared(iris):
    model = make("PNCA", input_weight=0.0, max_epochs=3).fit(*iris)
    assert "input_weight is zero" in model.drift(iris[0][:20]).summary()
    X, y = digits()
    images = make("PNCA", max_epochs=3, augmentation=0.0).fit(X, y)
    assert "images" in images.drift(X[:20]).summary()


def test_drift__of_groups_is_of_groups(grouped):
    X, _, groups, model = grouped
    found = model.drift(X + 9, groups=groups)
    assert found.p_value < 0.05
    assert model.drift(X + 9, groups=np.zeros(60)).p_value == 1.0
    with pytest.raises(InvalidInputError, match="groups has 3 entries"):
        model.drift(X, groups=[1, 2, 3])


def test_decisions__are_refused_where_nothing_is_known_out_of_fold(iris):
    X, y = iris
    model = make("PNCA", n_folds=None, max_epochs=2).fit(X, y)
    for method in (model.familiarity, model.decide, model.predict_set, model.drift):
        with pytest.raises(InvalidInputError, match=r"out of fold.*n_folds=5"):
            method(X)
        with pytest.raises(NotFittedError):
            getattr(make("PNCA"), method.__name__)(X)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_error": 0}, "max_error is 0"),
        ({"max_error": {0: 0.1}}, "max_error lacks class 1"),
        ({"confidence": 1}, "confidence is 1"),
        ({"min_familiarity": 0.001}, "can decline nothing"),
        ({"priors": [1, 1, 0]}, "priors gives class 2 0"),
    ],
)
def test_decide__refuses_by_name(model, iris, arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        model.decide(iris[0], **arguments)


def test_others__refuse_by_name(model, iris):
    with pytest.raises(InvalidInputError, match=r"coverage is 1\.5"):
        model.predict_set(iris[0], coverage=1.5)
    with pytest.raises(InvalidInputError, match="at least two"):
        model.drift(iris[0][:1])
    for method in (model.familiarity, model.decide, model.predict_set, model.drift):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            method(np.full((2, 4), np.inf))


def test_decisions__survive_a_copy(grouped):
    X, _, _, model = grouped
    copy = deepcopy(model)
    assert np.array_equal(copy.familiarity(X), model.familiarity(X))
    assert copy.decide(X).promises == model.decide(X).promises


def test_groups__are_forgotten_by_a_fit_without(grouped):
    X, y, groups, _ = grouped
    model = make("PNCA", max_epochs=2).fit(X, y, groups=groups)
    assert hasattr(model, "groups_")
    assert not hasattr(model.fit(X, y), "groups_")


@pytest.mark.filterwarnings("ignore::pnca.exceptions.DriftWarning")
def test_decide__an_unknown_class_is_seldom_answered():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.RandomState(0)
    rows = rng.permutation(len(y))[:120]
    model = make("PNCA pooled").fit(X[rows], y[rows])
    noise = X[rows][:, rng.permutation(30)]  # columns exchanged
    assert (model.decide(noise).reason == "answered").mean() < 0.05
