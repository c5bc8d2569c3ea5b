"""What the values of a column are taken for, and what they become."""

import datetime

import numpy as np
import pandas as pd
import pytest

from pnca.tables.values import (
    DATE,
    DURATION,
    EMPTY,
    HOLES,
    NUMBER,
    SORTS,
    TEXT,
    TRUTH,
    as_text,
    converted,
    sort_of,
    tidied,
)


def texts(*values):
    return pd.Series(values, dtype="str")


@pytest.mark.parametrize(
    ("values", "sort"),
    [
        (("1", "2.5", "-3e4", "NA"), NUMBER),
        ((" 1", "2 ", "-", "None"), NUMBER),
        (("1", "2", "low"), TEXT),
        (("007", "012"), TEXT),  # codes, whose zeros are a part of them
        (("0.7", "0", "-0.5"), NUMBER),
        (("3,5", "4"), TEXT),  # without a hint it may be a thousand
        (("1_000", "2"), TEXT),  # Python would read it
        (("True", "FALSE", "?"), TRUTH),
        (("yes", "no"), TEXT),
        (("2024-01-31", "2024-02-01 13:45"), DATE),
        (("2024-01-31", "2024-02-30"), TEXT),  # no such day
        (("31.01.2024", "1.2.2024"), "date day.month.year"),
        (("31/01/2024", "01/02/2024"), "date day/month/year"),
        (("01/31/2024", "02/01/2024"), "date month/day/year"),
        (("01/02/2024", "03/04/2024"), TEXT),  # of two ways none is chosen
        (HOLES, EMPTY),
        (("None", "mild", "severe"), TEXT),
    ],
)
def test_sort_of__texts(values, sort):
    assert sort_of(texts(*values)) == sort
    assert sort in SORTS


@pytest.mark.parametrize(
    ("values", "sort"),
    [
        ([1, None], NUMBER),
        ([True, None], TRUTH),
        ([datetime.date(2024, 5, 1), None], DATE),
        ([datetime.timedelta(1)], DURATION),
        (["a", 1], TEXT),
        (["1", 2.5, "NA"], NUMBER),  # cells of a spreadsheet, of which some are text
        ([None, None], EMPTY),
    ],
)
def test_sort_of__objects(values, sort):
    assert sort_of(pd.Series(values, dtype=object)) == sort


def test_sort_of__commas_are_decimal_where_the_file_says_so():
    assert sort_of(texts("3,5", "4", "1e3"), has_commas=True) == NUMBER
    assert sort_of(texts("3,5", "4.5"), has_commas=True) == TEXT  # both is neither
    numbers, is_wrong = converted(texts("3,5", "4", "NA"), NUMBER, has_commas=True)
    assert not is_wrong.any()
    np.testing.assert_array_equal(numbers, [3.5, 4, np.nan])


def test_converted__numbers_are_those_of_python():
    given = ["0.1", "1e-308", "123456789.123456789", ".5", "+2"]
    numbers, is_wrong = converted(texts(*given), NUMBER)
    assert numbers.tolist() == [float(text) for text in given]
    assert not is_wrong.any()


def test_converted__what_is_no_number_is_told_from_what_is_missing():
    numbers, is_wrong = converted(texts("1", "x", "NA", "-", "1e999"), NUMBER)
    assert is_wrong.tolist() == [False, True, False, False, True]
    assert numbers.isna().tolist() == [False, True, True, True, True]


def test_converted__dates_of_a_time_zone_are_those_of_utc():
    dates, is_wrong = converted(texts("2024-05-01T01:00+02:00", "?", "soon"), DATE)
    assert dates.iloc[0] == pd.Timestamp("2024-04-30 23:00")
    assert is_wrong.tolist() == [False, False, True]


def test_converted__truth_values_keep_a_text_that_is_none():
    truths, is_wrong = converted(texts("TRUE", "false", "?", "maybe"), TRUTH)
    assert truths.tolist()[:2] == [True, False]
    assert pd.isna(truths.iloc[2])
    assert truths.iloc[3] == "maybe"
    assert not is_wrong.any()


def test_tidied__further_holes_and_errors_of_formulas_are_missing():
    assert tidied(texts("<5", " a ", "#DIV/0!"), holes=["<5"]).tolist()[1] == "a"
    assert tidied(texts("<5", " a ", "#DIV/0!"), holes=["<5"]).isna().tolist() == [True, False, True]


def test_as_text__whole_numbers_have_no_point():
    assert as_text(pd.Series([1.0, 2.5, None])).tolist()[:2] == ["1", "2.5"]
    assert as_text(pd.Series([1.0, None])).isna().tolist() == [False, True]
