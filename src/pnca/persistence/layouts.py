"""What a field of a fitted model may hold, and how it becomes JSON and tensors, and back.

A tensor is stored under the path of its field; JSON has the order of its dimensions in memory, on which the
last digits of matrix products depend. Dimensions are letters, and a letter has one length in the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pnca.persistence.encoding import MalformedError, decode, encode

#: Types of tensors that a file may hold.
DTYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip


@dataclass
class Store:
    """The tensors of a file by their paths; when it is read, also what is known of their lengths."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    lengths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    module: Any = None  # the builder that a reader was given
    has_record: bool = True  # whether a writer keeps the record of the fit
    used: set[str] = field(default_factory=set)

    def put(self, path: str, tensor: Tensor) -> list[int]:
        """Keep a tensor; the order of its dimensions in memory, the outermost first."""
        tensor = tensor.detach().cpu()
        strides = tensor.stride()
        order = sorted(range(tensor.dim()), key=lambda side: -strides[side])
        self.tensors[path] = tensor.permute(order).contiguous().clone()  # no two may share memory
        return order

    def take(self, path: str, order: Any) -> Tensor:  # noqa: ANN401
        """A tensor as it was put."""
        if path not in self.tensors or type(order) is not list:
            raise MalformedError(f"no {path}")
        tensor = self.tensors[path]
        if any(type(side) is not int for side in order) or sorted(order) != list(range(tensor.dim())):
            raise MalformedError(f"no order of {path}")
        self.used.add(path)
        # Into memory of torch's own, as far apart as a fit has it.
        return tensor.clone().permute([order.index(side) for side in range(tensor.dim())])

    def agree(self, letter: str, length: int | tuple[int, ...], path: str) -> None:
        """Note the length of a dimension; an error if it was another one before."""
        found = (length,) if isinstance(length, int) else length
        if self.lengths.setdefault(letter, found) != found:
            raise MalformedError(f"{path} of a size that does not fit the rest")


class Kind(Protocol):
    """What a field may hold."""

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value as JSON; its tensors go to the store."""
        ...

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value of this JSON; a MalformedError if there is none."""
        ...


class Array(NamedTuple):
    """A tensor, or an array of numpy, of one type and of these dimensions; ``...`` are those of an input."""

    dtype: torch.dtype
    dims: str  # letters
    least: float = float("-inf")
    most: float = float("inf")
    below: str = ""  # an index: less than the length of this letter
    is_positive: bool = False
    is_numpy: bool = False
    may_be_infinite: bool = False

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The order of the dimensions."""
        return store.put(path, torch.from_numpy(np.ascontiguousarray(value)) if self.is_numpy else value)

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The tensor, whose type, shape and values are looked at."""
        tensor = store.take(path, found)
        self._check_shape(tensor, path, store)
        if tensor.dtype != self.dtype or not self._has_legal_values(tensor, store):
            raise MalformedError(f"{path} of numbers that it cannot hold")
        return tensor.numpy() if self.is_numpy else tensor

    def _check_shape(self, tensor: Tensor, path: str, store: Store) -> None:
        letters, shape = self.dims.split(), tuple(tensor.shape)
        if letters[-1:] == ["..."]:
            letters = letters[:-1]
            store.agree("...", shape[len(letters) :], path)
            shape = shape[: len(letters)]
        if len(shape) != len(letters):
            raise MalformedError(f"{path} of another number of dimensions")
        for letter, length in zip(letters, shape, strict=True):
            if letter.isdecimal() and length != int(letter):
                raise MalformedError(f"{path} of a size that it cannot have")
            store.agree(letter, length, path)

    def _has_legal_values(self, tensor: Tensor, store: Store) -> bool:
        if not tensor.numel():
            return True
        if bool((tensor.isnan() if self.may_be_infinite else ~tensor.isfinite()).any()):
            return False
        low, high = tensor.min().item(), tensor.max().item()
        is_index = not self.below or (low >= 0 and high < store.lengths[self.below][0])
        return is_index and self.least <= low and high <= self.most and (low > 0 or not self.is_positive)


class Value(NamedTuple):
    """A plain value of one type of Python's: a number within limits, or one of some texts."""

    type: type
    least: float = float("-inf")
    most: float = float("inf")
    is_positive: bool = False
    choices: tuple[str, ...] = ()

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value as it is."""
        return encode(self.type(value), path)

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value, if it is within the limits."""
        value = decode(found)
        if type(value) is not self.type or (self.choices and value not in self.choices):
            raise MalformedError(f"{path} of a value that it cannot have")
        if isinstance(value, int | float) and not self._has(value):
            raise MalformedError(f"{path} of a value that it cannot have")
        return value

    def _has(self, value: float) -> bool:
        is_finite = isinstance(value, int) or math.isfinite(value)
        return is_finite and self.least <= value <= self.most and (value > 0 or not self.is_positive)


class Plain(NamedTuple):
    """Anything that :mod:`pnca.persistence.encoding` can say, or only values of some types of it."""

    types: tuple[type, ...] = ()

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """Typed JSON."""
        return encode(value, path)

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value."""
        value = decode(found)
        if self.types and type(value) not in self.types:
            raise MalformedError(f"{path} of a type that it cannot have")
        return value


class Several(NamedTuple):
    """A tuple or list of values of one kind."""

    item: Kind
    type: Callable[[Any], Any] = tuple

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """A list."""
        return [self.item.write(part, f"{path}.{place}", store) for place, part in enumerate(value)]

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The values."""
        if not isinstance(found, list):
            raise MalformedError(f"{path} that is no list")
        return self.type(self.item.read(part, f"{path}.{place}", store) for place, part in enumerate(found))


class Named(NamedTuple):
    """Values of one kind by names."""

    item: Kind

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """An object."""
        return {name: self.item.write(part, f"{path}.{name}", store) for name, part in value.items()}

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The values in their order."""
        if not isinstance(found, dict):
            raise MalformedError(f"{path} that is no object")
        return {name: self.item.read(part, f"{path}.{name}", store) for name, part in found.items()}


class Maybe(NamedTuple):
    """A value of a kind, or None."""

    item: Kind

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """Null, or the value."""
        return None if value is None else self.item.write(value, path, store)

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """None, or the value."""
        return None if found is None else self.item.read(found, path, store)


class Sized(NamedTuple):
    """A value of a kind, by which lengths are known."""

    item: Kind
    lengths: Mapping[str, Callable[[Any], int | tuple[int, ...]]]  # by letters

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value."""
        return self.item.write(value, path, store)

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The value, whose lengths are noted."""
        value = self.item.read(found, path, store)
        for letter, length_of in self.lengths.items():
            store.agree(letter, length_of(value), path)
        return value


#: Classes of objects by their names in files, each with the kinds of its fields.
Classes = Mapping[str, tuple[type, Mapping[str, Kind]]]


class Part(NamedTuple):
    """An object of one of some classes, each with the kinds of its fields."""

    classes: Classes

    def write(self, value: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The name of the class, and its fields."""
        for name, (kind, fields) in self.classes.items():
            if type(value) is kind:
                parts = fields.items()
                return {name: {key: k.write(getattr(value, key), f"{path}.{key}", store) for key, k in parts}}
        raise MalformedError(f"{path} of class {type(value).__name__}")

    def read(self, found: Any, path: str, store: Store) -> Any:  # noqa: ANN401
        """The object."""
        name = next(iter(found)) if isinstance(found, dict) and len(found) == 1 else ""
        if name not in self.classes:
            raise MalformedError(f"{path} of a class that it cannot have")
        content, (kind, fields) = found[name], self.classes[name]
        if not isinstance(content, dict) or content.keys() != fields.keys():
            raise MalformedError(f"{path} of other fields")
        return kind(**{key: k.read(content[key], f"{path}.{key}", store) for key, k in fields.items()})
