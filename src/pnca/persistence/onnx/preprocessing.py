"""The steps of a pipeline before the classifier, by skl2onnx, in one graph with ours."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from pnca.exceptions import InvalidInputError
from pnca.persistence.onnx.graph import OPSETS
from pnca.persistence.onnx.inputs import OUTPUTS, X
from pnca.persistence.onnx.running import require, run

#: What the names of the steps' tensors begin with, lest one has the name of one of ours.
_PREFIX = "steps."
_DOUBLE = f"{_PREFIX}double"


def with_steps(pipeline: Pipeline, model: Any, rows: Any) -> Any:  # noqa: ANN401
    """The graph of a classifier after those of all other steps, which some raw rows say the types of."""
    from onnx import compose, helper

    wanted = [value.name for value in model.graph.input]
    if wanted != [X]:
        raise InvalidInputError(
            "The classifier of this pipeline takes texts or truth values: encode them in a step, such as "
            "OneHotEncoder, or export the classifier alone."
        )
    require("skl2onnx")
    if rows is None:
        raise InvalidInputError(
            "A pipeline does not say what types its columns have: pass X, some rows as it takes them."
        )
    failures, one = [], inputs_of(rows[:1])
    for has_double in (True, False):  # some operators of onnxruntime know float32 alone
        try:
            before = _converted(Pipeline(pipeline.steps[:-1]), rows, has_double=has_double)
            before.ir_version = model.ir_version
            joined = compose.merge_models(before, model, io_map=[(before.graph.output[0].name, X)])
            run(joined.SerializeToString(), one)
        except Exception as error:  # each of three packages has kinds of its own, without a common base
            failures.append(str(error).strip().partition("\n")[0])
            continue
        joined.producer_name, joined.producer_version = model.producer_name, model.producer_version
        told = {entry.key: entry.value for entry in model.metadata_props}
        helper.set_model_props(joined, told | {"columns": "null", "inputs": _told(joined)})
        return joined
    raise InvalidInputError(
        f"skl2onnx does not convert the steps before the classifier ({failures[0]}): export the classifier "
        "alone, and transform inputs before it."
    )


def inputs_of(rows: Any) -> dict[str, NDArray[Any]]:  # noqa: ANN401
    """Rows of a pipeline as inputs: X, or of a table each column (n, 1), numbers as float64."""
    if not hasattr(rows, "iloc"):
        if rows.dtype.kind not in "biuf":
            raise InvalidInputError("X is an array of other things than numbers: pass a pandas table.")
        return {X: rows.astype(np.float64)}
    return {str(name): _column(rows.iloc[:, j], name) for j, name in enumerate(rows.columns)}


def _told(model: Any) -> str:  # noqa: ANN401
    from onnx import helper

    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    names = {name: helper.tensor_dtype_to_string(kind).split(".")[-1].lower() for name, kind in kinds.items()}
    return json.dumps(names, ensure_ascii=False)


def _column(column: Any, name: Any) -> NDArray[Any]:  # noqa: ANN401
    if str(name) in OUTPUTS:
        raise InvalidInputError(
            f"A column is called {name!r}, as an output of the graph is: give it another name before the fit."
        )
    if not re.fullmatch(r"\w+", str(name)):
        raise InvalidInputError(
            f"A column is called {name!r}, and skl2onnx takes names of letters, digits and underscores: give "
            "it such a name before the fit."
        )
    if getattr(column.dtype, "kind", "O") in "biuf":
        numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64)[:, None]
        return numbers
    values = column.astype(object).to_list()
    if not all(isinstance(value, str) for value in values):
        raise InvalidInputError(
            f"Column {name!r} has values that are neither numbers nor texts, or lacks some, which skl2onnx "
            "has no type for: make texts of them before the pipeline, such as 'missing'."
        )
    return np.array(values, dtype=object)[:, None]


def _converted(steps: Pipeline, rows: Any, *, has_double: bool) -> Any:  # noqa: ANN401
    """The graph of the steps, whose one output is of float64, and so are its numbers if onnxruntime can."""
    from onnx import TensorProto, helper
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    of_numbers = DoubleTensorType if has_double else FloatTensorType
    types = [
        (name, (StringTensorType if values.dtype == object else of_numbers)([None, values.shape[1]]))
        for name, values in inputs_of(rows).items()
    ]
    found = convert_sklearn(steps, initial_types=types, target_opset=dict(OPSETS))
    (inner,) = found.graph.output
    if has_double:
        _replace_imputers(found.graph)
    last = f"{_PREFIX}{inner.name}"
    found = _prefixed(found)
    found.graph.node.append(helper.make_node("Cast", [last], [_DOUBLE], to=TensorProto.DOUBLE))
    del found.graph.output[:]
    found.graph.output.append(helper.make_tensor_value_info(_DOUBLE, TensorProto.DOUBLE, None))
    return found


def _replace_imputers(graph: Any) -> None:  # noqa: ANN401
    """Fill holes by operators that onnxruntime has in float64, too."""
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.node:
        told = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if node.op_type != "Imputer" or not np.isnan(told.get("replaced_value_float", 0.0)):
            nodes.append(node)
            continue
        (value,), (filled,) = node.input, node.output
        middles = np.array(told["imputed_value_floats"], dtype=np.float64)
        graph.initializer.append(numpy_helper.from_array(middles, f"{filled}.middles"))
        nodes.append(helper.make_node("IsNaN", [value], [f"{filled}.holes"]))
        nodes.append(helper.make_node("Where", [f"{filled}.holes", f"{filled}.middles", value], [filled]))
    del graph.node[:]
    graph.node.extend(nodes)


def _prefixed(model: Any) -> Any:  # noqa: ANN401
    """The same with other names, but of its inputs; in the versions of the operators that ours are of."""
    from onnx import compose, helper

    found = compose.add_prefix(model, _PREFIX, rename_inputs=False)
    versions = {entry.domain: entry.version for entry in found.opset_import} | OPSETS
    del found.opset_import[:]
    found.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in versions.items())
    return found
