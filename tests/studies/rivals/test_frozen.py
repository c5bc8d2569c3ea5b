"""Logistic regression on features of a frozen network; the network here is a mean of pixels."""

import numpy as np
import pytest

from pnca.exceptions import MissingDataError
from pnca_studies.rivals import FrozenNetwork, frozen, why_no_backbone


class Halves:
    """Means of the upper and of the lower half of the first channel."""

    key, size, n_calls = "halves", 8, 0

    def __call__(self, images):
        self.n_calls += 1
        assert images.dtype == np.uint8
        assert images.shape[1:] == (8, 8, 3)
        return images[..., 0].reshape(len(images), 2, -1).mean(axis=2).astype(np.float32)


@pytest.fixture
def network(monkeypatch, tmp_path):
    network = Halves()
    monkeypatch.setenv("PNCA_BACKBONE", "halves.onnx")
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(frozen, "_load", lambda spec: network)
    return network


@pytest.fixture
def images():
    """Images that are bright above or below."""
    rng, labels = np.random.default_rng(0), np.arange(60) % 2
    found = 0.2 * rng.random((60, 4, 4))
    found[labels == 0, :2] += 0.7
    found[labels == 1, 2:] += 0.7
    return found.astype(np.float32), labels


def test_frozen__learns_from_features_and_predicts_out_of_fold(network, images):
    X, y = images
    model = FrozenNetwork(random_state=0).fit(X[:40], y[:40])
    assert (model.predict_proba(X[40:]).argmax(axis=1) == y[40:]).all()
    assert (model.oof_proba_.argmax(axis=1) == y[:40]).all()


def test_frozen__features_of_the_same_images_are_computed_once(network, images):
    X, _ = images
    first, n_calls = frozen.frozen_features(X), network.n_calls
    np.testing.assert_array_equal(frozen.frozen_features(X), first)
    assert network.n_calls == n_calls == 2  # 32 at once
    frozen.frozen_features(1 - X)
    assert network.n_calls > n_calls


def test_frozen__without_a_network_it_says_what_names_one(monkeypatch, images):
    monkeypatch.delenv("PNCA_BACKBONE", raising=False)
    assert why_no_backbone() == "PNCA_BACKBONE names no network"
    with pytest.raises(MissingDataError, match="PNCA_BACKBONE"):
        FrozenNetwork().fit(*images)
