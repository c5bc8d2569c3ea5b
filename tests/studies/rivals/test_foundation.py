"""Foundation models on a machine that has neither their packages nor their weights, and on one that has."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from pnca.exceptions import MissingDataError
from pnca_studies.rivals import FOUNDATION, FoundationClassifier, why_not_runnable
from pnca_studies.rivals.foundation import WEIGHTS_VARIABLE


class Fake(DummyClassifier):
    """What TabPFN's class looks like from outside."""

    given = None

    def __init__(self, **settings):
        super().__init__()
        type(self).given = settings


@pytest.fixture
def installed(monkeypatch):
    module = ModuleType("tabpfn")
    module.__spec__ = ModuleSpec("tabpfn", None)
    module.TabPFNClassifier = Fake
    monkeypatch.setitem(sys.modules, "tabpfn", module)


@pytest.mark.parametrize("name", FOUNDATION)
def test_without_its_package__it_says_so(name, monkeypatch):
    monkeypatch.setitem(sys.modules, FOUNDATION[name].package, None)
    monkeypatch.setattr("pnca_studies.rivals.foundation.find_spec", lambda package: None)
    assert why_not_runnable(name) == f"the package {FOUNDATION[name].package} is not installed"
    with pytest.raises(MissingDataError, match=f"^{name} cannot run: the package"):
        FoundationClassifier(name).fit(np.zeros((4, 1)), np.arange(4))


@pytest.mark.usefixtures("installed")
def test_without_weights__it_says_where_they_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv(WEIGHTS_VARIABLE, str(tmp_path))
    assert WEIGHTS_VARIABLE in why_not_runnable("TabPFN")


@pytest.mark.usefixtures("installed")
def test_with_both__it_runs_offline_with_the_file_and_the_categories(tmp_path, monkeypatch):
    monkeypatch.setenv(WEIGHTS_VARIABLE, str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (tmp_path / "tabpfn-v2-classifier.ckpt").touch()
    assert why_not_runnable("TabPFN") == ""
    X, y = np.zeros((4, 2)), np.array([0, 0, 0, 1])
    model = FoundationClassifier("TabPFN", categories=(1,), random_state=5).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), np.tile([0.75, 0.25], (4, 1)))
    assert Fake.given == {
        "model_path": str(tmp_path / "tabpfn-v2-classifier.ckpt"),
        "device": "cpu",
        "random_state": 5,
        "categorical_features_indices": [1],
    }
    assert __import__("os").environ["HF_HUB_OFFLINE"] == "1"
