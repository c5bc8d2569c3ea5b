"""``pnca benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pnca_studies.commands.options import (
    DataDir,
    EngineName,
    EngineOption,
    Jobs,
    Resume,
    Scheduler,
    TrainSizes,
    Trials,
    make_engine,
    make_options,
    words,
)
from pnca_studies.commands.remembering import given_options, runs_as_begun
from pnca_studies.commands.report import print_table
from pnca_studies.commands.running import run_and_show, say


def benchmark(
    context: typer.Context,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("pnca-benchmark"),
    document: Annotated[
        Path | None,
        typer.Option(
            help="Markdown file to write from the results.",
            show_default="benchmark.md in --out, with --choices method.md",
        ),
    ] = None,
    data_sets: Annotated[
        str | None, typer.Option(help="Names of data sets, such as 'digits,breast cancer'.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Names of models, such as 'PNCA,RBF-SVM'.")] = None,
    train_sizes: TrainSizes = None,
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
    resume: Resume = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="100 examples, two draws, a tenth of the test images.")
    ] = False,
) -> None:
    """Compare PNCA with baselines on small data: accuracy, calibration, out-of-distribution detection.

    Data sets: MNIST (with notMNIST out of distribution), chest X-rays with COVID-19 (with bones), and four
    that come with scikit-learn. Those whose files are missing are left out. Every model is measured as it is
    and after temperature scaling. The document is about PNCA: without PNCA among --models the fits are kept,
    and no document is written.

    A run that was stopped continues with --out FOLDER --resume, with the options that the folder remembers.
    Every finished fit is kept.
    """
    from rich.console import Console

    from pnca.models.fitted import resolve_device
    from pnca_studies.experiments.benchmark import benchmark_study
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.benchmark import write_benchmark
    from pnca_studies.reports.benchmark.pages import summary_tables
    from pnca_studies.reports.benchmark.runs import has_fit, read_runs
    from pnca_studies.reports.method import write_method
    from pnca_studies.reports.tables import check_document

    console = Console()
    options = make_options(trials, train_sizes, models, quick=quick)
    RunFolder.check(out, resume=resume)
    if resume and runs_as_begun(context, RunFolder(out), "benchmark", "choices"):
        return
    check_document(document := document or out / ("method.md" if choices else "benchmark.md"))
    where = make_engine(engine, jobs, scheduler)
    resolve_device(device)  # one error for a device that is not there, instead of one in every fit
    chosen = None if data_sets is None else words(data_sets)
    study, missing = benchmark_study(data_dir, options, data_sets=chosen, device=device, choices=choices)
    for reason in missing:
        say(console, f"Left out: {reason}")
    folder = RunFolder.create(out, resume=resume)
    failed = run_and_show(console, study, folder, where, given_options(context))
    if has_fit(folder):
        write = write_method if choices else write_benchmark
        if not choices:
            for title, table in summary_tables(read_runs([folder])[0]):
                print_table(console, title, table)
        say(console, f"\nWritten {write([folder], document)}.")
    else:
        say(
            console,
            f"\nThe fits are kept in {out}. There is no document without a fit of PNCA, which it is about.",
        )
    if failed:
        raise typer.Exit(1)
