"""Decisions through pipelines and searches are those of the last step on what it gets."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pnca
from models import make
from pnca.exceptions import InvalidInputError


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


@pytest.mark.parametrize("name", ["familiarity", "decide", "predict_set", "drift"])
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
