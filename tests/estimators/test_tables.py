"""Tables as they come: text, truth values, dates, holes and codes are fitted and predicted directly."""

import datetime
import enum
import pickle
import uuid

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

import pnca
from models import make
from pnca import EnsembleClassifier, PNCAClassifier
from pnca.exceptions import InvalidInputError

QUIET = {"max_epochs": 5, "n_particles": 2, "random_state": 0, "device": "cpu"}


def patients(n=120, seed=0):
    """A table in which age, sex and town decide, with holes; and what they decide."""
    rng = np.random.RandomState(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "sex": rng.choice(["f", "m"], n),
            "town": pd.Categorical(rng.choice(list("abc"), n)),
            "smoker": rng.rand(n) < 0.4,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.randint(0, 300, n), unit="D"),
        }
    )
    score = (table["age"] - 50) / 10 + 2 * (table["sex"] == "m") + 2 * (table["town"] == "a") - 1.5
    y = np.where(score + 0.3 * rng.normal(size=n) > 0, "ill", "well")
    table.loc[rng.rand(n) < 0.1, "age"] = np.nan
    table.loc[rng.rand(n) < 0.1, "town"] = None
    return table, y


@pytest.fixture(scope="module")
def table():
    return patients()


@pytest.fixture(scope="module")
def model(table):
    X, y = table
    return PNCAClassifier(random_state=0, device="cpu").fit(X, y)


def test_table__is_fitted_and_predicted_as_it_comes(model):
    X, y = patients(400, seed=1)
    assert model.score(X, y) > 0.8
    assert (model.n_features_in_, list(model.feature_names_in_)) == (5, list(X.columns))
    assert [column.kind for column in model.columns_] == [
        "number",
        "category",
        "category",
        "category",
        "date",
    ]


def test_table__what_a_column_was_taken_for_can_be_read(model):
    assert repr(model.columns_[0]) == "age: number, with holes"
    assert repr(model.columns_[3]) == "smoker: category of False, True"


def test_table__of_text_is_better_than_its_numbers_alone(model, table):
    X, y = table
    asked, truth = patients(400, seed=1)
    numbers = PNCAClassifier(random_state=0, device="cpu").fit(X[["age", "smoker"]], y)
    assert model.score(asked, truth) > numbers.score(asked[["age", "smoker"]], truth) + 0.1


@pytest.mark.filterwarnings("ignore:X lacks", "ignore:X holds values")
def test_unknown_category__takes_half_of_the_say_and_of_the_evidence(model, table):
    X = table[0][:20].copy()
    known = X.assign(town=pd.Series(X["town"], dtype=object).fillna("a"), sex=X["sex"])
    unknown = X.assign(town="elsewhere")
    many = unknown.assign(sex="x", smoker=None)
    confidence = [model.predict_proba(rows).max(axis=1).mean() for rows in (known, unknown, many)]
    evidence = [model.evidence(rows).mean() for rows in (known, unknown, many)]
    assert confidence[0] > confidence[1] > confidence[2]
    assert evidence[0] > evidence[1] > evidence[2]
    assert confidence[2] == pytest.approx(model.class_prior_.max(), abs=0.1)
    shares = [model.neighbors(rows, k=120)[1].sum(axis=1).mean() for rows in (known, unknown)]
    assert shares[1] < 0.7 * shares[0]


def test_unknown_category__say_is_exactly_half(model, table):
    """Both are read at the mean of the towns; one counts as unseen."""
    encoder, fitted = model.fitted_.columns, model.fitted_
    encoded = encoder.encode(table[0][:5])
    proba = {}
    for unseen in (0, 1, 3):
        encoded[:, -1] = unseen
        proba[unseen] = np.exp(fitted.log_probabilities(encoded, "cpu"))
        total, aleatoric, epistemic = fitted.entropy(encoded, "cpu")
        np.testing.assert_allclose(total, aleatoric + epistemic, atol=1e-9)
    for unseen in (1, 3):
        say = 0.5**unseen
        np.testing.assert_allclose(proba[unseen], say * proba[0] + (1 - say) * model.class_prior_, rtol=1e-6)


def test_unknown_category__without_novelty_says_nothing(table):
    X, y = table
    model = PNCAClassifier(novelty=False, experts=(), n_folds=None, **QUIET).fit(X, y)
    encoded = model.fitted_.columns.encode(X[:5])
    expected = model.fitted_.log_probabilities(encoded, "cpu")
    encoded[:, -1] = 1
    np.testing.assert_array_equal(model.fitted_.log_probabilities(encoded, "cpu"), expected)


@pytest.mark.parametrize("name", ["PNCA", "PNCA pooled", "PNCA positive", "NCA", "DNN", "Ensemble", "BNN"])
def test_every_classifier__takes_tables(name, table):
    X, y = table
    model = make(name, max_epochs=5).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), proba)
    assert again.columns_ == model.columns_


@pytest.mark.parametrize("as_given", [np.asarray, list, pd.DataFrame])
def test_numbers_with_nan__are_taken(as_given):
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + 3 * y[:, None]
    X[rng.rand(60, 3) < 0.2] = np.nan
    model = PNCAClassifier(**QUIET).fit(as_given(X), y)
    assert model.score(as_given(X), y) > 0.9
    assert all(column.has_holes for column in model.columns_)


def test_holes__that_say_something_are_heard():
    rng = np.random.RandomState(0)
    y = np.arange(80) % 2
    X = rng.normal(size=(80, 2))
    X[(y == 1) & (rng.rand(80) < 0.9), 0] = np.nan
    model = PNCAClassifier(random_state=0, device="cpu").fit(X, y)
    assert model.score(X, y) > 0.9


def test_codes__are_categories_where_they_are_named():
    rng = np.random.RandomState(0)
    code, other = rng.randint(0, 6, 150), rng.normal(size=150)
    y = np.isin(code, [1, 4])
    X = np.stack([code, other], axis=1)
    model = PNCAClassifier(categorical_features=[0], random_state=0, device="cpu").fit(X[:100], y[:100])
    assert model.columns_[0].values == tuple(sorted(range(6), key=model.columns_[0].values.index))
    assert model.score(X[100:], y[100:]) > 0.95


def test_numbers_without_holes__are_not_touched(table):
    X, y = table
    plain = X[["smoker"]].assign(size=np.arange(len(X)) % 7)
    of_table = PNCAClassifier(**QUIET).fit(plain, y)
    of_array = PNCAClassifier(**QUIET).fit(plain.to_numpy(dtype=float), y)
    assert [column.name for column in of_table.columns_] == ["smoker", "size"]
    np.testing.assert_array_equal(of_table.oof_proba_, of_array.oof_proba_)


@pytest.mark.parametrize("value", [int, (1,), 1j, [1], uuid.UUID(int=1), pd.Period("2026-01")])
def test_value__that_no_category_can_be_is_refused_when_it_is_fitted_and_when_it_is_asked_about(value):
    """A model file could not hold it."""
    y = np.arange(20) % 2
    X = pd.DataFrame({"size": y + 0.1, "kind": np.where(y, "a", "b")})
    cells = pd.Series([value] * 20, dtype="category" if isinstance(value, pd.Period) else object)
    with pytest.raises(InvalidInputError, match=r"'kind' holds .*: a value must be a number, a text"):
        PNCAClassifier(**QUIET).fit(X.assign(kind=cells), y)
    model = PNCAClassifier(**QUIET).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"'kind' holds .*: a value must be a number, a text"):
        model.predict(X.assign(kind=cells))


class Size(str, enum.Enum):
    """An enumeration, whose members have hashes of their own."""

    SMALL, LARGE = "small", "large"


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (list(Size), {"small", "large"}),
        (
            pd.Categorical(pd.to_datetime(["2026-01-01", "2026-01-02"])),
            {datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)},
        ),
        ([np.str_("a"), np.bool_(True)], {"a", True}),
    ],
)
def test_value__of_a_category_is_pythons_own(cells, values, tmp_path):
    y = np.arange(20) % 2
    X = pd.DataFrame({"size": y + 0.1, "kind": pd.Series(cells).iloc[y].reset_index(drop=True)})
    model = PNCAClassifier(**QUIET).fit(X, y)
    assert set(model.columns_[1].values) == values
    assert {type(value) for value in model.columns_[1].values} == {type(value) for value in values}
    loaded = pnca.load(pnca.save(model, tmp_path / "model.pnca"))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("unit", ["datetime64[ns]", "timedelta64[s]"])
def test_times_of_numpy__as_objects_are_times(unit):
    y = np.arange(20) % 2
    times = (np.arange(20) * 10**6).astype(unit)
    X = pd.DataFrame({"size": y + 0.1, "when": times})
    cells = np.empty(20, dtype=object)
    cells[:] = list(times)
    plain, objects = (PNCAClassifier(**QUIET).fit(X.assign(when=when), y) for when in (X["when"], cells))
    assert plain.columns_ == objects.columns_


def test_complex_numbers__of_a_table_are_refused():
    y = np.arange(20) % 2
    X = pd.DataFrame({"size": y + 0.1, "dose": 1.0 * y})
    model = PNCAClassifier(**QUIET).fit(X, y)
    with pytest.raises(InvalidInputError, match="complex numbers: take their parts"):
        model.predict(X.assign(dose=1j * X["dose"]))


def test_codes__that_are_named_by_rows_are_refused():
    y = np.arange(20) % 2
    with pytest.raises(InvalidInputError, match="which is no column of X"):
        PNCAClassifier(categorical_features=np.zeros((2, 2)), **QUIET).fit(np.stack([y, y], axis=1), y)


@pytest.mark.parametrize("kind", [object, "Float64"])
@pytest.mark.parametrize("name", ["PNCA", "PNCA positive"])
def test_numbers__of_any_type_of_column_are_the_same_numbers(name, kind):
    """One scale for all columns is better here, which tables of other values do not get."""
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    plain = pd.DataFrame({"size": 3.0 * y + rng.normal(size=60), "noise": 0.01 * rng.normal(size=60)})
    other = plain.assign(size=plain["size"].astype(kind))
    models = [make(name, max_epochs=3, scaling="auto").fit(X, y) for X in (plain, other)]
    assert models[0].columns_ == models[1].columns_
    spreads = [model.input_spread_ for model in models]
    assert len(set(spreads[0])) == 1
    np.testing.assert_array_equal(*spreads)
    for X in (plain, other):
        np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))


def test_search__over_a_table_works(table):
    assert cross_val_score(EnsembleClassifier(max_epochs=3, random_state=0), *table, cv=3).min() > 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.assign(age="old"), "'age' was a number when the model was fitted"),
        (lambda X: X[["age", "sex"]], "feature names"),
        (lambda X: X.assign(age=np.inf), "infinity"),
        (lambda X: X[["sex", "age", "town", "smoker", "seen"]], "feature names"),
    ],
)
def test_prediction__of_another_table_is_refused(change, message, model, table):
    with pytest.raises(ValueError, match=message):
        model.predict(change(table[0]))


@pytest.mark.parametrize("name", ["PNCA", "PNCA pooled", "NCA", "Ensemble"])
def test_holes__that_the_fit_had_not_are_the_median_and_unseen(name):
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + 3 * y[:, None]
    model = make(name).fit(X, y)
    asked, filled = X[:8].copy(), X[:8].copy()
    asked[::2, 1], filled[::2, 1] = np.nan, np.median(X[:, 1])
    with pytest.warns(UserWarning, match=r"X lacks values in columns .* lacked none \(1\)") as caught:
        found = model.predict_proba(asked)
    assert caught[0].filename == __file__
    expected = model.predict_proba(filled)
    np.testing.assert_allclose(found[1::2], expected[1::2])
    if name.startswith("PNCA"):
        expected[::2] = (expected[::2] + model.class_prior_) / 2
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_one_hole__breaks_no_cross_validation():
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) + 2 * y[:, None]
    X[7, 0] = np.nan
    with pytest.warns(UserWarning, match="X lacks values"):
        assert cross_val_score(make("PNCA", max_epochs=5), X, y, cv=5).min() > 0.5


def test_text_in_arrays__is_refused_with_advice():
    X = np.array([["a", 1.0], ["b", 2.0], ["a", 3.0], ["b", 4.0]], dtype=object)
    with pytest.raises(InvalidInputError, match="pass a pandas table"):
        make("PNCA").fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(("values", "message"), [(1j, "complex"), (np.datetime64("2026-01-01"), "dates")])
def test_arrays_of_other_numbers__are_refused_after_a_fit_with_holes(values, message):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    X[3, 1] = np.nan
    model = make("NCA").fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.predict(np.full((2, 2), values))


def test_dicts__are_refused_with_advice_that_works(model, table):
    rows = table[0].iloc[:2]
    with pytest.raises(
        InvalidInputError, match=r"X is a dict: pass a pandas table, pandas\.DataFrame\(X\)\."
    ):
        model.predict(rows.to_dict("list"))
    row = rows.iloc[:1].to_dict("records")[0]
    with pytest.raises(
        InvalidInputError, match=r"X is a dict: pass a pandas table, pandas\.DataFrame\(\[X\]\)\."
    ):
        model.predict(row)
    assert model.predict(pd.DataFrame([row])) == model.predict(rows.iloc[:1])
    with pytest.raises(
        InvalidInputError, match=r"X is a list of dicts: pass a pandas table, pandas\.DataFrame\(X\)"
    ):
        model.predict([row])
    assert model.predict(pd.DataFrame([row])) == model.predict(rows.iloc[:1])


def test_series__are_refused_with_advice_before_anything_is_said_of_names(model, table):
    X = table[0]
    with pytest.raises(InvalidInputError, match=r"X is a pandas Series: pass a table.*table\.iloc\[\[i\]\]"):
        model.predict(X.iloc[0])
    with pytest.raises(InvalidInputError, match="X is a pandas Series"):
        make("PNCA").fit(X["age"], table[1])


def test_warning__points_to_the_line_that_fits():
    table = pd.DataFrame({"id": [f"p{i}" for i in range(20)], "x": np.arange(20.0) ** 2 / 7})
    with pytest.warns(UserWarning, match="Not used: 'id'") as caught:
        make("PNCA", max_epochs=2).fit(table, np.arange(20) % 2)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("settings", [{"image_shape": (1, 2)}, {"module": lambda: None}])
def test_codes__are_for_rows_of_numbers(settings):
    X, y = np.ones((8, 2)), np.arange(8) % 2
    with pytest.raises(InvalidInputError, match="categorical_features are for rows of numbers"):
        PNCAClassifier(categorical_features=[0], **settings).fit(X, y)


def test_fit__none_in_lists_is_a_hole_as_in_arrays_of_objects():
    rows = [[float(i % 5), None if i % 7 == 0 else float(i)] for i in range(40)]
    y = [i % 5 > 2 for i in range(40)]
    model = make("PNCA", max_epochs=3).fit(rows, y)
    same = make("PNCA", max_epochs=3).fit(np.array(rows, dtype=object), y)
    np.testing.assert_array_equal(model.predict_proba(rows), same.predict_proba(np.array(rows, dtype=object)))
    with pytest.raises(ValueError, match=r"inhomogeneous|setting an array element"):
        make("PNCA", max_epochs=3).fit([[1.0, None], [2.0]] * 10, [0, 1] * 10)
