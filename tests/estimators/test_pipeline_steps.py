"""Embeddings as a step of a pipeline, and what scikit-learn routes to a fit."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from models import make
from pnca import PNCAClassifier, load, save


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# The embedding


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross", "PNCA positive", "NCA"])
def test_transform__has_the_coordinates_of_each_particle_in_turn(name, noisy):
    X, y = noisy
    model = make(name, n_components=2, max_epochs=2).fit(X, y)
    embeddings, found = model.embed(X[:5]), model.transform(X[:5])
    m = len(model.particles_)
    assert found.shape == (5, 2 * m)
    names = model.get_feature_names_out().tolist()
    for particle in range(m):
        for k in range(2):
            column = names.index(f"{type(model).__name__.lower()}_p{particle}_d{k}")
            np.testing.assert_array_equal(found[:, column], embeddings[particle, :, k])


def test_transform__of_a_module_has_the_width_of_the_module(noisy):
    from torch import nn

    X, y = noisy
    model = make("PNCA", module=lambda: nn.Linear(3, 4), max_epochs=2).fit(X, y)
    assert model.transform(X).shape == (40, 12) == (40, len(model.get_feature_names_out()))


def test_feature_names__need_a_fit_and_the_columns_of_it(noisy):
    X, y = noisy
    with pytest.raises(NotFittedError):
        make("NCA").get_feature_names_out()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make("NCA", max_epochs=1).fit(table, y)
    assert len(model.get_feature_names_out(["a", "b", "c"])) == 10
    with pytest.raises(ValueError, match="input_features"):
        model.get_feature_names_out(["a", "b", "d"])


def test_set_output__makes_a_table_with_the_rows_of_the_given_one(noisy):
    X, y = noisy
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(40) + 100)
    model = make("NCA", max_epochs=1).fit(table, y).set_output(transform="pandas")
    found = model.transform(table)
    assert found.columns.tolist() == model.get_feature_names_out().tolist()
    assert found.index.tolist() == table.index.tolist()
    assert isinstance(model.predict_proba(table), np.ndarray)
    assert clone(model).fit_transform(table, y).equals(found)


def test_embedding__is_a_step_of_pipelines_unions_and_column_transformers(noisy):
    X, y = noisy
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    small = {"max_epochs": 5, "n_components": 2}
    embedding = make("NCA", **small)
    union = FeatureUnion([("raw", "passthrough"), ("nca", make("NCA", **small))])
    parts = ColumnTransformer([("nca", make("NCA", **small), ["a", "b"]), ("rest", StandardScaler(), ["c"])])
    for step, names in (
        (embedding, ["ncaclassifier_p0_d0", "ncaclassifier_p0_d1"]),
        (union, ["raw__a", "raw__b", "raw__c", "nca__ncaclassifier_p0_d0", "nca__ncaclassifier_p0_d1"]),
        (parts, ["nca__ncaclassifier_p0_d0", "nca__ncaclassifier_p0_d1", "rest__c"]),
    ):
        pipeline = make_pipeline(step, LogisticRegression()).set_output(transform="pandas").fit(table, y)
        assert pipeline[:-1].transform(table).columns.tolist() == names
        assert pipeline.score(table, y) > 0.6
        assert pipeline.feature_names_in_.tolist() == ["a", "b", "c"]


def test_pipeline_with_set_output_and_requests__is_saved_and_loaded_with_both(noisy, tmp_path, routing):
    X, y = noisy
    scaler = StandardScaler().set_fit_request(sample_weight=True)
    model = make("PNCA", max_epochs=2).set_fit_request(groups="patient", sample_weight=False)
    pipeline = make_pipeline(scaler, model).set_output(transform="pandas")
    pipeline.fit(X, y, patient=np.arange(40) // 2, sample_weight=np.ones(40))
    again = load(save(pipeline, tmp_path / "model.pnca"))
    assert again.transform(X).equals(pipeline.transform(X))
    assert again[0].get_metadata_routing().fit.requests == {"sample_weight": True}
    assert again[-1].get_metadata_routing().fit.requests["groups"] == "patient"
    assert clone(again).fit(X, y, patient=np.arange(40) // 2)[-1].groups_.max() == 19


# Metadata routing


def watched(monkeypatch):
    """The groups of every fit."""
    given, fit = [], PNCAClassifier._fit

    def spy(self, examples):
        given.append((len(examples.X), examples.groups))
        return fit(self, examples)

    monkeypatch.setattr(PNCAClassifier, "_fit", spy)
    return given


def test_routing__brings_groups_to_the_splitter_and_to_every_fit_of_a_search(noisy, routing, monkeypatch):
    X, y = noisy
    patient = np.array([f"p{i // 4}" for i in range(40)])
    model = make("PNCA", max_epochs=2, n_folds=2).set_fit_request(groups=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {"pncaclassifier__bandwidth": [1.0, 2.0]}, cv=GroupKFold(2)
    )
    given = watched(monkeypatch)
    search.fit(X, y, groups=patient)
    assert [n for n, _ in given] == [20, 20, 20, 20, 40]
    assert all(len(set(groups)) == n // 4 for n, groups in given)
    assert len(set(search.best_estimator_[-1].groups_.tolist())) == 10


def test_routing__brings_groups_to_the_fits_of_a_cross_validation(noisy, routing, monkeypatch):
    X, y = noisy
    patient = np.arange(40) // 4
    model = make_pipeline(make("PNCA", max_epochs=2, n_folds=2).set_fit_request(groups=True))
    given = watched(monkeypatch)
    found = cross_val_predict(
        model, X, y, cv=GroupKFold(2), params={"groups": patient}, method="predict_proba"
    )
    assert found.shape == (40, 2)
    assert [len(set(groups)) for _, groups in given] == [5, 5]


def test_routing__is_an_error_where_nobody_said_whether_groups_are_wanted(noisy, routing):
    X, y = noisy
    with pytest.raises(ValueError, match="set_fit_request"):
        GridSearchCV(
            make("PNCA", max_epochs=1), {"bandwidth": [1.0]}, cv=GroupKFold(2), error_score="raise"
        ).fit(X, y, groups=np.arange(40) // 4)


def test_routing__weighs_the_score(noisy, routing):
    X, y = noisy
    model = (
        make("NCA", max_epochs=3).set_score_request(sample_weight=True).set_fit_request(sample_weight=False)
    )
    weights = np.where(y == 0, 1.0, 3.0)
    found = cross_validate(model, X, y, cv=2, params={"sample_weight": weights}, return_estimator=True,
                           return_indices=True)  # fmt: skip
    for fitted, rows, score in zip(
        found["estimator"], found["indices"]["test"], found["test_score"], strict=True
    ):
        right = fitted.predict(X[rows]) == y[rows]
        assert score == pytest.approx(np.average(right, weights=weights[rows]))
