"""``pnca compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pnca.exceptions import InvalidInputError
from pnca.interfaces.options import Encoding, Force, Id, Json, Separator, Sheet, open_users_table


def compare(
    data: Annotated[Path, typer.Argument(help="A table (.csv, .tsv, .xlsx, .parquet).", show_default=False)],
    target: Annotated[str, typer.Option(help="Column with the class.", show_default=False)],
    report: Annotated[
        Path | None, typer.Option(help="The comparison as a page of HTML.", show_default=False)
    ] = None,
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
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often they are dealt.")] = 2,
    sheet: Sheet = None,
    encoding: Encoding = None,
    separator: Separator = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of folds and fits.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare the default with models that you would consider, on your own table, and say which is enough.

    Example: pnca compare train.csv --target diagnosis --group patient

    The default, logistic regression, random forest, gradient boosting, a calibrated support vector machine
    and the class shares are fitted in the same folds, which keep groups together. Differences from the
    default have 95 % intervals.

    Exit status: 0 if they are compared, 1 if the data or a setting is refused, 2 for a wrong command line,
    130 if it was stopped. If it is not 0, nothing was written.
    """
    from pnca.explanations.pages import check_extra
    from pnca.files import check_target, write_text
    from pnca.interfaces.saying import say_json, stages, warn, warnings_said
    from pnca.interfaces.stopping import stoppable
    from pnca.tables import Roles, read_examples

    with stoppable(), warnings_said():
        if report is not None:
            check_target(report, overwrite=force, inputs=[data])
            check_extra()
        if data.is_dir():
            raise InvalidInputError(f"{data} is a folder: models are compared on a table, name one.")
        table = open_users_table(data, sheet, encoding, separator)
        roles = Roles(
            target=target, id=id, group=group, ignore=tuple(ignore or ()), codes=tuple(codes or ())
        )  # fmt: skip
        examples = read_examples(table, roles, skip_missing=skip_missing, holes=tuple(hole or ()))
        for note in examples.notes:
            warn(note)
        from pnca.reports.comparison import comparison_lines
        from pnca.workflows.comparing import compare_on

        with stages() as stage:
            found = compare_on(
                examples, codes=roles.codes, n_folds=folds, n_repeats=repeats, seed=seed, stage=stage
            )
        if report is not None:
            from pnca.reports.pages import comparison_html

            write_text(report, comparison_html(found, data.name))
    if as_json:
        say_json(found.as_dict())
        return
    for line in comparison_lines(found):
        typer.echo(line)
    if report is not None:
        typer.echo(f"Written to {report}.")
