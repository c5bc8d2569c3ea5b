import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pnca.maths.inputs import (
    NOVEL,
    USUAL,
    Plane,
    held_out_log_residuals,
    log_novelty_factor,
    log_residuals,
    novelty_depth,
    plane_through,
    typical_log_residual,
)
from scenarios import cloud

SEEDS = st.integers(0, 10_000)


def points(n, p, seed):
    return cloud(1, n, p, seed)[0].double()


@settings(deadline=None)
@given(n=st.integers(1, 12), p=st.integers(1, 6), seed=SEEDS)
def test_log_residuals__equal_the_least_squares_of_numpy(n, p, seed):
    x, queries = points(n, p, seed), points(5, p, seed + 1)
    plane = plane_through(x)
    for row, found in zip(queries, log_residuals(queries, plane), strict=True):
        centred = (row - plane.centre).numpy()
        design = plane.directions.numpy().T
        rest = centred - design @ np.linalg.lstsq(design, centred, rcond=None)[0] if design.size else centred
        assert found.item() == pytest.approx(math.log(rest @ rest + max(plane.noise, 1e-300)), abs=1e-6)


@settings(deadline=None)
@given(n=st.integers(2, 12), p=st.integers(2, 6), share=st.floats(0.1, 0.99), seed=SEEDS)
def test_plane_through__carries_its_share_with_no_direction_too_many(n, p, share, seed):
    x = points(n, p, seed)
    directions = plane_through(x, share).directions
    variances = np.linalg.eigvalsh(np.cov(x.numpy().T, bias=True))[::-1]
    carried = (variances.cumsum() / variances.sum())[: len(directions)]
    torch.testing.assert_close(directions @ directions.mT, torch.eye(len(directions)).double())
    assert len(directions) <= min(n, p) - 1
    assert (carried[:-1] < share).all()
    if len(directions) < min(n, p) - 1:
        assert carried[-1] >= share - 1e-9


def test_plane_through__one_point_has_no_directions_and_no_nan():
    plane = plane_through(torch.tensor([[1.0, 2.0, 3.0]]))
    assert plane.directions.shape == (0, 3)
    assert torch.isfinite(log_residuals(torch.zeros(2, 3), plane)).all()


def test_plane_through__an_outlier_is_in_the_plane_that_it_turns():
    x = torch.cat([points(19, 3, 0), torch.full((1, 3), 50.0).double()])
    plane = plane_through(x)
    own, foreign = log_residuals(torch.stack([x[-1], torch.tensor([50.0, 0.0, 0.0]).double()]), plane)
    assert own < foreign - 3


def test_log_residuals__rounding_beside_a_plane_means_nothing():
    # Data exactly in a plane, as where a column is constant: a thousandth of its width is no news.
    x = torch.cat([points(30, 2, 0), torch.zeros(30, 1).double()], dim=1)
    held_out = held_out_log_residuals(x, torch.arange(30) % 5)
    typical, spread = typical_log_residual(held_out)
    width = x.var(dim=0).sum().sqrt()
    moved = x + torch.tensor([0.0, 0.0, 0.001]) * width
    deviations = (log_residuals(moved, plane_through(x)) - typical) / spread
    assert deviations.median() < USUAL


@given(n=st.integers(4, 12), p=st.integers(1, 5), seed=SEEDS)
def test_held_out_log_residuals__do_not_depend_on_the_point_itself(n, p, seed):
    x, folds = points(n, p, seed), torch.arange(n) % 3
    moved = x.clone()
    moved[0] += 100
    plane = plane_through(x[folds != 0])
    torch.testing.assert_close(
        held_out_log_residuals(moved, folds)[0], log_residuals(moved[:1], plane)[0], rtol=1e-6, atol=1e-8
    )


def test_typical_log_residual__of_a_normal_law_is_its_mean_and_deviation():
    normal = torch.randn(100_000, generator=torch.Generator().manual_seed(0)) * 0.7 + 2
    typical, spread = typical_log_residual(normal)
    assert typical == pytest.approx(2, abs=0.02)
    assert spread == pytest.approx(0.7, abs=0.02)


def test_typical_log_residual__a_few_outliers_change_little():
    ordinary = torch.linspace(-1, 1, 100)
    with_outliers = torch.cat([ordinary, torch.full((5,), 50.0)])
    assert typical_log_residual(with_outliers)[1] < 1.3 * typical_log_residual(ordinary)[1]


def test_log_novelty_factor__leaves_the_familiar_alone_and_takes_the_foreign_to_the_background():
    z = torch.tensor([-5.0, 0.0, USUAL, NOVEL, 2 * NOVEL - USUAL, 100.0])
    found = log_novelty_factor(3 + 0.5 * z, typical=3.0, spread=0.5, depth=4.0)
    assert found[:3].abs().max() == 0
    assert found[3:5].tolist() == pytest.approx([-4, -16])
    assert found[5] < -1000


def test_plane__is_a_plain_triple():
    centre, directions, noise = Plane(torch.zeros(2), torch.zeros(0, 2), 0.5)
    assert log_residuals(torch.tensor([[3.0, 4.0]]), Plane(centre, directions, noise)).exp() == pytest.approx(
        25.5
    )


def test_novelty_depth__is_from_typical_mass_to_the_background_and_never_up():
    assert novelty_depth(3.0, 0.03) == pytest.approx(math.log(100))
    assert novelty_depth(0.01, 0.03) == 0
