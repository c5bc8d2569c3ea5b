"""``pnca benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca.interfaces.stopping import exit_code, terminable
from pnca_studies.commands.options import (
    DataDir,
    EngineName,
    EngineOption,
    Jobs,
    Scheduler,
    Trials,
    make_engine,
    words,
)
from pnca_studies.commands.running import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from pnca_studies.experiments.benchmark.cells import Cell


def benchmark(
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder for the cells.")] = Path("pnca-benchmark"),
    document: Annotated[
        Path | None,
        typer.Option(
            help="Markdown file to write from the cells, with a folder of pages beside it.",
            show_default="benchmark.md in --out, with --choices method.md",
        ),
    ] = None,
    data_sets: Annotated[
        str | None,
        typer.Option(help="Names of data sets or of groups of them, separated by semicolons: 'images;car'."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(help="Names of models, separated by semicolons: 'PNCA;RBF-SVM'. --plan lists them."),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Numbers of training examples: 100, 400 or half, as '100,half'.")
    ] = None,
    trials: Trials = None,
    jobs: Jobs = None,
    engine: EngineOption = EngineName.local,
    scheduler: Scheduler = None,
    device: Annotated[
        str, typer.Option(help="Where this package's networks are trained: cpu, cuda.")
    ] = "cpu",
    choices: Annotated[
        bool,
        typer.Option("--choices", help="Compare PNCA with itself, one of its settings changed at a time."),
    ] = False,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Compute cells again that were made with other code of the method."),
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch tables and images that are not there from OpenML.")
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="List data sets, models and numbers of cells, and stop.")
    ] = False,
) -> None:
    """Compare PNCA with baselines on small data: tables, images, features, foreign inputs, time.

    Each cell (a model on one draw of a data set) is one line of a file in --out. What is there is not
    computed again, so the same command continues a run that was stopped, and a run may be divided among
    several. Data sets whose files are missing are left out, and the document counts the cells that it
    lacks.
    """
    from rich.console import Console

    from pnca.models.fitted import resolve_device
    from pnca_studies.experiments import benchmark as study
    from pnca_studies.reports.tables import check_document

    console = Console()
    chosen: dict[str, Any] = {
        "data_sets": None if data_sets is None else words(data_sets, ";"),
        "sizes": None if sizes is None else words(sizes),
    }
    n_draws = trials or study.N_DRAWS
    if choices:
        cells = study.choices_plan(n_draws, **chosen)
    else:
        cells = study.plan(n_draws, models=None if models is None else words(models, ";"), **chosen)
    if plan_only:
        _show_plan(console, cells)
        return
    check_document(document := document or out / ("method.md" if choices else "benchmark.md"))
    where = make_engine(engine, jobs, scheduler)
    resolve_device(device)  # one error for a device that is not there, instead of one in every fit
    n_failed = _run(
        console,
        cells,
        out,
        where,
        data_dir=data_dir,
        download=download,
        device=device,
        renew=renew,
    )
    _write(console, cells, out, document, n_draws, choices=choices)
    if n_failed:
        raise typer.Exit(1)


def _show_plan(console: Console, cells: Sequence[Cell]) -> None:
    from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, GROUPS

    for group in GROUPS:
        of_group = [cell for cell in cells if DATA_SETS[cell.data].group == group]
        names = "; ".join(dict.fromkeys(cell.data for cell in of_group))
        if of_group:
            say(console, f"{group} ({len(of_group):,} cells): {names}")
    say(console, f"models: {'; '.join(dict.fromkeys(cell.model for cell in cells))}")
    say(console, f"{len(cells):,} cells in all.")


def _run(console: Console, cells: Sequence[Cell], out: Path, where: Any, **options: Any) -> int:  # noqa: ANN401
    """Run the cells and return how many failed; end the command if it is stopped."""
    from pnca.exceptions import WorkersLostError
    from pnca_studies.commands.watch import Display
    from pnca_studies.experiments.benchmark import run_benchmark

    say(console, f"{len(cells):,} cells; lines go to {out.resolve()}.")
    display = Display(console, [("test", "accuracy"), ("test", "nll"), ("test", "auroc")], len(cells))
    try:
        with terminable(), display.shown():
            failed = run_benchmark(
                cells,
                out,
                where,
                said=lambda text: say(console, text),
                watch=lambda outcome, done, total: display.finished(
                    " ".join(map(str, outcome.cell.columns().values())), outcome.result, done, total
                ),
                **options,
            )
    except (KeyboardInterrupt, WorkersLostError) as error:
        say(console, "\nStopped. Finished cells are kept: give the same command to continue.")
        if isinstance(error, WorkersLostError):
            raise
        raise typer.Exit(exit_code(error)) from None
    for outcome in failed:
        reason = (outcome.error or "").strip().splitlines()[-1]
        say(console, f"Failed: {' '.join(map(str, outcome.cell.columns().values()))}: {reason}")
    return len(failed)


def _write(
    console: Console, cells: Sequence[Cell], out: Path, document: Path, n_draws: int, *, choices: bool
) -> None:
    """Show the main means of the cells, and write the document about all that the folder has."""
    from pnca_studies.commands.report import print_table
    from pnca_studies.experiments.benchmark.cells import read_lines
    from pnca_studies.reports.benchmark import Results, write_benchmark
    from pnca_studies.reports.benchmark.pages import summary_tables
    from pnca_studies.reports.method import write_method

    study = "choices" if choices else "benchmark"
    if not choices:
        for title, table in summary_tables(Results(read_lines([out]), cells)):
            print_table(console, title, table)
    if any((line["study"], line["model"]) == (study, "PNCA") for line in read_lines([out])):
        write = write_method if choices else write_benchmark
        say(console, f"\nWritten {write([out], document, n_draws=n_draws)}.")
    else:
        say(console, f"\nThe cells are kept in {out}. There is no document without a cell of PNCA.")
