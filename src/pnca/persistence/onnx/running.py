"""Running a graph with onnxruntime; what is needed for it is optional."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import MissingExtraError

#: Types of numbers by what onnxruntime calls them.
_NUMBERS = {"tensor(double)": np.float64, "tensor(float)": np.float32}


def run(content: bytes, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What a graph answers on a CPU, by the names of its outputs."""
    onnxruntime = require("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    kinds = {given.name: _NUMBERS.get(given.type) for given in session.get_inputs()}
    given = {
        name: inputs[name] if kind is None else inputs[name].astype(kind) for name, kind in kinds.items()
    }
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def require(name: str) -> Any:  # noqa: ANN401
    """An optional module; an error that names the extra it comes with."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(name, "onnx") from error
