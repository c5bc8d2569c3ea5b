"""The loss of NCA and PNCA, and the paper's claims about them."""

import math

import pytest
import torch

import reference
import scenarios
from pnca.maths.kernels import log_expected_kernel, log_latent_kernel
from pnca.maths.neighbours import class_log_masses, log_neighbour_shares
from pnca.maths.pnca import (
    Target,
    functional_gradient,
    leave_one_out,
    leave_one_out_loss,
    log_correct_shares,
    loss_of_masses,
    pnca_loss,
    shares_and_log_correct,
)
from pnca.maths.stein import parameter_kernel


def loss(z, labels, bandwidth=1.0, background=0.0):
    n_classes = int(labels.max()) + 1
    log_prior = torch.full((n_classes,), -math.log(n_classes), dtype=z.dtype)
    log_K = leave_one_out(log_expected_kernel(z, z, bandwidth))
    log_q = log_correct_shares(log_K, labels, background, log_prior)
    return pnca_loss(log_q, torch.ones(len(labels), dtype=z.dtype))


@pytest.mark.parametrize("seed", range(5))
def test_pnca_loss__equals_the_loop(seed):
    z, labels = scenarios.cloud(3, 6, 2, seed), scenarios.labels(6, 2, seed)
    torch.testing.assert_close(loss(z, labels, 1.3), reference.pnca_loss(z, labels, 1.3))


@pytest.mark.parametrize("seed", range(5))
def test_pnca_loss__one_particle_is_nca(seed):
    z, labels = scenarios.cloud(1, 7, 3, seed), scenarios.labels(7, 2, seed)
    torch.testing.assert_close(loss(z, labels, 0.8), reference.nca_loss(z[0], labels, 0.8))


@pytest.mark.parametrize("background", [0.0, 0.3])
def test_log_correct_shares__equal_the_loop_with_weights(background):
    z, labels = scenarios.cloud(2, 6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    prior = torch.tensor([0.4, 0.6], dtype=z.dtype)
    weights = torch.tensor([1.0, 3.0, 0.5, 1.0, 2.0, 0.1], dtype=z.dtype)
    log_K = log_expected_kernel(z, z, 1.1)
    without_self = log_K.exp() * (1 - torch.eye(6, dtype=z.dtype))
    expected = reference.class_probabilities(without_self, labels, 2, background, prior, weights)
    got = log_correct_shares(leave_one_out(log_K + weights.log()), labels, background, prior.log())
    torch.testing.assert_close(got.exp(), expected[range(6), labels])


@pytest.mark.parametrize("background", [0.0, 0.3])
def test_log_correct_shares__equal_the_loop_with_groups(background):
    z, labels = scenarios.cloud(2, 6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    groups = torch.tensor([0, 0, 0, 1, 2, 2])
    prior, ones = torch.tensor([0.4, 0.6], dtype=z.dtype), torch.ones(6, dtype=z.dtype)
    log_K = log_expected_kernel(z, z, 1.1)
    of_others = log_K.exp() * (groups[:, None] != groups)
    expected = reference.class_probabilities(of_others, labels, 2, background, prior, ones)
    got = log_correct_shares(leave_one_out(log_K, groups), labels, background, prior.log())
    torch.testing.assert_close(got.exp(), expected[range(6), labels])


@pytest.mark.parametrize("background", [0.0, 0.3])
def test_shares_and_log_correct__shares_are_those_of_neighbours(background):
    log_K = leave_one_out(-scenarios.cloud(2, 6, 6).square())
    labels, log_prior = scenarios.labels(6, 2), torch.tensor([0.3, 0.7], dtype=log_K.dtype).log()
    shares, _ = shares_and_log_correct(log_K, labels, background, log_prior)
    torch.testing.assert_close(shares, log_neighbour_shares(log_K, background).exp())
    assert not shares.requires_grad


def test_log_correct_shares__a_pair_of_one_group_has_no_gradient():
    log_K = (-scenarios.cloud(1, 6, 6)[0].square()).requires_grad_()
    labels, groups = torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([0, 0, 1, 1, 2, 2])
    log_prior = torch.tensor([0.5, 0.5], dtype=log_K.dtype).log()
    log_q = log_correct_shares(leave_one_out(log_K, groups), labels, 0.1, log_prior)
    pnca_loss(log_q, torch.ones(6, dtype=log_K.dtype)).backward()
    same_group = groups[:, None] == groups
    assert (log_K.grad[same_group] == 0).all()
    assert (log_K.grad[~same_group] != 0).all()


def test_pnca_loss__weights_multiply_the_terms():
    got = pnca_loss(torch.tensor([0.5, 0.75]).log(), torch.tensor([2.0, 3.0]))
    assert got.item() == pytest.approx(2 * math.log(2) - 3 * math.log(0.75))


def test_pnca_loss__identical_particles_are_one_particle():
    z, labels = scenarios.cloud(1, 6, 2), scenarios.labels(6, 2)
    torch.testing.assert_close(loss(z.expand(5, -1, -1), labels), loss(z, labels))


def test_pnca_loss__three_points_solved_on_paper():
    # Points 0 and 1 of class 0 and 3 of class 1: the lone point of class 1 has weight zero.
    # q_01 = e^-1 / (e^-1 + e^-9), q_10 = e^-1 / (e^-1 + e^-4).
    z = torch.tensor([[[0.0], [1.0], [3.0]]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1])
    log_q = log_correct_shares(leave_one_out(log_expected_kernel(z, z, 1.0)), labels)
    got = pnca_loss(log_q, torch.tensor([1.0, 1.0, 0.0], dtype=z.dtype))
    assert got.item() == pytest.approx(math.log(1 + math.exp(-8)) + math.log(1 + math.exp(-3)))


def test_pnca_loss__lone_point_of_weight_zero_leaves_gradients_finite():
    z = scenarios.cloud(2, 3, 2).requires_grad_()
    labels = torch.tensor([0, 0, 1])
    log_q = log_correct_shares(leave_one_out(log_expected_kernel(z, z, 1.0)), labels)
    pnca_loss(log_q, torch.tensor([1.0, 1.0, 0.0], dtype=z.dtype)).backward()
    assert z.grad.isfinite().all()
    assert z.grad.abs().sum() > 0


def test_pnca_loss__worst_classified_points_still_pull():
    # Partners 60 apart: their kernel, e^-3600, is zero in floating point, their gradient is not.
    z = torch.tensor([[[0.0], [60.0], [1.0], [59.0]]], dtype=torch.float64, requires_grad=True)
    value = loss(z, torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert value.item() > 3000
    assert (z.grad.abs() > 1).all()


def test_pnca_loss__unchanged_by_permutations_and_rotation():
    z, labels = scenarios.cloud(3, 8, 2), scenarios.labels(8, 2)
    rotation, _ = torch.linalg.qr(scenarios.cloud(1, 2, 2, 5)[0])
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    expected = loss(z, labels)
    torch.testing.assert_close(loss(z[[2, 0, 1]], labels), expected)
    torch.testing.assert_close(loss(z[:, order], labels[order]), expected)
    torch.testing.assert_close(loss(z @ rotation, labels), expected)
    torch.testing.assert_close(loss(z, 1 - labels), expected)


def test_pnca_loss__bandwidth_is_a_scale_of_the_latent_space():
    z, labels = scenarios.cloud(3, 6, 2), scenarios.labels(6, 2)
    torch.testing.assert_close(loss(2 * z, labels, bandwidth=4.0), loss(z, labels, bandwidth=1.0))


@pytest.mark.parametrize("background", [0.0, 0.1])
def test_pnca_loss__gradcheck(background):
    z, labels = scenarios.cloud(2, 5, 2).requires_grad_(), torch.tensor([0, 1, 0, 1, 0])
    assert torch.autograd.gradcheck(lambda z: loss(z, labels, 1.2, background), z)


@pytest.mark.parametrize("seed", range(3))
def test_functional_gradient__is_the_derivative_along_every_shift(seed):
    # Proposition 1. A shift of the space of kappa is s(w) = sum_j kappa(w, w_j) a_j. By the reproducing
    # property its inner product with phi is sum_j a_j . phi(w_j), and that is the derivative of the loss
    # when every particle w moves along s(w).
    m, n_features, d = 3, 4, 2
    particles, directions = scenarios.particles_and_scores(m, n_features * d, seed)
    inputs, labels = scenarios.cloud(1, 6, n_features, seed)[0], scenarios.labels(6, 2, seed)

    def loss_of(w):
        return loss(torch.einsum("ni,mid->mnd", inputs, w.reshape(m, n_features, d)), labels)

    w = particles.clone().requires_grad_()
    phi = functional_gradient(particles, torch.autograd.grad(loss_of(w), w)[0])
    shift = parameter_kernel(particles)[0] @ directions
    step = 1e-5  # the error of a central difference is of order step^2
    numerical = (loss_of(particles + step * shift) - loss_of(particles - step * shift)) / (2 * step)
    torch.testing.assert_close(numerical, (directions * phi).sum(), rtol=1e-6, atol=1e-8)


def test_pnca_loss__sums_over_particles_that_learn_each_on_its_own():
    z, labels = scenarios.cloud(3, 6, 2), scenarios.labels(6, 2)
    log_kernels, weights = leave_one_out(log_latent_kernel(z, z, 1.2)), torch.rand(6, dtype=z.dtype)
    together = pnca_loss(log_correct_shares(log_kernels, labels), weights)
    alone = [pnca_loss(log_correct_shares(kernel, labels), weights) for kernel in log_kernels]
    torch.testing.assert_close(together, sum(alone))


@pytest.mark.parametrize("groups", [None, torch.tensor([0, 0, 1, 1, 2, 2, 3])])
def test_log_correct_shares__of_some_rows_are_those_of_all(groups):
    z, labels, log_prior = scenarios.cloud(2, 7, 2), scenarios.labels(7, 2), torch.tensor([0.3, 0.7]).log()
    log_K, rows = log_expected_kernel(z, z, 1.0), torch.tensor([2, 3, 6])
    whole = log_correct_shares(leave_one_out(log_K, groups), labels, 0.2, log_prior)
    some = leave_one_out(log_K[rows], groups, rows)
    torch.testing.assert_close(log_correct_shares(some, labels, 0.2, log_prior, labels[rows]), whole[rows])


# The loss of a batch


def target(labels, rows=slice(None), **changes):
    n = len(labels[rows])
    given = {
        "labels": labels,
        "of_rows": labels[rows],
        "weights": torch.linspace(0.5, 2, n).double(),
        "background": 0.2,
        "log_prior": torch.tensor([0.3, 0.7], dtype=torch.float64).log(),
        "full": slice(0, 1),
    }
    return Target(**{**given, **changes})


@pytest.mark.parametrize("background", [0.0, 0.2])
def test_leave_one_out_loss__equals_the_loop(background):
    z, labels = scenarios.cloud(2, 6, 2), scenarios.labels(6, 2)
    wanted = target(labels, background=background)
    found = leave_one_out_loss(leave_one_out(log_expected_kernel(z, z, 1.1))[None], wanted)
    without_self = reference.expected_kernel(z, z, 1.1) * (1 - torch.eye(6, dtype=z.dtype))
    ones = torch.ones(6, dtype=z.dtype)
    p = reference.class_probabilities(without_self, labels, 2, background, wanted.log_prior.exp(), ones)
    torch.testing.assert_close(found.total, -(wanted.weights * p[range(6), labels].log()).sum())
    assert found.n_correct == (p.argmax(dim=1) == labels).sum()


@pytest.mark.parametrize("rows", [slice(None), slice(1, 4)])
@pytest.mark.parametrize("background", [0.0, 0.2])
def test_loss_of_masses__is_that_of_the_kernel(rows, background):
    z, labels = scenarios.cloud(3, 6, 2).requires_grad_(), scenarios.labels(6, 2)
    weights = torch.rand(3, len(labels[rows]), dtype=z.dtype, generator=torch.Generator().manual_seed(0))
    wanted = target(labels, rows, background=background, weights=weights, full=slice(0, 2))
    log_K = leave_one_out(log_latent_kernel(z, z, 1.1))[:, rows]
    of_pairs = leave_one_out_loss(log_K, wanted)
    of_masses = loss_of_masses(class_log_masses(log_K, labels, 2), wanted)
    torch.testing.assert_close(of_masses.total, of_pairs.total)
    assert of_masses.n_correct == of_pairs.n_correct
    grads = [torch.autograd.grad(loss.total, z, retain_graph=True)[0] for loss in (of_pairs, of_masses)]
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("by_masses", [False, True])
def test_loss__accuracy_is_that_of_the_mean_of_the_full_members(by_masses):
    # Two members that disagree, of which the surer one decides; the third is not asked.
    labels = torch.tensor([0, 0, 1, 1])
    near, far = torch.zeros(()), torch.tensor(-9.0)
    same = labels[:, None] == labels
    members = [
        torch.where(same, near, far),
        torch.where(same, torch.tensor(-0.1), near),
        torch.where(same, far, near),
    ]
    log_K = leave_one_out(torch.stack(members).double())

    def n_correct(full):
        wanted = target(labels, weights=torch.ones(4).double(), full=full, background=0.0)
        if by_masses:
            return loss_of_masses(class_log_masses(log_K, labels, 2), wanted).n_correct
        return leave_one_out_loss(log_K, wanted).n_correct

    assert n_correct(slice(0, 1)) == 4
    assert n_correct(slice(0, 2)) == 4
    assert n_correct(slice(1, 2)) == n_correct(slice(2, 3)) == 0
