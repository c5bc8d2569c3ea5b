"""A fitted model is frozen state: all that a prediction needs, however it is split."""

import io
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

import scenarios
from models import digits, make, noisy
from pnca.exceptions import InvalidInputError
from pnca.maths.inputs import InputFactor, Novelty, Plane
from pnca.models import fitted, kernels
from pnca.models.fitted import Fitted, NeighbourReader, SoftmaxReader, resolve_device
from pnca.models.kernels import ExactKernel, PositiveKernel, Support
from pnca.networks import MLP

CPU = torch.device("cpu")


# Devices


def test_resolve_device__auto_takes_a_gpu_only_if_there_is_one():
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["nonsense", "cuda:99"])
def test_resolve_device__unusable_device_is_one_clear_sentence(name):
    with pytest.raises(InvalidInputError, match="use 'auto' or 'cpu'"):
        resolve_device(name)


# The state


@pytest.mark.parametrize("name", ["PNCA", "DNN"])
def test_fitted__is_frozen_and_alone_decides_what_is_predicted(name):
    X, y = noisy()
    model = make(name, max_epochs=3).fit(X, y)
    with pytest.raises(FrozenInstanceError):
        model.fitted_.particles = None
    expected = model.predict_log_proba(X)
    for attribute in [
        a for a in vars(model) if a.endswith("_") and isinstance(getattr(model, a), np.ndarray)
    ]:
        if attribute != "classes_":
            setattr(model, attribute, np.full(3, np.nan))
    assert np.array_equal(model.predict_log_proba(X), expected)
    assert np.array_equal(model.fitted_.log_probabilities(X, "cpu"), expected)


@pytest.mark.parametrize("name", ["PNCA", "PNCA positive", "PNCA orthogonal", "DNN"])
def test_fitted__can_be_saved_by_torch(name):
    X, y = noisy()
    model, file = make(name, max_epochs=2).fit(X, y), io.BytesIO()
    torch.save(model.fitted_, file)
    file.seek(0)
    restored = torch.load(file, weights_only=False)
    expected = model.predict_log_proba(X)
    assert np.array_equal(restored.log_probabilities(X, "cpu"), expected)


def test_fitted__inputs_are_scaled_once():
    X, y = noisy()
    model = make("PNCA", max_epochs=2, scaling="columns").fit(100 * X + 7, y)
    scaled = (100 * X.astype(np.float64) + 7 - model.input_centre_) / model.input_spread_
    by_hand = model.network_(torch.from_numpy(model.particles_).double(), torch.from_numpy(scaled))
    # Training inputs are kept in float32 once they are scaled.
    np.testing.assert_allclose(model.embed(100 * X + 7), by_hand, atol=1e-5)
    np.testing.assert_allclose(model.support_embeddings_, by_hand, atol=1e-5)


def test_fitted__rows_sum_to_one_in_float64_whatever_the_networks_precision():
    X, y = noisy()
    model = make("DNN", module=lambda: torch.nn.Linear(3, 4), max_epochs=2).fit(X, y)
    assert model.network_.prediction_dtype == torch.float32
    found = model.fitted_.log_probabilities(X, "cpu")
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=0, atol=1e-14)


# Splitting


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross", "PNCA positive", "Ensemble"])
@pytest.mark.parametrize(("constant", "value"), [("PREDICTION_ROWS", 7), ("PREDICTION_NUMBERS", 2000)])
def test_predictions__do_not_depend_on_how_they_are_split(name, constant, value, monkeypatch):
    X, y = digits()
    model = make(name, max_epochs=5).fit(X, y)

    def answers():
        found = [model.predict_log_proba(X), *model.uncertainty(X)]
        return (
            found
            if name == "Ensemble"
            else [*found, model.evidence(X), model.embed(X), *model.neighbors(X, 3)]
        )

    whole, chunks, original = answers(), [], fitted.run_network
    monkeypatch.setattr(fitted, constant, value)

    def spy(*args):
        for chunk in original(*args):
            chunks.append(len(chunk[1]))
            yield chunk

    monkeypatch.setattr(fitted, "run_network", spy)
    for expected, got in zip(whole, answers(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    assert max(chunks) < 60


def reader(kernel, **changes):
    """Of eight examples of two classes, embedded by three particles."""
    support = Support(
        embeddings=scenarios.cloud(3, 8, 2),
        labels=torch.arange(8) % 2,
        weights=torch.ones(8, dtype=torch.float64),
        n_classes=2,
        background=0.1,
        input_factor=None,
        inputs=None,
    )
    support = replace(support, **changes)
    if isinstance(kernel, PositiveKernel):
        support = kernel.summarised(support)
    return NeighbourReader(kernel, support, torch.tensor([0.3, 0.7], dtype=torch.float64), None)


def test_numbers_per_row__a_kernel_to_each_example_in_each_shared_particle(monkeypatch):
    directions = torch.randn(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert SoftmaxReader().numbers_per_row(CPU) == 0
    assert reader(ExactKernel(1.0, True)).numbers_per_row(CPU) == 3 * 8
    assert reader(ExactKernel(1.0, False)).numbers_per_row(CPU) == 0
    assert reader(PositiveKernel(1.0, True, directions)).numbers_per_row(CPU) == 3 * 12
    monkeypatch.setattr(kernels, "TILED", 0)
    assert reader(ExactKernel(1.0, True)).numbers_per_row(CPU) == 0


# Readers


def test_softmax_reader__is_the_softmax_of_each_particle():
    logits = scenarios.cloud(3, 5, 4)
    found = SoftmaxReader().answers(logits, logits[0]).logs
    torch.testing.assert_close(found.exp(), logits.exp() / logits.exp().sum(dim=2, keepdim=True))


@pytest.mark.parametrize("is_shared", [True, False])
def test_neighbour_reader__shares_and_background_make_up_the_probabilities(is_shared):
    queries, inputs = scenarios.cloud(3, 5, 2, seed=1), scenarios.cloud(1, 5, 4, seed=2)[0]
    plane = Plane(torch.zeros(4), torch.eye(4)[:2], 1e-4)
    of = reader(
        ExactKernel(1.0, is_shared),
        input_factor=InputFactor(2.0, 0.5),
        inputs=scenarios.cloud(1, 8, 4, seed=3)[0],
        weights=torch.linspace(0.5, 2, 8).double(),
    )
    of = replace(of, novelty=Novelty(plane, typical=-1.0, spread=0.3, depth=2.0))
    assert of.novelty.log(inputs).min() < -0.5
    shares, probabilities = of.log_shares(queries, inputs).exp(), of.answers(queries, inputs).mean().exp()
    of_classes = torch.stack([shares[..., of.support.labels == c].sum(dim=-1) for c in range(2)], dim=-1)
    missing = 1 - shares.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(probabilities, of_classes + missing * of.prior)


def test_neighbour_reader__novelty_takes_its_factor_from_all_classes():
    queries, inputs = scenarios.cloud(3, 5, 2, seed=1), scenarios.cloud(1, 5, 4, seed=2)[0]
    of = reader(ExactKernel(1.0, True))
    plane = Plane(torch.zeros(4), torch.eye(4)[:2], 1e-4)
    novel = replace(of, novelty=Novelty(plane, typical=-1.0, spread=0.3, depth=2.0))
    lost = of.log_masses(queries, inputs) - novel.log_masses(queries, inputs)
    torch.testing.assert_close(lost, -novel.novelty.log(inputs)[:, None].expand(3, 5, 2))


def test_isolated_share__counts_those_that_the_background_outweighs():
    z = scenarios.cloud(1, 8, 2, scale=0.01)
    z[:, 6:] += torch.tensor([[100.0], [200.0]])
    of = reader(ExactKernel(1.0, True), embeddings=z)
    assert of.isolated_share() == 2 / 8
    inputs = torch.zeros(8, 1)
    inputs[0] = 1e4  # apart as an input, whatever its embedding
    apart = replace(of, support=replace(of.support, input_factor=InputFactor(1.0, 1.0), inputs=inputs))
    assert apart.isolated_share() == 3 / 8


def test_isolated_share__of_many_examples_some_are_enough(monkeypatch):
    z = scenarios.cloud(1, 8, 2, scale=0.01)
    z[:, 1::2] += 100 * torch.arange(4)[None, :, None] + 100  # every other one
    of = reader(ExactKernel(1.0, True), embeddings=z)
    assert of.isolated_share() == 4 / 8
    monkeypatch.setattr(fitted, "_SOME", 4)
    assert of.isolated_share() == 0


def test_log_evidence__is_the_mean_mass_of_the_members():
    network = MLP([2, 2])
    model = Fitted(
        classes=np.arange(2),
        input_shape=(2,),
        network=network,
        particles=network.draw(3, torch.Generator().manual_seed(0)),
        scaler=None,
        reader=reader(ExactKernel(1.0, True)),
    )
    X = scenarios.cloud(1, 5, 2, seed=1)[0].float().numpy()
    z = torch.from_numpy(model.embed(X, "cpu"))
    K = torch.exp(-(z[:, :, None] - model.reader.support.embeddings[:, None]).square().sum(dim=-1))
    np.testing.assert_allclose(model.log_evidence(X, "cpu"), K.sum(dim=2).mean(dim=0).log(), rtol=1e-9)
