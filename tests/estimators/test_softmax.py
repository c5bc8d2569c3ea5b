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
