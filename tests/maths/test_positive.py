import math

import pytest
import torch

import reference
import scenarios
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.kernels import log_expected_kernel, log_latent_kernel
from pnca.maths.neighbours import LOG_ZERO, class_log_masses, leave_one_out
from pnca.maths.positive import (
    Places,
    best_variance,
    class_centres,
    class_log_features,
    leave_one_out_log_features,
    log_inner_products,
    log_leave_one_out_masses,
    log_mean_features,
    log_positive_features,
    place,
)

BANDWIDTH = 3.0


def directions(d=3, n_blocks=6, seed=0):
    return orthogonal_frequencies(d, n_blocks, 2.0, torch.Generator().manual_seed(seed))


def one_hot(labels, n_classes):
    return torch.nn.functional.one_hot(labels, n_classes).to(scenarios.DTYPE)


def some_places(d=3, n_blocks=6, n_centres=2, seed=0, spread=1.0, bandwidth=BANDWIDTH):
    centres = scenarios.cloud(1, n_centres, d, seed=seed + 50)[0]
    return place(directions(d, n_blocks, seed), centres, torch.tensor(spread).double(), bandwidth)


def two_blocks(n=7, n_classes=3, seed=0):
    """Log features that no place would give, of which some are far larger than the others of their class."""
    features = scenarios.cloud(2, n, 5, seed=seed, scale=40.0)
    return features, scenarios.labels(n, n_classes, seed)


# Where the places are


def second_moment(v, s, d):
    """Of phi_k(x) phi_k(x') with |x + x'|^2 = s, by Gaussian integrals; v is the variance of the places.

    E = int q(u)^-1 exp(-2|x-u|^2 - 2|x'-u|^2) du, up to factors without v. With t = (x + x') / 2 and
    b = 1 / (2v) the exponent is -4|u-t|^2 + b|u|^2 + ..., so E ~ v^(d/2) (4-b)^(-d/2) exp(4|t|^2 b / (4-b)).
    """
    b = 1 / (2 * v)
    return d / 2 * math.log(v) - d / 2 * math.log(4 - b) + s * b / (4 - b)


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("sq_spread", [0.01, 1.0, 20.0])
def test_best_variance__makes_the_second_moment_least(d, sq_spread):
    found = best_variance(torch.tensor(sq_spread).double(), d).item()
    s = 2 * sq_spread
    least = second_moment(found, s, d)
    for factor in (0.8, 0.97, 0.999, 1.001, 1.03, 1.2):
        if found * factor > 1 / 8:  # below there is no second moment
            assert second_moment(found * factor, s, d) > least


def test_best_variance__without_spread_is_that_of_choromanski_et_al():
    assert best_variance(torch.tensor(0.0), 5).item() == 0.25


def test_place__around_one_centre_without_spread_gives_the_features_of_choromanski_et_al():
    # phi_k(x) = exp(omega_k . x - |x|^2) / sqrt(f) with x = sqrt(2 / h) z, for centred z.
    z, omega = scenarios.cloud(1, 5, 3)[0], directions()
    places = place(omega, torch.zeros(1, 3).double(), torch.zeros(()).double(), BANDWIDTH)
    x = math.sqrt(2 / BANDWIDTH) * z
    expected = x @ omega - x.square().sum(dim=1, keepdim=True) - math.log(omega.shape[1]) / 2
    torch.testing.assert_close(log_positive_features(z, places), expected)


def test_place__around_one_centre_gives_the_features_of_likhosherstov_et_al():
    # phi_k(x) = D exp(A |omega|^2 + B omega . x + C |x|^2) / sqrt(f): their Theorem 3.1, real and positive.
    z, omega, spread = scenarios.cloud(1, 5, 3)[0], directions(), 2.0
    places = place(omega, torch.zeros(1, 3).double(), torch.tensor(spread).double(), BANDWIDTH)
    x, phi, d = math.sqrt(2 / BANDWIDTH) * z, 2 * spread * 2 / BANDWIDTH, 3
    rho = (math.sqrt((2 * phi + d) ** 2 + 8 * d * phi) - 2 * phi - d) / (4 * phi)
    A = (1 - 1 / rho) / 8
    B, C, log_D = math.sqrt(1 - 4 * A), -1.0, d / 4 * math.log(1 - 4 * A)
    expected = log_D + A * omega.square().sum(0) + B * x @ omega + C * x.square().sum(1, keepdim=True)
    torch.testing.assert_close(
        log_positive_features(z, places), expected - math.log(omega.shape[1]) / 2, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(("n_blocks", "n_centres"), [(1, 1), (5, 2), (1, 5)])
@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_place__features_are_unbiased_whatever_the_places(n_blocks, n_centres, spread):
    # The mean over many draws of few places, within five standard errors of the kernel.
    z = scenarios.cloud(1, 4, 2, scale=0.3)[0]
    draws = []
    for seed in range(700):
        omega = directions(2, n_blocks, seed)
        centres = torch.tensor([[0.0, 0.0], [1.0, 0.5], [-1.0, 1.0], [0.5, -1.0], [1.5, 1.5]]).double()
        places = place(omega, centres[:n_centres], torch.tensor(spread).double(), BANDWIDTH)
        phi = log_positive_features(z, places).exp()
        draws.append(phi @ phi.mT)
    draws = torch.stack(draws)
    error = draws.mean(0) - log_latent_kernel(z, z, BANDWIDTH).exp()
    assert (error.abs() < 5 * draws.std(0) / math.sqrt(len(draws))).all()
    assert draws.std(0).max() / math.sqrt(len(draws)) < 0.1  # so that the line above says something


@pytest.mark.parametrize("bandwidth", [0.5, 3.0, 20.0])
def test_place__many_features_converge_to_the_kernel_at_any_bandwidth(bandwidth):
    labels, z = scenarios.labels(12, 3), scenarios.cloud(1, 12, 3, scale=0.5)
    places = place(
        directions(3, 20_000),
        *class_centres(z, one_hot(labels, 3), torch.ones(12).double()),
        bandwidth,
    )
    log_features = log_mean_features(z, places)
    exact = log_latent_kernel(z[0], z[0], bandwidth).exp()
    # 60,000 places, of which only those near a pair tell: about one in a hundred at the smallest bandwidth.
    error = 0.08 if bandwidth < 1 else 0.02
    torch.testing.assert_close(
        log_inner_products(log_features, log_features).exp(), exact, atol=error, rtol=0
    )


def test_place__around_the_classes_is_far_better_than_around_all():
    # Four classes, twelve bandwidths apart: the mass of the own class from 120 places.
    labels = torch.arange(80) % 4
    z = scenarios.cloud(1, 80, 4) * 0.5 + 6 * torch.eye(4).double()[labels]
    ones = torch.ones(80).double()
    exact = class_log_masses(log_latent_kernel(z[0], z[0], BANDWIDTH), labels, 4).amax(dim=1)
    errors = []
    for hot in (one_hot(labels, 4), torch.ones(80, 1).double()):
        log_errors = []
        for seed in range(5):
            places = place(directions(4, 30, seed), *class_centres(z, hot, ones), BANDWIDTH)
            features = log_mean_features(z, places)
            masses = log_inner_products(features, class_log_features(features, labels, 4))
            log_errors.append((masses.gather(1, labels[:, None])[:, 0] - exact).abs().mean())
        errors.append(torch.stack(log_errors).mean().item())
    assert errors[0] < 0.2
    assert errors[1] > 5 * errors[0]


def test_class_centres__equal_the_loops_and_leave_out_points_without_weight():
    z, labels = scenarios.cloud(2, 9, 3), torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 3])
    weights = torch.tensor([1.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]).double()
    centres, sq_spread = class_centres(z, one_hot(labels, 4), weights)
    total = 0.0
    for c in range(3):
        members = [j for j in range(9) if labels[j] == c]
        mean = sum(weights[j] * z[:, j].mean(0) for j in members) / sum(weights[j] for j in members)
        torch.testing.assert_close(centres[c], mean)
        total += sum(weights[j] * (z[:, j] - mean).square().sum(1).mean() for j in members)
    torch.testing.assert_close(sq_spread, total / weights.sum())
    torch.testing.assert_close(centres[3], (weights[:, None] * z.mean(0)).sum(0) / weights.sum())
    moved = z.clone()
    moved[:, [2, 7, 8]] += 100
    for before, after in zip(
        (centres, sq_spread), class_centres(moved, one_hot(labels, 4), weights), strict=True
    ):
        torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)


def test_class_centres__are_finite_where_nothing_counts():
    found = class_centres(
        scenarios.cloud(1, 4, 2), one_hot(torch.tensor([0, 0, 1, 1]), 2), torch.zeros(4).double()
    )
    assert all(part.isfinite().all() for part in found)


# Features and their sums


@pytest.mark.parametrize("seed", range(3))
def test_log_positive_features__equal_the_equation(seed):
    z, places = scenarios.cloud(1, 4, 3, seed)[0], some_places(seed=seed)
    for i in range(4):
        for k in range(places.points.shape[0]):
            sq_dist = reference.sq_distance(z[i], places.points[k])
            expected = places.log_scales[k] - 2 / BANDWIDTH * sq_dist
            torch.testing.assert_close(log_positive_features(z, places)[i, k], expected)


def test_log_positive_features__survive_an_offset_in_float32():
    z, places = scenarios.cloud(1, 6, 3)[0], some_places()
    shifted = Places((places.points + 1000).float(), places.log_scales.float(), BANDWIDTH)
    torch.testing.assert_close(
        log_positive_features((z + 1000).float(), shifted),
        log_positive_features(z, places).float(),
        atol=3e-3,  # rounding of 1000 in float32, times slopes of up to 10
        rtol=0,
    )


def test_log_mean_features__converge_to_the_expected_kernel():
    a = scenarios.cloud(3, 5, 2, scale=0.6)
    features = log_mean_features(a, some_places(2, 30_000))
    exact = log_expected_kernel(a, a, BANDWIDTH).exp()
    torch.testing.assert_close(log_inner_products(features, features).exp(), exact, atol=0.01, rtol=0)


def test_log_mean_features__far_from_everything_there_is_no_mass_left():
    places = some_places()
    far = torch.tensor([10.0, 100.0, 1e4]).double()[:, None] * torch.ones(3).double()
    features = log_positive_features(far, places)
    masses = log_inner_products(features, log_positive_features(torch.zeros(1, 3).double(), places))
    assert masses.isfinite().all()
    assert (masses.diff(dim=0) < -50).all()


@pytest.mark.parametrize("seed", range(3))
def test_class_log_features__equal_the_sums(seed):
    features, labels = two_blocks(seed=seed)
    expected = torch.stack([features[:, labels == c].logsumexp(dim=1) for c in range(3)], dim=1)
    torch.testing.assert_close(class_log_features(features, labels, 3), expected)


def test_class_log_features__of_a_class_without_points_or_weight_are_nothing():
    features, labels = two_blocks()
    assert (class_log_features(features, labels, 5)[:, 3:] <= LOG_ZERO / 2).all()
    hidden = class_log_features(features + torch.where(labels == 1, LOG_ZERO, 0.0)[:, None], labels, 3)
    assert (hidden[:, 1] <= LOG_ZERO / 2).all()
    torch.testing.assert_close(hidden[:, 0], class_log_features(features, labels, 3)[:, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_leave_one_out_log_features__are_exact_where_one_point_outweighs_all_others(dtype):
    # Features e^40 times as large as others, sums of which do not show the others at all.
    for seed in range(20):
        features, labels = two_blocks(seed=seed)
        _, others = leave_one_out_log_features(features.to(dtype), labels, 3)
        for i in range(len(labels)):
            rest = [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]
            expected = features[:, rest].logsumexp(dim=1).to(dtype)
            torch.testing.assert_close(others[:, i], expected, rtol=1e-6, atol=1e-6)


def test_leave_one_out_log_features__of_copies_and_of_a_single_point():
    features = torch.tensor([[2.0], [2.0], [-60.0], [7.0]])
    _, others = leave_one_out_log_features(features, torch.tensor([0, 0, 0, 1]), 2)
    expected = torch.tensor([2.0, 2.0, 2.0 + math.log(2)])
    torch.testing.assert_close(others[:3, 0], expected)
    assert others[3].item() <= LOG_ZERO / 2


def test_leave_one_out_log_features__naive_subtraction_would_fail():
    # The test above can fail: taken off the sum, the largest leaves nothing in float32.
    features = torch.tensor([[0.0], [-20.0]])
    assert features.logsumexp(0) + torch.log1p(-(features[0] - features.logsumexp(0)).exp()) != -20
    assert leave_one_out_log_features(features, torch.tensor([0, 0]), 1)[1][0].item() == -20


# Masses


@pytest.mark.parametrize("scale", [1.0, 30.0, 2000.0])
def test_log_inner_products__equal_the_sums_in_log_space(scale):
    a, b = scenarios.cloud(2, 6, 5, scale=scale), scenarios.cloud(2, 4, 5, seed=1, scale=scale)
    expected = (a[:, :, None] + b[:, None]).logsumexp(dim=-1)
    torch.testing.assert_close(log_inner_products(a, b), expected)
    torch.testing.assert_close(
        log_inner_products(a.float(), b.float()), expected.float(), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("scale", [1.0, 15.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_log_leave_one_out_masses__equal_those_of_the_kernel(n_classes, scale):
    queries, support = scenarios.cloud(2, 9, 5, scale=scale), scenarios.cloud(2, 9, 5, seed=1, scale=scale)
    labels = scenarios.labels(9, n_classes)
    log_kernel = (queries[:, :, None] + support[:, None]).logsumexp(dim=-1)
    expected = class_log_masses(leave_one_out(log_kernel), labels, n_classes)
    torch.testing.assert_close(log_leave_one_out_masses(queries, support, labels, n_classes), expected)


def test_log_leave_one_out_masses__of_a_point_far_from_its_class_are_right_in_float32():
    # e^-200 of the mass of the others, and of that of the point itself: nothing is rounded to zero.
    features = torch.tensor([[0.0, -300.0], [-1.0, -200.0], [-200.0, 0.0], [-200.0, -1.0]])
    labels = torch.tensor([0, 1, 1, 0])
    log_kernel = (features[:, None] + features).logsumexp(dim=-1)
    expected = class_log_masses(leave_one_out(log_kernel), labels, 2)
    torch.testing.assert_close(log_leave_one_out_masses(features, features, labels, 2), expected)
    assert expected[0, 0] < -190


def test_log_leave_one_out_masses__a_point_has_no_influence_on_its_own_mass():
    support, queries = scenarios.cloud(1, 6, 4, scale=20.0)[0], scenarios.cloud(1, 6, 4, seed=1)[0]
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    moved = support.clone()
    moved[0] = 100.0
    before, after = (log_leave_one_out_masses(queries, s, labels, 2) for s in (support, moved))
    torch.testing.assert_close(after[0], before[0])
    assert (after[1:, 0] > before[1:, 0] + 1).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_leave_one_out_masses__gradcheck_of_the_log_probability(n_classes):
    queries = scenarios.cloud(1, 6, 3, scale=2.0)[0].requires_grad_()
    support = scenarios.cloud(1, 6, 3, seed=1, scale=2.0)[0].requires_grad_()
    labels = scenarios.labels(6, n_classes)

    def log_correct(queries, support):
        masses = log_leave_one_out_masses(queries, support, labels, n_classes)
        return masses.log_softmax(dim=1).gather(1, labels[:, None])

    assert torch.autograd.gradcheck(log_correct, (queries, support))


def test_place__gradcheck_through_centres_and_spread():
    labels, omega = torch.tensor([0, 1, 0, 1, 0]), directions(2, 3)

    def masses(z):
        places = place(omega, *class_centres(z, one_hot(labels, 2), torch.ones(5).double()), BANDWIDTH)
        features = log_mean_features(z, places)
        return log_leave_one_out_masses(features, features, labels, 2).gather(1, labels[:, None])

    assert torch.autograd.gradcheck(masses, scenarios.cloud(2, 5, 2).requires_grad_())


def test_log_leave_one_out_masses__gradients_are_finite_where_a_class_is_not_shown():
    features = scenarios.cloud(1, 6, 3).float().requires_grad_()
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    weights = torch.where(labels == 1, LOG_ZERO, 0.0)[:, None]
    masses = log_leave_one_out_masses(features, features + weights, labels, 3)
    masses.log_softmax(dim=-1)[:, :3, 0].sum().backward()
    assert features.grad.isfinite().all()
    assert masses.detach().softmax(dim=-1)[..., 1].max() < 1e-30


def test_masses__are_not_touched_by_autocast():
    z, places, labels = scenarios.cloud(1, 6, 3).float(), some_places(), torch.arange(6) % 2
    places = Places(places.points.float(), places.log_scales.float(), BANDWIDTH)

    def masses():
        features = log_mean_features(z, places)
        return log_leave_one_out_masses(features, features, labels, 2), log_inner_products(features, features)

    expected = masses()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for found, right in zip(masses(), expected, strict=True):
            assert torch.equal(found, right)
