import datetime
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pnca.exceptions import InvalidInputError
from pnca.persistence.encoding import MalformedError, decode, encode

INF = float("inf")
VALUES = [
    None, True, 0, -1, 2**70, 0.1, -0.0, 1e-320, INF, -INF, "", "é\ud800 \0", b"\xff", (), (1, (2,)), [],
    [1, [None]],
    {}, {1: 2.0, "a": (True,), None: []}, range(3), Decimal("1.50"), datetime.date(2020, 2, 29),
    datetime.datetime(2020, 1, 1, 1, 2, 3, 4), datetime.time(1, 2),
    datetime.timedelta(days=-1, microseconds=7),
    np.float32(0.1), np.float16(2), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.str_("abc"),
    np.bytes_(b"a"),
    np.datetime64("2020-01-01", "D"), np.timedelta64(3, "s"),
]  # fmt: skip
ARRAYS = [
    np.array([0.1, np.nan, -INF]), np.array([0.1], np.float32), np.array([[1, 2]], ">i4"),
    np.array([], np.int64),
    np.array(3), np.array([True]), np.array(["a", ""], "<U7"), np.array([b"a"], "S3"),
    np.array(["a", 1, None, (1, 2), [3]], dtype=object), np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.array([1, 2], "m8[ns]"),
]  # fmt: skip


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value, "it"), allow_nan=False)))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_value__comes_back_with_its_type(value):
    found = there_and_back(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.dtype.str)
def test_array__comes_back_with_its_type_and_shape(array):
    found = there_and_back(array)
    assert (found.dtype.str, found.shape) == (array.dtype.str, array.shape)
    assert repr(found.tolist()) == repr(array.tolist())


def test_nan__comes_back():
    assert np.isnan(there_and_back(float("nan")))


def test_random_state__goes_on_where_it_was():
    state = np.random.RandomState(3)
    state.normal(size=3)  # an odd number: one is left over
    again = there_and_back(state)
    np.testing.assert_array_equal(again.normal(size=700), state.normal(size=700))


def test_interval__of_pandas_comes_back():
    pd = pytest.importorskip("pandas")
    interval = pd.Interval(0.5, 1.5, closed="left")
    assert there_and_back(interval) == interval


@pytest.mark.parametrize(
    "value",
    [
        object(), lambda: 1, Fraction(1, 2), 1j, {1, 2}, np.longdouble(1), np.array([1j]),
        np.array([object()]),
        np.zeros(2, dtype=[("a", int)]), type("Text", (str,), {})("a"), [[object()]], print,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_value__that_has_no_json_is_refused_by_name(value):
    with pytest.raises(
        InvalidInputError, match=r"^The label holds .*, of type .*, which no model file can hold"
    ):
        encode(value, "The label")


@pytest.mark.parametrize(
    "found",
    [
        {}, {"a": 1}, {"tuple": 1, "list": 2}, {"tuple": 1}, {"dict": [[1]]}, {"dict": [[[], 1]]},
        {"float": "x"},
        {"numpy": ["<f8", [1], [1.0]]}, {"numpy": ["|O", [], [1]]}, {"array": ["<f8", [2], [1.0]]},
        {"array": ["<f8", [1], ["a"]]}, {"array": ["<f8", [1], [True]]}, {"array": ["<i8", [1], [0.5]]},
        {"array": ["<i1", [1], [300]]}, {"array": ["|V8", [1], [0]]}, {"array": ["<f8,<f8", [1], [0.0]]},
        {"array": ["<U999999", [100], ["a"] * 100]}, {"array": ["<U1", [1], ["ab"]]},
        {"array": ["O", [1], [1]]},
        {"array": ["<f8", "x", [1.0]]}, {"array": ["<f8", [-1], [1.0]]}, {"range": [1, 2, 0]},
        {"bytes": "zz"},
        {"date": "x"}, {"duration": [10**20]}, {"random state": [[1], 0, 0, 0.0]},
        {"random state": [[0] * 624, 999, 0, 0.0]}, {"interval": [1, 2]}, {"decimal": "x"}, {"eval": "1"},
        {"array": ["<M8[D]", [1], [2**70]]},
    ],
    ids=str,
)  # fmt: skip
def test_json__that_no_value_has_is_malformed(found):
    pytest.importorskip("pandas")
    with pytest.raises(MalformedError):
        decode(found)
