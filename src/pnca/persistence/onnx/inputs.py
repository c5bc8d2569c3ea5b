"""From what is given to scaled inputs, as in ``columns`` and ``maths.inputs``; and the network after them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pnca.columns import Column, Columns, _Given
from pnca.exceptions import InvalidInputError
from pnca.maths.inputs import FARTHEST, Scaler
from pnca.models.fitted import Fitted
from pnca.networks import MLP
from pnca.networks.mlp import unflatten
from pnca.persistence.onnx.graph import Graph, Term, concat

#: The input where there is one for all columns, or for images; and the outputs.
X = "X"
OUTPUTS = ("probabilities", "label", "evidence", "familiarity")


class Entry(NamedTuple):
    """An input of the graph."""

    name: str
    kind: str  # "double", "string" or "bool"
    shape: tuple[int, ...]  # of one row


def entries(fitted: Fitted) -> list[Entry]:
    """Inputs of the graph: X, or where columns hold texts or truth values one input for each column."""
    columns = fitted.columns
    if columns is None:
        return [Entry(X, "double", fitted.input_shape)]
    kinds = [_kind(column) for column in columns.parts]
    if set(kinds) <= {"double"}:
        return [Entry(X, "double", (len(kinds),))]
    names = [str(column.name) for column in columns.parts]
    if len(set(names)) < len(names):
        raise InvalidInputError("Two columns have the same name, which two inputs of a graph cannot have.")
    if taken := [name for name in names if name in OUTPUTS or not name]:
        raise InvalidInputError(
            f"A column is called {taken[0]!r}, as an output of the graph is: give it another name before the "
            "fit."
        )
    return [Entry(name, kind, (1,)) for name, kind in zip(names, kinds, strict=True)]


def scaled_inputs(graph: Graph, fitted: Fitted) -> tuple[Term, Term | None]:
    """Scaled inputs (n, D), and how many values (n,) of each no training example had, if that is known."""
    unseen = None
    if fitted.columns is None:
        rows = Term(graph, X).reshape(-1, math.prod(fitted.input_shape))
    elif fitted.columns.is_plain:
        rows, unseen = _plain(Term(graph, X), fitted.columns)
    else:
        rows, unseen = _encoded(_columns(graph, entries(fitted)), fitted.columns)
    return _scaled(rows, fitted.scaler), unseen


def embeddings(fitted: Fitted, inputs: Term) -> Term:
    """Outputs (m, n, d) of all particles for scaled inputs (n, D)."""
    assert isinstance(fitted.network, MLP)
    tensors = unflatten(fitted.particles, fitted.network.shapes)
    hidden, n_layers = inputs.unsqueeze(0), len(tensors) // 2
    for layer, (weights, biases) in enumerate(zip(tensors[0::2], tensors[1::2], strict=True)):
        hidden = hidden @ weights + biases[:, None, :]
        if layer < n_layers - 1:
            hidden = hidden.op("Relu")
    return hidden


def _columns(graph: Graph, wanted: list[Entry]) -> list[Term]:
    """Each column (n, 1), from an input of its own or from X."""
    if [entry.name for entry in wanted] == [X]:
        return [Term(graph, X).part(j, j + 1) for j in range(wanted[0].shape[0])]
    return [Term(graph, entry.name) for entry in wanted]


def _kind(column: Column) -> str:
    """The type of the input that a column is."""
    values = (*column.values, *column.others)
    if column.kind != "category":
        return "double"
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if all(isinstance(value, str) for value in values):
        if "" in values:
            raise InvalidInputError(
                f"Column {column.name!r} has an empty text among its categories, which stands for a hole in "
                "an ONNX graph: call that category something before the fit."
            )
        return "string"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "double"
    odd = next(value for value in values if not isinstance(value, str))
    raise InvalidInputError(
        f"Column {column.name!r} has categories such as {odd!r}; an ONNX graph takes texts, truth values or "
        "numbers, one sort in a column: make texts of them before the fit."
    )


def _scaled(rows: Term, scaler: Scaler | None) -> Term:
    """Rows (n, D) centred and divided, and rounded to float32 as a prediction's are."""
    from onnx import TensorProto

    if scaler is not None:
        rows = ((rows - scaler.centre) / scaler.spread).op("Clip", -FARTHEST, FARTHEST)
    return rows.cast(TensorProto.FLOAT).cast(TensorProto.DOUBLE)


def _plain(rows: Term, columns: Columns) -> tuple[Term, Term]:
    """Numbers of which training lacked none: the median stands for a hole."""
    from onnx import TensorProto

    is_hole = rows.op("IsNaN")
    filled = is_hole.op("Where", np.array([column.middle for column in columns.parts]), rows)
    return filled, is_hole.cast(TensorProto.DOUBLE).sum(-1)


def _encoded(terms: list[Term], columns: Columns) -> tuple[Term, Term]:
    """Places of all columns (n, D), and the values (n,) that were never seen."""
    places, new = [], []
    for term, column in zip(terms, columns.parts, strict=True):
        if column.kind == "left out":
            continue
        of_column, is_new = (_category if column.kind == "category" else _number)(term, column)
        places.append(of_column)
        new.append(is_new)
    return concat(places, axis=1), concat(new, axis=1).sum(-1)


def _number(term: Term, column: Column) -> tuple[Term, Term]:
    """Numbers (n, 1) with the median for holes, and a mark for these where training had some."""
    from onnx import TensorProto

    is_hole = term.op("IsNaN")
    mark = is_hole.cast(TensorProto.DOUBLE)
    filled = is_hole.op("Where", np.array(column.middle), term)
    return (concat([filled, mark], axis=1), mark * 0) if column.has_holes else (filled, mark)


def _category(term: Term, column: Column) -> tuple[Term, Term]:
    """Places of categories (n, 1) by a table of what each value becomes, holes and new ones too."""
    keys = [*column.values, *column.others]
    number = _number_of(term, keys, _kind(column))
    # An object is a value that no column has held.
    is_hole = np.array([False] * len(keys) + [True, False])
    values = _Given("category", is_hole, np.empty(0), [*keys, None, object()])
    table = np.column_stack(column._encode_category(values))  # (keys + 2, places + 1)
    row = number.graph.op("Gather", table, number, axis=0)  # (n, places + 1)
    return row.part(0, column.n_places), row.part(column.n_places, column.n_places + 1)


def _number_of(term: Term, keys: list[Any], kind: str) -> Term:
    """Number (n,) of a value among the keys; the next is that of holes, and the last that of new values."""
    from onnx import TensorProto

    n = len(keys)
    if kind == "string":
        numbers = term.op(
            "LabelEncoder", domain="ai.onnx.ml", keys_strings=[*keys, ""], values_int64s=list(range(n + 1)),
            default_int64=n + 1,
        )  # fmt: skip
        return numbers.reshape(-1)
    value = term.cast(TensorProto.DOUBLE) if kind == "bool" else term
    marks = value.op("Equal", np.array([keys], dtype=np.float64)).cast(TensorProto.DOUBLE)  # (n, keys)
    number = marks @ (np.arange(n) - (n + 1.0))[:, None] + (n + 1)
    return (number - value.op("IsNaN").cast(TensorProto.DOUBLE)).reshape(-1).cast(TensorProto.INT64)
