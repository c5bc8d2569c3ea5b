"""``pnca predict``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca.exceptions import InvalidInputError
from pnca.interfaces.options import (
    BackboneName,
    Download,
    Encoding,
    EngineName,
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

if TYPE_CHECKING:
    from pnca.workflows import PredictedFile
    from pnca.workflows.clusters import Cluster


def predict(
    model: Model,
    data: Annotated[
        Path,
        typer.Argument(
            help="A table with the columns of the fit, a folder of tables or a pattern such as "
            "'parts/*.parquet', or a folder of images.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The predictions: .csv, .tsv or .parquet.", show_default=False)
    ],
    max_error: Annotated[float, typer.Option(help="Share of the answers that may be wrong.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="Probability with which that shall hold.")] = 0.9,
    coverage: Annotated[float, typer.Option(help="Share of the sets that shall hold the class.")] = 0.9,
    examples: Annotated[
        int, typer.Option(min=0, help="Training examples that are named with each prediction.")
    ] = 3,
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
    engine: Annotated[
        EngineName,
        typer.Option(help="Predict files of a folder here, or several at a time by processes of Dask."),
    ] = EngineName.local,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler, such as tcp://host:8786.", show_default="processes here"
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes of Dask here.", show_default="one for each core")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict a table or images: for each an answer, or none and the reason, and what it rests on.

    Example: pnca predict model.pnca new.csv -o predictions.csv --max-error 0.05

    Example: pnca predict model.pnca newimages/ -o predictions.csv

    Example: pnca predict model.pnca 'parts/*.parquet' -o predictions.parquet --engine dask

    Columns are found by their names. Rows are read and written in parts, so that memory does not grow with
    their number. Whether they drifted as a whole is judged by at most 2,000 of them. A model of images
    looks for its backbone here and beside the model file, and takes no other one.

    Exit status: 0 if the predictions are written, 1 if the data, the model or a setting is refused, 2 for a
    wrong command line, 130 if it was stopped. If it is not 0, nothing was written.
    """
    from pnca.files import check_target
    from pnca.interfaces.networks import images_named, network_of
    from pnca.interfaces.saying import progress, warnings_said
    from pnca.interfaces.stopping import stoppable

    with stoppable(), warnings_said():
        check_target(out, overwrite=force, inputs=[model, data])
        if data.is_dir() and data.samefile(out.parent):
            raise InvalidInputError(f"{data} is the folder that is read: name a file in another one.")
        check_engine(engine, scheduler, jobs)
        table = open_users_data(data, sheet, encoding, separator)

        import pnca
        from pnca.workflows import predict_table
        from pnca.workflows.answers import Settings
        from pnca.workflows.images import predict_images

        fitted = pnca.load(model)
        if table is None and data.is_dir() and not is_of_images(fitted):
            table = open_users_parts(data, sheet, encoding, separator)
        shares = {"max_error": max_error, "confidence": confidence, "coverage": coverage}
        settings = Settings(**shares, n_examples=examples)
        with progress("predicting", "done") as advance, processes(engine, scheduler, jobs) as cluster:
            options: dict[str, Any] = {"overwrite": force, "advance": advance}
            if table is None or path_column:
                if cluster is not None:
                    raise InvalidInputError("--engine dask is for tables: images are predicted here.")
                files = images_named(fitted, data, table, path_column, folder)
                network = network_of(fitted, model, backbone, weights, download=download)
                options |= {"backbone": network, "settings": settings, "skip_broken": skip_broken}
                found = predict_images(fitted, files, out, **options)
            else:
                refuse_for_tables(backbone=backbone, weights=weights, folder=folder)
                found = predict_table(fitted, table, out, settings, id=id, cluster=cluster, **options)
    say_predicted(found, as_json=as_json)


def check_engine(engine: EngineName, scheduler: str | None, jobs: int | None) -> None:
    """Refuse options that do not go together."""
    if engine is EngineName.local and (scheduler is not None or jobs is not None):
        raise InvalidInputError("--scheduler and --jobs are for processes of Dask: add --engine dask.")
    if scheduler is not None and jobs is not None:
        raise InvalidInputError("--jobs is for processes here: a scheduler has its own workers.")


@contextmanager
def processes(engine: EngineName, scheduler: str | None, jobs: int | None) -> Iterator[Cluster | None]:
    """Start or find the processes that predict; None where it is this one."""
    if engine is EngineName.local:
        yield None
        return
    from pnca.workflows.clusters import dask_cluster

    with dask_cluster(scheduler, jobs) as cluster:
        yield cluster


def say_predicted(found: PredictedFile, *, as_json: bool) -> None:
    """Print how many were answered, and warn of what should be looked at."""
    from pnca.interfaces.saying import say_json, warn
    from pnca.workflows.predicting import drift_note

    drifted = drift_note(found.drift, found.n)
    for note in (*found.notes, *([drifted] if drifted else [])):
        warn(note)
    if as_json:
        say_json(_as_dict(found))
        return
    counts = ", ".join(f"{n} {reason}" for reason, n in found.counts.items())
    typer.echo(f"{found.n} inputs: {counts}. Written to {found.path}.")


def _as_dict(found: PredictedFile) -> dict[str, Any]:
    drift = found.drift
    return {
        "file": str(found.path),
        "n": found.n,
        "reasons": dict(found.counts),
        "drift": None
        if drift is None
        else {"p_value": drift.p_value, "share": drift.share, "n": drift.n, "summary": drift.summary()},
        "notes": list(found.notes),
    }
