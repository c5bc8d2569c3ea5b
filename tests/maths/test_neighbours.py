import math

import pytest
import torch

import reference
import scenarios
from pnca.maths.kernels import log_expected_kernel
from pnca.maths.neighbours import (
    class_log_masses,
    class_probabilities,
    has_partner,
    is_isolated,
    leave_one_out,
    log_class_probabilities,
    log_neighbour_shares,
)


def problem(n_queries=4, n=9, n_classes=3, seed=0):
    queries, support = scenarios.cloud(2, n_queries, 2, seed), scenarios.cloud(2, n, 2, seed + 1)
    return log_expected_kernel(queries, support, 1.5), scenarios.labels(n, n_classes, seed)


@pytest.mark.parametrize("background", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_log_class_probabilities__equal_the_loop(background, seed):
    log_K, labels = problem(seed=seed)
    prior = torch.tensor([0.2, 0.5, 0.3], dtype=log_K.dtype)
    weights = torch.rand(9, generator=torch.Generator().manual_seed(seed), dtype=log_K.dtype)
    masses = class_log_masses(log_K, labels, 3, weights.log())
    expected = reference.class_probabilities(log_K.exp(), labels, 3, background, prior, weights)
    got = log_class_probabilities(masses, background, prior.log()).exp()
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(got.sum(1), torch.ones_like(got.sum(1)))


def test_log_class_probabilities__tend_to_the_prior_far_from_all_data():
    prior = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    far = torch.tensor([[-700.0, -710.0, -1e6]], dtype=torch.float64)
    torch.testing.assert_close(log_class_probabilities(far, 1e-3, prior.log()).exp(), prior[None])


def test_log_class_probabilities__background_to_zero_is_the_paper():
    log_K, labels = problem()
    masses, log_prior = class_log_masses(log_K, labels, 3), torch.zeros(3, dtype=log_K.dtype)
    torch.testing.assert_close(
        log_class_probabilities(masses, 1e-14, log_prior), log_class_probabilities(masses, 0.0, log_prior)
    )


def test_class_log_masses__follow_a_renaming_of_the_classes():
    log_K, labels = problem()
    renamed = torch.tensor([2, 0, 1])[labels]
    torch.testing.assert_close(
        class_log_masses(log_K, renamed, 3)[:, [2, 0, 1]], class_log_masses(log_K, labels, 3)
    )


def test_class_log_masses__do_not_depend_on_the_order_of_the_support():
    log_K, labels = problem()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        class_log_masses(log_K[:, order], labels[order], 3), class_log_masses(log_K, labels, 3)
    )


def test_class_log_masses__absent_class_has_no_mass():
    masses = class_log_masses(torch.zeros(2, 3), torch.tensor([0, 0, 2]), 3)
    assert (masses[:, 1].exp() == 0).all()
    assert masses.isfinite().all()


def test_class_log_masses__weight_two_is_a_repeated_example():
    log_K, labels = problem()
    twice = torch.ones(9, dtype=log_K.dtype).index_fill(0, torch.tensor([4]), 2)
    repeated = class_log_masses(torch.cat([log_K, log_K[:, 4:5]], 1), torch.cat([labels, labels[4:5]]), 3)
    torch.testing.assert_close(class_log_masses(log_K, labels, 3, twice.log()), repeated)


def test_leave_one_out__a_point_is_not_its_own_neighbour():
    log_K, _ = problem(n_queries=9)
    shares = log_neighbour_shares(leave_one_out(log_K)).exp()
    assert (shares.diagonal() == 0).all()
    torch.testing.assert_close(shares.sum(1), torch.ones(9, dtype=shares.dtype))


def test_leave_one_out__does_not_change_its_input():
    log_K = torch.zeros(3, 3)
    leave_one_out(log_K)
    leave_one_out(log_K, torch.tensor([0, 0, 1]))
    assert (log_K == 0).all()


@pytest.mark.parametrize("shape", [(6, 6), (2, 6, 6)])
def test_leave_one_out__takes_the_whole_group_off_the_list(shape):
    log_K, groups = -torch.rand(shape), torch.tensor([4, 1, 4, 0, 1, 4])
    K = leave_one_out(log_K, groups).exp()
    for i in range(6):
        for j in range(6):
            expected = 0.0 if groups[i] == groups[j] else log_K[..., i, j].exp()
            assert (K[..., i, j] == expected).all()


def test_leave_one_out__groups_of_one_are_no_groups():
    log_K, _ = problem(n_queries=9)
    torch.testing.assert_close(leave_one_out(log_K, torch.arange(9)), leave_one_out(log_K))


@pytest.mark.parametrize("background", [0.0, 0.2])
def test_log_neighbour_shares__sum_to_the_class_probabilities(background):
    log_K, labels = problem()
    prior = torch.full((3,), 1 / 3, dtype=log_K.dtype)
    shares = log_neighbour_shares(log_K, background).exp()
    by_class = torch.stack([shares[:, labels == c].sum(1) for c in range(3)], dim=1)
    probabilities = log_class_probabilities(class_log_masses(log_K, labels, 3), background, prior.log()).exp()
    missing = 1 - shares.sum(1, keepdim=True)
    torch.testing.assert_close(by_class + missing * prior, probabilities)


def test_log_neighbour_shares__three_points_solved_on_paper():
    # Kernel values 1, e^-1, e^-4 to points at distance 0, 1, 2.
    shares = log_neighbour_shares(torch.tensor([[0.0, -1.0, -4.0]])).exp()
    total = 1 + math.exp(-1) + math.exp(-4)
    torch.testing.assert_close(shares, torch.tensor([[1.0, math.exp(-1), math.exp(-4)]]) / total)


def test_is_isolated__compares_the_mass_of_the_others_with_the_background():
    log_K, _ = problem(n_queries=9)
    K = log_K.exp()
    mass = torch.stack([sum(K[i, j] for j in range(9) if j != i) for i in range(9)])
    for background in (mass.min() * 0.9, mass.median() * 1.01, mass.max() * 1.1):
        assert torch.equal(is_isolated(log_K, background.item()), mass < background)


@pytest.mark.parametrize("background", [0.0, 0.2])
def test_neighbours__leading_dimensions_are_so_many_kernels(background):
    kernels = torch.stack([-scenarios.cloud(1, 5, 5, seed)[0].square() for seed in range(3)])  # (3, 5, 5)
    labels, prior = torch.tensor([0, 1, 0, 2, 1]), torch.tensor([0.5, 0.3, 0.2], dtype=kernels.dtype).log()

    def answers(log_kernel):
        left_out = leave_one_out(log_kernel)
        masses = class_log_masses(left_out, labels, 3)
        return (
            log_neighbour_shares(left_out, background),
            masses,
            log_class_probabilities(masses, background, prior),
            is_isolated(log_kernel, 0.1),
        )

    for together, alone in zip(answers(kernels), zip(*map(answers, kernels), strict=True), strict=True):
        torch.testing.assert_close(together, torch.stack(alone))


def test_has_partner__needs_another_of_its_class_and_not_of_its_group():
    labels, groups = torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([0, 0, 1, 1, 2, 0])
    assert has_partner(labels, 3, groups, 3).tolist() == [False, False, True, True, True, False]
    assert has_partner(labels, 3).tolist() == [True, True, True, True, True, False]


def test_has_partner__needs_one_that_the_team_sees():
    labels, groups = torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([0, 1, 2, 2, 3, 4])
    sees = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 1, 1], [1, 1, 1, 1, 0, 1]]).bool()
    learns = (has_partner(labels, 3, shown=sees) & sees).int().tolist()
    assert learns == [[1, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 0], [1, 1, 1, 1, 0, 0]]
    learns = (has_partner(labels, 3, groups, 5, sees) & sees).int().tolist()
    assert learns == [[1, 1, 1, 1, 1, 0], [0, 0, 1, 0, 1, 0], [1, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize("seed", range(5))
def test_has_partner__equals_the_loop(seed):
    rng = torch.Generator().manual_seed(seed)
    labels, groups = (torch.randint(k, (15,), generator=rng) for k in (4, 6))
    sees = torch.rand(3, 15, generator=rng) < 0.6
    expected = [
        [
            any(seen[j] and labels[j] == labels[i] and groups[j] != groups[i] for j in range(15))
            for i in range(15)
        ]
        for seen in sees
    ]
    assert has_partner(labels, 4, groups, 6, sees).tolist() == expected


@pytest.mark.parametrize("background", [0.0, 0.2])
def test_class_probabilities__equal_those_in_log_space(background):
    log_K, labels = -scenarios.cloud(3, 5, 7).square(), torch.tensor([0, 1, 0, 2, 1, 0, 2])
    log_prior = torch.tensor([0.5, 0.2, 0.3], dtype=log_K.dtype).log()
    got = class_probabilities(log_neighbour_shares(log_K, background).exp(), labels, log_prior)
    expected = log_class_probabilities(class_log_masses(log_K, labels, 3), background, log_prior)
    torch.testing.assert_close(got, expected.exp())
