"""``pnca fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pnca.interfaces.options import (
    Encoding,
    Force,
    Id,
    Json,
    Separator,
    Sheet,
    Store,
    StoreName,
    open_users_table,
)

if TYPE_CHECKING:
    from pnca.estimators import PNCAClassifier


def fit(
    data: Annotated[Path, typer.Argument(help="A table: .csv, .tsv, .xlsx, .parquet.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file.", show_default=False)],
    target: Annotated[str, typer.Option(help="Column with the class.", show_default=False)],
    id: Id = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column that says which rows belong together, such as a patient.", show_default=False
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column that is no input; may be repeated.", show_default=False)
    ] = None,
    codes: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of numbers that are names, such as a ward; may be repeated.", show_default=False
        ),
    ] = None,
    hole: Annotated[
        list[str] | None,
        typer.Option(help="Text that means a missing value, beside NA, ? and the like.", show_default=False),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out rows without a class.")
    ] = False,
    sheet: Sheet = None,
    encoding: Encoding = None,
    separator: Separator = None,
    store: Store = StoreName.full,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the fit.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a model on a table of labelled examples, and say what it can promise.

    Example: pnca fit train.csv --target diagnosis --id sample --group patient -o model.pnca

    Every column without a role is an input: numbers, text, dates, truth values, with holes. What each was
    taken for is printed, and kept in the model.

    Exit status: 0 if the model is written, 1 if the data or a setting is refused, 2 for a wrong command line,
    130 if it was stopped. If it is not 0, nothing was written.
    """
    from pnca.files import check_target
    from pnca.interfaces.saying import warn, warnings_said
    from pnca.interfaces.stopping import stoppable
    from pnca.tables import Roles, read_examples

    with stoppable(), warnings_said():
        check_target(out, overwrite=force)
        table = open_users_table(data, sheet, encoding, separator)
        roles = Roles(target=target, id=id, group=group, ignore=tuple(ignore or ()), codes=tuple(codes or ()))
        examples = read_examples(table, roles, skip_missing=skip_missing, holes=tuple(hole or ()))
        for note in examples.notes:
            warn(note)
        from pnca.workflows import fit_table

        model = fit_table(examples, codes=roles.codes, seed=seed, verbose=shows_progress())
        write_model(model, out, store=store, force=force, as_json=as_json)


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
