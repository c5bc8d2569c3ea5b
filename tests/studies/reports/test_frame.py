import numpy as np

from pnca_studies.reports.frame import Frame


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
