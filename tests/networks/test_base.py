import torch

import scenarios
from pnca.networks.mlp import unflatten
from pnca.networks.stacked import mix_gradients


def test_mix_gradients__leaves_particles_and_multiplies_gradients():
    particles, gradients = scenarios.particles_and_scores(3, 4)
    particles.requires_grad_()
    mixing = scenarios.cloud(1, 3, 3)[0]
    mixed = mix_gradients(particles, mixing)
    assert torch.equal(mixed, particles)
    (got,) = torch.autograd.grad(mixed, particles, gradients)
    torch.testing.assert_close(got, mixing @ gradients)
    assert mix_gradients(particles, None) is particles


def test_unflatten__are_views_in_order():
    particles = torch.arange(24.0).view(2, 12)
    parts = unflatten(particles, [torch.Size([2, 3]), torch.Size([]), torch.Size([5])])
    assert [tuple(part.shape) for part in parts] == [(2, 2, 3), (2,), (2, 5)]
    assert torch.equal(torch.cat([part.reshape(2, -1) for part in parts], dim=1), particles)
    parts[0].zero_()
    assert (particles[:, :6] == 0).all()
    assert (particles[:, 6:] != 0).all()
