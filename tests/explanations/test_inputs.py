"""How inputs are shown: pictures of any order of channels, typical values, folded columns."""

import datetime

import numpy as np
import pytest

from pnca.columns import Column, Columns
from pnca.explanations.inputs import Looks, PictureShape, Typical
from pnca.record import Record

NUMBER = Column(name="a", kind="number")


def record(inputs):
    return Record(inputs=inputs, labels=np.zeros(len(inputs)))


def test_picture__has_its_channels_last():
    first = np.arange(24).reshape(3, 2, 4)
    found = PictureShape(2, 4, 3, False).picture(first.ravel())
    np.testing.assert_array_equal(found, np.moveaxis(first, 0, 2))
    assert PictureShape(2, 4, 3, True).picture(np.arange(24)).shape == (2, 4, 3)
    assert PictureShape(4, 6, 1, True).picture(np.arange(24)).shape == (4, 6)


def test_map__adds_up_the_channels():
    squares = np.zeros((3, 2, 2))
    squares[:, 1, 0] = [9.0, 16.0, 0.0]
    found = PictureShape(2, 2, 3, False).root(squares.ravel())
    np.testing.assert_array_equal(found, [[0, 0], [5, 0]])


def test_typical__of_numbers_categories_and_dates():
    pd = pytest.importorskip("pandas")
    days = [datetime.date(2020, 1, day) for day in (3, 1, 2)]
    table = pd.DataFrame({"a": [1.0, np.nan, 4.0], "b": ["x", "y", "x"], "c": days})
    table["d"] = pd.to_datetime(days)
    dates = [Column(name=name, kind="date") for name in ("c", "d")]
    looks = Looks((*Columns.fit(table[["a", "b"]]).parts, *dates))
    a, b, c, d = looks.typical(record(table))
    assert a == (2.5, 1.0, 4.0)
    assert b == ("x", None, None)
    assert c == (days[2], days[1], days[0])
    assert (d.value, d.low) == (pd.Timestamp(days[2]), pd.Timestamp(days[1]))


def test_typical__without_inputs_is_what_predictions_keep():
    looks = Looks(
        (Column(name="a", kind="number", middle=3.0), Column(name="b", kind="category", values=("x", "y")))
    )
    empty = Record(inputs=None, labels=np.zeros(2), missing="no record")
    assert looks.typical(empty) == [Typical(3.0), Typical("x")]
    assert Looks((NUMBER,)).typical(record(np.array([[1, 2], [None, 2]], dtype=object)))[0] == (1.0, 1, 1)
    assert Looks((NUMBER,)).typical(record(np.array([["a"], [1]], dtype=object)))[0].value == "a"


def test_unusual__folds_the_places_of_a_column_and_names_new_values():
    category = Column(name="ward", kind="category", values=("e", "n", "w"), shares=(0.4, 0.3, 0.3))
    holed = Column(name="size", kind="number", has_holes=True)
    left_out = Column(name="id", kind="left out")
    looks = Looks((category, left_out, holed))
    residuals, squares = np.array([0.0, 0.3, 0.4, -1.2, 0.0]), np.array([0.09, 0.0, 0.16, 0.0, 0.0])
    found = looks.unusual(("s", 7, 1.5), [Typical()] * 3, residuals, squares, unit=0.5)
    assert [column.name for column in found] == ["ward", "size", "id"]  # what is new comes first
    ward, size, none = found
    assert ward.is_new
    assert (ward.residual, ward.distance, ward.distance_share) == pytest.approx((1.0, 1.0, 1.0))
    assert size.residual == pytest.approx(-2.4)
    assert ward.residual_share + size.residual_share == pytest.approx(1)
    assert (none.residual, none.distance_share) == (0, 0)
    of_class = looks.unusual(("s", 7, 1.5), [Typical()] * 3, None, None, 0.5, np.array([1.0, 1, 1, 2, -1]))
    assert [column.class_share for column in of_class] == pytest.approx([0.75, 0.25, 0])
    without = looks.unusual(("e", 7, 1.5), [Typical()] * 3, None, None, unit=0.5)
    assert without[0].name == "ward"
    assert (without[0].residual, without[0].distance, without[0].is_new) == (None, None, False)


def test_unusual__keeps_a_hundred_columns_of_many():
    many = Looks(tuple(Column(name=j, kind="number") for j in range(300)))
    squares = np.arange(300.0)
    found = many.unusual(tuple(range(300)), [Typical()] * 300, None, squares, unit=1.0)
    assert [column.name for column in found] == list(range(299, 199, -1))
    assert found[0].distance_share == pytest.approx(299 / squares.sum())
