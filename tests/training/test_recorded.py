"""Steps on a GPU that are recorded and played do what the same steps do one by one."""

import numpy as np
import pytest

from conftest import needs_cuda
from pnca import BNNClassifier, EnsembleClassifier, NCAClassifier, PNCAClassifier, paper_settings
from pnca.training import loop, steps

pytestmark = needs_cuda

PAPERS = {"PNCA": PNCAClassifier, "NCA": NCAClassifier, "Ensemble": EnsembleClassifier, "BNN": BNNClassifier}
SETTINGS = {
    "default": {},
    "without folds": {"n_folds": None},
    "batches": {"batch_size": 25},
    "random features and folds": {
        "kernel": "orthogonal",
        "expectation": "cross",
        "update": "functional",
        "input_weight": 0.0,
    },
}


def make(name):
    if name in PAPERS:
        return PAPERS[name](**{**paper_settings(name), "max_epochs": 12, "device": "cuda", "random_state": 0})
    return PNCAClassifier(**SETTINGS[name], max_epochs=12, device="cuda", random_state=0)


def data(n=60):
    rng = np.random.RandomState(0)
    y = np.arange(n) % 3
    return rng.randn(n, 20).astype(np.float32) + y[:, None], y


@pytest.mark.parametrize("name", [*PAPERS, *SETTINGS])
def test_recorded_fit__equals_one_step_by_step_the_first_time_and_later(name, monkeypatch):
    X, y = data()
    recorded = [make(name).fit(X, y) for _ in range(3)]  # the first meets the kind of step
    monkeypatch.setattr(loop, "RecordedStep", lambda *arguments: steps.Step(*arguments[:-1]))
    plain = make(name).fit(X, y)
    for model in recorded:
        assert model.history_ == plain.history_
        assert np.array_equal(model.particles_, plain.particles_)


def test_recorded_fit__of_images_is_the_same_the_first_time_and_later():
    X, y = data()
    images = np.repeat(X, 5, axis=1).reshape(len(X), 10, 10)
    fits = [PNCAClassifier(max_epochs=6, device="cuda", random_state=0).fit(images, y) for _ in range(3)]
    for model in fits[1:]:
        assert np.array_equal(model.particles_, fits[0].particles_)
