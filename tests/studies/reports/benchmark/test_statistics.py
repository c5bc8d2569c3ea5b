import numpy as np
import pytest
from scipy.stats import wilcoxon

from pnca_studies.reports.benchmark.statistics import compare, holm, mean_ranks, pairwise


def test_ranks__more_is_better_if_told_so_and_equals_share():
    means = np.array([[0.1, 0.2, 0.2], [0.4, 0.3, 0.2]])
    assert mean_ranks(means).tolist() == [2.0, 2.25, 1.75]
    assert mean_ranks(means, more=True).tolist() == [2.0, 1.75, 2.25]


def test_holm__is_stepwise_and_never_falls():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]


def test_compare__counts_data_sets_and_corrects_for_the_number_of_rivals():
    rng = np.random.default_rng(0)
    ours = rng.random(12)
    worse, mixed = ours + 0.1, ours + np.where(np.arange(12) < 6, 0.1, -0.1)
    lost, unclear = compare(np.stack([worse, ours, worse + mixed - ours], axis=1))
    assert (lost.n_better, lost.n_worse) == (0, 12)
    assert lost.p == pytest.approx(2 * wilcoxon(worse - ours).pvalue)
    assert lost.is_loss()
    assert not lost.is_win()
    assert not unclear.is_loss()
    (won,) = compare(np.stack([ours, worse], axis=1))
    assert won.is_win()
    (also,) = compare(np.stack([worse, ours], axis=1), more=True)
    assert also.is_win()


def test_compare__equal_models_are_no_loss():
    (same,) = compare(np.ones((5, 2)))
    assert (same.n_better, same.n_worse, same.p) == (0, 0, 1.0)


def test_pairwise__is_symmetric_with_ones_for_equals():
    means = np.stack([np.arange(9.0), np.arange(9.0) + 1, np.arange(9.0)], axis=1)
    found = pairwise(means)
    np.testing.assert_array_equal(found, found.T)
    assert found[0, 2] == 1
    assert found[0, 1] == pytest.approx(3 * wilcoxon(means[:, 0] - means[:, 1]).pvalue)
