"""A graph of ONNX operations that is written as formulas are: terms, with ``+`` and ``@`` between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

#: The operators that onnxruntime 1.17, the oldest that is supported, and skl2onnx both know.
OPSETS = {"": 18, "ai.onnx.ml": 3}
#: Numbers in single precision from which on it is worth to keep them so.
_MANY_NUMBERS = 64
#: What all tensors of ours are called, lest one has the name of an input.
_PREFIX = "pnca."

Number = int | float


@dataclass
class Graph:
    """Operations and constants in the order in which they are added."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    _n_names: int = 0

    def constant(self, value: Any) -> Term:  # noqa: ANN401
        """A constant: a tensor or array as float64, whole numbers, truth values and texts as they are.

        Many numbers of float32 take half of the room and are made float64 as the graph begins.
        """
        from onnx import TensorProto, numpy_helper

        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype == np.float32 and array.size < _MANY_NUMBERS:
            array = array.astype(np.float64)
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
        elif array.dtype.kind == "U":
            array = array.astype(object)
        name = self._name("constant")
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        term = Term(self, name)
        return term.cast(TensorProto.DOUBLE) if array.dtype == np.float32 else term

    def op(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> Term:  # noqa: ANN401
        """The result of an operation; inputs that are no terms are constants."""
        from onnx import helper

        names = [(x if isinstance(x, Term) else self.constant(x)).name for x in inputs]
        output = self._name(kind)
        # Named, because onnxruntime 1.19 calls all nodes that it makes of nameless ones the same.
        self.nodes.append(helper.make_node(kind, names, [output], name=output, domain=domain, **attributes))
        return Term(self, output)

    def output(self, term: Term, name: str) -> None:
        """Give a term a name of its own."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [term.name], [name], name=f"{_PREFIX}{name}"))

    def _name(self, kind: str) -> str:
        self._n_names += 1
        return f"{_PREFIX}{kind.lower()}.{self._n_names}"


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor that the graph computes."""

    graph: Graph
    name: str

    def op(self, kind: str, *others: Any, **attributes: Any) -> Term:  # noqa: ANN401
        """The result of an operation on this and others."""
        return self.graph.op(kind, self, *others, **attributes)

    def __add__(self, other: Any) -> Term:  # noqa: ANN401
        return self.op("Add", _real(other))

    def __sub__(self, other: Any) -> Term:  # noqa: ANN401
        return self.op("Sub", _real(other))

    def __mul__(self, other: Any) -> Term:  # noqa: ANN401
        return self.op("Mul", _real(other))

    def __truediv__(self, other: Any) -> Term:  # noqa: ANN401
        return self.op("Div", _real(other))

    def __matmul__(self, other: Any) -> Term:  # noqa: ANN401
        return self.op("MatMul", _real(other))

    def __neg__(self) -> Term:
        return self.op("Neg")

    def exp(self) -> Term:
        """Exponential."""
        return self.op("Exp")

    def log(self) -> Term:
        """Natural logarithm."""
        return self.op("Log")

    def at_least(self, least: Number) -> Term:
        """The larger of each number and a limit."""
        return self.op("Max", float(least))

    def sum(self, *axes: int, keep: bool = False) -> Term:
        """Sum over axes."""
        return self._reduced("ReduceSum", axes, keep)

    def amin(self, *axes: int, keep: bool = False) -> Term:
        """Smallest number over axes."""
        return self._reduced("ReduceMin", axes, keep)

    def logsumexp(self, *axes: int, keep: bool = False) -> Term:
        """Log of the sum of exponentials over axes."""
        return self._reduced("ReduceLogSumExp", axes, keep)

    def cast(self, kind: int) -> Term:
        """The same numbers in another type of ONNX."""
        return self.op("Cast", to=kind)

    def reshape(self, *shape: int) -> Term:
        """The same numbers in another shape; -1 is what is left."""
        return self.op("Reshape", np.array(shape))

    def unsqueeze(self, axis: int) -> Term:
        """One more axis of length one."""
        return self.op("Unsqueeze", np.array([axis]))

    def part(self, start: int, stop: int, axis: int = -1) -> Term:
        """A slice along an axis."""
        return self.op("Slice", np.array([start]), np.array([stop]), np.array([axis]))

    def _reduced(self, kind: str, axes: tuple[int, ...], keep: bool) -> Term:
        return self.op(kind, np.array(axes), keepdims=int(keep))


def concat(terms: list[Term], axis: int) -> Term:
    """Terms one after the other along an axis."""
    return terms[0] if len(terms) == 1 else terms[0].op("Concat", *terms[1:], axis=axis)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """Numbers of a tensor, for what is computed before the graph begins."""
    return tensor.detach().cpu().double().numpy()


def _real(value: Any) -> Any:  # noqa: ANN401
    """A number as float64: operations know no two types at once."""
    return float(value) if isinstance(value, int | float) else value
