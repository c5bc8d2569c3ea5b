import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import scenarios
from pnca.models.selection import out_of_fold_losses, posterior_mean, shrinkage, typical_log_mass

PRIOR = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
BACKGROUNDS = torch.tensor([0.01, 0.1, 1.0, 10.0], dtype=torch.float64)


def slow_losses(log_masses, labels, weights, backgrounds, prior):
    losses = []
    for alpha in backgrounds.tolist():
        loss = 0.0
        for i, label in enumerate(labels.tolist()):
            answers = []
            for masses in log_masses[:, i].exp().tolist():
                answers.append((masses[label] + alpha * prior[label].item()) / (sum(masses) + alpha))
            loss -= weights[i].item() * math.log(sum(answers) / len(answers))
        losses.append(loss)
    return losses


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_out_of_fold_losses__equal_the_loop(m, seed):
    log_masses, labels = scenarios.cloud(m, 8, 3, seed, scale=3.0), scenarios.labels(8, 3, seed)
    weights = scenarios.cloud(1, 1, 8, seed + 1)[0, 0].exp()
    got = out_of_fold_losses(log_masses, labels, weights, BACKGROUNDS, PRIOR.log())
    assert got.tolist() == pytest.approx(slow_losses(log_masses, labels, weights, BACKGROUNDS, PRIOR))


def test_out_of_fold_losses__no_background_is_the_share_of_mass():
    log_masses = torch.tensor([[[3.0, 1.0, 1.0]]], dtype=torch.float64).log()
    loss = out_of_fold_losses(log_masses, torch.tensor([0]), torch.ones(1), torch.tensor([0.0]), PRIOR.log())
    assert loss.item() == pytest.approx(-math.log(3 / 5))


def test_out_of_fold_losses__endless_background_is_the_entropy_of_the_shares():
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    log_masses = scenarios.cloud(2, 10, 3)
    losses = out_of_fold_losses(log_masses, labels, torch.ones(10), torch.tensor([1e12]), PRIOR.log())
    assert losses.item() / 10 == pytest.approx(-(PRIOR * PRIOR.log()).sum().item())


def test_out_of_fold_losses__right_answers_want_little_background_and_wrong_ones_much():
    labels = torch.tensor([0, 1, 2])
    right = torch.full((1, 3, 3), -9.0, dtype=torch.float64)
    right[0, torch.arange(3), labels] = 0.0
    wrong = right[:, [1, 2, 0]]
    for log_masses, best in ((right, 0), (wrong, 3)):
        losses = out_of_fold_losses(log_masses, labels, torch.ones(3), BACKGROUNDS, PRIOR.log())
        assert losses.argmin() == best


def test_out_of_fold_losses__weight_zero_counts_for_nothing_even_where_it_is_impossible():
    log_masses = torch.tensor([[[0.0, -torch.inf], [0.0, -1.0]]], dtype=torch.float64)
    log_prior = torch.tensor([1.0, 0.0], dtype=torch.float64).log()  # class 1 has weight zero
    labels, weights = torch.tensor([1, 0]), torch.tensor([0.0, 1.0], dtype=torch.float64)
    losses = out_of_fold_losses(log_masses, labels, weights, BACKGROUNDS, log_prior)
    alone = out_of_fold_losses(log_masses[:, 1:], labels[1:], weights[1:], BACKGROUNDS, log_prior)
    torch.testing.assert_close(losses, alone)
    assert losses.isfinite().all()


def test_shrinkage__is_the_log_density_of_a_hyperbolic_prior():
    values = torch.tensor([0.1, 0.5, 2.0, 7.0], dtype=torch.float64)
    u = (values.log() - math.log(0.5)) / 0.7
    torch.testing.assert_close(shrinkage(values, 0.5, 0.7), torch.cosh(torch.asinh(u)) - 1)


def test_shrinkage__is_normal_nearby_and_in_proportion_far_away():
    near, far, farther = shrinkage(torch.tensor([0.01, 20.0, 21.0]).double().exp(), 1.0, 1.0).tolist()
    assert near == pytest.approx(0.01**2 / 2, rel=1e-3)
    assert farther - far == pytest.approx(1, abs=0.01)


@settings(max_examples=50, deadline=None)
@given(reference=st.floats(1e-3, 1e3), spread=st.floats(0.1, 10), factor=st.floats(1.01, 100))
def test_shrinkage__costs_as_much_down_as_up_and_nothing_to_stay(reference, spread, factor):
    values = reference * torch.tensor([1 / factor, 1.0, factor, math.exp(spread)], dtype=torch.float64)
    down, stay, up, one_spread = shrinkage(values, reference, spread).tolist()
    assert stay == pytest.approx(0, abs=1e-12)
    assert down == pytest.approx(up)
    assert down > 0
    assert one_spread == pytest.approx(math.sqrt(2) - 1)


def test_posterior_mean__is_the_mean_of_the_logarithms_by_likelihood():
    values, costs = torch.tensor([[1.0, 2.0], [4.0, 8.0]]), torch.tensor([[0.3, 1.0], [2.0, 0.1]])
    likelihoods = (-costs).exp()
    expected = ((likelihoods * values.log()).sum() / likelihoods.sum()).exp()
    assert posterior_mean(values, costs) == pytest.approx(expected.item(), rel=1e-6)


def test_posterior_mean__of_candidates_that_cost_much_is_the_cheapest():
    assert posterior_mean(torch.tensor([3.0, 9.0]), torch.tensor([1e5, 1e5 + 200])) == pytest.approx(3.0)


def test_typical_log_mass__is_the_median_of_the_mean_over_particles():
    for n in (1, 4, 5):
        masses = torch.rand(3, n, 2, generator=torch.Generator().manual_seed(n))
        expected = masses.sum(dim=2).mean(dim=0).log().quantile(0.5)
        torch.testing.assert_close(typical_log_mass(masses.log()), expected)
