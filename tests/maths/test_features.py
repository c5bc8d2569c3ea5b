import math

import pytest
import torch

import reference
import scenarios
from pnca.maths.features import (
    FLOOR,
    log_approximate_kernel,
    mean_random_features,
    orthogonal_frequencies,
)
from pnca.maths.kernels import log_expected_kernel, log_latent_kernel


def frequencies(d=3, n_blocks=10, bandwidth=2.0, seed=0):
    return orthogonal_frequencies(d, n_blocks, bandwidth, torch.Generator().manual_seed(seed))


def test_orthogonal_frequencies__each_block_is_orthogonal():
    d, n_blocks = 5, 4
    blocks = frequencies(d, n_blocks).view(d, n_blocks, d)
    for k in range(n_blocks):
        gram = blocks[:, k].mT @ blocks[:, k]
        torch.testing.assert_close(gram, torch.diag(gram.diagonal()))


def test_orthogonal_frequencies__there_are_ten_times_d_of_them():
    assert frequencies(d=7, n_blocks=10).shape == (7, 70)


def test_orthogonal_frequencies__have_the_lengths_of_the_spectral_density():
    # omega ~ N(0, 2/h I): the mean squared length is 2 d / h.
    d, bandwidth = 4, 3.0
    lengths = frequencies(d, 5000, bandwidth).square().sum(0)
    assert lengths.mean().item() == pytest.approx(2 * d / bandwidth, rel=0.02)


def test_orthogonal_frequencies__same_seed_same_draw():
    torch.testing.assert_close(frequencies(seed=3), frequencies(seed=3), rtol=0, atol=0)
    assert not torch.equal(frequencies(seed=3), frequencies(seed=4))


def test_mean_random_features__of_one_particle_have_unit_length():
    lengths = mean_random_features(scenarios.cloud(1, 6, 3), frequencies()).norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))


@pytest.mark.parametrize("bandwidth", [1.0, 2.0, 4.0])
def test_mean_random_features__converge_to_the_latent_kernel(bandwidth):
    z = scenarios.cloud(1, 8, 3)[0]
    phi = mean_random_features(z[None], frequencies(3, 20_000, bandwidth))
    # The error of a mean over 60,000 frequencies is about 1/sqrt(60,000) = 0.004.
    torch.testing.assert_close(phi @ phi.mT, log_latent_kernel(z, z, bandwidth).exp(), atol=0.01, rtol=0)


@pytest.mark.parametrize("seed", range(3))
def test_log_approximate_kernel__equals_the_loops(seed):
    a, b = scenarios.cloud(3, 4, 2, seed), scenarios.cloud(2, 3, 2, seed + 9)
    omega = frequencies(2, 2, seed=seed)
    expected = reference.approximate_kernel(a, b, omega)
    torch.testing.assert_close(
        log_approximate_kernel(a, b, omega).exp(), expected + FLOOR, atol=1e-12, rtol=1e-9
    )


def test_log_approximate_kernel__of_a_set_with_itself_equals_two_copies():
    a, omega = scenarios.cloud(3, 5, 3), frequencies()
    torch.testing.assert_close(
        log_approximate_kernel(a, a, omega), log_approximate_kernel(a, a.clone(), omega)
    )


def test_log_approximate_kernel__converges_to_the_expected_kernel():
    a = scenarios.cloud(4, 6, 3, scale=0.5)
    omega = frequencies(3, 20_000, bandwidth=2.0)
    exact = log_expected_kernel(a, a, 2.0).exp()
    torch.testing.assert_close(log_approximate_kernel(a, a, omega).exp(), exact, atol=0.01, rtol=0)


def test_log_approximate_kernel__negative_values_become_the_floor():
    # One frequency of length pi: cos(0) cos(pi) = -1, which ReLU removes.
    a, b = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    omega = torch.tensor([[math.pi]])
    assert log_approximate_kernel(a, b, omega).item() == pytest.approx(math.log(FLOOR))


def test_log_approximate_kernel__gradient_is_finite_where_relu_empties_a_row():
    a = torch.tensor([[[0.0], [1.0]]], requires_grad=True)
    log_approximate_kernel(a, a, torch.tensor([[math.pi]])).sum().backward()
    assert a.grad.isfinite().all()


def test_log_approximate_kernel__is_not_touched_by_autocast():
    a, omega = scenarios.cloud(3, 5, 3).float(), frequencies().float()
    expected = log_approximate_kernel(a, a, omega)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(log_approximate_kernel(a, a, omega), expected)


def test_log_approximate_kernel__gradcheck():
    a, omega = scenarios.cloud(2, 4, 2, scale=0.3).requires_grad_(), frequencies(2, 3)
    assert torch.autograd.gradcheck(lambda a: log_approximate_kernel(a, a, omega), a)


def test_mean_random_features__gradcheck():
    omega = frequencies(2, 2)
    z = scenarios.cloud(3, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: mean_random_features(z, omega), z)


def test_mean_random_features__are_the_mean_over_particles():
    z, omega = scenarios.cloud(3, 4, 2), frequencies(2, 2)
    of_each = torch.stack([mean_random_features(particle[None], omega) for particle in z])
    torch.testing.assert_close(mean_random_features(z, omega), of_each.mean(dim=0))
