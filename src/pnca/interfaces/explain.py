"""``pnca explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pnca.interfaces.options import (
    BackboneName,
    Download,
    Encoding,
    Force,
    Model,
    Separator,
    Sheet,
    Weights,
    open_users_table,
)


def explain(
    model: Model,
    data: Annotated[
        Path, typer.Argument(help="A table with the columns of the fit, or an image.", show_default=False)
    ],
    row: Annotated[
        int | None, typer.Option(min=1, help="Which row, from 1 below the header.", show_default=False)
    ] = None,
    case: Annotated[
        str | None,
        typer.Option(help="Which row, by its name in the --id column of the fit.", show_default=False),
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
) -> None:
    """Explain one answer: what it consists of, which training examples carry it, and what is unusual.

    Example: pnca explain model.pnca new.csv --row 17 -o case.html

    Exit status: 0 if it is explained, 1 if the data, the model or a setting is refused, 2 for a wrong command
    line, 130 if it was stopped.
    """
    from pnca.files import check_target, write_text
    from pnca.interfaces.networks import is_images, network_of
    from pnca.interfaces.saying import warnings_said
    from pnca.interfaces.stopping import stoppable

    with stoppable(), warnings_said():
        if out is not None:
            check_target(out, overwrite=force)
        table = None if is_images(data) else open_users_table(data, sheet, encoding, separator)

        import pnca
        from pnca.workflows.explaining import explain_image, explain_row

        fitted = pnca.load(model)
        if table is None:
            network = network_of(fitted, model, backbone, weights, download=download)
            cases = explain_image(fitted, data, network, examples)
        else:
            cases = explain_row(fitted, table, row=row, name=case, k=examples)
        if out is not None:
            write_text(out, cases.to_html())
    typer.echo(str(cases))
    if out is not None:
        typer.echo(f"\nWritten to {out}.")
