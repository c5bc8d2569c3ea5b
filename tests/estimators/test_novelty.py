"""Novelty: what an input has that the training inputs lack takes mass from it."""

import numpy as np
import pytest
import torch
from torch import nn

from models import make
from pnca.maths.inputs import held_out_log_residuals


def far_off_the_plane(X, by):
    """Inputs that have something the others lack: a column that is nearly constant there."""
    return X + by * np.array([0, 0, 1], dtype=X.dtype)


@pytest.fixture
def flat():
    """Two classes in a plane of three dimensions, and a little beside it."""
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) * [1, 1, 0.02] + 2 * y[:, None] * [1, 0, 0]
    return X.astype(np.float32), y


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross", "PNCA positive", "PNCA shared"])
def test_novelty__takes_an_input_off_the_plane_to_the_class_shares(name, flat):
    X, y = flat
    settings = {"scaling": None, "max_epochs": 10, "input_weight": 0.0, "module": lambda: nn.Linear(3, 4)}
    model = make(name, **settings).fit(X, y)
    away = far_off_the_plane(X, 3.0)
    np.testing.assert_allclose(model.predict_proba(away), np.tile(model.class_prior_, (60, 1)), atol=1e-3)
    assert model.evidence(away).max() < model.evidence(X).min()
    confident = make(name, novelty=False, **settings).fit(X, y)
    assert np.abs(confident.predict_proba(X) - model.predict_proba(X)).mean() < 0.05


def test_novelty__leaves_ordinary_inputs_alone(flat):
    X, y = flat
    model = make("PNCA", max_epochs=10).fit(X[:40], y[:40])
    factor = model.fitted_.reader.novelty.log(model.fitted_.scaler.apply(torch.from_numpy(X[40:]).double()))
    assert (factor == 0).double().mean() > 0.6
    assert factor.min() > -model.novelty_depth_


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross"])
def test_novelty__neighbours_lose_the_mass_that_the_answer_loses(name, flat):
    X, y = flat
    model = make(name, max_epochs=10).fit(X, y)
    queries = far_off_the_plane(X[:8], 0.1)
    indices, shares = model.neighbors(queries)
    own = np.zeros((8, 2))
    for i in range(8):
        np.add.at(own[i], model.support_labels_[indices[i]], shares[i])
    background = 1 - shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(own + background * model.class_prior_, model.predict_proba(queries), rtol=1e-6)


def test_novelty__held_out_examples_are_as_familiar_as_new_ones():
    rng = np.random.RandomState(0)
    X = (rng.normal(size=(400, 6)) * [3, 2, 1, 0.3, 0.2, 0.1]).astype(np.float32)
    y = np.arange(400) % 2
    model = make("PNCA", max_epochs=1, scaling=None).fit(X[:100], y[:100])
    novelty = model.fitted_.reader.novelty
    new = novelty.log(torch.from_numpy(X[100:]).double())
    held_out = novelty.log_of(
        held_out_log_residuals(torch.from_numpy(X[:100]).double(), torch.from_numpy(model.folds_))
    )
    assert abs((new < 0).double().mean() - (held_out < 0).double().mean()) < 0.12
