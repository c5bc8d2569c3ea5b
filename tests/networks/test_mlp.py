import itertools
import math

import pytest
import torch
from torch import nn

from pnca.networks import MLP, StackedModule, seeded
from pnca.networks.mlp import drop

LAYERS = [6, 5, 4, 3]


def as_module(particle, layers=LAYERS):
    """The same network as an ordinary torch module."""
    parts, start = [], 0
    for n_in, n_out in itertools.pairwise(layers):
        linear = nn.Linear(n_in, n_out)
        linear.weight.data = particle[start : start + n_in * n_out].view(n_in, n_out).T.clone()
        start += n_in * n_out
        linear.bias.data = particle[start : start + n_out].clone()
        start += n_out
        parts += [linear, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def draw(network, m=4, seed=0):
    particles = network.draw(m, torch.Generator().manual_seed(seed))
    return particles + 0.1 * torch.randn(particles.shape, generator=torch.Generator().manual_seed(seed + 1))


@pytest.mark.parametrize("layers", [LAYERS, [6, 3], [6, 8, 1]])
def test_mlp__equals_a_loop_over_modules(layers):
    network, x = MLP(layers), torch.randn(7, 6)
    particles = draw(network)
    expected = torch.stack([as_module(particle, layers)(x) for particle in particles])
    torch.testing.assert_close(network(particles, x), expected)


def test_mlp__equals_the_stacked_module_and_so_do_its_gradients():
    network, x = MLP(LAYERS), torch.randn(7, 6)
    particles = draw(network).requires_grad_()
    stacked = StackedModule(as_module(particles[0].detach()), sample=x)
    flat = [torch.cat([p.detach().flatten() for p in as_module(w.detach()).parameters()]) for w in particles]
    stacked_particles = torch.stack(flat).requires_grad_()
    torch.testing.assert_close(network(particles, x), stacked(stacked_particles, x))

    network(particles, x).square().sum().backward()
    stacked(stacked_particles, x).square().sum().backward()
    first = slice(0, LAYERS[0] * LAYERS[1])  # same numbers, the weight matrix transposed
    torch.testing.assert_close(
        particles.grad[:, first].view(4, 6, 5), stacked_particles.grad[:, first].view(4, 5, 6).mT
    )


def test_mlp__draw_is_glorot_uniform_with_zero_biases():
    network = MLP([300, 200, 10])
    particles = network.draw(3, torch.Generator().manual_seed(0))
    weight, bias = particles[:, : 300 * 200], particles[:, 300 * 200 : 300 * 200 + 200]
    limit = math.sqrt(6 / 500)
    assert (bias == 0).all()
    assert weight.abs().max() <= limit
    assert weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.01)  # of a uniform variable


def test_mlp__same_seed_same_draw_and_particles_differ():
    network = MLP(LAYERS)
    first, again = (network.draw(2, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])


def test_mlp__dropout_acts_in_training_only_and_on_each_particle_anew():
    network = MLP([1000, 1], dropout=0.3)
    particles = torch.cat([torch.ones(2, 1000), torch.zeros(2, 1)], dim=1)  # the output is the sum
    inputs = torch.ones(4, 1000)
    torch.testing.assert_close(network(particles, inputs), torch.full((2, 4, 1), 1000.0))
    kept = network(particles, inputs, training=True) * 0.7  # survivors are scaled up by 1 / .7
    assert kept.flatten().unique().numel() > 1
    # A binomial of 1,000 with p = .7 has a standard deviation of 14.5.
    assert (kept - 700).abs().max() < 5 * 14.5
    assert not torch.equal(kept[0], kept[1])


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.9])
def test_drop__drops_its_share_and_keeps_the_mean(rate):
    n = 200_000
    with seeded(0):
        dropped = drop(torch.ones(n), rate)
    deviation = math.sqrt(rate * (1 - rate) / n)  # of a share of n
    # The share itself is rounded to a multiple of 1/256.
    assert (dropped == 0).double().mean().item() == pytest.approx(rate, abs=5 * deviation + 1 / 512)
    survivors = dropped[dropped != 0].unique()
    assert survivors.numel() == 1
    assert survivors.item() == pytest.approx(1 / (1 - rate), rel=0.03)
    assert dropped.mean().item() == pytest.approx(1, abs=5 * deviation / (1 - rate))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 11), (0, 4)])
def test_drop__keeps_the_shape_and_the_survivors(shape):
    inputs = torch.randn(shape)
    with seeded(1):
        dropped = drop(inputs, 0.5)
    assert dropped.shape == shape
    torch.testing.assert_close(dropped, torch.where(dropped == 0, 0, 2 * inputs))


def test_drop__is_random_but_repeatable():
    draws = []
    for seed in (0, 0, 1):
        with seeded(seed):
            draws += [drop(torch.ones(4, 50), 0.3), drop(torch.ones(4, 50), 0.3)]
    first, second, again, second_again, other, _ = draws
    assert torch.equal(first, again)
    assert torch.equal(second, second_again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


def test_drop__numbers_are_dropped_independently_of_their_places():
    # Eight inputs share one random word: neighbours must not be dropped together.
    with seeded(0):
        kept = (drop(torch.ones(40_000, 8), 0.5) != 0).double()
    correlations = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlations.abs().max() < 5 / math.sqrt(40_000)


def test_drop__lets_nothing_through_at_a_rate_of_nearly_one_but_finite_numbers():
    with seeded(0):
        dropped = drop(torch.ones(10_000), 0.9999)
    assert dropped.isfinite().all()
    assert (dropped == 0).double().mean() > 0.98


@pytest.mark.parametrize("inputs", ["shared", "own"])
def test_mlp__gradients_are_mixed_on_their_way_to_the_particles(inputs):
    network = MLP(LAYERS)
    particles, mixing = draw(network).requires_grad_(), torch.randn(4, 4)
    x = torch.randn(7, 6) if inputs == "shared" else torch.randn(4, 7, 6)
    x.requires_grad_()
    weights = torch.randn(4, 7, 3)
    plain, of_inputs = torch.autograd.grad((weights * network(particles, x)).sum(), [particles, x])
    mixed, the_same = torch.autograd.grad(
        (weights * network(particles, x, mixing=mixing)).sum(), [particles, x]
    )
    torch.testing.assert_close(mixed, mixing @ plain)
    torch.testing.assert_close(the_same, of_inputs)


def test_stacked_module__gradients_are_mixed_on_their_way_to_the_particles():
    particles, mixing, x = draw(MLP(LAYERS)).requires_grad_(), torch.randn(4, 4), torch.randn(7, 6)
    network = StackedModule(as_module(particles[0].detach()), sample=x)
    plain, mixed = (
        torch.autograd.grad(network(particles, x, mixing=how).square().sum(), particles)[0]
        for how in (None, mixing)
    )
    torch.testing.assert_close(mixed, mixing @ plain)
