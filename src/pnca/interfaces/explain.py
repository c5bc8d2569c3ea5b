"""``pnca explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pnca.interfaces.options import (
    BackboneName,
    Download,
    Encoding,
    Force,
    Json,
    Model,
    Separator,
    Sheet,
    Weights,
    is_of_images,
    open_users_data,
    open_users_parts,
)


def explain(
    model: Model,
    data: Annotated[
        Path,
        typer.Argument(
            help="A table with the columns of the fit, an image, or a folder of images.", show_default=False
        ),
    ],
    row: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Which row, from 1 below the header; may be repeated.", show_default=False),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            help="Which row, by its name in the --id column of the fit, or which image; may be repeated.",
            show_default=False,
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Training examples that are named.")] = 5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A page of HTML, too.", show_default=False)
    ] = None,
    sheet: Sheet = None,
    encoding: Encoding = None,
    separator: Separator = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    download: Download = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Explain answers: what each consists of, which training examples carry it, and what is unusual.

    Example: pnca explain model.pnca new.csv --row 17 -o case.html

    Example: pnca explain model.pnca newimages/ --case left/03.png --case right/11.png

    Exit status: 0 if all are explained, 1 if the data, the model or a setting is refused, 2 for a wrong
    command line, 130 if it was stopped.
    """
    from pnca.files import check_target, replacing
    from pnca.interfaces.networks import network_of
    from pnca.interfaces.saying import progress, say_json, warnings_said
    from pnca.interfaces.stopping import stoppable

    with stoppable(), warnings_said():
        if out is not None:
            check_target(out, overwrite=force, inputs=[model, data])
        table = open_users_data(data, sheet, encoding, separator)

        import pnca
        from pnca.explanations.values import case_as_dict
        from pnca.vision.folders import image_files
        from pnca.workflows.explaining import explain_images, explain_rows

        fitted = pnca.load(model)
        if table is None and data.is_dir() and not is_of_images(fitted):
            table = open_users_parts(data, sheet, encoding, separator)
        which: dict[str, Any] = {"rows": row or (), "names": case or (), "k": examples}
        with progress("explaining", ""):
            if table is None:
                network = network_of(fitted, model, backbone, weights, download=download)
                cases = explain_images(fitted, image_files(data), network, **which)
            else:
                cases = explain_rows(fitted, table, **which)
            if out is not None:
                page = cases.to_html()
                with replacing(out, overwrite=force) as temporary:
                    temporary.write_text(page, encoding="utf-8")
    if as_json:
        say_json([case_as_dict(one) for one in cases])
        return
    typer.echo("\n\n\n".join(map(str, cases)))
    if out is not None:
        typer.echo(f"\nWritten to {out}.")
