"""Tests for drift against scipy and loops, and how often they cry wolf."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, mannwhitneyu

from pnca.calibration.drift import ColumnDrift, Drift, column_drift, holm, ks_distance, rank_test


def test_rank_test__is_that_of_mann_and_whitney():
    rng = np.random.RandomState(0)
    old, new = rng.normal(size=40), rng.normal(size=25) - 0.4
    found = rank_test(old, new)
    assert found.p_value == pytest.approx(mannwhitneyu(new, old, alternative="less").pvalue)
    pairs = np.sign(old - new[:, None])
    assert found.share == pytest.approx((pairs.mean() + 1) / 2)
    by_group = rank_test(old, new, np.arange(40))  # groups of one
    assert by_group.share == pytest.approx(found.share)
    assert by_group.p_value == pytest.approx(found.p_value, abs=0.01)


def test_rank_test__is_towards_the_unfamiliar_only():
    old, new = np.linspace(0, 1, 30), np.linspace(2, 3, 30)
    assert rank_test(old, new).p_value > 0.99
    assert rank_test(new, old).p_value < 1e-9


@pytest.mark.parametrize("level", [0.05, 0.2])
@pytest.mark.parametrize("n_new", [3, 50])
def test_rank_test__cries_wolf_as_seldom_as_it_says(n_new, level):
    rng = np.random.RandomState(0)
    p = [rank_test(rng.normal(size=60), rng.normal(size=n_new)).p_value for _ in range(800)]
    assert np.mean(np.array(p) <= level) <= level + 3.5 * np.sqrt(level * (1 - level) / 800)


def grouped(rng, n_groups, size):
    groups = np.repeat(np.arange(n_groups), size)
    return rng.normal(size=n_groups)[groups] + 0.3 * rng.normal(size=len(groups)), groups


def test_rank_test__of_groups_holds_where_counting_examples_does_not():
    rng, by_group, by_example = np.random.RandomState(0), [], []
    for _ in range(600):
        (old, groups), (new, new_groups) = grouped(rng, 20, 6), grouped(rng, 12, 6)
        by_group.append(rank_test(old, new, groups, new_groups).p_value)
        by_example.append(rank_test(old, new).p_value)
    margin = 3.5 * np.sqrt(0.05 * 0.95 / 600)
    assert np.mean(np.array(by_group) <= 0.05) <= 0.05 + margin
    assert np.mean(np.array(by_example) <= 0.05) > 0.05 + margin


def test_rank_test__a_shift_within_the_tolerance_is_no_drift_however_large_the_batch():
    rng = np.random.RandomState(0)
    old, new = rng.normal(size=2000), rng.normal(size=2000) - 0.12  # a share of about .534
    assert rank_test(old, new).p_value < 0.001
    assert rank_test(old, new, tolerance=0.05).p_value > 0.5
    assert rank_test(old, new - 1, tolerance=0.05).p_value < 1e-6


def test_rank_test__of_few_groups_is_never_surer_than_a_permutation():
    old, new = np.r_[np.full(4, 5.0), np.full(4, 6.0)], np.full(6, 1.0)
    found = rank_test(old, new, np.repeat([0, 1], 4), np.repeat([0, 1], 3))
    assert (found.share, found.p_value) == (1.0, pytest.approx(1 / 6))
    assert rank_test(old, new, np.repeat([0, 1], 4), np.zeros(6, dtype=int)).p_value == 1.0


@pytest.mark.parametrize("is_tied", [False, True])
def test_ks_distance__is_that_of_scipy(is_tied):
    rng = np.random.RandomState(0)
    a, b = rng.normal(size=40), rng.normal(size=25) + 0.5
    if is_tied:
        a, b = np.round(a), np.round(b)
    assert ks_distance(a, b, np.ones(40), np.ones(25)) == pytest.approx(ks_2samp(a, b).statistic)
    twice = ks_distance(np.r_[a, a], b, np.ones(80), np.ones(25))
    assert twice == pytest.approx(ks_2samp(a, b).statistic)


def test_column_drift__names_what_moved_and_merges_the_places_of_a_column():
    rng = np.random.RandomState(0)
    train, new = rng.normal(size=(80, 4)), rng.normal(size=(60, 4))
    new[:, 2] += 2
    found = column_drift(train, new, ["a", "b", "colour", "colour"])
    assert found[0].name == "colour"
    assert len(found) == 3
    assert found[0].p_value < 1e-6
    assert found[1].p_value > 0.05
    assert found[0].statistic == pytest.approx(ks_2samp(train[:, 2], new[:, 2]).statistic)


def test_column_drift__any_column_is_named_by_mistake_as_seldom_as_promised():
    rng, n_named = np.random.RandomState(0), 0
    for _ in range(300):
        found = column_drift(rng.normal(size=(60, 8)), rng.normal(size=(40, 8)), list(range(8)))
        n_named += found[0].p_value <= 0.1
    assert n_named / 300 <= 0.1 + 3.5 * np.sqrt(0.1 * 0.9 / 300)


def test_column_drift__of_groups_counts_each_once():
    rng, by_group, by_example = np.random.RandomState(0), 0, 0
    for _ in range(200):
        (old, groups), (new, new_groups) = grouped(rng, 20, 8), grouped(rng, 15, 8)
        by_group += column_drift(old[:, None], new[:, None], ["a"], groups, new_groups)[0].p_value <= 0.05
        by_example += column_drift(old[:, None], new[:, None], ["a"])[0].p_value <= 0.05
    assert by_group / 200 <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 200)
    assert by_example / 200 > 0.3


def test_holm__is_as_defined():
    p = np.array([0.2, 0.01, 0.011, 0.9])
    np.testing.assert_allclose(holm(p), [0.4, 0.04, 0.04, 0.9])


def test_summary__says_what_moved_or_why_it_is_not_known():
    columns = (*(ColumnDrift(f"c{i}", 0.9, 0.001) for i in range(7)), ColumnDrift("calm", 0.1, 1.0))
    text = Drift(0.01, 0.7, 40, columns).summary()
    assert "40 inputs are less familiar" in text
    assert "c4" in text
    assert "and 2 more" in text
    assert "calm" not in text
    assert "No column moved" in Drift(0.3, 0.5, 40, columns[-1:]).summary()
    assert repr(Drift(0.3, 0.5, 40, note="No columns.")).endswith("No columns.>")
