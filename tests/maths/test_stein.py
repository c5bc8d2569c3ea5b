import math
from functools import partial

import pytest
import torch

import reference
import scenarios
from pnca.maths.stein import (
    functional_gradient,
    median_bandwidth,
    parameter_kernel,
    svgd_direction,
    svgd_posterior_mixing,
    svgd_posterior_mixing_as_published,
)


@pytest.mark.parametrize("m", [2, 3, 6, 7])
def test_parameter_kernel__bandwidth_is_the_median_off_the_diagonal(m):
    particles, _ = scenarios.particles_and_scores(m, 4)
    kernel, bandwidth = parameter_kernel(particles)
    assert bandwidth.item() == pytest.approx(reference.median_bandwidth(particles))
    for i in range(m):
        for j in range(m):
            expected = reference.latent_kernel(particles[i], particles[j], bandwidth)
            torch.testing.assert_close(kernel[i, j], expected)


def test_parameter_kernel__off_diagonal_is_about_one_over_m_in_high_dimension():
    # All distances are then about the median, so kappa = exp(-log m).
    particles, _ = scenarios.particles_and_scores(10, 20_000)
    kernel, _ = parameter_kernel(particles)
    off_diagonal = kernel[~torch.eye(10, dtype=torch.bool)]
    torch.testing.assert_close(off_diagonal, torch.full_like(off_diagonal, 0.1), atol=0.01, rtol=0)


def test_median_bandwidth__one_particle_has_kernel_one():
    assert median_bandwidth(torch.zeros(1, 1)).item() == math.inf
    kernel, _ = parameter_kernel(torch.randn(1, 5))
    assert kernel.tolist() == [[1.0]]


def test_parameter_kernel__coinciding_particles_have_kernel_one():
    kernel, _ = parameter_kernel(torch.ones(3, 5))
    assert (kernel == 1).all()


@pytest.mark.parametrize("seed", range(5))
def test_functional_gradient__equals_the_loop(seed):
    particles, gradients = scenarios.particles_and_scores(5, 3, seed)
    torch.testing.assert_close(
        functional_gradient(particles, gradients), reference.functional_gradient(particles, gradients)
    )


def test_functional_gradient__one_particle_keeps_its_gradient():
    particles, gradients = scenarios.particles_and_scores(1, 4)
    torch.testing.assert_close(functional_gradient(particles, gradients), gradients)


def test_functional_gradient__has_no_repulsion():
    particles, _ = scenarios.particles_and_scores(4, 3)
    assert (functional_gradient(particles, torch.zeros_like(particles)) == 0).all()


def test_functional_gradient__is_a_descent_direction():
    # kappa is positive definite, so the inner product with the gradients is positive.
    particles, gradients = scenarios.particles_and_scores(6, 3)
    assert (functional_gradient(particles, gradients) * gradients).sum() > 0


@pytest.mark.parametrize("seed", range(5))
def test_svgd_direction__equals_the_loop_with_autograd(seed):
    particles, scores = scenarios.particles_and_scores(6, 3, seed)
    torch.testing.assert_close(svgd_direction(particles, scores), reference.svgd_direction(particles, scores))


def test_svgd_direction__without_a_score_particles_move_apart():
    particles, _ = scenarios.particles_and_scores(5, 2)
    moved = particles + 0.1 * svgd_direction(particles, torch.zeros_like(particles))
    assert torch.pdist(moved).mean() > torch.pdist(particles).mean()


def test_svgd_direction__without_a_score_particles_attract_if_the_repulsion_is_negative():
    particles, _ = scenarios.particles_and_scores(5, 2)
    moved = particles + 0.1 * svgd_direction(particles, torch.zeros_like(particles), repulsion=-1.0)
    assert torch.pdist(moved).mean() < torch.pdist(particles).mean()


def run_to_rest(direction, m=40, n_steps=3000):
    particles = torch.linspace(-3, 3, m, dtype=torch.float64)[:, None]
    for _ in range(n_steps):
        w = particles.clone().requires_grad_()
        (scores,) = torch.autograd.grad(scenarios.skewed_log_density(w).sum(), w)
        particles = particles + 0.1 * direction(particles, scores)
    return particles


def test_svgd_direction__samples_an_asymmetric_target():
    # log of Gamma(3, 1): mean digamma(3) = 0.9228, standard deviation sqrt(trigamma(3)) = 0.6284,
    # skewed to the left. A reversed repulsion collapses the spread; a reversed score diverges.
    particles = run_to_rest(svgd_direction)
    assert particles.mean().item() == pytest.approx(0.9228, abs=0.05)
    assert particles.std().item() == pytest.approx(0.6284, abs=0.08)
    skewness = ((particles - particles.mean()) ** 3).mean() / particles.std() ** 3
    assert skewness < -0.2


def test_svgd_direction__loses_the_spread_of_the_target_if_the_repulsion_is_negative():
    assert run_to_rest(partial(svgd_direction, repulsion=-1.0)).std().item() < 0.3  # of 0.6284


@pytest.mark.parametrize("repulsion", [1.0, -1.0])
def test_svgd_posterior_mixing__is_minus_the_direction_of_the_posterior(repulsion):
    particles, gradients = scenarios.particles_and_scores(5, 7)
    expected = -svgd_direction(particles, -30 * gradients - 0.5 * particles, repulsion)
    mixing = svgd_posterior_mixing(particles, n_samples=30, prior_precision=0.5, repulsion=repulsion)
    torch.testing.assert_close(mixing.direction(particles, gradients), expected)


def test_svgd_posterior_mixing_as_published__attracts_and_divides_the_log_posterior_by_n():
    particles, gradients = scenarios.particles_and_scores(5, 7)
    expected = -svgd_direction(particles, (-30 * gradients - 0.5 * particles) / 30, repulsion=-1.0)
    mixing = svgd_posterior_mixing_as_published(particles, n_samples=30, prior_precision=0.5)
    torch.testing.assert_close(mixing.direction(particles, gradients), expected)
