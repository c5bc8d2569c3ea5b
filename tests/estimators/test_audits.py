"""Audits, suggestions and learning curves of fitted models: from what a fit keeps, or refused."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from models import digits, make
from pnca.estimators import audits
from pnca.estimators.refits import make_paths
from pnca.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore:Column .* looks like a number of the rows")

N = 80


@pytest.fixture(scope="module")
def planted():
    """A table with a row number, a copied column, a flipped label and a repeated row; ids, and a model."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    y = np.where(np.arange(N) % 2 == 0, "well", "ill")
    table = pandas.DataFrame(rng.normal(size=(N, 4)) + 4 * (y == "ill")[:, None], columns=list("abcd"))
    table.loc[70] = table.loc[10]
    table["e"] = 32 + 1.8 * table["a"]
    table["number"] = 1000 + np.arange(N)
    y[20] = "ill"
    ids = [f"P{i:02d}" for i in range(N)]
    return table, y, ids, make("PNCA", max_epochs=15).fit(table, y, ids=ids)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(iris):
    return make("PNCA", max_epochs=5).fit(*iris)


def by_kind(found):
    return {kind: [f.what for f in found if f.kind == kind] for kind in {f.kind for f in found}}


def test_audit__names_what_was_planted(planted):
    *_, model = planted
    found = by_kind(model.audit())
    assert found["identifier"] == [("number",)]
    assert found["copy"] == [("e",)]
    assert ("P20",) in found["doubted label"]
    # The row number tells them apart, but it is an identifier.
    assert {"P10", "P70"} in [
        set(what) for kind in ("repeated", "contradiction") for what in found.get(kind, [])
    ]


def test_audit__does_not_depend_on_the_order_of_the_rows(planted):
    table, y, ids, _ = planted
    order = np.random.RandomState(0).permutation(N)
    plain = table.drop(columns="number")
    a = make("PNCA", max_epochs=5).fit(plain, y, ids=ids).audit()
    b = make("PNCA", max_epochs=5).fit(plain.iloc[order], y[order], ids=np.array(ids)[order]).audit()
    assert {(f.kind, frozenset(f.what), round(f.strength, 9)) for f in a} == {
        (f.kind, frozenset(f.what), round(f.strength, 9)) for f in b
    }


def test_audit__without_a_record_says_so(planted):
    *_, model = planted
    bare = pickle.loads(pickle.dumps(model))
    del bare.record_
    found = bare.audit()
    assert "no record" in found.notes[0]
    assert {f.kind for f in found} <= {"doubted label", "far out"}
    assert ("P20",) not in {f.what for f in found}  # rows, because the ids were in the record
    assert (20,) in {f.what for f in found}
    with pytest.raises(InvalidInputError, match=r"nothing to fit again: the model keeps no record"):
        bare.learning_curve()


def test_audit__of_images_has_no_columns():
    X, y = digits()
    X = X.copy()
    X[3] = X[40]
    found = make("PNCA", max_epochs=3, augmentation=0.0).fit(X, y).audit()
    assert "no columns" in found.summary()
    assert {3, 40} <= {row for f in found if f.kind in ("repeated", "contradiction") for row in f.what}


def test_audit__of_groups_names_them():
    rng = np.random.RandomState(0)
    groups = np.array([f"g{i // 4:02d}" for i in range(N)])
    y = np.arange(N) // 4 % 2
    X = rng.normal(size=(N, 3)) + 3 * y[:, None]
    X[1] = X[9]
    found = make("PNCA", max_epochs=3).fit(X, y, groups=groups).audit()
    (shared,) = [f for f in found if f.kind == "shared"]
    assert shared.what == (1, 9)
    assert "('g00', 'g02')" in shared.sentence


def test_audit__of_holes_and_categories():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    y = np.arange(N) % 2
    table = pandas.DataFrame({"a": y + 0.5 * rng.normal(size=N), "colour": np.array(["red", "blue"])[y]})
    table.loc[5, "a"] = np.nan
    table["same colour"] = table["colour"].str.upper()
    table["when"] = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.randint(900, size=N), unit="D")
    found = by_kind(make("PNCA", max_epochs=3).fit(table, y).audit())
    assert found["copy"] == [("same colour",)]
    assert {("colour",), ("same colour",)} == set(found["decider"])
    assert "identifier" not in found


def test_suggest__chooses_rows_of_the_pool(model, iris):
    X = np.r_[iris[0][::3] + 0.05, [[30.0, 30, 30, 30]] * 3]
    found = model.suggest(X, 6)
    assert len(set(found.rows.tolist())) == len(found) == 6
    assert found.rows.max() < len(X)
    np.testing.assert_allclose(found.confidence, model.predict_proba(X[found.rows]).max(axis=1))
    np.testing.assert_allclose(found.familiarity, model.familiarity(X[found.rows]))
    assert found.expected_mistakes == pytest.approx((1 - model.predict_proba(X).max(axis=1)).sum())
    strange = found.rows >= 50
    assert strange.sum() == 1  # one of the three equal ones
    assert found.reason[strange].tolist() == ["unfamiliar"]


def test_suggest__of_a_large_pool_draws_a_part(model, iris, monkeypatch):
    monkeypatch.setattr(audits, "MOST_COMPARED", 40)
    found = model.suggest(iris[0], 5)
    assert (found.n, found.n_compared) == (150, 40)
    assert np.array_equal(found.rows, model.suggest(iris[0], 5).rows)
    np.testing.assert_allclose(found.confidence, model.predict_proba(iris[0][found.rows]).max(axis=1))


@pytest.mark.parametrize("k", [0, 151, 2.5, True])
def test_suggest__refuses_by_name(model, iris, k):
    with pytest.raises(InvalidInputError, match=r"k is .*: pass a whole number from 1 to 150"):
        model.suggest(iris[0], k)


def test_all__refuse_what_is_not_fitted_or_has_no_folds(iris):
    model = make("PNCA", max_epochs=2, n_folds=None)
    for ask in (model.audit, model.learning_curve, lambda: model.suggest(iris[0])):
        with pytest.raises(NotFittedError):
            ask()
    model.fit(*iris)
    for ask in (model.audit, lambda: model.suggest(iris[0])):
        with pytest.raises(InvalidInputError, match=r"n_folds=5"):
            ask()
    assert model.learning_curve([20, 60]).answered is None


def test_learning_curve__is_the_same_again_and_leaves_the_model(iris):
    state = np.random.RandomState(3)
    model = make("PNCA", max_epochs=3, random_state=state).fit(*iris)
    before, drawn = pickle.dumps(model.get_params()), model.predict_proba(iris[0])
    a, b = model.learning_curve([20, 120]), model.learning_curve([20, 120])
    for name in ("nll", "accuracy", "answered"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.n_fits, a.n) == (10, 150)
    assert a.seconds > 0
    assert pickle.dumps(model.get_params()) == before
    assert np.array_equal(model.predict_proba(iris[0]), drawn)
    assert a.accuracy.mean[-1] > 0.85


def test_learning_curve__of_a_table_with_text_labels_and_groups(planted, capsys):
    table, y, _, _ = planted
    groups = [f"g{i // 4}" for i in range(N)]
    curve = make("PNCA", max_epochs=2).fit(table, y, groups=groups).learning_curve([40], verbose=True)
    assert "learning curve" in capsys.readouterr().out
    assert curve.sizes.tolist() == [40]
    assert "Too few points to say" in curve.summary()  # twenty groups


def test_make_paths__never_split_groups_and_are_nested():
    rng = np.random.RandomState(0)
    groups = rng.randint(30, size=100)
    labels = np.r_[np.arange(98) % 2, 2, 2]
    groups[98:] = 30  # a class of one group: nobody can learn it and be scored on it
    paths, sizes = make_paths(labels, groups, None, 2, rng)
    assert len(paths) == 10
    np.testing.assert_allclose(np.mean([path.cuts for path in paths], axis=0), sizes, atol=0.5)
    for path in paths:
        assert not set(groups[path.order]) & set(groups[path.scored])
        for cut, size in zip(path.cuts, sizes, strict=True):
            assert not set(groups[path.order[:cut]]) & set(groups[path.order[cut:]])
            assert abs(cut - size) <= np.bincount(groups).max()
        assert (labels[path.scored] < 2).all()
    with pytest.raises(InvalidInputError, match="needs two classes outside of every fold"):
        make_paths(labels // 2, groups, None, 1, rng)


def test_learning_curve__a_class_of_one_group_is_not_scored(planted):
    table, y, _, _ = planted
    names = np.array(["a class of its own" if row < 4 else name for row, name in enumerate(y)])
    groups = np.r_[np.zeros(4), 1 + np.arange(N - 4)]
    curve = make("PNCA", max_epochs=10).fit(table[["a", "b"]], names, groups=groups).learning_curve([50])
    assert "4 examples are of classes that one fold alone holds" in curve.summary()
    assert curve.accuracy.mean[0] > 0.85  # also where the first class is not there


@pytest.mark.parametrize("sizes", [[], [5, 20], [20, 121], [20.0, 40.0], [True, 20]])
def test_learning_curve__refuses_sizes_by_name(model, sizes):
    with pytest.raises(InvalidInputError, match=r"sizes is .*: pass whole numbers from 10"):
        model.learning_curve(sizes)


def test_learning_curve__refuses_other_arguments_by_name(model):
    with pytest.raises(InvalidInputError, match="repeats is 0"):
        model.learning_curve(repeats=0)
    with pytest.raises(InvalidInputError, match="max_error is 2"):
        model.learning_curve(max_error=2)
