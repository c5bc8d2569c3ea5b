import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import scenarios
from pnca.maths.inputs import column_scale, common_scale, neighbour_loss


def scaled(inputs, scale):
    centre, spread = scale
    return (inputs - centre) / spread


def table(n=60, n_informative=1, n_noise=1, informative=1.0, noise=1.0, seed=0):
    """Two classes that the first columns tell apart; the others say nothing."""
    labels = scenarios.labels(n, 2, seed)
    told = scenarios.cloud(1, n, n_informative, seed)[0] + 4 * labels[:, None]
    untold = scenarios.cloud(1, n, n_noise, seed + 1)[0]
    return torch.cat([informative * told, noise * untold], dim=1), labels


# One spread for each column


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), unit=st.floats(1e-6, 1e6), offset=st.floats(-100, 100))
def test_column_scale__gives_each_column_mean_zero_and_a_third_of_one_as_deviation(seed, unit, offset):
    inputs = scenarios.cloud(1, 9, 3, seed)[0] * torch.tensor([unit, 1.0, 1 / unit]) + offset * unit
    z = scaled(inputs, column_scale(inputs))
    # The offset and the small column differ by up to 1e14, of the 1e16 that float64 tells apart.
    torch.testing.assert_close(z.mean(dim=0)[:2], torch.zeros(2, dtype=z.dtype), atol=1e-6, rtol=0)
    torch.testing.assert_close(z.std(dim=0, correction=0)[0].item(), 1 / 3, rtol=1e-6, atol=0)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 5.3, -1e9, 1234.567, 1e-30])
@pytest.mark.parametrize("n", [7, 101, 1001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_column_scale__constant_column_becomes_zero_and_not_noise(value, n, dtype):
    inputs = torch.full((n, 1), value, dtype=dtype)  # the mean of so many equal numbers is rounded
    centre, spread = column_scale(inputs)
    assert spread.item() == 1
    assert scaled(inputs, (centre, spread)).abs().max() <= 1e-6 * abs(value)


def test_column_scale__constant_column_leaves_the_others_alone():
    inputs = torch.stack([torch.full((101,), 5.3), torch.arange(101.0)], dim=1)
    _, spread = column_scale(inputs)
    assert spread.tolist() == pytest.approx([1, 3 * math.sqrt((101**2 - 1) / 12)])  # of 0, 1, ..., 100


# One spread for all


def test_common_scale__has_one_spread_and_keeps_the_proportions_of_columns():
    inputs = scenarios.cloud(1, 30, 2)[0] * torch.tensor([1.0, 100.0]) + 7
    centre, spread = common_scale(inputs)
    torch.testing.assert_close(centre, inputs.mean(dim=0))
    assert spread.unique().numel() == 1
    z = scaled(inputs, (centre, spread))
    assert z.square().mean().sqrt().item() == pytest.approx(1 / 3)
    ratio = inputs.std(dim=0)[1] / inputs.std(dim=0)[0]
    torch.testing.assert_close(z.std(dim=0)[1] / z.std(dim=0)[0], ratio)


def test_common_scale__where_most_numbers_are_zero_zero_stays():
    inputs = torch.zeros(10, 4)
    inputs[:3] = torch.arange(12.0).view(3, 4) + 1  # 12 numbers of 40
    for same_centre in (False, True):
        centre, spread = common_scale(inputs, same_centre=same_centre)
        assert (centre == 0).all()
        assert (scaled(inputs, (centre, spread))[3:] == 0).all()
        assert spread[0].item() == pytest.approx(3 * inputs.square().mean().sqrt().item())
    dense = inputs + (inputs == 0)
    assert (common_scale(dense)[0] != 0).all()


def test_common_scale__images_have_one_centre():
    images = scenarios.cloud(1, 20, 6)[0] + torch.arange(6)
    centre, spread = common_scale(images, same_centre=True)
    torch.testing.assert_close(centre, images.mean().expand(6))
    torch.testing.assert_close(spread, 3 * images.std(correction=0).expand(6))


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 5.3, -1e9])
@pytest.mark.parametrize("shape", [(7, 1), (101, 3), (1001, 1)])
@pytest.mark.parametrize("same_centre", [False, True])
def test_common_scale__constant_inputs_have_spread_one(value, shape, same_centre):
    centre, spread = common_scale(torch.full(shape, value), same_centre=same_centre)
    assert (spread == 1).all()
    torch.testing.assert_close(centre, torch.full(shape[1:], value))


# Which of them


def slow_neighbour_loss(x, labels, n_classes, background, groups):
    """Leave-one-out loss at each width of the kernel, by loops; the smallest."""
    n = len(x)
    sq = [[(x[i] - x[j]).square().sum().item() for j in range(n)] for i in range(n)]
    others = [[j for j in range(n) if j != i and groups[j] != groups[i]] for i in range(n)]
    nearest = sorted(min(sq[i][j] for j in others[i]) for i in range(n) if others[i])
    middle = len(nearest) // 2
    scale = nearest[middle] if len(nearest) % 2 else (nearest[middle - 1] + nearest[middle]) / 2
    losses = []
    for weight in (2.0**k for k in range(-4, 5)):
        loss = 0.0
        for i in range(n):
            K = {j: math.exp(weight * (1 - sq[i][j] / scale)) for j in others[i]}
            prior = sum(labels == labels[i]).item() / n
            of_class = sum(K[j] for j in others[i] if labels[j] == labels[i])
            loss -= math.log((of_class + background * prior) / (sum(K.values()) + background)) / n
        losses.append(loss)
    return min(losses)


@pytest.mark.parametrize("seed", range(3))
def test_neighbour_loss__equals_the_loop(seed):
    x, labels = scenarios.cloud(1, 12, 3, seed)[0], scenarios.labels(12, 3, seed)
    groups = torch.arange(12) % 2
    expected = slow_neighbour_loss(x, labels, 3, 0.1, range(12))
    assert neighbour_loss(x, labels, 3, 0.1) == pytest.approx(expected)
    expected = slow_neighbour_loss(x, labels, 3, 0.1, groups.tolist())
    assert neighbour_loss(x, labels, 3, 0.1, groups) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_neighbour_loss__prefers_the_scaling_that_shows_the_class(seed):
    # A table: what matters is in small units, noise in large ones.
    inputs, labels = table(informative=1e-3, noise=1e3, seed=seed)
    losses = [neighbour_loss(scaled(inputs, f(inputs)), labels, 2, 0.1) for f in (column_scale, common_scale)]
    assert losses[0] < losses[1] - 0.3
    # A spectrum: two bands matter, and forty are empty but for the noise of the detector.
    inputs, labels = table(n_informative=2, n_noise=40, noise=0.05, seed=seed)
    losses = [neighbour_loss(scaled(inputs, f(inputs)), labels, 2, 0.1) for f in (column_scale, common_scale)]
    assert losses[1] < losses[0] - 0.05


@settings(max_examples=20, deadline=None)
@given(unit=st.floats(1e-6, 1e6), offset=st.floats(-3, 3), seed=st.integers(0, 99))
def test_neighbour_loss__depends_on_neither_unit_nor_origin(unit, offset, seed):
    inputs, labels = table(n=14, seed=seed)
    moved = unit * (inputs + offset)
    assert neighbour_loss(moved, labels, 2, 0.1) == pytest.approx(neighbour_loss(inputs, labels, 2, 0.1))


def test_neighbour_loss__of_nothing_to_see_is_no_better_than_the_class_shares():
    inputs, labels = scenarios.cloud(1, 200, 5)[0], scenarios.labels(200, 2, 1)
    assert neighbour_loss(inputs, labels, 2, 0.1) > 0.66  # log 2 = .69


def test_neighbour_loss__members_of_a_group_do_not_vouch_for_each_other():
    # Each label is right for a group of four copies and says nothing about other groups.
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(80) // 4
    centres, labels = torch.randn(20, 5, generator=generator), torch.randperm(20, generator=generator) % 2
    inputs = centres[groups] + 0.01 * torch.randn(80, 5, generator=generator)
    assert neighbour_loss(inputs, labels[groups], 2, 0.1) < 0.2
    assert neighbour_loss(inputs, labels[groups], 2, 0.1, groups) > 0.5
