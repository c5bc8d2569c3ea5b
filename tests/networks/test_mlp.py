import itertools
import math

import pytest
import torch
from torch import nn

from pnca.networks import MLP, StackedModule

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
