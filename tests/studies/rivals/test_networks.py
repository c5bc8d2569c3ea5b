"""Shared by the baselines that are networks."""

import numpy as np
import pytest
import torch
from torch import nn

from pnca.exceptions import InvalidInputError, TrainingDivergedError
from pnca_studies.rivals.networks import NetworkBaseline, mean_field_log_probabilities, train_network
from rivals.quick import parameters, quick_rival

NETWORKS = pytest.mark.parametrize("name", parameters("MC dropout", "SNGP", "Laplace"))


@NETWORKS
def test_network__answers_do_not_depend_on_the_rows_asked_with(name, iris, monkeypatch):
    X = iris[0]
    model = quick_rival(name, max_epochs=5).fit(*iris)
    whole, evidence = model.predict_proba(X), model.evidence(X)
    one_by_one = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(one_by_one, whole[:20], rtol=1e-9)
    monkeypatch.setattr(type(model), "_prediction_rows", 7)
    np.testing.assert_allclose(model.predict_proba(X), whole, rtol=1e-9)
    np.testing.assert_allclose(model.evidence(X), evidence, rtol=1e-6, atol=1e-12)


@NETWORKS
def test_augment__is_given_every_minibatch_and_its_answer_is_trained_on(name, iris):
    X, y = iris[0][:50], iris[1][:50]
    shapes = []

    def blank(x):
        assert x.dtype == torch.float32
        shapes.append(tuple(x.shape))
        return torch.zeros_like(x)

    model = quick_rival(name, max_epochs=4, augment=blank).fit(X, y)
    assert shapes == [(20, 4), (20, 4), (10, 4)] * 4
    assert np.array_equal(model.augment(torch.ones(1, 1)), [[0]])
    plain = quick_rival(name, max_epochs=4).fit(X, y)
    assert plain.score(X, y) > model.score(X, y)


@NETWORKS
def test_augment__may_draw_from_torchs_generator(name, iris):
    def noisy(x):
        return x + 0.1 * torch.randn_like(x)

    torch.manual_seed(0)
    expected = torch.rand(1)
    answers = []
    for _ in range(2):
        torch.manual_seed(0)
        answers.append(quick_rival(name, max_epochs=2, augment=noisy).fit(*iris).predict_proba(iris[0]))
        assert torch.equal(torch.rand(1), expected)
    assert np.array_equal(*answers)


@NETWORKS
def test_network__weight_decay_shrinks_the_hidden_weights(name, iris):
    norms = []
    for decay in (0.0, 0.1):
        network = quick_rival(name, weight_decay=decay).fit(*iris).network_
        norms.append(sum(float(p.detach().square().sum()) for p in network.parameters() if p.shape[0] == 200))
    assert norms[1] < 0.5 * norms[0]


@NETWORKS
def test_network__bad_settings_and_a_single_class_are_refused(name, iris):
    for settings, message in (
        ({"hidden_layer_sizes": ()}, "at least one"),
        ({"hidden_layer_sizes": (20, 0)}, "positive whole numbers"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"augment": 3}, "augment"),
    ):
        with pytest.raises(ValueError, match=message):
            quick_rival(name).set_params(**settings).fit(*iris)
    with pytest.raises(InvalidInputError, match="at least 2 classes"):
        quick_rival(name).fit(iris[0][:5], np.zeros(5, dtype=int))


def test_training__minimises_cross_entropy(iris):
    torch_x, torch_y = torch.tensor(iris[0]), torch.tensor(iris[1])
    network = nn.Linear(4, 3)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
    train_network(network, torch_x, torch_y, optimiser, max_epochs=40, rng=np.random.RandomState(0))
    # scikit-learn's solution of the same convex problem, with next to no penalty, has .04.
    assert nn.functional.cross_entropy(network(torch_x), torch_y) < 0.1


def test_training__that_diverges_says_so(iris):
    network = nn.Linear(4, 3)
    optimiser = torch.optim.SGD(network.parameters(), lr=float("inf"))
    with pytest.raises(TrainingDivergedError, match="lower learning_rate"):
        train_network(
            network,
            torch.tensor(iris[0]),
            torch.tensor(iris[1]),
            optimiser,
            max_epochs=1,
            rng=np.random.RandomState(0),
        )


def test_mean_field__is_close_to_the_average_over_samples():
    generator = torch.Generator().manual_seed(0)
    logits, variances = torch.tensor([[1.5, 0.0, -1.0]]).double(), torch.tensor([[0.5, 2.0, 1.0]]).double()
    samples = logits + variances.sqrt() * torch.randn(200_000, 3, generator=generator).double()
    # The approximation itself is off by some hundredths, .060 at most here.
    approximate = mean_field_log_probabilities(logits, variances).exp()
    torch.testing.assert_close(
        approximate, samples.softmax(dim=1).mean(dim=0, keepdim=True), atol=0.07, rtol=0
    )
    assert abs(approximate.sum() - 1) < 1e-12
    plain = mean_field_log_probabilities(logits, torch.zeros(1, 1).double())
    torch.testing.assert_close(plain, logits.log_softmax(dim=1))


def test_base__is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        NetworkBaseline()
