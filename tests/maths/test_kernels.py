import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import scenarios
from pnca.maths.kernels import (
    FEW_COLUMNS,
    INPUT_DECAY,
    _blocks,
    _log_terms,
    input_factor_weight,
    log_expected_kernel,
    log_input_factor,
    log_latent_kernel,
    neighbour_scale,
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (3, 5, 2, 4, 2), (2, 4, 4, 3, 7)])
def test_log_expected_kernel__equals_the_four_loops(shape, seed):
    m_a, n_a, m_b, n_b, d = shape
    a, b = scenarios.cloud(m_a, n_a, d, seed), scenarios.cloud(m_b, n_b, d, seed + 10)
    torch.testing.assert_close(
        log_expected_kernel(a, b, 1.7).exp(), reference.expected_kernel(a, b, 1.7), rtol=1e-12, atol=0
    )


def test_log_expected_kernel__two_particles_solved_on_paper():
    # Clouds {0, 1} and {2}: K = (exp(-4) + exp(-1)) / 2 with bandwidth one.
    a, b = torch.tensor([[[0.0]], [[1.0]]]), torch.tensor([[[2.0]]])
    expected = math.log((math.exp(-4) + math.exp(-1)) / 2)
    assert log_expected_kernel(a, b, 1.0).item() == pytest.approx(expected)


def test_log_expected_kernel__one_particle_is_the_latent_kernel():
    a, b = scenarios.cloud(1, 6, 3), scenarios.cloud(1, 5, 3, 1)
    torch.testing.assert_close(log_expected_kernel(a, b, 2.0), log_latent_kernel(a[0], b[0], 2.0))


@settings(max_examples=40, deadline=None)
@given(max_pairs=st.integers(1, 400), n_a=st.integers(1, 9), n_b=st.integers(1, 9), m=st.integers(1, 4))
def test_log_expected_kernel__does_not_depend_on_the_block_size(max_pairs, n_a, n_b, m):
    a, b = scenarios.cloud(m, n_a, 2).requires_grad_(), scenarios.cloud(m, n_b, 2, 1).requires_grad_()
    seed = torch.randn(n_a, n_b, generator=torch.Generator().manual_seed(2), dtype=a.dtype)
    whole, parts = log_expected_kernel(a, b, 1.3), log_expected_kernel(a, b, 1.3, max_pairs)
    torch.testing.assert_close(parts, whole)
    for got, expected in zip(
        torch.autograd.grad(parts, (a, b), seed), torch.autograd.grad(whole, (a, b), seed), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_blocks__cover_every_pair_once_and_respect_the_limit():
    a, b = scenarios.cloud(3, 17, 2), scenarios.cloud(2, 23, 2)
    seen = torch.zeros(17, 23)
    for rows, columns in _blocks(a, b, max_pairs=100, is_symmetric=False):
        block = seen[rows, columns]
        assert block.numel() * 3 * 2 <= 100
        block += 1
    assert (seen == 1).all()


def test_log_expected_kernel__never_holds_more_pairs_than_a_block(monkeypatch):
    # 300 x 300 points x 8 x 8 particles are 5.8 million pairs: 46 MB if held at once in float64.
    a = scenarios.cloud(8, 300, 2).requires_grad_()
    sizes = []

    def watched(left, right):
        terms = _log_terms(left, right)
        sizes.append(terms.numel())
        return terms

    monkeypatch.setattr("pnca.maths.kernels._log_terms", watched)
    log_expected_kernel(a, a, 1.0, max_pairs=10_000).sum().backward()
    assert max(sizes) <= 10_000
    # Forward and again backward, but only the diagonal and what is above it.
    assert 300 * 300 * 8 * 8 < sum(sizes) < 1.1 * 300 * 300 * 8 * 8


def test_blocks__of_a_symmetric_matrix_cover_it_once_with_their_mirror_images():
    a = scenarios.cloud(3, 17, 2)
    seen = torch.zeros(17, 17)
    for rows, columns in _blocks(a, a, max_pairs=100, is_symmetric=True):
        seen[rows, columns] += 1
        if rows != columns:
            seen[columns, rows] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("max_pairs", [1, 30, 10**6])
def test_log_expected_kernel__of_a_set_with_itself_equals_two_copies(max_pairs):
    a, b = scenarios.cloud(3, 7, 2).requires_grad_(), scenarios.cloud(3, 7, 2).requires_grad_()
    seed = torch.randn(7, 7, generator=torch.Generator().manual_seed(2), dtype=a.dtype)  # not symmetric
    itself, copies = log_expected_kernel(a, a, 1.3, max_pairs), log_expected_kernel(a, b, 1.3, max_pairs)
    torch.testing.assert_close(itself, copies)
    (gradient,) = torch.autograd.grad(itself, a, seed)
    torch.testing.assert_close(gradient, sum(torch.autograd.grad(copies, (a, b), seed)))


@pytest.mark.parametrize("max_pairs", [10**6, 12])
def test_log_expected_kernel__gradcheck(max_pairs):
    a, b = scenarios.cloud(2, 4, 3).requires_grad_(), scenarios.cloud(3, 3, 3, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: log_expected_kernel(a, b, 1.4, max_pairs), (a, b))
    assert torch.autograd.gradcheck(lambda a: log_expected_kernel(a, a, 1.4, max_pairs), a)


def test_log_expected_kernel__unchanged_by_order_of_particles_and_rotation():
    a, b = scenarios.cloud(4, 5, 3), scenarios.cloud(3, 6, 3, 1)
    rotation, _ = torch.linalg.qr(scenarios.cloud(1, 3, 3, 2)[0])
    shift = torch.tensor([3.0, -1.0, 7.0], dtype=a.dtype)
    expected = log_expected_kernel(a, b, 0.9)
    torch.testing.assert_close(log_expected_kernel(a.flip(0), b[[2, 0, 1]], 0.9), expected)
    torch.testing.assert_close(log_expected_kernel(a @ rotation + shift, b @ rotation + shift, 0.9), expected)


def test_log_expected_kernel__is_symmetric_and_at_most_one():
    a = scenarios.cloud(3, 6, 2)
    log_K = log_expected_kernel(a, a, 1.0)
    torch.testing.assert_close(log_K, log_K.mT)
    assert (log_K <= 1e-12).all()


def test_log_expected_kernel__is_at_most_one_in_float32_too():
    a = scenarios.cloud(3, 6, 2, scale=1000).float()
    assert (log_expected_kernel(a, a, 1.0) <= 0).all()


def test_log_expected_kernel__gradient_is_accurate_far_from_the_origin():
    a = scenarios.cloud(3, 6, 2) + 2.0**13
    a = a.float().double()  # exactly representable in both precisions

    def gradient(z):
        z = z.clone().requires_grad_()
        weights = torch.linspace(0, 1, 36, dtype=z.dtype).view(6, 6)
        return torch.autograd.grad((log_expected_kernel(z, z, 1.0) * weights).sum(), z)[0].double()

    exact = gradient(a)
    assert (gradient(a.float()) - exact).norm() / exact.norm() < 1e-5


def test_log_expected_kernel__is_not_touched_by_autocast():
    a = scenarios.cloud(3, 6, 2).float()
    expected = log_expected_kernel(a, a, 1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(log_expected_kernel(a, a, 1.0), expected)


def test_log_expected_kernel__stays_finite_where_the_kernel_underflows():
    a = torch.tensor([[[0.0], [1e4]]], requires_grad=True)  # exp(-1e8) is zero in any float
    log_K = log_expected_kernel(a, a, 1.0)
    assert log_K[0, 1].item() == pytest.approx(-1e8)
    log_K.sum().backward()
    assert a.grad.isfinite().all()


def test_neighbour_scale__equals_the_loop():
    x = scenarios.cloud(1, 7, 3)[0]
    nearest = [min((x[i] - x[j]).square().sum().item() for j in range(7) if j != i) for i in range(7)]
    assert neighbour_scale(x).item() == pytest.approx(sorted(nearest)[3])


def test_neighbour_scale__copies_are_no_neighbours():
    x = scenarios.cloud(1, 7, 3)[0]
    scale = neighbour_scale(x)
    torch.testing.assert_close(neighbour_scale(torch.cat([x, x])), scale)
    far_from_zero = x + 1000  # where rounding leaves a copy a little apart
    torch.testing.assert_close(neighbour_scale(torch.cat([far_from_zero, far_from_zero])), scale)
    assert neighbour_scale(torch.ones(4, 2)) == 1


def test_neighbour_scale__of_some_points_is_the_median_over_those():
    x = torch.tensor([[0.0], [1.0], [10.0], [12.0], [30.0]])
    # Nearest squared distances: 1, 1, 4, 4, 324.
    assert neighbour_scale(x).item() == 4
    assert neighbour_scale(x, every=4).item() == pytest.approx((1 + 324) / 2)


def slow_neighbour_scale(x, groups):
    """The median of the distances to the nearest point of another group, where there is one."""
    nearest = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i and groups[j] != groups[i]]
        if others:
            nearest.append(min((x[i] - x[j]).square().sum().item() for j in others))
    nearest, middle = sorted(nearest), len(nearest) // 2
    return nearest[middle] if len(nearest) % 2 else (nearest[middle - 1] + nearest[middle]) / 2


@pytest.mark.parametrize("n", [11, 12])
@pytest.mark.parametrize("n_groups", [3, 5, 20])
@pytest.mark.parametrize("max_pairs", [1, 30, 10**6])
def test_neighbour_scale__with_groups_equals_the_loop_in_blocks_of_any_size(
    n, n_groups, max_pairs, monkeypatch
):
    monkeypatch.setattr("pnca.maths.kernels.MAX_PAIRS", max_pairs)
    x = scenarios.cloud(1, n, 3, seed=n)[0]
    groups = torch.randint(n_groups, (n,), generator=torch.Generator().manual_seed(n_groups))
    assert neighbour_scale(x, groups).item() == pytest.approx(slow_neighbour_scale(x, groups.tolist()))
    assert neighbour_scale(x).item() == pytest.approx(slow_neighbour_scale(x, range(n)))


def test_neighbour_scale__of_one_group_is_one():
    assert neighbour_scale(scenarios.cloud(1, 5, 2)[0], torch.zeros(5)) == 1


def test_neighbour_scale__members_of_a_group_are_no_neighbours():
    # Pairs one apart, ten from pair to pair: 1, or 9 from the nearest end of the next pair.
    x = torch.tensor([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    assert neighbour_scale(x).item() == pytest.approx(1)
    # The ends at 0 and 21 are ten from the next pair, the other four nine.
    assert neighbour_scale(x, torch.tensor([0, 0, 1, 1, 2, 2])).item() == pytest.approx(81)


@pytest.mark.parametrize("n", [3, 6, 7])  # 3, 15 and 21 pairs: an odd number has one in the middle
@pytest.mark.parametrize("p", [1, 4, 200])
def test_input_factor_weight__equals_the_loop(n, p):
    x = scenarios.cloud(1, n, p, seed=n)[0]
    pairs = sorted((x[i] - x[j]).square().sum().item() for i in range(n) for j in range(i))
    decay = INPUT_DECAY * p / (p + FEW_COLUMNS)
    expected = decay * slow_neighbour_scale(x, range(n)) / pairs[len(pairs) // 2]
    assert input_factor_weight(x, neighbour_scale(x)).item() == pytest.approx(expected)


def test_input_factor_weight__lets_the_factor_fall_by_the_width_of_the_data():
    x = scenarios.cloud(1, 7, FEW_COLUMNS)[0]
    scale = neighbour_scale(x)
    weight = input_factor_weight(x, scale).item()
    row, column = torch.triu_indices(7, 7, offset=1)
    between_two = log_input_factor(x, x, scale, weight)[row, column].median()
    assert between_two.item() == pytest.approx(weight - INPUT_DECAY / 2)  # half, with that number of columns


@settings(max_examples=30, deadline=None)
@given(
    factor=st.floats(1e-6, 1e6),
    offset=st.floats(-3, 3),
    n=st.integers(3, 9),
    p=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_input_factor__depends_on_neither_the_unit_nor_the_origin(factor, offset, n, p, seed):
    x = scenarios.cloud(1, n, p, seed=seed)[0]

    def log_factor(points):
        scale = neighbour_scale(points)
        return log_input_factor(points, points, scale, input_factor_weight(points, scale).item())

    torch.testing.assert_close(log_factor(factor * (x + offset)), log_factor(x), rtol=1e-6, atol=1e-6)


def test_input_factor_weight__of_points_that_coincide_is_one():
    points = torch.ones(4, 2)
    assert input_factor_weight(points, neighbour_scale(points)) == 1


def test_log_input_factor__equals_the_loop():
    a, b = scenarios.cloud(1, 3, 4, seed=1)[0], scenarios.cloud(1, 5, 4, seed=2)[0]
    expected = [[-0.7 * ((x - y).square().sum().item() / 2.5 - 1) for y in b] for x in a]
    torch.testing.assert_close(log_input_factor(a, b, 2.5, 0.7), torch.tensor(expected, dtype=a.dtype))


def test_log_input_factor__is_an_embedding_with_the_input_beside_it():
    # A product of Gaussian kernels is one Gaussian kernel on the concatenation.
    z, x = scenarios.cloud(1, 4, 2, seed=3)[0], scenarios.cloud(1, 4, 3, seed=4)[0]
    product = log_latent_kernel(z, z, 1.5) + log_input_factor(x, x, 2.0, 0.8) - 0.8
    both = torch.cat([z / math.sqrt(1.5), math.sqrt(0.8 / 2.0) * x], dim=1)
    torch.testing.assert_close(product, log_latent_kernel(both, both, 1.0))
