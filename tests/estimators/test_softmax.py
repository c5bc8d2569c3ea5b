"""What sets DNN, ensemble and BNN apart."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from models import make


def test_ensemble__averages_the_probabilities_of_its_networks(blobs):
    X, y = blobs
    model = make("Ensemble").fit(X, y)
    particles = torch.from_numpy(model.particles_).double()
    logits = model.network_(particles, torch.from_numpy(X.copy()).double()).numpy()
    np.testing.assert_allclose(model.predict_proba(X), softmax(logits, axis=2).mean(axis=0))


def test_ensemble__networks_are_independent_of_their_number(blobs):
    """The first network of an ensemble of three is trained as if it were alone."""
    X, y = blobs
    together, alone = make("Ensemble", n_particles=3), make("Ensemble", n_particles=1)
    seen = {}
    for model in (together, alone):
        draw = torch.randn(3, 5 * 16 + 16 + 16 * 3 + 3, generator=torch.Generator().manual_seed(0)) * 0.3

        def same_start(n_particles, generator, draw=draw):
            return draw[:n_particles]

        original = type(model)._build_network

        def with_start(self, inputs, seed, original=original, same_start=same_start):
            network = original(self, inputs, seed)
            network.draw = same_start
            return network

        model._build_network = with_start.__get__(model)
        seen[model.n_particles] = model.fit(X, y).particles_[0]
    np.testing.assert_allclose(seen[3], seen[1], atol=1e-5)


def test_dnn__is_an_ensemble_of_one(blobs):
    dnn, ensemble = make("DNN").fit(*blobs), make("Ensemble", n_particles=1).fit(*blobs)
    assert np.array_equal(dnn.predict_proba(blobs[0]), ensemble.predict_proba(blobs[0]))


def spread(model):
    return torch.pdist(torch.from_numpy(model.particles_)).mean().item()


def test_bnn__strong_prior_pulls_the_weights_in(blobs):
    weak, strong = (make("BNN", prior_precision=value).fit(*blobs) for value in (0.01, 100.0))
    assert np.linalg.norm(strong.particles_) < np.linalg.norm(weak.particles_)


def test_bnn__repulsion_keeps_particles_apart_and_as_published_it_does_not(blobs):
    correct, published = (make("BNN", update=update).fit(*blobs) for update in ("svgd", "as_published"))
    assert spread(published) < 0.5 * spread(correct)


@pytest.mark.parametrize("name", ["DNN", "Ensemble", "BNN"])
def test_log_probabilities__stay_finite_where_probabilities_underflow(name, blobs):
    X, y = blobs
    model = make(name).fit(X, y)
    assert np.isfinite(model.predict_log_proba(X * 1e4)).all()
