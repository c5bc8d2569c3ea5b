import re

import numpy as np
import pytest

from pnca_studies.reports.tables import NOTHING, Table, mean_sd, number, per_cent, signed

TABLE = Table(
    caption="50 % of a_b & c",
    headings=["model", "accuracy", "share > .9"],
    rows=[["DNN", ".750 ± .020", "12.5 %"], ["any_covid #1", NOTHING, "≥ 3"]],
)


def _latex_rows(table):
    return [line.strip() for line in table.latex().splitlines() if line.endswith(r"\\")]


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [
        (0.7434, 3, ".743"),
        (0.7435, 2, ".74"),
        (-0.02, 2, "-.02"),
        (0.0, 3, ".000"),
        (0.9996, 3, "1.000"),
        (1.5, 2, "1.50"),
        (-1.5, 2, "-1.50"),
        (10.25, 1, "10.2"),
        (10.05, 2, "10.05"),
        (None, 3, NOTHING),
        (np.nan, 3, NOTHING),
        (np.inf, 3, NOTHING),
    ],
)
def test_number__drops_the_zero_before_the_point_and_no_other(value, digits, written):
    assert number(value, digits) == written


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([0.5, 0.7], ".600 ± .141"),  # sqrt(2 * .1**2 / (2 - 1))
        ([0.5], ".500"),
        ([], NOTHING),
        ([np.nan], NOTHING),
        ([0.5, np.nan, 0.7], ".600 ± .141"),
        ([0.5, np.nan], ".500"),
        ([0.25, 0.25, 0.25], ".250 ± .000"),
    ],
)
def test_mean_sd__divides_by_n_less_one_and_leaves_nan_out(values, written):
    assert mean_sd(values) == written


def test_mean_sd__digits():
    assert mean_sd([1.25, 2.25], 1) == "1.8 ± .7"


@pytest.mark.parametrize(
    ("values", "digits", "written"),
    [
        ([0.25, 0.35], 1, "30.0 %"),
        ([0.00125], 2, "0.12 %"),
        ([1.0, 1.0], 0, "100 %"),
        ([0.25, np.nan], 1, "25.0 %"),
        ([np.nan], 1, NOTHING),
        ([], 1, NOTHING),
    ],
)
def test_per_cent__is_the_mean_times_a_hundred(values, digits, written):
    assert per_cent(values, digits) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0114, "+.011"),
        (-0.02, "-.020"),
        (0.0, ".000"),
        (0.0004, ".000"),
        (-0.0004, ".000"),
        (1.5, "+1.500"),
        (-1.5, "-1.500"),
    ],
)
def test_signed__writes_the_sign_unless_it_rounds_to_nothing(value, written):
    assert signed(value) == written


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_signed__a_difference_that_does_not_exist(value):
    assert signed(value) == NOTHING


def test_markdown__has_a_cell_for_every_heading():
    assert TABLE.markdown().splitlines() == [
        "| model | accuracy | share > .9 |",
        "|---|--:|--:|",
        "| DNN | .750 ± .020 | 12.5 % |",
        "| any_covid #1 | - | ≥ 3 |",
    ]


def test_latex__has_as_many_columns_as_headings():
    (columns,) = re.findall(r"\\begin\{tabular\}\{(\w+)\}", TABLE.latex())
    assert columns == "lrr"
    rows = _latex_rows(TABLE)
    assert len(rows) == 3
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == 2


def test_latex__escapes_what_latex_would_take_for_its_own():
    assert _latex_rows(TABLE) == [
        r"model & accuracy & share $>$ .9 \\",
        r"DNN & .750 $\pm$ .020 & 12.5 \% \\",
        r"any\_covid \#1 & - & $\geq$ 3 \\",
    ]
    assert r"\caption{50 \% of a\_b \& c}" in TABLE.latex()


def test_latex__opens_and_closes_its_environments_in_order():
    found = re.findall(r"\\(begin|end)\{(\w+)\}", TABLE.latex())
    assert found == [("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table")]
    rules = re.findall(r"\\(\w+rule)", TABLE.latex())
    assert rules == ["toprule", "midrule", "bottomrule"]
