"""``pnca export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pnca.interfaces.options import Force, Json, Model


def export(
    model: Model,
    onnx: Annotated[Path, typer.Option(help="The ONNX file that is written.", show_default=False)],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model as an ONNX graph, which runs without pnca and without Python.

    Example: pnca export model.pnca --onnx model.onnx

    Outputs are probabilities, label, evidence and familiarity. The graph is run and compared with the model
    before the file is put in place. Of a model of images by a backbone its inputs are the features.

    Exit status: 0 if the graph is written, 1 if the model cannot be exported, 2 for a wrong command line,
    130 if it was stopped. If it is not 0, nothing was written.
    """
    from pnca.files import check_target
    from pnca.interfaces.saying import progress, say_json, warnings_said
    from pnca.interfaces.stopping import stoppable

    with stoppable(), warnings_said():
        check_target(onnx, overwrite=force, inputs=[model])
        with progress("exporting", ""):
            from pnca.workflows.exporting import export_model

            about = export_model(model, onnx, overwrite=force)
    if as_json:
        say_json(about)
        return
    for name in ("inputs", "outputs"):
        _say_values(f"{name.capitalize()}:", about[name])
    if about["features_by"]:
        typer.echo(f"Inputs are features by {about['features_by']}, which is a graph of its own.")
    typer.echo(f"Written to {about['file']}.")


def _say_values(title: str, values: dict[str, Any]) -> None:
    from pnca.interfaces.saying import say_list

    say_list(
        title,
        (
            f"{name}: {value['type']}, {' x '.join(map(str, value['shape']))}"
            for name, value in values.items()
        ),
    )
