"""Pickles carry the version that wrote them."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import pnca
from models import make, noisy
from pnca.estimators import base
from pnca.exceptions import InconsistentVersionWarning


@pytest.fixture(scope="module")
def model():
    return make("PNCA pooled", max_epochs=2).fit(*noisy())


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("again", [lambda m: pickle.loads(pickle.dumps(m)), through_joblib])
def test_pickle__of_this_version_is_the_model_without_a_warning(again, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = again(model)
    X, _ = noisy()
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    assert vars(found).keys() == vars(model).keys()


def test_pickle__of_another_version_is_warned_of_by_name(model, monkeypatch):
    monkeypatch.setattr(base, "__version__", "0.1.9")
    old = pickle.dumps(model)
    monkeypatch.undo()
    with pytest.warns(InconsistentVersionWarning, match=rf"pnca 0\.1\.9, and this is {pnca.__version__}"):
        found = pickle.loads(old)
    assert "_pnca_version" not in vars(found)


def test_pickle__of_an_unfitted_model_carries_the_version_too(monkeypatch):
    monkeypatch.setattr(base, "__version__", "9.0")
    new = pickle.dumps(make("DNN"))
    monkeypatch.undo()
    with pytest.warns(InconsistentVersionWarning, match=r"pnca 9\.0"):
        assert clone(pickle.loads(new)).get_params() == make("DNN").get_params()
