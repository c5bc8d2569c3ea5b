"""Plain values as JSON that keeps their types: labels, categories, parameters. Nothing else can be said."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError, MissingExtraError

#: Types of numpy's numbers, texts and dates; and objects, each of which has a way of its own.
_DTYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248]|[US]\d{1,6}|[Mm]8(\[\d{0,4}[a-zA-Z]{1,2}\])?)|\|O")
#: Bytes that an array of text may take: short labels in a type for long ones could take any number.
_MOST_BYTES = 2**24


class MalformedError(ValueError):
    """What a file says cannot be what was written; the reader of the file says so with its name."""


class _Way(NamedTuple):
    """How values of a type become JSON, and back."""

    type: type
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]


def encode(value: Any, where: str) -> Any:  # noqa: ANN401
    """A plain value as JSON; what has none is refused under the name ``where``.

    >>> encode((1, 2.5, "a", None, True), "it")
    {'tuple': [1, 2.5, 'a', None, True]}
    """
    try:
        return _encode(value)
    except (_UnknownError, RecursionError) as error:
        raise InvalidInputError(
            f"{where} holds {_shown(value)}, of type {error.args[0]}, which no model file can hold: use "
            "plain numbers, texts, dates and lists of them."
        ) from None


def decode(found: Any) -> Any:  # noqa: ANN401
    """The value of JSON that :func:`encode` made; a MalformedError if it made no such thing.

    >>> decode({"tuple": [1, {"float": "inf"}]})
    (1, inf)
    """
    try:
        return _decode(found)
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError("a value that cannot be read") from error


class _UnknownError(Exception):
    """A value has no JSON; its argument is the type."""


def _shown(value: Any) -> str:  # noqa: ANN401
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _encode(value: Any) -> Any:  # noqa: ANN401
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_encode(item) for item in value]
    for name, way in _WAYS.items():
        if way.type is kind:
            return {name: way.to_json(value)}
    if isinstance(value, np.generic):
        return {"numpy": _of_array(np.asarray(value))}
    if kind.__module__.split(".")[0] == "pandas" and kind.__name__ == "Interval":
        return {"interval": [_encode(value.left), _encode(value.right), value.closed]}
    raise _UnknownError(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))


def _decode(found: Any) -> Any:  # noqa: ANN401
    if isinstance(found, list):
        return [_decode(item) for item in found]
    if not isinstance(found, dict):
        return found
    ((name, content),) = found.items()
    if name == "numpy":
        array = _to_array(content)
        if array.ndim or array.dtype == object:
            raise MalformedError("a number that is none")
        return array[()]
    return _WAYS[name].from_json(content)


def _of_array(array: NDArray[Any]) -> list[Any]:
    if not _DTYPE.fullmatch(array.dtype.str):
        raise _UnknownError(f"numpy array of {array.dtype}")
    plain = array.view("i8") if array.dtype.kind in "mM" else array
    return [array.dtype.str, list(array.shape), [_encode(item) for item in plain.ravel().tolist()]]


def _to_array(content: Any) -> NDArray[Any]:  # noqa: ANN401
    name, shape, items = content
    if not (isinstance(name, str) and _DTYPE.fullmatch(name)) or not isinstance(items, list):
        raise MalformedError("an array of a type that no file holds")
    dtype, values = np.dtype(name), [_decode(item) for item in items]
    if math.prod(shape) != len(values) or dtype.itemsize * len(values) > _MOST_BYTES:
        raise MalformedError("an array whose shape is not that of its values")
    expected = {"b": bool, "i": int, "u": int, "f": float, "U": str, "S": bytes, "M": int, "m": int}
    if dtype.kind != "O" and any(type(value) is not expected[dtype.kind] for value in values):
        raise MalformedError("an array whose values are not of its type")
    found = np.empty(len(values), dtype="i8" if dtype.kind in "mM" else dtype)
    for place, value in enumerate(values):  # not at once: lists in an array of objects would become rows
        found[place] = value
    found = found.view(dtype) if dtype.kind in "mM" else found
    if dtype.kind in "US" and found.tolist() != values:
        raise MalformedError("an array whose texts are too long for it")
    reshaped: NDArray[Any] = found.reshape(shape)
    return reshaped


def _to_state(content: Any) -> np.random.RandomState:  # noqa: ANN401
    """A random generator where it was: Mersenne's twister, the only one that a RandomState is made with."""
    keys, position, has_gauss, gauss = content
    found = np.random.RandomState(0)
    if len(keys) != 624 or type(position) is not int or not 0 <= position <= 624 or has_gauss not in (0, 1):
        raise MalformedError("a random state that is none")
    found.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, float(gauss)))
    return found


def _of_state(state: np.random.RandomState) -> list[Any]:
    name, keys, *rest = state.get_state(legacy=True)
    if name != "MT19937":
        raise _UnknownError(f"RandomState of {name}")
    return [keys.tolist(), *rest]  # type: ignore[union-attr]


def _to_interval(content: Any) -> Any:  # noqa: ANN401
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "studies") from error
    left, right, closed = content
    return pd.Interval(_decode(left), _decode(right), closed=closed)


def _all(items: Any) -> list[Any]:  # noqa: ANN401
    return [_encode(item) for item in items]


def _each(content: Any) -> list[Any]:  # noqa: ANN401
    if not isinstance(content, list):
        raise MalformedError("a list that is none")
    return [_decode(item) for item in content]


#: All that can be said beside null, truth values, finite numbers, texts and lists: an object of one name.
_WAYS: dict[str, _Way] = {
    "tuple": _Way(tuple, _all, lambda content: tuple(_each(content))),
    "dict": _Way(dict, lambda d: [_all(pair) for pair in d.items()], lambda c: dict(map(_each, c))),
    "range": _Way(range, lambda r: [r.start, r.stop, r.step], lambda c: range(*c)),
    "float": _Way(float, str, float),
    "bytes": _Way(bytes, bytes.hex, bytes.fromhex),
    "decimal": _Way(Decimal, str, Decimal),
    "date": _Way(datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "datetime": _Way(datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "time": _Way(datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "duration": _Way(
        datetime.timedelta,
        lambda d: [d.days, d.seconds, d.microseconds],
        lambda c: datetime.timedelta(*c),
    ),
    "array": _Way(np.ndarray, _of_array, _to_array),
    "random state": _Way(np.random.RandomState, _of_state, _to_state),
    "interval": _Way(type(None), lambda value: value, _to_interval),  # of pandas, which is not imported here
}
