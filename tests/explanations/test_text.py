"""What a terminal shows of a case."""

import datetime

import numpy as np
import pytest

from pnca.explanations.text import case_text, columns_table, examples_table, in_columns, parts_table, short

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")


def test_text__names_parts_examples_and_columns(of_table):
    text = str(of_table[1])
    assert text == repr(of_table[1]) == case_text(of_table[1])
    assert text.startswith("Case 1: predicted ")
    for word in ("groups of training examples had as little evidence", "particles name", "linear", "forest"):
        assert word in text
    for part in (*of_table[1].parts, "sum", "this case", "unlike the others", of_table[1].examples[0].id):
        assert part in text
    assert "Values that no training example had" in text
    assert "(new)" in text
    assert max(map(len, text.splitlines())) <= 145  # the name of a column may have forty letters


def test_text__of_several_cases_is_of_the_first():
    from explanations.conftest import explained

    cases = explained("images")
    several = type(cases)(list(cases) * 3)
    assert "... and 3 more cases: print(explanations[3])" in str(several)


def test_tables__have_as_many_values_as_names(cases):
    for make in (parts_table, examples_table):
        head, rows = make(cases[0])
        assert {len(row) for row in rows} == {len(head)}
    if cases[0].columns:
        head, rows = columns_table(cases[0])
        assert {len(row) for row in rows} == {len(head)}


def test_parts__are_rounded_sums_that_agree(cases):
    _, rows = parts_table(cases[0])
    numbers = np.array([[float(value.strip("<>")) for value in row[1:]] for row in rows])
    np.testing.assert_allclose(numbers[:-1].sum(axis=0), numbers[-1], atol=0.004)  # of rounded parts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(1234.5678), "1235"), (float("nan"), "missing"), (True, "yes"), (3, "3"), ("a\nb", "a b"),
        (datetime.datetime(2020, 1, 2), "2020-01-02"),
        (datetime.datetime(2020, 1, 2, 3), "2020-01-02 03:00:00"),
        (1e20, "1.000e+20"), (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_value__is_short(value, text):
    assert short(value) == text


def test_columns__are_as_wide_as_they_must_be():
    assert in_columns(["a", "b"], [["long", "1"]]) == "  a     b\n  long  1"


def test_parts__of_many_classes_are_of_the_most_probable(of_table):
    from dataclasses import replace

    proba = np.arange(30.0) / np.arange(30.0).sum()
    parts = {"named examples": proba / 4, "class shares": 3 * proba / 4}
    case = replace(of_table[0], classes=np.arange(30), proba=proba, parts=parts)
    head, rows = parts_table(case)
    assert head == ["carried by", *map(str, range(29, 19, -1)), "20 others"]
    assert rows[-1][-1] == f"{proba[:20].sum():.3f}".removeprefix("0")
