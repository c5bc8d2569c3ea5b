"""Options that several commands have, and what they mean to the experiments."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from pnca_studies.experiments.grid import Engine
    from pnca_studies.experiments.study import Options


class EngineName(str, Enum):
    """Where fits are computed."""

    local = "local"
    dask = "dask"


DataDir = Annotated[
    Path | None,
    typer.Option(envvar="PNCA_DATA_DIR", help="Folder with the data sets.", show_default=False),
]
Trials = Annotated[
    int | None, typer.Option(min=1, help="Draws of the training set, or partitions into folds.")
]
TrainSizes = Annotated[str | None, typer.Option(help="Numbers of training examples, such as 100,200.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Fits at a time.", show_default="the number of cores")]
EngineOption = Annotated[EngineName, typer.Option(help="Processes of this machine, or Dask.")]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler; without it, --engine dask starts a cluster here."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder --out.")]


def make_engine(engine: EngineName, jobs: int | None, scheduler: str | None) -> Engine:
    """Return where fits are computed, by default one at a time per core, and refuse what cannot work."""
    from pnca_studies.experiments.grid import Engine, check_engine

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = Engine(name=engine.value, jobs=jobs or cores, scheduler=scheduler)
    check_engine(found)
    return found


def make_options(trials: int | None, train_sizes: str | None, models: str | None, *, quick: bool) -> Options:
    """Return what a run changes about a study, from options that may be lists separated by commas."""
    from pnca_studies.experiments.study import Options

    return Options(
        trials=trials,
        train_sizes=None if train_sizes is None else whole_numbers(train_sizes),
        models=None if models is None else words(models),
        quick=quick,
    )


def words(text: str, separator: str = ",") -> tuple[str, ...]:
    """Split names at commas or, where names have commas, at semicolons."""
    found = tuple(word.strip() for word in text.split(separator) if word.strip())
    if not found:
        signs = {",": "commas", ";": "semicolons"}
        raise InvalidInputError(f"Expected names separated by {signs[separator]}, but found {text!r}.")
    return found


def whole_numbers(text: str) -> tuple[int, ...]:
    """Split whole numbers at commas."""
    try:
        return tuple(int(word) for word in words(text))
    except ValueError:
        raise InvalidInputError(f"Expected whole numbers such as 100,200, but found {text!r}.") from None


class FormatName(str, Enum):
    """What figures are written as, beside PNG."""

    svg = "svg"
    pdf = "pdf"


Formats = Annotated[
    list[FormatName] | None,
    typer.Option("--format", help="Figures as these too, beside PNG; may be repeated.", show_default=False),
]
