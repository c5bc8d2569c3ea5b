"""Decisions test their own batch: what is clearly unlike the training data is said."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pnca
from models import make
from pnca.exceptions import DriftWarning

WORST_TEXTURE = 21


@pytest.fixture(scope="module")
def cancer():
    """A model of 150 examples, and the others."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    train, rest = order[:150], order[150:]
    return make("PNCA pooled").fit(X[train], y[train]), X[rest]


@pytest.mark.parametrize("size", [1, 9, 10, 50, 419])
def test_decide__of_a_batch_like_the_training_examples_warns_of_nothing(cancer, size):
    model, new = cancer
    found = model.decide(new[:size])  # warnings are errors
    assert (found.drift is None) == (size < 10)
    assert "unlike" not in found.summary()


@pytest.mark.filterwarnings("ignore:X lacks values")
@pytest.mark.parametrize("change", [lambda v: v / 10, np.zeros_like, lambda v: np.full_like(v, np.nan)])
def test_decide__of_a_batch_in_which_a_column_changed_warns_and_names_it(cancer, change):
    model, new = cancer
    batch = new[:200].copy()
    batch[:, WORST_TEXTURE] = change(batch[:, WORST_TEXTURE])
    with pytest.warns(DriftWarning, match=r"\(in column 21\), so the promise does not hold") as caught:
        found = model.decide(batch)
    assert caught[-1].filename == __file__
    assert found.drift.is_clear
    assert found.drift.columns[0].name == WORST_TEXTURE
    assert "The batch as a whole is unlike the training data (in column 21)" in found.summary()


def test_decide__of_inputs_that_are_less_familiar_warns_though_no_column_moved_by_itself(cancer):
    model, new = cancer
    batch = np.stack([np.random.RandomState(j).permutation(new[:, j]) for j in range(30)], axis=1)[:200]
    with pytest.warns(DriftWarning, match="its inputs are less familiar"):
        model.decide(batch)


def test_decide__drift_is_that_of_the_method(cancer):
    model, new = cancer
    assert model.decide(new[:40]).drift == model.drift(new[:40])


def test_decide__with_priors_the_batch_is_meant_to_be_unlike_the_training_data(cancer):
    model, new = cancer
    assert model.decide(new, priors=[0.9, 0.1]).drift is None


def test_decide__of_a_fit_with_groups_needs_those_of_the_batch():
    rng = np.random.RandomState(0)
    groups, y = np.repeat(np.arange(40), 3), np.repeat(np.arange(40) % 2, 3)
    X = rng.normal(size=(40, 3))[groups] + 2 * y[:, None] + 0.1 * rng.normal(size=(120, 3))
    model = make("PNCA").fit(X, y, groups=groups)
    one_patient = X[:1] + 0.01 * rng.normal(size=(60, 3))
    assert model.decide(one_patient).drift is None
    assert model.decide(X, groups=groups).drift.n == 120


def test_to_frame__keeps_the_index_through_a_pipeline_too():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    y = np.arange(80) % 2
    X = pandas.DataFrame(rng.normal(size=(80, 2)) + 3 * y[:, None], columns=["age", "dose"])
    X.index = [f"patient {k}" for k in range(80)]
    model = make("PNCA").fit(X, y)
    pipeline = make_pipeline(StandardScaler(), make("PNCA", max_epochs=2)).fit(X, y)
    asked = X.iloc[[4, 4, 11]]
    for found in (model.decide(asked), pnca.decide(pipeline, asked)):
        assert found.to_frame().index.tolist() == ["patient 4", "patient 4", "patient 11"]
    assert pipeline[-1].decide(asked.to_numpy()).to_frame().index.tolist() == [0, 1, 2]


def test_warning__can_be_silenced_by_its_class(cancer):
    model, new = cancer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        assert model.decide(new[:200] * 2).drift.is_clear
