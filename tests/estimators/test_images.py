"""Images: their scale, random changes of them, and particles that see them changed more."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from models import make
from pnca.exceptions import InvalidInputError
from pnca.training import augmentation


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (1, 8, 8)])
def test_images__are_the_same_as_rows_with_their_shape(shape, digits):
    X, y = digits
    rows = X.reshape(60, 64)
    quick = {"max_epochs": 10, "dropout": "auto"}
    of_rows = make("PNCA", image_shape=(8, 8), **quick).fit(rows, y)
    of_images = make("PNCA", **quick).fit(X.reshape(60, *shape), y)
    assert of_images.input_shape_ == shape
    assert np.array_equal(of_images.predict_proba(X.reshape(60, *shape)), of_rows.predict_proba(rows))
    assert np.array_equal(of_images.oof_proba_, of_rows.oof_proba_)
    assert of_rows.score(rows, y) > 0.95


def test_images__are_augmented_unless_told_otherwise(digits, monkeypatch):
    X, y = digits
    strengths = []

    def spy(inputs, image, strength, generator):
        strengths.append(strength)
        assert (image.height, image.width, image.channels) == (8, 8, 1)
        return inputs

    monkeypatch.setattr(augmentation, "augment", spy)
    make("PNCA", max_epochs=2).fit(X, y)
    make("PNCA", max_epochs=1, augmentation=0.5).fit(X, y)
    assert strengths == [1.0, 1.0, 0.5]  # three particles cannot be halved
    make("PNCA", max_epochs=2, augmentation=0.0).fit(X, y)
    make("PNCA", max_epochs=2).fit(X.reshape(60, 64), y)
    make("PNCA", max_epochs=2, module=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 4))).fit(X, y)
    assert len(strengths) == 3


def test_images__the_strength_that_held_out_images_ask_for_is_kept():
    # Held-out images are turned by any angle: who has seen more of that predicts them better.
    X, y = load_digits(return_X_y=True)
    X = X[:80].reshape(-1, 8, 8)
    model = make("PNCA", n_particles=4, max_epochs=20).fit(X, y[:80])
    assert set(model.augmentation_) <= {1.0, 1.5}
    assert len(model.particles_) == len(model.support_embeddings_) == 2 * len(model.augmentation_)
    assert model.oof_proba_.shape == (80, 10)


def test_kinds__one_that_learns_nothing_is_left_out(digits, monkeypatch):
    X, y = digits

    def noise_if_strong(inputs, image, strength, generator):
        return inputs if strength == 1 else 30 * torch.randn(inputs.shape, generator=generator)

    monkeypatch.setattr(augmentation, "augment", noise_if_strong)
    model = make("PNCA", n_particles=4, max_epochs=30).fit(X, y)
    assert model.augmentation_ == (1.0,)
    assert len(model.particles_) == 2


def test_images__have_one_centre_and_one_spread(digits):
    X, y = digits
    model = make("PNCA", max_epochs=1).fit(X + 1.0, y)  # no zeros: they would be the background
    assert np.unique(model.input_centre_).size == np.unique(model.input_spread_).size == 1
    assert model.input_centre_[0] == pytest.approx((X + 1).mean())


def test_images__augmentation_of_a_table_is_refused_with_advice(noisy):
    with pytest.raises(InvalidInputError, match=r"pass image_shape=\(height, width\), or X of shape"):
        make("PNCA", augmentation=1.0).fit(*noisy)
