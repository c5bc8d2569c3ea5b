"""A model file as an ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pnca.persistence.model_file import load
from pnca.persistence.onnx.model import export_onnx
from pnca.persistence.onnx.running import require
from pnca.sources import ImageSource
from pnca.workflows.about import sha256_of


def export_model(path: str | Path, graph: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write the model of a file as an ONNX graph, and say what goes in and what comes out.

    Parameters
    ----------
    path : str or Path
        From ``pnca fit`` or :func:`pnca.save`.
    graph : str or Path
        The file that is written, whole or not at all; see :func:`pnca.export_onnx`.
    overwrite : bool
        Whether ``graph`` may be replaced.

    Returns
    -------
    dict
        Plain values, as JSON has them.
    """
    model = load(path)
    written = export_onnx(model, graph, overwrite=overwrite)
    described = require("onnx").load(str(written)).graph
    source = getattr(model, "source_", None)
    is_of_features = isinstance(source, ImageSource) and source.has_features
    return {
        "file": str(written),
        "sha256": sha256_of(written),
        "bytes": written.stat().st_size,
        "inputs": {value.name: _described(value) for value in described.input},
        "outputs": {value.name: _described(value) for value in described.output},
        "features_by": source.backbone if is_of_features and source is not None else None,
    }


def _described(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Type and shape of an input or output; a text is a size that is free."""
    onnx = require("onnx")
    tensor = value.type.tensor_type
    sizes = [size.dim_param or size.dim_value for size in tensor.shape.dim]
    return {"type": onnx.TensorProto.DataType.Name(tensor.elem_type).lower(), "shape": sizes}
