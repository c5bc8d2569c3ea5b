"""``pnca benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pnca_studies.commands.reproduce import DataDir, EngineName
from pnca_studies.commands.running import make_engine, make_options, run_and_show, say, words


def benchmark(
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
    train_sizes: Annotated[
        str | None, typer.Option(help="Numbers of training examples, such as 50,100.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Draws of the training set.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Fits at a time.", show_default="the number of cores")
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Processes of this machine, or Dask.")
    ] = EngineName.local,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
    device: Annotated[
        str, typer.Option(help="Where this package's networks are trained: cpu, cuda.")
    ] = "cpu",
    choices: Annotated[
        bool,
        typer.Option("--choices", help="Compare PNCA with itself, one of its settings changed at a time."),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="100 examples, two draws, a tenth of the test images.")
    ] = False,
) -> None:
    """Compare PNCA with other classifiers on small data, in accuracy, calibration and caution.

    Data sets: MNIST (with notMNIST as out-of-distribution inputs), chest X-rays with COVID-19 (with bones),
    and four that come with scikit-learn. Those of which the files are missing are left out. Every model is measured
    as it is and after temperature scaling. The document is about PNCA; without it among --models the fits
    are kept, and no document is written.

    A run that was stopped continues with --resume. Every finished fit is kept.
    """
    from rich.console import Console

    from pnca.models.fitted import resolve_device
    from pnca_studies.experiments.benchmark import benchmark_study
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.benchmark import write_benchmark
    from pnca_studies.reports.benchmark.runs import has_fit
    from pnca_studies.reports.method import write_method
    from pnca_studies.reports.tables import check_document

    console = Console()
    options = make_options(trials, train_sizes, models, quick=quick)
    check_document(document := document or out / ("method.md" if choices else "benchmark.md"))
    RunFolder.check(out, resume=resume)
    who = make_engine(engine.value, jobs, scheduler)
    resolve_device(device)  # what cannot be used is said once and not in every fit
    chosen = None if data_sets is None else words(data_sets)
    plan, missing = benchmark_study(data_dir, options, data_sets=chosen, device=device, choices=choices)
    for reason in missing:
        say(console, f"Left out: {reason}")
    folder = RunFolder.create(out, resume=resume)
    failed = run_and_show(console, plan, folder, who)
    if has_fit(folder):
        write = write_method if choices else write_benchmark
        say(console, f"\nWritten {write([folder], document)}.")
    else:
        say(
            console,
            f"\nThe fits are kept in {out}. There is no document without a fit of PNCA, which it is about.",
        )
    if failed:
        raise typer.Exit(1)
