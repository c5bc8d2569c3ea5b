"""``pnca audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pnca.exceptions import InvalidInputError
from pnca.interfaces.options import (
    Codes,
    Encoding,
    Force,
    Group,
    Hole,
    Id,
    Ignore,
    Json,
    Seed,
    Separator,
    Sheet,
    SkipMissing,
    Target,
    open_users_table,
    target_of,
)


def audit(
    data: Annotated[
        Path,
        typer.Argument(
            help="A model file, or a table of labelled examples (.csv, .tsv, .xlsx, .parquet).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="All findings as a table, too: .csv, .tsv or .parquet.", show_default=False
        ),
    ] = None,
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
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Look for what is suspicious in training examples: labels, copies, identifiers, leaks, rare classes.

    Example: pnca audit model.pnca -o findings.csv

    Example: pnca audit train.csv --target diagnosis --id sample --group patient

    A model file holds its training examples; with --store predictive it does not, and what cannot be looked
    at is said. A model is fitted on a table first, with the options of pnca fit, and not kept.

    Exit status: 0 if the audit is done, whatever it finds; 1 if the data or a setting is refused, 2 for a
    wrong command line, 130 if it was stopped.
    """
    from pnca.files import check_target
    from pnca.interfaces.fit import fit_users_table
    from pnca.interfaces.saying import progress, say_json, say_list, warnings_said
    from pnca.interfaces.stopping import stoppable
    from pnca.tables import Roles
    from pnca.tables.files import SUFFIXES

    with stoppable(), warnings_said():
        if out is not None:
            check_target(out, overwrite=force, inputs=[data])
        fitted: Any
        if data.suffix.lower() in SUFFIXES:
            table = open_users_table(data, sheet, encoding, separator)
            others: dict[str, Any] = {"ignore": tuple(ignore or ()), "codes": tuple(codes or ())}
            roles = Roles(target=target_of(table, target), id=id, group=group, **others)
            fitted = fit_users_table(table, roles, tuple(hole or ()), seed, skip_missing=skip_missing)
        else:
            if target or id or group or ignore or codes or hole or skip_missing:
                raise InvalidInputError(
                    f"{data} is no table, and a model knows its columns: name a model file alone."
                )
            import pnca

            fitted = pnca.load(data)
        from pnca.workflows.auditing import audit_as_dict, audit_model, write_findings

        with progress("looking", ""):
            found = audit_model(fitted)
        if out is not None:
            write_findings(found, out, overwrite=force)
    if as_json:
        say_json({"file": str(data), **audit_as_dict(found)})
        return
    summary = found.summary().rstrip(".")
    say_list(f"{summary[0].upper()}{summary[1:]}.", found.lines())
    if out is not None:
        typer.echo(f"Written to {out}.")
