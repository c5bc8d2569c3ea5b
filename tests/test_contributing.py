"""The model that CONTRIBUTING.md adds is a whole one."""

import re
import sys
from importlib import import_module
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import pnca

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture
def margin_classifier(tmp_path, monkeypatch):
    """The class of the guide, in a module of its own as its reader would have it."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "margin_model.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("margin_model").MarginClassifier
    del sys.modules["margin_model"]


def test_guide__its_model_learns_and_has_what_every_model_has(margin_classifier, blobs, tmp_path):
    X, y = blobs
    model = margin_classifier(random_state=0, device="cpu").fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.particles_.shape[0] == 5
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert (model.uncertainty(X).epistemic > 0).any()  # the particles differ
    with pnca.checkpoints(tmp_path / "checkpoints"):
        again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.particles_, model.particles_)


def test_guide__its_model_keeps_scikit_learns_contract(margin_classifier):
    expected = {"check_sample_weight_equivalence_on_dense_data": "Its tolerance is one of float64."}
    model = margin_classifier(max_epochs=30)
    checks = estimator_checks_generator(model, expected_failed_checks=expected, mark="skip")
    for estimator, check in checks:
        try:
            check(estimator)
        except SkipTest:  # a check that asks for what is not installed
            continue
