"""``pnca fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pnca.exceptions import InvalidInputError
from pnca.interfaces.options import (
    IMAGES,
    BackboneName,
    Codes,
    Download,
    Encoding,
    Folder,
    Force,
    Group,
    Hole,
    Id,
    Ignore,
    Json,
    PathColumn,
    ScaleName,
    Seed,
    Separator,
    Sheet,
    SkipBroken,
    SkipMissing,
    Store,
    StoreName,
    Target,
    Weights,
    open_users_table,
    refuse_for_tables,
    target_of,
)

if TYPE_CHECKING:
    from pnca.estimators import PNCAClassifier
    from pnca.tables import Roles, TableFile
    from pnca.vision import Backbone
    from pnca.workflows.images import LabelledImages


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="A table (.csv, .tsv, .xlsx, .parquet), or a folder of images with a folder for each class.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file.", show_default=False)],
    target: Target = None,
    id: Id = None,
    group: Group = None,
    ignore: Ignore = None,
    codes: Codes = None,
    hole: Hole = None,
    skip_missing: SkipMissing = False,
    sheet: Sheet = None,
    encoding: Encoding = None,
    separator: Separator = None,
    path_column: PathColumn = None,
    folder: Folder = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    download: Download = False,
    scale: Annotated[
        ScaleName | None,
        typer.Option(
            help="Pixel values that an ONNX backbone takes.",
            show_default="0-255",
            rich_help_panel=IMAGES,
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            min=4, max=64, help="Side to which images are shrunk without a backbone.", rich_help_panel=IMAGES
        ),
    ] = None,
    skip_broken: SkipBroken = False,
    store: Store = StoreName.full,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a model on a table or on images, and say what it can promise.

    Example: pnca fit train.csv --target diagnosis --id sample --group patient -o model.pnca

    Example: pnca fit images/ --backbone resnet50.onnx -o model.pnca

    Of a table every column without a role is an input: numbers, text, dates, truth values, with holes. What
    each was taken for is printed, and kept in the model. Images are in a folder for each class, or a table
    names them (--path-column); of small ones the pixels are inputs, of others the features by a pretrained
    network (--backbone).

    Exit status: 0 if the model is written, 1 if the data or a setting is refused, 2 for a wrong command line,
    130 if it was stopped. If it is not 0, nothing was written.
    """
    from pnca.files import check_target
    from pnca.interfaces.networks import load_network
    from pnca.interfaces.saying import warnings_said
    from pnca.interfaces.stopping import stoppable
    from pnca.tables import Roles

    with stoppable(), warnings_said():
        check_target(out, overwrite=force, inputs=[data])
        table = None if data.is_dir() else open_users_table(data, sheet, encoding, separator)
        _check_target(data, table, target, path_column)
        others = {"ignore": tuple(ignore or ()), "codes": tuple(codes or ())}
        roles = Roles(target=target or "", id=id, group=group, path=path_column, **others)
        if table is None or path_column:
            images = _images(data, table, roles, folder, skip_missing=skip_missing, skip_broken=skip_broken)
            network = load_network(backbone, weights, scale, download=download)
            model = _fit_images(images, network, size, scale, seed)
        else:
            refuse_for_tables(backbone=backbone, weights=weights, scale=scale, size=size, folder=folder)
            model = fit_users_table(table, roles, tuple(hole or ()), seed, skip_missing=skip_missing)
        write_model(model, out, store=store, force=force, as_json=as_json)


def _check_target(data: Path, table: TableFile | None, target: str | None, path_column: str | None) -> None:
    if table is None and (target or path_column):
        raise InvalidInputError(
            f"{data} is a folder, in which folders are the classes: leave out --target and --path-column, or "
            "name a table."
        )
    if table is not None:
        target_of(table, target)


def fit_users_table(
    table: TableFile, roles: Roles, holes: tuple[str, ...], seed: int, *, skip_missing: bool
) -> PNCAClassifier:
    """Fit the examples of a table, and say what looks odd about them."""
    from pnca.interfaces.saying import warn
    from pnca.tables import read_examples

    examples = read_examples(table, roles, skip_missing=skip_missing, holes=holes)
    for note in examples.notes:
        warn(note)
    from pnca.workflows import fit_table

    return fit_table(examples, codes=roles.codes, seed=seed, verbose=shows_progress())


def _images(
    data: Path,
    table: TableFile | None,
    roles: Roles,
    folder: Path | None,
    *,
    skip_missing: bool,
    skip_broken: bool,
) -> LabelledImages:
    """Images of a folder or of a table, without broken ones if these are skipped."""
    from pnca.interfaces.saying import warn
    from pnca.workflows.images import images_of_folder, images_of_table, without_broken

    if table is None:
        images = images_of_folder(data)
    else:
        images = images_of_table(table, roles, folder or data.parent, skip_missing=skip_missing)
    if skip_broken:
        images = without_broken(images)
    for note in images.notes:
        warn(note)
    return images


def _fit_images(
    images: LabelledImages, network: Backbone | None, size: int | None, scale: ScaleName | None, seed: int
) -> PNCAClassifier:
    from pnca.interfaces.saying import progress
    from pnca.workflows.images import fit_images

    shows = shows_progress()
    with progress("reading images", "images") as advance:
        return fit_images(
            images,
            network,
            size=size,
            scale="" if scale is None else scale.value,
            seed=seed,
            verbose=shows,
            progress=lambda done, n: advance(),
        )


def shows_progress() -> bool:
    """Whether standard error is a terminal; progress is then shown there."""
    import rich

    rich.reconfigure(stderr=True)
    return rich.get_console().is_terminal


def write_model(model: PNCAClassifier, out: Path, *, store: StoreName, force: bool, as_json: bool) -> None:
    """Write a fitted model, and say what it is."""
    import pnca
    from pnca.interfaces.info import say_about
    from pnca.interfaces.saying import say_json
    from pnca.workflows import about_model

    pnca.save(model, out, overwrite=force, store=store.value)
    about = about_model(out)
    if as_json:
        say_json(about)
    else:
        say_about(about, is_new=True)
