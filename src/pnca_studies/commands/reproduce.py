"""``pnca reproduce`` and ``pnca report``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca.exceptions import InvalidInputError
from pnca_studies.commands.running import make_engine, make_options, run_and_show, say

if TYPE_CHECKING:
    from rich.console import Console

    from pnca_studies.experiments.study import Options, Study
    from pnca_studies.reports.run import Written


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
        bool,
        typer.Option("--quick", help="A small run, of minutes on two cores."),
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch data that is missing, and say so first.")
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

    A run that was stopped continues with --resume. Every finished fit is kept.
    """
    from rich.console import Console

    from pnca_studies.experiments.mnist import mnist_study
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.run import write_report

    console = Console()
    options = make_options(trials, train_sizes, models, quick=quick)
    place = out or Path(f"pnca-{study.value}")
    RunFolder.check(place, resume=resume)
    who = make_engine(engine.value, jobs, scheduler)
    if study is not StudyName.covid and (backbone or weights or scale):
        raise InvalidInputError("--backbone, --weights and --scale are for covid, whose inputs are X-rays.")
    if study is StudyName.covid and download and backbone is None:
        raise InvalidInputError("The COVID data cannot be downloaded; --download fetches a timm --backbone.")
    plan = (
        _covid_plan(data_dir, options, console, backbone, weights, scale, download=download)
        if study is StudyName.covid
        else mnist_study(data_dir, options, experiment=study.value, download=download)
    )
    folder = RunFolder.create(place, resume=resume)
    failed = run_and_show(console, plan, folder, who)
    _print_report(console, write_report(folder))
    if failed:
        raise typer.Exit(1)


def report(
    results: Annotated[
        list[Path], typer.Argument(help="Folders that `pnca reproduce` or `pnca benchmark` wrote.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Write one Markdown document about all of them, with its figures beside it."),
    ] = None,
) -> None:
    """Redraw tables and figures from a run's files, without fitting anything.

    Several runs of the benchmark add up to one document, and so do several with --choices; other runs cannot
    be in it.
    """
    from rich.console import Console

    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.benchmark import write_benchmark
    from pnca_studies.reports.method import write_method
    from pnca_studies.reports.reproduction import write_reproduction
    from pnca_studies.reports.run import write_report

    console = Console()
    folders = [RunFolder.open(path) for path in results]
    studies = [folder.read_run()["study"] for folder in folders]
    documents = {"benchmark": (write_benchmark, "benchmark.md"), "choices": (write_method, "method.md")}
    if out is not None:
        kind = next((name for name in documents if name in studies), None)
        write = documents[kind][0] if kind else write_reproduction
        say(console, f"Written {write(folders, out)}.")
        return
    for folder, study in zip(folders, studies, strict=True):
        folder.write_tables()
        if study in documents:
            write, name = documents[study]
            say(console, f"Written {write([folder], folder.path / name)}.")
        else:
            _print_report(console, write_report(folder))


def _covid_plan(
    data_dir: Path | None,
    options: Options,
    console: Console,
    backbone: str | None,
    weights: Path | None,
    scale: ScaleName | None,
    *,
    download: bool,
) -> Study[Any, Any]:
    """Lay out the grid; with a backbone, compute the features of the images first and show how far it is."""
    from rich.progress import Progress

    from pnca.vision import load_backbone
    from pnca_studies.experiments.covid import covid_study

    if backbone is None:
        return covid_study(data_dir, options)
    pixels: Any = None if scale is None else scale.value
    network = load_backbone(backbone, weights=weights, download=download, scale=pixels)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("features of the images")
        return covid_study(
            data_dir,
            options,
            backbone=network,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _print_report(console: Console, written: Written) -> None:
    """Show the first table of each section, with what must be known to read it; the report has the rest."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    for section in written.sections:
        for given in section.tables[:1]:
            table = Table(title=f"\n{section.title}", caption=given.caption, box=box.SIMPLE_HEAD)
            for i, heading in enumerate(given.headings):
                table.add_column(heading.replace(" ", "\n"), justify="right" if i else "left", no_wrap=True)
            for row in given.rows:
                table.add_row(*row)
            fits = (
                Measurement.get(console, console.options.update(width=10_000), table).maximum <= console.width
            )
            # Too wide for the terminal, rich would cut numbers off.
            text = f"\n{section.title}\n{given.caption}\n\n{given.markdown()}"
            console.print(table) if fits else say(console, text)
            for note in section.notes:
                say(console, note)
    say(console, f"\nWritten to {written.folder.resolve()}:")
    for path in written.files:
        say(console, f"  {path.relative_to(written.folder)}")
