"""JSON that may be damaged or forged: what is read has the expected shape, and every number is finite."""

import json
from typing import Any

#: Numbers beyond it stand for nothing here, and overflow where they are converted.
_LARGEST = 1e15
_WORDS: dict[Any, str] = {
    **{str: "text", bool: "true or false", int: "a whole number", float: "a number", type(None): "null"},
    **{list: "a list", dict: "a mapping"},
}


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401
    """Parse JSON; whatever is wrong with it, NaN, infinity and half characters included, is a ValueError."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()  # half of a character could not be written
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def check_shape(value: Any, shape: Any, name: str = "it") -> None:  # noqa: ANN401
    """Raise ValueError unless a value from JSON has a shape.

    A shape is a type (``float`` is any finite number, ``object`` anything), None, a tuple of alternatives,
    ``[shape]`` for a list, ``{str: shape}`` for a mapping of any names, or a dict of the names that must be
    there with the shape of each; ``"name?"`` may be absent.
    """
    if isinstance(shape, tuple):
        if not any(_is(value, one) for one in shape):
            raise ValueError(f"{name} is none of {', '.join(map(_describe, shape))}")
    elif isinstance(shape, list):
        _check_type(value, list, name)
        for i, item in enumerate(value):
            check_shape(item, shape[0], f"{name}[{i}]")
    elif isinstance(shape, dict):
        _check_type(value, dict, name)
        required = {} if str in shape else {key: inner for key, inner in shape.items() if key[-1] != "?"}
        if absent := sorted(required.keys() - value.keys()):
            raise ValueError(f"{name} lacks {absent}")
        for key, item in value.items():
            if (inner := shape.get(str, shape.get(key, shape.get(f"{key}?", object)))) is not object:
                check_shape(item, inner, f"{name}[{key!r}]")
    else:
        _check_type(value, type(None) if shape is None else shape, name)


def _is(value: Any, shape: Any) -> bool:  # noqa: ANN401
    try:
        check_shape(value, shape)
    except ValueError:
        return False
    return True


def _check_type(value: Any, kind: type, name: str) -> None:  # noqa: ANN401
    accepted = (int, float) if kind is float else (kind,)
    is_number = kind in (int, float)
    if not isinstance(value, accepted) or (is_number and isinstance(value, bool)):
        raise ValueError(f"{name} is not {_describe(kind)}")
    if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name} is not a finite number of reasonable size")


def _describe(shape: Any) -> str:  # noqa: ANN401
    kind = type(shape) if isinstance(shape, list | dict) or shape is None else shape
    return _WORDS[kind]
