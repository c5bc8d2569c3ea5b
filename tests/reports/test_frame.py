import numpy as np
import pytest
from scipy import stats

from pnca.reports.frame import Frame, paired_interval


def test_where__keeps_rows_with_all_the_values():
    frame = Frame([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}, {"b": 2}])
    assert frame.where(a=1, b=2).rows == [{"a": 1, "b": 2}]
    assert frame.where(b=2).rows == frame.rows[1:]
    assert list(frame.where()) == frame.rows
    assert not frame.where(a=3)
    assert frame


def test_unique__in_order_of_appearance_and_only_where_there_is_one():
    assert Frame([{"a": 2}, {"a": 1}, {}, {"a": 2}]).unique("a") == [2, 1]
    assert Frame([]).unique("a") == []


def test_values__are_in_order_of_the_draws():
    rows = [{"draw": d, "accuracy": d / 100} for d in (10, 2, 0, 1)]
    np.testing.assert_array_equal(Frame(rows).values("accuracy"), [0.0, 0.01, 0.02, 0.1])


def test_values__each_fold_of_each_partition_is_a_repetition():
    given = {(1, 0): 0.5, (0, 1): 0.2, (1, 1): 0.6, (0, 0): 0.4, (1, 2): 0.7}
    rows = [{"trial": trial, "fold": fold, "accuracy": v} for (trial, fold), v in given.items()]
    np.testing.assert_allclose(Frame(rows).values("accuracy"), [0.4, 0.2, 0.5, 0.6, 0.7])


def test_values__none_and_missing_are_nan():
    rows = [{"draw": 0, "auroc": None}, {"draw": 1}, {"draw": 2, "auroc": 0.5}]
    np.testing.assert_array_equal(Frame(rows).values("auroc"), [np.nan, np.nan, 0.5])


def test_mean__of_nothing_is_nan():
    assert np.isnan(Frame([]).mean("accuracy"))
    assert Frame([]).values("accuracy").shape == (0,)
    assert np.isnan(Frame([{"draw": 0, "auroc": None}]).mean("auroc"))


def test_mean__leaves_out_what_is_not_known():
    rows = [{"draw": 0, "auroc": None}, {"draw": 1, "auroc": 0.5}, {"draw": 2, "auroc": 0.75}]
    assert Frame(rows).mean("auroc") == 0.625


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
