"""Decisions through pipelines and searches are those of the last step on what it gets."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pnca
from models import make, noisy
from pnca.exceptions import DriftWarning, InvalidInputError


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def pipeline(iris):
    return make_pipeline(StandardScaler(), make("PNCA", max_epochs=5)).fit(*iris)


def same(model, last, X, inputs):
    assert np.array_equal(pnca.familiarity(model, X, by_class=True), last.familiarity(inputs, by_class=True))
    a, b = pnca.decide(model, X, max_error=0.1), last.decide(inputs, max_error=0.1)
    assert a.summary() == b.summary()
    sets = pnca.predict_set(model, X, coverage=0.8, by_class=True)
    assert np.array_equal(sets, last.predict_set(inputs, coverage=0.8, by_class=True))
    groups = np.arange(len(X)) // 2
    assert pnca.drift(model, X, groups=groups) == last.drift(inputs, groups=groups)
    assert pnca.audit(model) == last.audit()
    assert np.array_equal(pnca.suggest(model, X, 3).rows, last.suggest(inputs, 3).rows)


def test_pipeline__transforms_first(pipeline, iris):
    X = iris[0][::3]
    same(pipeline, pipeline[-1], X, pipeline[:-1].transform(X))
    same(pipeline[-1], pipeline[-1], *[pipeline[:-1].transform(X)] * 2)
    same(make_pipeline(pipeline), pipeline[-1], X, pipeline[:-1].transform(X))


def test_search__is_its_best_estimator(iris):
    search = GridSearchCV(make_pipeline(StandardScaler(), make("PNCA", max_epochs=3)), {}, cv=2)
    with pytest.raises(NotFittedError, match="fit it first"):
        pnca.decide(search, iris[0])
    search.fit(*iris)
    best = search.best_estimator_
    same(search, best[-1], iris[0][::3], best[:-1].transform(iris[0][::3]))


def test_learning_curve__is_of_the_last_step(pipeline):
    found = pnca.learning_curve(pipeline, sizes=[40], repeats=1)
    expected = pipeline[-1].learning_curve(sizes=[40])
    assert np.array_equal(found.nll.mean, expected.nll.mean)


def test_audit__has_the_names_that_the_last_step_gets(iris):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(iris[0], columns=list("abcd")).assign(number=np.arange(150))
    scaler = StandardScaler().set_output(transform="pandas")
    pipe = make_pipeline(scaler, make("PNCA", max_epochs=2)).fit(table, iris[1])
    assert ("number",) in [f.what for f in pnca.audit(pipe) if f.kind == "identifier"]


@pytest.mark.parametrize("name", ["familiarity", "decide", "predict_set", "drift", "suggest"])
def test_others__are_refused_by_name(iris, name):
    function = getattr(pnca, name)
    with pytest.raises(InvalidInputError, match=f"LogisticRegression has no {name}: pass a fitted PNCA"):
        function(make_pipeline(StandardScaler(), LogisticRegression()).fit(*iris), iris[0])
    with pytest.raises(InvalidInputError, match="NCAClassifier has no"):
        function(make("NCA"), iris[0])
    with pytest.raises(InvalidInputError, match="NCAClassifier has no"):
        function(pnca.NCAClassifier, iris[0])
    with pytest.raises(NotFittedError):
        function(make_pipeline(StandardScaler(), make("PNCA")), iris[0])


def raw_table():
    pd = pytest.importorskip("pandas")
    X, _ = noisy()
    ward = np.where(X[:, 2] > 1, "east", "west")
    return pd.DataFrame({"size": 1000 * X[:, 0], "weight": X[:, 1], "ward": ward})


def test_explain__of_a_pipeline_shows_the_rows_it_was_given():
    _, y = noisy()
    X = raw_table()[["size", "weight"]]
    pipe = make_pipeline(StandardScaler(), make("PNCA", max_epochs=2))
    pipe.fit(X, y, pncaclassifier__ids=range(100, 140))
    queries = X[:2].copy()
    queries.loc[1, "weight"] = 50.0
    cases = pnca.explain(pipe, queries, k=3, record=X)
    for case in cases:
        assert case.names == ("size", "weight")
        assert case.given == tuple(queries.iloc[case.row])
        for example in case.examples:
            assert example.given == tuple(X.iloc[example.row])
            assert example.id == 100 + example.row
    wrong = cases[1].columns[0]
    assert (wrong.name, wrong.value) == ("weight", 50.0)
    assert (wrong.low, wrong.high) == (X["weight"].min(), X["weight"].max())
    np.testing.assert_allclose([case.proba for case in cases], pipe.predict_proba(queries), atol=1e-9)
    without = pnca.explain(pipe, queries, k=3)
    assert without[0].examples[0].given is None
    assert without[0].columns[0].typical is None


def test_explain__of_encoded_columns_names_those_of_the_last_step():
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    _, y = noisy()
    X = raw_table()
    encode = make_column_transformer((OneHotEncoder(), ["ward"]), remainder=StandardScaler())
    pipe = make_pipeline(encode, make("NCA", max_epochs=2)).fit(X, y)
    (case,) = pnca.explain(pipe, X[:1], record=X)
    assert case.given == tuple(X.iloc[0])
    names = {column.name for column in case.columns}
    assert names == set(encode.get_feature_names_out())
    assert any("last step" in note for note in case.notes)
    assert "east" in str(case) or "west" in str(case)


def test_explain__of_a_search_and_of_a_model_itself():
    X, y = noisy()
    search = GridSearchCV(make("NCA", max_epochs=2), {"bandwidth": [1.0]}, cv=2).fit(X, y)
    assert str(pnca.explain(search, X[:1])) == str(search.best_estimator_.explain(X[:1]))
    with pytest.raises(InvalidInputError, match="record has 3 rows, but the model was fitted on 40"):
        pnca.explain(
            make_pipeline(StandardScaler(), make("NCA", max_epochs=1)).fit(X, y), X[:1], record=X[:3]
        )
    with pytest.raises(InvalidInputError, match="has no explain"):
        pnca.explain(make("DNN", max_epochs=1).fit(X, y), X[:1])


@pytest.mark.parametrize("name", ["audit", "learning_curve"])
def test_others__of_the_training_examples_are_refused_by_name(iris, name):
    function = getattr(pnca, name)
    with pytest.raises(InvalidInputError, match=f"LogisticRegression has no {name}: pass a fitted PNCA"):
        function(make_pipeline(StandardScaler(), LogisticRegression()).fit(*iris))
    with pytest.raises(NotFittedError):
        function(make_pipeline(StandardScaler(), make("PNCA")))


def test_evidence_neighbors_and_uncertainty__are_those_of_the_last_step(pipeline, iris):
    X = iris[0][::9]
    last, inputs = pipeline[-1], pipeline[:-1].transform(X)
    assert np.array_equal(pnca.evidence(pipeline, X), last.evidence(inputs))
    for a, b in zip(pnca.neighbors(pipeline, X, k=3), last.neighbors(inputs, 3), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(pnca.uncertainty(pipeline, X), last.uncertainty(inputs), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(InvalidInputError, match="LogisticRegression has no evidence"):
        pnca.evidence(LogisticRegression(max_iter=1000).fit(*iris), X)


def test_explain__of_a_pipeline_in_a_pipeline_names_the_columns_of_the_last_step():
    X, y = raw_table()[["size", "weight"]], noisy()[1]
    inner = make_pipeline(PCA(), make("NCA", max_epochs=1))
    nested = make_pipeline(StandardScaler(), inner).fit(X, y)
    flat = make_pipeline(StandardScaler(), PCA(), make("NCA", max_epochs=1)).fit(X, y)
    (case,), (expected,) = (pnca.explain(model, X[:1], record=X) for model in (nested, flat))
    assert {column.name for column in case.columns} == {"pca0", "pca1"}
    assert [column.name for column in case.columns] == [column.name for column in expected.columns]
    assert case.notes == expected.notes


def test_explain__of_a_pipeline_keeps_the_index_and_decides():
    pandas = pytest.importorskip("pandas")
    X, y = noisy()
    frame = pandas.DataFrame(X, columns=list("abc"), index=[f"case {row}" for row in range(len(X))])
    pipe = make_pipeline(StandardScaler(), make("PNCA pooled", max_epochs=2)).fit(frame, y)
    cases = pnca.explain(pipe, frame[:3], record=frame, max_error=0.3, confidence=0.8)
    assert [case.name for case in cases] == ["case 0", "case 1", "case 2"]
    decisions = pnca.decide(pipe, frame[:3], max_error=0.3, confidence=0.8)
    assert [case.decision.reason for case in cases] == decisions.reason.tolist()
    assert pnca.explain(pipe, frame[:1], ids=["x"])[0].name == "x"


def test_drift__of_a_pipeline_names_the_columns_of_the_table():
    pandas = pytest.importorskip("pandas")
    X, y = noisy()
    frame = pandas.DataFrame(X, columns=["size", "age", "dose"])
    pipe = make_pipeline(StandardScaler(), make("PNCA pooled", max_epochs=2)).fit(frame, y)
    moved = frame.assign(age=frame["age"] * 100)
    found = pnca.drift(pipe, moved)
    assert found.columns[0].name == "age"
    assert {column.name for column in found.columns} == {"size", "age", "dose"}
    with pytest.warns(DriftWarning):
        decisions = pnca.decide(pipe, moved)
    assert decisions.drift.columns == found.columns
    assert "'age'" in decisions.summary()
    components = make_pipeline(PCA(2), make("PNCA pooled", max_epochs=2)).fit(frame, y)
    assert pnca.drift(components, moved).columns[0].name in ("pca0", "pca1")
    numbered = make_pipeline(StandardScaler(), make("PNCA pooled", max_epochs=2)).fit(X, y)
    assert {column.name for column in pnca.drift(numbered, X).columns} == {0, 1, 2}
