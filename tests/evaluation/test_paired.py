import random

import numpy as np
import pytest
from scipy import stats

from pnca.evaluation import bootstrap_interval, paired_interval


@pytest.mark.parametrize("level", [None, 0.5, 0.99])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_paired_interval__is_that_of_the_paired_t_test(n, level):
    rng = np.random.default_rng(n)
    common = rng.normal(size=n)  # shared by both, so that an unpaired interval would be far wider
    a, b = common + 0.1 * rng.normal(size=n), common + 0.1 * rng.normal(size=n) - 0.05
    mean, low, high = paired_interval(a, b) if level is None else paired_interval(a, b, level)
    expected = stats.ttest_rel(a, b).confidence_interval(level or 0.95)
    assert mean == pytest.approx(a.mean() - b.mean())
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_paired_interval__leaves_out_pairs_with_nan():
    a, b = np.array([1.0, 2.0, np.nan, 5.0]), np.array([0.5, np.nan, 1.0, 3.0])
    assert paired_interval(a, b) == pytest.approx(paired_interval(a[[0, 3]], b[[0, 3]]))


def test_paired_interval__one_pair_has_no_interval_and_none_has_no_mean():
    mean, low, high = paired_interval(np.array([0.5]), np.array([0.25]))
    assert mean == 0.25
    assert np.isnan([low, high]).all()
    assert np.isnan(paired_interval(np.array([]), np.array([]))).all()


def test_paired_interval__equal_differences_leave_no_width():
    assert paired_interval(np.array([0.5, 0.75]), np.array([0.25, 0.5])) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize(("level", "low", "high"), [(0.95, 0.0, 1.0), (0.4, 0.5, 0.5), (0.6, 0.0, 1.0)])
def test_bootstrap_interval__of_two_differences(level, low, high):
    """The mean of a resample of 0 and 1 is 0, 1/2 or 1, with chances 1/4, 1/2 and 1/4."""
    assert bootstrap_interval([0.0, 1.0], level) == (0.5, low, high)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bootstrap_interval__matches_a_plain_loop(level):
    differences = np.random.default_rng(1).exponential(size=10) - 0.5  # skewed: the ends are not alike
    mean, low, high = bootstrap_interval(differences, level)
    source = random.Random(2)
    means = sorted(sum(source.choices(differences, k=10)) / 10 for _ in range(20_000))
    beyond = round((1 - level) / 2 * 20_000)
    assert mean == pytest.approx(differences.mean())
    # Over seeds the difference of two such ends has a standard deviation of up to .02.
    assert (low, high) == pytest.approx((means[beyond], means[-beyond]), abs=0.08)


def test_bootstrap_interval__of_many_is_that_of_the_normal():
    differences = np.random.default_rng(0).normal(size=400)
    mean, low, high = bootstrap_interval(differences)
    half = 1.96 * differences.std() / np.sqrt(400)
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.006)  # an end's own error: .001


def test_bootstrap_interval__turns_with_the_sign():
    differences = np.random.default_rng(3).normal(size=6)
    mean, low, high = bootstrap_interval(differences)
    assert bootstrap_interval(-differences) == pytest.approx((-mean, -high, -low))


def test_bootstrap_interval__the_same_every_time_and_another_with_another_seed():
    differences = np.random.default_rng(4).normal(size=7)
    assert bootstrap_interval(differences) == bootstrap_interval(differences)
    assert bootstrap_interval(differences) != bootstrap_interval(differences, seed=1)
    assert bootstrap_interval(differences) != bootstrap_interval(differences, n_resamples=100)


def test_bootstrap_interval__nan_is_left_out():
    assert bootstrap_interval([0.0, np.nan, 1.0]) == bootstrap_interval([0.0, 1.0])


def test_bootstrap_interval__one_difference_has_no_interval_and_none_has_no_mean():
    mean, low, high = bootstrap_interval([0.25, np.nan])
    assert mean == 0.25
    assert np.isnan([low, high]).all()
    assert np.isnan(bootstrap_interval([])).all()


def test_bootstrap_interval__equal_differences_leave_no_width():
    assert bootstrap_interval([0.1] * 10) == pytest.approx((0.1, 0.1, 0.1), abs=1e-15)
