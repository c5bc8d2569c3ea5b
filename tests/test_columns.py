"""What columns of tables are taken for, and what their values become."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from pnca.columns import Columns, are_needed, as_numbers
from pnca.exceptions import InvalidInputError

ROWS = 12


def column(values, name="x"):
    """The one column of a table, and its places and whether each row is new; a filler keeps it useful."""
    table = pd.DataFrame({name: values, "filler": np.arange(len(values))})
    columns = Columns.fit(table)
    return columns.parts[0], columns.encode(table)[:, : columns.parts[0].n_places], columns


def asked(columns, values, name="x"):
    """Places of other values, and how many of each row were never seen."""
    table = pd.DataFrame({name: values, "filler": np.arange(len(values))})
    encoded = columns.encode(table)
    return encoded[:, : columns.parts[0].n_places], encoded[:, -1]


NUMBERS = {
    "floats": [1.5, 2, 4, 8],
    "integers": np.array([1, 2, 4, 8]),
    "objects": pd.Series([1, 2.0, np.float32(4), 8], dtype=object),
    "decimals": [Decimal(1), Decimal(2), Decimal(4), Decimal(8)],
    "nullable": pd.array([1, 2, 4, 8], dtype="Int64"),
    "unsigned": np.array([1, 2, 4, 8], dtype=np.uint8),
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_numbers__stay_as_they_are(values):
    found, places, _ = column(values)
    assert found.kind == "number"
    np.testing.assert_array_equal(places, np.array(values, dtype=float)[:, None])


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
def test_numbers__a_hole_is_the_median_and_a_sign_of_its_own(hole):
    found, places, _ = column(pd.Series([1, 2, hole, 9], dtype=object))
    assert str(found) == "x: number, with holes"
    np.testing.assert_array_equal(places, [[1, 0], [2, 0], [2, 1], [9, 0]])


def test_numbers__a_hole_where_there_was_none_is_the_median_and_new():
    _, _, columns = column([1.0, 2.0, 9.0])
    places, is_new = asked(columns, [np.nan, 5.0])
    np.testing.assert_array_equal(places, [[2], [5]])
    np.testing.assert_array_equal(is_new, [1, 0])


def test_categories__two_are_one_number_and_what_is_neither_is_the_mean():
    found, places, columns = column(["no", "yes", "no", "yes", "no"])
    assert str(found) == "x: category of 'no', 'yes'"
    np.testing.assert_array_equal(places, [[0], [1], [0], [1], [0]])
    places, is_new = asked(columns, ["yes", "perhaps", None])
    np.testing.assert_array_equal(places, [[1], [0.4], [0.4]])
    np.testing.assert_array_equal(is_new, [0, 1, 1])


@pytest.mark.parametrize("kind", [object, "str", "category"])
def test_categories__of_three_values_and_more_have_a_place_each(kind):
    found, places, columns = column(pd.Series(["a", "b", "c", "a", "b", "c", "a"], dtype=kind))
    assert found.values == ("a", "b", "c")
    np.testing.assert_array_equal(places, np.eye(3)[[0, 1, 2, 0, 1, 2, 0]])
    places, is_new = asked(columns, ["c", "z"])
    np.testing.assert_allclose(places, [[0, 0, 1], [3 / 7, 2 / 7, 2 / 7]])
    np.testing.assert_array_equal(is_new, [0, 1])


def test_categories__holes_have_a_place_of_their_own():
    found, places, _ = column(["a", "b", None, "a", "b", np.nan])
    assert found.has_holes
    np.testing.assert_array_equal(places, np.eye(3)[[0, 1, 2, 0, 1, 2]])


def test_categories__rare_values_share_a_place():
    values = ["a"] * 20 + ["b"] * 19 + ["c"]
    found, places, columns = column(values)
    assert (found.values, found.others) == (("a", "b"), ("c",))
    np.testing.assert_array_equal(places[-1], [0, 0, 1])
    places, is_new = asked(columns, ["c", "d"])
    np.testing.assert_allclose(places, [[0, 0, 1], [20 / 40, 19 / 40, 1 / 40]])
    np.testing.assert_array_equal(is_new, [0, 1])


def test_categories__where_many_values_occur_once_a_new_one_is_nothing_unusual():
    _, _, columns = column(["a", "a", "b", "b", "c", "d", "e"])
    places, is_new = asked(columns, ["f", "a"])
    np.testing.assert_array_equal(places, [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(is_new, [0, 0])


def test_categories__of_many_values_the_most_frequent_have_places():
    values = [f"v{i}" for i in range(50) for _ in range(60 - i)]
    found, places, _ = column(values)
    assert found.values == tuple(f"v{i}" for i in range(30))
    assert places.shape[1] == 31
    assert set(found.others) == {f"v{i}" for i in range(30, 50)}


def test_categories__do_not_depend_on_the_order_of_the_rows():
    values = list("abcabdeffa")
    assert column(values)[0] == column(values[::-1])[0]


def test_categories__text_beside_numbers_is_asked_about_row_by_row():
    _, _, columns = column(pd.Series(["<5", 7, "<5", 7, 9, 9], dtype=object))
    for value in ("<5", 7, 9):
        np.testing.assert_array_equal(asked(columns, pd.Series([value], dtype=object))[1], [0])


def test_truth_values__are_one_number():
    found, places, _ = column([True, False, True, False])
    assert found.kind == "category"
    assert len(np.unique(places)) == 2
    assert places.shape == (4, 1)


DATES = {
    "timestamps": pd.to_datetime(["1970-01-02 00:00", "1970-01-03 12:00"]),
    "in a zone": pd.to_datetime(["1970-01-02 00:00", "1970-01-03 12:00"]).tz_localize("UTC"),
    "datetimes": [datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 3, 12)],
    "seconds": np.array(["1970-01-02T00:00:00", "1970-01-03T12:00:00"], dtype="datetime64[s]"),
}


@pytest.mark.parametrize("values", DATES.values(), ids=DATES)
def test_dates__are_days(values):
    found, places, _ = column(values)
    assert found.kind == "date"
    np.testing.assert_allclose(places, [[1], [2.5]])


@pytest.mark.parametrize(("year", "day"), [("9999-12-31", 2932896), ("0001-01-01", -719162)])
def test_dates__of_any_year_keep_their_order(year, day):
    for values in (
        np.array([year, "1970-01-01"], dtype="datetime64[s]"),
        [datetime.date.fromisoformat(year)],
    ):
        _, places, _ = column(values)
        assert places[0, 0] == day


def test_durations__of_python_are_durations():
    found, places, _ = column(pd.Series([datetime.timedelta(hours=36), None], dtype=object))
    assert found.kind == "duration"
    np.testing.assert_allclose(places[0], [1.5, 0])


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("fitted", [[1.0, 2.0, 4.0], [1.0, None, 4.0], pd.to_datetime(["2020-01-01"] * 3)])
def test_columns__may_be_missing_altogether_where_they_are_asked_about(fitted, hole):
    found, _, columns = column(fitted)
    places, is_new = asked(columns, pd.Series([hole, hole], dtype=object))
    assert np.isfinite(places).all()
    np.testing.assert_array_equal(is_new, [not found.has_holes] * 2)


def test_dates__of_days_and_periods_and_durations_too():
    found, places, _ = column(pd.Series([datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 4)]))
    assert (found.kind, found.has_holes) == ("date", True)
    np.testing.assert_allclose(places, [[1, 0], [2, 1], [3, 0]])
    assert column(pd.period_range("1970-01-01", periods=2, freq="D"))[0].kind == "date"
    found, places, _ = column(pd.to_timedelta([36, 12], unit="h"))
    assert found.kind == "duration"
    np.testing.assert_allclose(places, [[1.5], [0.5]])


def test_codes__are_categories_where_they_are_named():
    table = pd.DataFrame({"code": [3, 1, 2] * 4, "size": np.arange(12.0)})
    for named in (["code"], [0], [True, False], np.array([True, False])):
        first = Columns.fit(table, named).parts[0]
        assert (first.kind, first.values) == ("category", (1, 2, 3))
    of_array = Columns.fit(table.to_numpy(), [0])
    assert of_array.parts[0].values == (1, 2, 3)
    places = of_array.encode(np.array([[2.0, 0], [7, 0]]))[:, [0, 1, 2, -1]]
    np.testing.assert_allclose(places, [[0, 1, 0, 0], [1 / 3, 1 / 3, 1 / 3, 1]])


@pytest.mark.parametrize("named", [["size"], [2], [-1], [True], [1.5]])
def test_codes__of_no_column_are_refused(named):
    with pytest.raises(InvalidInputError, match="categorical_features"):
        Columns.fit(pd.DataFrame({"a": [1, 2, 1], "b": [1, 2, 3]}), named)


def test_columns__that_tell_nothing_are_left_out():
    table = pd.DataFrame({"id": [f"p{i}" for i in range(4)], "empty": [None] * 4, "age": [1, 2, 3, 4]})
    columns = Columns.fit(table)
    assert repr(columns.parts[0]) == "id: left out, no value twice"
    assert repr(columns.parts[1]) == "empty: left out, all missing"
    assert columns.encode(table).shape == (4, 2)
    table["id"] = 7  # whatever it holds
    assert columns.encode(table).shape == (4, 2)


def test_columns__a_table_without_a_useful_one_is_refused():
    with pytest.raises(InvalidInputError, match="no column"):
        Columns.fit(pd.DataFrame({"id": ["a", "b", "c"]}))


def test_columns__of_one_number_say_so():
    table = pd.DataFrame({"site": [3, 3, 3], "age": [1, 2, 3]})
    for columns in (Columns.fit(table), Columns.of_numbers(table, table.to_numpy(dtype=float))):
        assert [column.is_constant for column in columns.parts] == [True, False]
        assert repr(columns.parts[0]) == "site: number, always the same"
        assert columns.parts[0].n_places == 1  # as before: what a fit computes is the same


def test_columns__know_how_often_a_number_was_missing():
    columns = Columns.fit(
        pd.DataFrame({"a": [1.0, np.nan, 2, 3], "b": ["x", "x", None, None], "c": range(4)})
    )
    assert [column.share_of_holes for column in columns.parts] == [0.25, 0.5, None]


def test_codes__that_are_infinite_are_refused():
    with pytest.raises(InvalidInputError, match="codes holds infinity"):
        Columns.fit(np.array([[1.0, 2], [np.inf, 3]]), [0])


def test_plain_numbers__may_lack_one_where_they_are_asked_about():
    X = np.array([[1.0, 2], [3, 4], [8, 9]])
    columns = Columns.of_numbers(X, X)
    np.testing.assert_array_equal(columns.encode(np.array([[np.nan, 7], [1, 2]])), [[3, 7, 1], [1, 2, 0]])
    assert columns.is_plain


@pytest.mark.parametrize("missing", [None, pd.NA])
def test_objects__with_missing_numbers_are_numbers(missing):
    found = as_numbers(np.array([[1, missing], [2.5, 3]], dtype=object))
    np.testing.assert_array_equal(found, [[1, np.nan], [2.5, 3]])
    words = np.array([["a", missing], [2.5, 3]], dtype=object)
    assert as_numbers(words) is words


def test_tables__without_rows_are_refused():
    table = pd.DataFrame({"x": ["a", "b", "a", "b"]})
    for make in (lambda: Columns.fit(table[:0]), lambda: Columns.fit(table).encode(table[:0])):
        with pytest.raises(InvalidInputError, match="X has no rows"):
            make()


@pytest.mark.parametrize(
    ("fitted", "given", "message"),
    [
        ([1.0, 2.0, 3.0], ["a", "b", "c"], "was a number when the model was fitted, and is a category now"),
        (
            ["a", "b", "a", "b"],
            [1, 2, 1],
            "held text when the model was fitted, such as 'a', and now holds 1",
        ),
        (pd.to_datetime(["2020-01-01"] * 2), [1.0, 2.0], "was a date when the model was fitted"),
        ([True, False, True, False], ["True", "False"], "held no text when the model was fitted, such as"),
        (pd.Categorical([1, 2, 1, 2]), ["1", "2"], "held no text when the model was fitted, such as 1"),
        (pd.Categorical([1, 2, 1, 2]), pd.to_timedelta([1, 2], unit="D"), "was a category .* is a duration"),
    ],
)
def test_columns__of_another_type_are_refused(fitted, given, message):
    _, _, columns = column(fitted)
    with pytest.raises(InvalidInputError, match=message):
        asked(columns, given)


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, 2), 1j])
def test_columns__of_things_are_refused(value):
    with pytest.raises(InvalidInputError, match="Column 'x' holds"):
        column([value, value])


def test_columns__of_another_number_are_refused():
    columns = Columns.fit(np.array([[1.0, np.nan], [2.0, 1.0]]))
    with pytest.raises(InvalidInputError, match="X has 3 columns, but the model was fitted on 2"):
        columns.encode(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.ones((3, 2)), False),
        (np.array([[1, np.nan]]), True),
        ([[1, 2], [3, 4]], False),
        ([[1.0, float("nan")]], True),
        (np.full((2, 3, 3), np.nan), False),
        (pd.DataFrame({"a": [1, 2], "b": [True, False]}), False),
        (pd.DataFrame({"a": [1.0, None]}), True),
        (pd.DataFrame({"a": ["x", "y"]}), True),
        (pd.DataFrame({"a": pd.Categorical([1, 2])}), True),
        ([[1, 2], [3]], False),
    ],
)
def test_are_needed__where_a_table_is_no_array_of_numbers(X, expected):
    assert are_needed(X) is expected
