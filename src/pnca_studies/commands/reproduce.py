"""``pnca reproduce``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca.exceptions import InvalidInputError
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
)
from pnca_studies.commands.remembering import given_options, runs_as_begun
from pnca_studies.commands.report import print_report
from pnca_studies.commands.running import run_and_show

if TYPE_CHECKING:
    from rich.console import Console

    from pnca.vision import Backbone
    from pnca_studies.experiments.study import Options, Study


class StudyName(str, Enum):
    """What can be reproduced."""

    mnist = "mnist"
    covid = "covid"
    ablation = "ablation"


class ScaleName(str, Enum):
    """Pixel values of an ONNX network."""

    bytes = "0-255"
    unit = "0-1"
    imagenet = "imagenet"


def reproduce(
    context: typer.Context,
    study: Annotated[StudyName, typer.Argument(help="Which experiment.")],
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="pnca-STUDY")
    ] = None,
    trials: Trials = None,
    train_sizes: TrainSizes = None,
    models: Annotated[str | None, typer.Option(help="Names of models, such as 'DNN,PNCA (paper)'.")] = None,
    jobs: Jobs = None,
    engine: EngineOption = EngineName.local,
    scheduler: Scheduler = None,
    resume: Resume = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small run, of minutes on two cores.")] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Download data that are missing, and say so first.")
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help="covid: compute features from images, with timm:NAME or a file FEATURES.onnx."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="covid: a .safetensors checkpoint for a timm backbone.")
    ] = None,
    scale: Annotated[
        ScaleName | None,
        typer.Option(help="covid: the pixel values an ONNX backbone takes, 0-255 unless given."),
    ] = None,
) -> None:
    """Reproduce the paper's tables and figures: train every model of an experiment and report.

    mnist: 100, 200 and 400 digits, ten draws, seven models; tested on digits, rotated digits and letters.
    covid: chest X-rays, five folds; tested on another hospital's X-rays and on bones.
    ablation: PNCA with one thing changed at a time.

    A run that was stopped continues with --out FOLDER --resume, with the options that the folder remembers.
    Every finished fit is kept.
    """
    from rich.console import Console

    from pnca.vision import load_backbone
    from pnca_studies.experiments.mnist import mnist_study
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.run import write_report

    console = Console()
    options = make_options(trials, train_sizes, models, quick=quick)
    place = out or Path(f"pnca-{study.value}")
    RunFolder.check(place, resume=resume)
    if resume and runs_as_begun(context, RunFolder(place), study.value):
        return
    where = make_engine(engine, jobs, scheduler)
    if study is StudyName.covid:
        if download and backbone is None:
            raise InvalidInputError(
                "The COVID data cannot be downloaded; --download fetches a timm --backbone."
            )
        pixels: Any = None if scale is None else scale.value
        network = None
        if backbone is not None:
            network = load_backbone(backbone, weights=weights, download=download, scale=pixels)
        plan: Study[Any, Any] = _covid_study(data_dir, options, console, network)
    elif backbone or weights or scale:
        raise InvalidInputError("--backbone, --weights and --scale are for covid, whose inputs are X-rays.")
    else:
        plan = mnist_study(data_dir, options, experiment=study.value, download=download)
    folder = RunFolder.create(place, resume=resume)
    failed = run_and_show(console, plan, folder, where, given_options(context))
    print_report(console, write_report(folder))
    if failed:
        raise typer.Exit(1)


def _covid_study(
    data_dir: Path | None, options: Options, console: Console, backbone: Backbone | None
) -> Study[Any, Any]:
    """Lay out the grid; with a backbone, show the progress of computing the features of the images."""
    from rich.progress import Progress

    from pnca_studies.experiments.covid import covid_study

    if backbone is None:
        return covid_study(data_dir, options)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("features of the images")
        return covid_study(
            data_dir,
            options,
            backbone=backbone,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
