import subprocess
import sys

import numpy as np
import pytest

from pnca_studies.reports.frame import by_repetition, make_frame, unique, where


def test_where__keeps_rows_with_all_the_values():
    frame = make_frame([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}, {"b": 2}])
    assert list(where(frame, a=1, b=2).index) == [1]
    assert list(where(frame, b=2).index) == [1, 2, 3]
    assert list(where(frame).index) == [0, 1, 2, 3]
    assert where(frame, a=3).empty
    assert where(frame, no_such_column=1).empty
    assert where(make_frame([]), a=1).empty


def test_unique__in_order_of_appearance_and_only_where_there_is_one():
    assert unique(make_frame([{"a": 2}, {"a": 1}, {"a": 2}]), "a") == [2, 1]
    assert unique(make_frame([{"a": 2}]), "b") == []
    assert unique(make_frame([]), "a") == []


def test_by_repetition__is_in_order_of_the_draws():
    values = by_repetition(make_frame({"draw": d, "accuracy": d / 100} for d in (10, 2, 0, 1)), "accuracy")
    assert dict(values) == {0: 0.0, 1: 0.01, 2: 0.02, 10: 0.1}
    assert list(values.index) == [0, 1, 2, 10]


def test_by_repetition__each_fold_of_each_partition_is_one():
    given = {(1, 0): 0.5, (0, 1): 0.2, (1, 1): 0.6, (0, 0): 0.4, (1, 2): 0.7}
    rows = [{"trial": trial, "fold": fold, "accuracy": v} for (trial, fold), v in given.items()]
    np.testing.assert_allclose(by_repetition(make_frame(rows), "accuracy"), [0.4, 0.2, 0.5, 0.6, 0.7])


def test_by_repetition__none_and_missing_are_nan():
    frame = make_frame([{"draw": 0, "auroc": None}, {"draw": 1}, {"draw": 2, "auroc": 0.5}])
    np.testing.assert_array_equal(by_repetition(frame, "auroc"), [np.nan, np.nan, 0.5])
    np.testing.assert_array_equal(by_repetition(frame[:2], "auroc"), [np.nan, np.nan])
    np.testing.assert_array_equal(by_repetition(frame, "no such measure"), [np.nan] * 3)


@pytest.mark.parametrize("rows", [[], [{"draw": 0, "auroc": None}]])
def test_by_repetition__the_mean_of_nothing_is_nan(rows):
    values = by_repetition(make_frame(rows), "auroc")
    assert len(values) == len(rows)
    assert np.isnan(values.mean())


def test_reports__without_pandas_name_the_extra_on_import_and_the_demo_still_works():
    """On import, that is before a command trains for hours."""
    code = """
import importlib, sys
sys.modules["pandas"] = None
import pnca_studies.reports.demo
from pnca.exceptions import MissingExtraError
for module in ("run", "reproduction", "method", "benchmark"):
    try:
        importlib.import_module(f"pnca_studies.reports.{module}")
    except MissingExtraError as error:
        assert "pnca[studies]" in str(error), error
    else:
        raise AssertionError(f"{module} needed no pandas")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
