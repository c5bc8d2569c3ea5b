"""What is known of the inputs alone: frozen, fitted on training inputs, applied to any."""

from dataclasses import FrozenInstanceError

import pytest
import torch

import scenarios
from pnca.maths.inputs import (
    InputFactor,
    Novelty,
    Plane,
    Scaler,
    column_scale,
    common_scale,
    held_out_log_residuals,
    log_novelty_factor,
    log_residuals,
    merged_columns,
    novelty_depth,
    plane_through,
    typical_log_residual,
)
from pnca.maths.kernels import input_factor_weight, log_input_factor, neighbour_scale


def inputs(n=30, p=4, seed=0):
    """Points that vary little in their last columns."""
    return scenarios.cloud(1, n, p, seed)[0] * torch.tensor([3.0, 2.0, 0.2, 0.1])[:p]


# Scaler


def test_scaler__centres_and_divides():
    scaler = Scaler(torch.tensor([1.0, -2.0]).double(), torch.tensor([2.0, 0.5]).double())
    found = scaler.apply(torch.tensor([[1.0, -2.0], [3.0, -1.5]]))
    assert found.tolist() == [[0, 0], [1, 1]]
    assert found.dtype == torch.float32
    with pytest.raises(FrozenInstanceError):
        scaler.centre = None


def test_scaler__keeps_the_digits_beside_an_offset():
    inputs = 1e12 + torch.arange(8).double()[:, None]
    found = Scaler(*column_scale(inputs)).apply(inputs)
    expected = (torch.arange(8).double() - 3.5) / (3 * torch.arange(8).double().std(correction=0))
    torch.testing.assert_close(found[:, 0], expected.float())


def test_scaler__what_is_beyond_all_numbers_is_finite():
    scaler = Scaler(torch.zeros(1).double(), torch.tensor([1e-300], dtype=torch.float64))
    found = scaler.apply(torch.tensor([[3e38], [-3e38], [1e-300]], dtype=torch.float64))
    assert found.square().isfinite().all()
    assert found[0] == -found[1] > 1e6
    assert found[2] == 1


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1.0, 1e38])
def test_scales__do_not_depend_on_the_unit(unit):
    x = inputs().double()
    for scale in (column_scale, common_scale):
        expected, found = Scaler(*scale(x)).apply(x), Scaler(*scale(unit * x)).apply(unit * x)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_scales__of_constant_columns_are_one():
    x = torch.full((9, 2), 0.3, dtype=torch.float64)
    x[0] += 1e-16  # rounding
    for scale in (column_scale, common_scale):
        assert scale(x)[1].tolist() == [1, 1]


# Values that merge


def test_merged_columns__are_those_that_lose_a_tenth_of_their_values():
    x = torch.arange(100).double()[:, None].repeat(1, 3)
    rounded = x.clone()
    rounded[:10, 1] = 0  # 91 of 100 are left
    rounded[:12, 2] = 0  # 89
    assert merged_columns(x, rounded) == [2]
    assert merged_columns(x[:, :0], rounded[:, :0]) == []
    assert merged_columns(x.new_zeros(5, 2), x.new_zeros(5, 2)) == []


# Input factor


def test_input_factor__measures_scale_and_weight():
    x = inputs()
    scale = neighbour_scale(x)
    found = InputFactor.fit(x, None, None)
    assert found.scale == pytest.approx(float(scale))
    assert found.weight == pytest.approx(float(input_factor_weight(x, scale)))
    assert InputFactor.fit(x, None, 0.7) == InputFactor(found.scale, 0.7)


def test_input_factor__members_of_a_group_are_not_neighbours():
    near = inputs(15)
    pairs = torch.cat([near, near + 1e-3])
    groups = torch.arange(30) % 15
    apart, alike = (InputFactor.fit(pairs, g, 1.0).scale for g in (groups, None))
    assert alike < 1e-4 < apart
    assert apart == pytest.approx(float(neighbour_scale(pairs, groups)))


def test_input_factor__of_many_inputs_some_measure():
    x = inputs(60)
    found = InputFactor.fit(x, None, None, every=3)
    scale = neighbour_scale(x, every=3)
    assert found.scale == pytest.approx(float(scale))
    assert found.weight == pytest.approx(float(input_factor_weight(x[::3], scale)))


def test_input_factor__of_images_is_that_of_their_numbers():
    x, queries = inputs(), inputs(5, seed=1)
    of_rows = InputFactor.fit(x, None, None)
    of_images = InputFactor.fit(x.reshape(30, 2, 2), None, None)
    assert of_images == of_rows
    expected = log_input_factor(queries, x, of_rows.scale, of_rows.weight)
    torch.testing.assert_close(of_rows.log(queries, x), expected)
    torch.testing.assert_close(of_rows.log(queries.reshape(5, 2, 2), x.reshape(30, 2, 2)), expected)


def test_input_factor__queries_may_differ_between_kinds():
    x, kinds = inputs(), torch.stack([inputs(5, seed=seed) for seed in (1, 2, 3)])
    factor = InputFactor(2.0, 0.5)
    found = factor.log(kinds.reshape(3, 5, 2, 2), x.reshape(30, 2, 2))
    assert found.shape == (3, 5, 30)
    for kind in range(3):
        torch.testing.assert_close(found[kind], factor.log(kinds[kind], x))


# Novelty


def test_novelty__fit_is_the_plane_and_what_is_typical_of_those_held_out():
    x, folds = inputs(), torch.arange(30) % 3
    found, residuals = Novelty.fit(x, torch.arange(30), folds)
    held_out = held_out_log_residuals(x, folds)
    torch.testing.assert_close(residuals, held_out)
    typical, spread = typical_log_residual(held_out)
    assert (found.typical, found.spread) == pytest.approx((float(typical), float(spread)))
    plane = plane_through(x)
    torch.testing.assert_close(found.plane.centre, plane.centre.float())
    torch.testing.assert_close(found.plane.directions, plane.directions.float())
    assert found.plane.noise == plane.noise
    assert found.depth == 0


def test_novelty__inputs_that_are_not_among_the_rows_are_held_out_already():
    x, rows = inputs(50), torch.arange(0, 50, 2)
    folds = torch.arange(25) % 3
    _, residuals = Novelty.fit(x, rows, folds)
    others = torch.arange(1, 50, 2)
    torch.testing.assert_close(residuals[others], log_residuals(x[others], plane_through(x[rows])))
    torch.testing.assert_close(residuals[rows], held_out_log_residuals(x[rows], folds))


def test_novelty__of_images_is_that_of_their_numbers():
    x, rows, folds = inputs(), torch.arange(30), torch.arange(30) % 3
    (of_rows, expected), (of_images, residuals) = (
        Novelty.fit(some, rows, folds) for some in (x, x.reshape(30, 2, 2))
    )
    torch.testing.assert_close(residuals, expected)
    deep, images = (some.with_depth(5.0, 0.1) for some in (of_rows, of_images))
    torch.testing.assert_close(images.log(x.reshape(30, 2, 2)), deep.log(x))


def test_novelty__depth_takes_typical_mass_to_the_background():
    plane = Plane(torch.zeros(2), torch.tensor([[1.0, 0.0]]), 0.0)
    flat = Novelty(plane, typical=0.0, spread=1.0)
    deep = flat.with_depth(8.0, 0.5)
    assert deep.depth == novelty_depth(8.0, 0.5)
    assert flat.depth == 0  # a copy was made
    residuals = torch.tensor([0.0, 1.0, 3.5, 6.0])
    torch.testing.assert_close(deep.log_of(residuals), log_novelty_factor(residuals, 0.0, 1.0, deep.depth))
    assert (flat.log_of(residuals) == 0).all()
    # Off the plane by e, the log residual is 2; along the plane there is none.
    points = torch.tensor([[7.0, 0.0], [7.0, torch.e]])
    expected = torch.stack([torch.zeros(()), log_novelty_factor(torch.tensor(2.0), 0.0, 1.0, deep.depth)])
    torch.testing.assert_close(deep.log(points), expected)
    assert deep.log(points.double()).dtype == torch.float64
