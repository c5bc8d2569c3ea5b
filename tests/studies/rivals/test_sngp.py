import numpy as np
import pytest
import torch
from torch import nn

from pnca.exceptions import InvalidInputError
from pnca.networks import seeded
from pnca_studies.rivals.sngp import BoundedLinear, SNGPNetwork
from rivals.quick import quick_rival


def effective_weight(layer, n_in):
    """Weights (n_out, n_in) by which a layer multiplies, read off its answers."""
    layer.eval()
    with torch.no_grad():
        return (layer(torch.eye(n_in)) - layer(torch.zeros(1, n_in))).T


@pytest.mark.parametrize(("factor", "bound"), [(0.1, 0.9), (10.0, 0.9), (10.0, 2.0)])
def test_bounded_linear__scales_weights_down_to_the_bound_but_never_up(factor, bound):
    with seeded(0):
        layer = BoundedLinear(8, 12, bound=bound)
    original = layer.get_parameter("linear.parametrizations.weight.original")
    with torch.no_grad():
        original.mul_(factor)
        for _ in range(100):  # power iteration goes on at every pass in training
            layer(torch.zeros(1, 8))
    norm = float(torch.linalg.matrix_norm(original.detach(), 2))
    expected = original * min(1, bound / norm)
    torch.testing.assert_close(effective_weight(layer, 8), expected.detach(), rtol=1e-3, atol=1e-4)
    assert (norm > bound) == (factor > 1)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_bounded_linear__passes_gradients_whether_bounded_or_not(factor):
    with seeded(0):
        layer = BoundedLinear(3, 4, bound=0.9).double().eval()
        x = torch.randn(5, 3, dtype=torch.float64)
    original = layer.get_parameter("linear.parametrizations.weight.original")
    with torch.no_grad():
        original.mul_(factor)
    layer(x).square().sum().backward()
    step, numerical = 1e-6, torch.zeros_like(original)
    for i, j in np.ndindex(*original.shape):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                original[i, j] += sign * step
                values.append(float(layer(x).square().sum()))
                original[i, j] -= sign * step
        numerical[i, j] = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close(original.grad, numerical, rtol=1e-5, atol=1e-6)


def build_network(x, **settings):
    defaults = {
        "width": 30,
        "n_blocks": 2,
        "n_features": 20_000,
        "n_classes": 3,
        "bound": 0.95,
        "lengthscale": 1.0,
    }
    with seeded(0):
        return SNGPNetwork(x, **{**defaults, **settings}).eval()


@pytest.mark.parametrize("lengthscale", [0.5, 1.0, 2.0])
def test_features__have_the_gaussian_kernel_of_the_hidden_distance_in_medians(iris, lengthscale):
    x = torch.tensor(iris[0][:40])
    network = build_network(x, lengthscale=lengthscale)
    with torch.no_grad():
        distances = nn.functional.pdist(network.hidden(x))
        kernel = torch.exp(-0.5 * (distances / distances.median() / lengthscale) ** 2)
        features = network.features(x)
    rows, columns = torch.triu_indices(40, 40, offset=1)
    # 20,000 random features: a standard deviation of .007, and 780 pairs.
    torch.testing.assert_close((features @ features.T)[rows, columns], kernel, atol=0.035, rtol=0)


def test_hidden__nearly_keeps_distances(iris):
    x = torch.tensor(iris[0])
    network = build_network(x, width=64)
    with torch.no_grad():
        ratios = nn.functional.pdist(network.hidden(x)) / nn.functional.pdist(network.first(x))
    ratios = ratios[ratios.isfinite()]  # a flower or two occur twice
    # A residual layer of norm b stretches by at most 1 + b; it could shrink by 1 - b.
    assert ratios.max() <= 1.95**2 + 1e-3
    assert ratios.min() >= 0.05**2 - 1e-3


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
def test_evidence__is_that_of_a_slow_posterior(iris, likelihood):
    X, y = iris[0][:60], iris[1][:60]
    model = quick_rival("SNGP", n_features=16, prior_variance=3.0, likelihood=likelihood).fit(X, y)
    with torch.no_grad():
        phi, new = (model.network_.features(torch.tensor(a).double()).numpy() for a in (X, iris[0]))
        logits = phi @ model.network_.beta.numpy()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    variances = np.zeros((150, 3))
    for k in range(3):
        precision = np.eye(16) / 3
        for i in range(60):
            weight = 1.0 if likelihood == "gaussian" else p[i, k] * (1 - p[i, k])
            precision += weight * np.outer(phi[i], phi[i])
        covariance = np.linalg.inv(precision)
        variances[:, k] = [row @ covariance @ row for row in new]
    np.testing.assert_allclose(model.evidence(iris[0]), -variances.mean(axis=1), rtol=1e-8)
    scaled = np.exp(new @ model.network_.beta.detach().numpy() / np.sqrt(1 + np.pi / 8 * variances))
    expected = scaled / scaled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(iris[0]), expected, rtol=1e-8)


def test_evidence__far_away_is_minus_the_prior_variance(iris):
    model = quick_rival("SNGP", n_features=1024, prior_variance=3.0).fit(*iris)
    # ||phi||² is one on average over directions, and nothing was learnt about it there.
    assert model.evidence(1000 * iris[0]).mean() == pytest.approx(-3, rel=0.1)
    assert model.evidence(iris[0]).mean() > -1


def test_training__decays_the_last_layer_by_the_prior(iris):
    model = quick_rival("SNGP", prior_variance=4.0)
    with seeded(0):
        network = build_network(torch.tensor(iris[0]), n_features=10)
    hidden, last = model._parameter_groups(network, 50)
    assert (len(hidden["params"]), hidden["weight_decay"]) == (6, 1e-4)
    assert last["params"][0] is network.beta
    assert last["weight_decay"] == 1 / (4 * 50)


def test_sizes__must_be_equal(iris):
    with pytest.raises(InvalidInputError, match=r"must be equal .* \[20, 30\]"):
        quick_rival("SNGP", hidden_layer_sizes=(20, 30)).fit(*iris)
