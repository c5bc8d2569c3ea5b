"""``pnca reproduce`` and ``pnca report``."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

    from pnca.experiments.study import Options, Study
    from pnca.reports.run import Written


class StudyName(str, Enum):
    """What can be reproduced."""

    mnist = "mnist"
    covid = "covid"
    ablation = "ablation"


class EngineName(str, Enum):
    """Who computes."""

    local = "local"
    dask = "dask"


DataDir = Annotated[
    Path | None,
    typer.Option(envvar="PNCA_DATA_DIR", help="Folder with the data sets.", show_default=False),
]


def reproduce(
    study: Annotated[StudyName, typer.Argument(help="Which experiment.")],
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="pnca-STUDY")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Draws of the training set, or partitions into folds.")
    ] = None,
    train_sizes: Annotated[
        str | None, typer.Option(help="Numbers of training images, such as 100,200.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Names of models, such as 'DNN,PNCA (paper)'.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Fits at a time.", show_default="the number of cores")
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Processes of this machine, or Dask.")
    ] = EngineName.local,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler; without it, --engine dask starts a cluster here."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small run, under five minutes on two cores.")
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch data that is missing, and say so first.")
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help="covid: compute features from images, with timm:NAME or a file FEATURES.onnx."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="covid: a checkpoint for a timm backbone, so that none is fetched.")
    ] = None,
) -> None:
    """Reproduce the paper's tables and figures: train every model of an experiment and report.

    mnist: 100, 200 and 400 digits, ten draws, seven models; tested on digits, rotated digits and letters.
    covid: chest X-rays, five folds; tested on another hospital's X-rays and on bones.
    ablation: PNCA with one thing changed at a time.

    A run that was stopped continues with --resume. Every finished fit is kept.
    """
    from rich.console import Console

    from pnca.experiments.grid import Engine
    from pnca.experiments.store import RunFolder
    from pnca.experiments.study import Options, run_study
    from pnca.interfaces.watch import Display
    from pnca.reports.run import write_report

    console = Console()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    who = Engine(name=engine.value, jobs=jobs or cores, scheduler=scheduler)
    options = Options(
        trials=trials,
        train_sizes=_whole_numbers(train_sizes) if train_sizes is not None else None,
        models=_words(models) if models is not None else None,
        quick=quick,
    )
    plan = _plan(study, data_dir, options, console, download=download, backbone=backbone, weights=weights)
    folder = RunFolder.create(out or Path(f"pnca-{study.value}"), resume=resume)
    console.print(f"{len(plan.cells)} fits, {who.jobs} at a time; results go to {folder.path.resolve()}.")
    display = Display(console, plan.headline, len(plan.cells))
    try:
        with display.shown():
            failed = run_study(
                plan,
                folder,
                who,
                watch=lambda outcome, done, total: display.finished(
                    plan.stem(outcome.cell), outcome.result, done, total
                ),
                resumed=display.resumed,
            )
    except KeyboardInterrupt:
        console.print(f"\nStopped. Finished fits are kept in {folder.path}: continue with --resume.")
        raise typer.Exit(130) from None
    if failed:
        console.print(f"\n[bold]{len(failed)} of {len(plan.cells)} fits failed[/bold] (run.json has it all):")
        for outcome in failed:
            reason = (outcome.error or "").strip().splitlines()[-1]
            console.print(f"  {plan.stem(outcome.cell)}: {reason}", markup=False)
    if len(failed) == len(plan.cells):
        raise typer.Exit(1)
    _print_report(console, write_report(folder))
    if failed:
        raise typer.Exit(1)


def report(
    results: Annotated[list[Path], typer.Argument(help="Folders that `pnca reproduce` wrote.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write one Markdown document about all of them, with its figures beside it."),
    ] = None,
) -> None:
    """Redraw tables and figures from a run's files, without fitting anything."""
    from rich.console import Console

    from pnca.experiments.store import RunFolder
    from pnca.reports.reproduction import write_reproduction
    from pnca.reports.run import write_report

    console = Console()
    folders = [RunFolder.open(path) for path in results]
    if out is not None:
        console.print(f"Written {write_reproduction(folders, out)}.")
        return
    for folder in folders:
        folder.write_tables()
        _print_report(console, write_report(folder))


def _plan(
    study: StudyName,
    data_dir: Path | None,
    options: Options,
    console: Console,
    *,
    download: bool,
    backbone: str | None,
    weights: Path | None,
) -> Study[Any, Any]:
    """Load the data and lay out the grid."""
    if study is not StudyName.covid:
        if backbone is not None or weights is not None:
            raise InvalidInputError("--backbone and --weights are for covid, whose inputs are X-rays.")
        from pnca.experiments.mnist import mnist_study

        return mnist_study(data_dir, options, experiment=study.value, download=download)

    from rich.progress import Progress

    from pnca.experiments.covid import covid_study
    from pnca.vision import load_backbone

    network = None if backbone is None else load_backbone(backbone, weights=weights, download=download)
    if network is None:
        return covid_study(data_dir, options)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("features of the images")
        return covid_study(
            data_dir,
            options,
            backbone=network,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _print_report(console: Console, written: Written) -> None:
    from rich import box
    from rich.table import Table

    for section in written.sections:
        for given in section.tables[:1]:  # the rest is wide and long; the report has it
            table = Table(title=f"\n{section.title}", caption=given.caption, box=box.SIMPLE_HEAD)
            for i, heading in enumerate(given.headings):
                table.add_column(heading, justify="right" if i else "left")
            for row in given.rows:
                table.add_row(*row)
            console.print(table)
    console.print(f"\nWritten to {written.folder.resolve()}:")
    for path in written.files:
        console.print(f"  {path.relative_to(written.folder)}", highlight=False)


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise InvalidInputError(f"Expected names separated by commas, but found {text!r}.")
    return words


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError:
        raise InvalidInputError(f"Expected whole numbers such as 100,200, but found {text!r}.") from None
