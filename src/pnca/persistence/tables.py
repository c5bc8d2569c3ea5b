"""Tables and arrays as they were given to a fit, column by column, as JSON and tensors.

What comes back has the values and types of what was written. pandas is needed for tables only.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError
from pnca.persistence.encoding import MalformedError, decode, encode
from pnca.persistence.layouts import Store
from pnca.record import is_missing, is_table

#: Types of numpy's numbers, and those of torch in which their bytes are kept.
_CARRIERS = {
    "|b1": torch.bool, "|u1": torch.uint8, "|i1": torch.int8,
    **{f"<{kind}{size}": getattr(torch, f"int{8 * size}") for kind in "iu" for size in (2, 4, 8)},
    **{f"<f{size}": getattr(torch, f"float{8 * size}") for size in (2, 4, 8)},
}  # fmt: skip
#: pandas' numbers that may be missing.
_MASKED = re.compile(r"U?Int(8|16|32|64)|Float(32|64)|boolean")
_UNITS, _FREQUENCY = ("s", "ms", "us", "ns"), re.compile(r"\d{0,4}[A-Za-z]{1,3}(-[A-Z]{3})?")
_SIMPLE = (bool, int, float, str, bytes, datetime.date, datetime.time, datetime.timedelta)


class Given(NamedTuple):
    """Inputs of n rows: an array of any dimensions, or a pandas table; None in place of what is not kept."""

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """An object of one name: ``array``, or ``table`` with the names of its columns."""
        if value is None:
            return None
        if not is_table(value):
            return {"array": _write_array(value, path, store)}
        columns = [
            _write_column(value.iloc[:, place], f"{path}.{place}", store) for place in range(value.shape[1])
        ]
        return {"table": [encode(list(value.columns), "The names of the columns"), columns]}

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The array or the table; of a table without pandas a :class:`WithoutPandas`."""
        if found is None:
            return None
        name, content = _only(found, path)
        if name == "array":
            array = _read_array(content, path, store)
            store.agree("n", array.shape[:1], path)
            return array
        _demand(name == "table" and isinstance(content, list) and len(content) == 2, path)
        names, columns = decode(content[0]), content[1]
        _demand(isinstance(names, list) and isinstance(columns, list) and len(names) == len(columns), path)
        _demand(all(isinstance(name, Hashable) for name in names) and len(names) > 0, path)
        read = [_read_column(column, f"{path}.{place}", store) for place, column in enumerate(columns)]
        for place, column in enumerate(read):
            store.agree("n", (len(column),), f"{path}.{place}")
        return _table(names, read)


class WithoutPandas(NamedTuple):
    """A table of a file that was read where pandas is not installed."""

    shape: tuple[int, int]


def _table(names: list[Any], columns: list[Any]) -> Any:  # noqa: ANN401
    if any(isinstance(column, _Unread) for column in columns):
        return WithoutPandas((len(columns[0]), len(columns)))
    import pandas as pd

    table = pd.DataFrame(dict(enumerate(columns)))
    table.columns = names
    return table


# --- arrays ----------------------------------------------------------------------------------------------


def _write_array(array: NDArray[Any], path: str, store: Store) -> Any:  # noqa: ANN401
    """The type, and numbers as a tensor; what is no number as a list of values, by rows."""
    if array.dtype.kind not in "biuf":
        return {"values": [encode(item, path) for item in array.ravel().tolist()], "shape": list(array.shape)}
    little = array.astype(array.dtype.newbyteorder("<"))
    if (name := little.dtype.str) not in _CARRIERS:
        raise InvalidInputError(
            f"The inputs of the fit are of {array.dtype}, which no file can hold: {_LEAVE}."
        )
    carried = np.ascontiguousarray(little).view(_carrier(name)).reshape(little.shape)
    return {"numbers": [name, store.put(path, torch.from_numpy(carried))]}


def _read_array(found: Any, path: str, store: Store) -> NDArray[Any]:  # noqa: ANN401
    if isinstance(found, dict) and found.keys() == {"values", "shape"}:
        return _read_values(found["values"], found["shape"], path)
    kind, content = _only(found, path)
    _demand(kind == "numbers" and isinstance(content, list) and len(content) == 2, path)
    name, order = content
    _demand(isinstance(name, str) and name in _CARRIERS, path)
    tensor = store.take(path, order)
    _demand(tensor.dtype == _CARRIERS[name] and tensor.dim() > 0, path)
    array: NDArray[Any] = tensor.contiguous().numpy().view(name)
    return array


def _read_values(values: Any, shape: Any, path: str) -> NDArray[Any]:  # noqa: ANN401
    is_shape = isinstance(shape, list) and shape and all(type(side) is int and side >= 0 for side in shape)
    _demand(is_shape and isinstance(values, list) and int(np.prod(shape)) == len(values), path)
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = _simple(decode(value), path)
    reshaped: NDArray[Any] = found.reshape(shape)
    return reshaped


def _carrier(name: str) -> np.dtype[Any]:
    kind, size = name[1], name[2]
    return np.dtype(name if kind in "bf" or size == "1" else f"<i{size}")


# --- columns of a table ----------------------------------------------------------------------------------


def _write_column(column: Any, path: str, store: Store) -> dict[str, Any]:  # noqa: ANN401
    """A column by what its type is; of a type that is not known, its values one by one."""
    kind = column.dtype
    name = type(kind).__name__
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return {"array": _write_array(column.to_numpy(), path, store)}
    if _MASKED.fullmatch(str(kind)):
        numbers = column.to_numpy(dtype=kind.numpy_dtype, na_value=kind.numpy_dtype.type(0))
        mask = _write_array(column.isna().to_numpy(), f"{path}.mask", store)
        return {"masked": [str(kind), _write_array(numbers, path, store), mask]}
    if kind.kind in "mM" and name != "ArrowDtype":
        unit = kind.unit if name == "DatetimeTZDtype" else np.datetime_data(kind)[0]
        plain = column.dt.tz_localize(None) if kind.kind == "M" and column.dt.tz is not None else column
        zone = _zone_name(column) if name == "DatetimeTZDtype" else None
        if zone is not None:  # in universal time, where every moment is once
            plain = column.dt.tz_convert("UTC").dt.tz_localize(None)
        counts = plain.to_numpy().view("i8")
        return {"times": [kind.kind, unit, zone, _write_array(counts, path, store)]}
    if name == "PeriodDtype":
        counts = column.array.asi8
        return {"periods": [str(kind)[7:-1], _write_array(counts, path, store)]}
    if name == "CategoricalDtype":
        categories = _write_column(kind.categories.to_series(), f"{path}.categories", store)
        codes = _write_array(column.cat.codes.to_numpy().astype(np.int64), path, store)
        return {"categories": [codes, bool(kind.ordered), categories]}
    text = str(kind) if str(kind) in ("str", "string") else "object"
    text = "interval" if name == "IntervalDtype" else text
    return {"values": [text, [_write_value(value, path) for value in column.astype(object).tolist()]]}


def _write_value(value: Any, path: str) -> Any:  # noqa: ANN401
    if is_missing(value) and value is not None and not isinstance(value, float):
        return {"missing": type(value).__name__}
    if type(value).__module__.startswith("pandas.") and hasattr(value, "to_pydatetime"):
        return encode(value.to_pydatetime(warn=False), path)
    try:
        return encode(value, "A column of the inputs")
    except InvalidInputError as error:
        raise InvalidInputError(f"{error} Or {_LEAVE}.") from None


_LEAVE = "leave the record of the fit out, with store='predictive'"


def _zone_name(column: Any) -> str | float:  # noqa: ANN401
    """The name of a time zone, or of a fixed one the seconds ahead of universal time."""
    zone = column.dt.tz
    if isinstance(zone, datetime.timezone):
        return zone.utcoffset(None).total_seconds()
    if _is_zone(str(zone)):
        return str(zone)
    raise InvalidInputError(
        f"Column {column.name!r} has a time zone without a name: convert it, or {_LEAVE}."
    )


def _is_zone(name: str) -> bool:
    try:
        return bool(zoneinfo.ZoneInfo(name))  # it looks into its own folder only
    except (KeyError, ValueError, OSError):
        return False


class _Unread:
    """A column of so many values, read without pandas."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n


def _read_column(found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
    """A column; everything is looked at before pandas has it, and where there is no pandas, too."""
    name, content = _only(found, path)
    if name == "array":
        return _one_column(_read_array(content, path, store), path)
    _demand(name in _READERS and isinstance(content, list), path)
    try:
        n, make = _READERS[name](content, path, store)
    except (ValueError, TypeError) as error:
        raise MalformedError(f"{path} that cannot be read") from error
    try:
        import pandas as pd
    except ImportError:
        return _Unread(n)
    try:
        return make(pd)
    except (ValueError, TypeError, OverflowError, ArithmeticError, KeyError) as error:
        raise MalformedError(f"{path} that no table can hold") from error


#: The number of values, and how pandas makes a column of them.
_Read = tuple[int, Callable[[Any], Any]]


def _read_masked(content: list[Any], path: str, store: Store) -> _Read:
    name, numbers, mask = content
    _demand(isinstance(name, str) and bool(_MASKED.fullmatch(name)), path)
    values = _one_column(_read_array(numbers, path, store), path)
    holes = _one_column(_read_array(mask, f"{path}.mask", store), path)
    own = {"boolean": "bool"}.get(name, name.lower())
    _demand(values.dtype == np.dtype(own) and holes.dtype == bool and len(holes) == len(values), path)

    def make(pd: Any) -> Any:  # noqa: ANN401
        column = pd.Series(values).astype(name)
        column[holes] = pd.NA
        return column

    return len(values), make


def _read_times(content: list[Any], path: str, store: Store) -> _Read:
    kind, unit, zone, counts = content
    is_zone = zone is None or (isinstance(zone, str) and _is_zone(zone))
    is_offset = type(zone) is float and abs(zone) < 86_400
    _demand(kind in ("M", "m") and unit in _UNITS and (is_zone or is_offset), path)
    _demand(kind == "M" or zone is None, path)
    values = _counts(counts, path, store).view(f"{kind}8[{unit}]")

    def make(pd: Any) -> Any:  # noqa: ANN401
        column = pd.Series(values)
        if zone is None:
            return column
        there = datetime.timezone(datetime.timedelta(seconds=zone)) if is_offset else zone
        return column.dt.tz_localize("UTC").dt.tz_convert(there)

    return len(values), make


def _read_periods(content: list[Any], path: str, store: Store) -> _Read:
    frequency, counts = content
    _demand(isinstance(frequency, str) and bool(_FREQUENCY.fullmatch(frequency)), path)
    values = _counts(counts, path, store)
    return len(values), lambda pd: pd.Series(pd.PeriodIndex.from_ordinals(values, freq=frequency))


def _read_categories(content: list[Any], path: str, store: Store) -> _Read:
    codes, is_ordered, categories = content
    values, names = _counts(codes, path, store), _read_column(categories, f"{path}.categories", store)
    _demand(type(is_ordered) is bool, path)
    _demand(not len(values) or bool((values >= -1).all() and (values < len(names)).all()), path)

    def make(pd: Any) -> Any:  # noqa: ANN401
        return pd.Series(pd.Categorical.from_codes(values, pd.Index(names), ordered=is_ordered))

    return len(values), make


def _read_text(content: list[Any], path: str, store: Store) -> _Read:
    kind, items = content
    _demand(kind in ("str", "string", "object", "interval") and isinstance(items, list), path)
    values = [item if _is_hole(item) else _simple(decode(item), path) for item in items]

    def make(pd: Any) -> Any:  # noqa: ANN401
        holes = {"NAType": pd.NA, "NaTType": pd.NaT}
        own = [holes[value["missing"]] if _is_hole(value) else value for value in values]
        if kind == "interval":
            return pd.Series(pd.arrays.IntervalArray(own))
        is_older = kind == "str" and pd.__version__ < "3"
        return pd.Series(own, dtype="object" if is_older else kind)

    return len(values), make


_READERS = {
    "masked": _read_masked,
    "times": _read_times,
    "periods": _read_periods,
    "categories": _read_categories,
    "values": _read_text,
}


def _is_hole(item: Any) -> bool:  # noqa: ANN401
    return isinstance(item, dict) and item.get("missing") in ("NAType", "NaTType") and len(item) == 1


def _simple(value: Any, path: str) -> Any:  # noqa: ANN401
    """One value, no list or array of some."""
    is_one = value is None or isinstance(value, _SIMPLE) or type(value).__name__ in ("Decimal", "Interval")
    _demand(is_one or isinstance(value, np.generic), path)
    return value


def _counts(found: Any, path: str, store: Store) -> NDArray[np.int64]:  # noqa: ANN401
    values: NDArray[np.int64] = _one_column(_read_array(found, path, store), path)
    _demand(values.dtype == np.int64, path)
    return values


def _one_column(array: NDArray[Any], path: str) -> NDArray[Any]:
    _demand(array.ndim == 1, path)
    return array


def _only(found: Any, path: str) -> tuple[str, Any]:  # noqa: ANN401
    _demand(isinstance(found, dict) and len(found) == 1, path)
    ((name, content),) = found.items()
    return name, content


def _demand(is_right: Any, path: str) -> None:  # noqa: ANN401
    if not is_right:
        raise MalformedError(f"{path} that does not fit the rest")
