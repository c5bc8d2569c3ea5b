"""``pnca suggest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pnca.interfaces.options import (
    BackboneName,
    Download,
    Encoding,
    Folder,
    Force,
    Id,
    Json,
    Model,
    PathColumn,
    Separator,
    Sheet,
    SkipBroken,
    Weights,
    is_of_images,
    open_users_data,
    open_users_parts,
    refuse_for_tables,
)


def suggest(
    model: Model,
    pool: Annotated[
        Path,
        typer.Argument(
            help="A table without labels, with the columns of the fit, or a folder of images.",
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="How many are to be labelled next.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The suggestions as a table, too: .csv, .tsv or .parquet.", show_default=False
        ),
    ] = None,
    id: Id = None,
    sheet: Sheet = None,
    encoding: Encoding = None,
    separator: Separator = None,
    path_column: PathColumn = None,
    folder: Folder = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    download: Download = False,
    skip_broken: SkipBroken = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Suggest what to label next: inputs that stand for many of the mistakes that the model expects to make.

    Example: pnca suggest model.pnca pool.csv -k 20 -o next.csv

    The most useful comes first. "Stands for" is the number of expected mistakes of the pool that an input
    stands for, beside those of earlier ones. Label them, add them to the training table and fit again before
    asking for more. Of a pool of more than 4,000, that many are drawn and compared.

    Exit status: 0 if suggestions are made, 1 if the data, the model or a setting is refused, 2 for a wrong
    command line, 130 if it was stopped.
    """
    from pnca.files import check_target
    from pnca.interfaces.networks import images_named, network_of
    from pnca.interfaces.saying import progress, say_json, warn, warnings_said
    from pnca.interfaces.stopping import stoppable

    with stoppable(), warnings_said():
        if out is not None:
            check_target(out, overwrite=force, inputs=[model, pool])
        table = open_users_data(pool, sheet, encoding, separator)

        import pnca
        from pnca.workflows.suggesting import suggest_images, suggest_rows

        fitted = pnca.load(model)
        if table is None and pool.is_dir() and not is_of_images(fitted):
            table = open_users_parts(pool, sheet, encoding, separator)
        if table is None or path_column:
            files = images_named(fitted, pool, table, path_column, folder)
            network = network_of(fitted, model, backbone, weights, download=download)
            with progress("reading images", "images") as advance:
                found = suggest_images(
                    fitted, files, network, k, skip_broken=skip_broken, progress=lambda done, n: advance()
                )
        else:
            refuse_for_tables(backbone=backbone, weights=weights, folder=folder)
            with progress("comparing", ""):
                found = suggest_rows(fitted, table, k, id=id)
        if out is not None:
            found.write(out, overwrite=force)
    for note in found.notes:
        warn(note)
    if as_json:
        say_json(found.as_dict())
        return
    typer.echo(found.text())
    if out is not None:
        typer.echo(f"Written to {out}.")
