import numpy as np
import pytest
import torch
from torch import nn

from rivals.quick import quick_rival


@pytest.fixture(scope="module")
def model(iris):
    return quick_rival("MC dropout", hidden_layer_sizes=(30, 20), n_passes=13).fit(*iris)


def slow_passes(model, X):
    """Log-probabilities (T, n, c): every mask written out and multiplied, in numpy."""
    layers = [module for module in model.network_ if isinstance(module, nn.Linear)]
    generator = torch.Generator().manual_seed(model.mask_seed_)
    passes = []
    for _ in range(model.n_passes):
        draws = [torch.rand(layer.in_features, generator=generator).numpy() for layer in layers]
        hidden = X.astype(np.float64)
        for k, (layer, draw) in enumerate(zip(layers, draws, strict=True)):
            rate = model.dropout if k else model.input_dropout
            hidden = np.maximum(hidden, 0) if k else hidden
            hidden = hidden * (draw >= np.float32(rate)) / (1 - rate)
            hidden = hidden @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        passes.append(hidden - np.log(np.exp(hidden).sum(axis=1, keepdims=True)))
    return np.array(passes)


def test_predict_proba__is_the_mean_over_masks_shared_by_all_rows(model, iris):
    expected = np.exp(slow_passes(model, iris[0])).mean(axis=0)
    np.testing.assert_allclose(model.predict_proba(iris[0]), expected, rtol=1e-9)


def test_evidence__is_minus_the_mutual_information(model, iris):
    p = np.exp(slow_passes(model, iris[0]))
    mean = p.mean(axis=0)
    # I = mean over the masks of the Kullback-Leibler divergence of their answer from the mean answer.
    information = (p * np.log(p / mean)).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(model.evidence(iris[0]), -information, rtol=1e-6, atol=1e-12)
    assert (model.evidence(iris[0]) < 0).all()


def test_no_dropout__is_the_plain_network_without_doubt(iris):
    model = quick_rival("MC dropout", dropout=0.0, input_dropout=0.0, max_epochs=5).fit(*iris)
    plain = model.network_(torch.tensor(iris[0]).double()).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(iris[0]), plain, rtol=1e-9)
    np.testing.assert_allclose(model.evidence(iris[0]), 0, atol=1e-12)


def test_network__drops_before_every_layer_of_weights(model):
    kinds = [(type(module).__name__, getattr(module, "p", None)) for module in model.network_]
    assert kinds == [
        ("Dropout", 0.2),
        ("Linear", None),
        ("ReLU", None),
        ("Dropout", 0.5),
        ("Linear", None),
        ("ReLU", None),
        ("Dropout", 0.5),
        ("Linear", None),
    ]


def test_masks__differ_between_passes_and_between_fits(model, iris):
    passes = slow_passes(model, iris[0])
    assert not np.allclose(passes[0], passes[1])
    other = quick_rival("MC dropout", random_state=1, max_epochs=1).fit(*iris)
    assert other.mask_seed_ != model.mask_seed_
