"""A study: a grid of cells, the data they need, and the work of one cell."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError
from pnca.files import own_folder
from pnca.maths.stein import parameter_kernel
from pnca_studies.experiments.answers import Answers, ask, measure
from pnca_studies.experiments.cells import CellResult, fingerprint, outline, readable
from pnca_studies.experiments.grid import Engine, Outcome, Work, run_cells
from pnca_studies.experiments.settings import Classifier, Exhibit, Model, ModelSettings, load_models
from pnca_studies.experiments.store import RunFolder, hardware, versions

#: A test set: inputs (n, ...) and, unless it is out of distribution, labels (n,).
TestSet = tuple[NDArray[np.float32], NDArray[np.int64] | None]


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """One fit: a model, and in the fields of a subclass what it is fitted to."""

    experiment: str
    model: Model

    def columns(self) -> dict[str, Any]:
        """Return what identifies the cell, as columns of the tidy table."""
        where = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "model"}
        return {**where, "model": self.model.name}

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return every constructor argument of the model that is known before the data are split."""


C = TypeVar("C", bound=Cell)
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run may change about a study; None leaves it as it is."""

    trials: int | None = None  # draws of the training set, or partitions into folds
    train_sizes: tuple[int, ...] | None = None
    models: tuple[str, ...] | None = None
    quick: bool = False  # few draws, few test images

    def pick_models(self, exhibits: Iterable[Exhibit]) -> list[ModelSettings]:
        """Return the models of the exhibits, in order, or those asked for by name."""
        known = load_models()
        shown = dict.fromkeys(name for exhibit in exhibits for name in exhibit.models)
        if unknown := [name for name in self.models or () if name not in shown]:
            raise InvalidInputError(f"Unknown models {unknown}; the models here are {', '.join(shown)}.")
        return [known[name] for name in dict.fromkeys(self.models or shown)]

    def pick_trials(self, exhibits: Iterable[Exhibit], quick: int) -> range:
        """Number the trials: as many as any exhibit asks for, or ``quick`` in a quick run, unless given."""
        most = max(exhibit.trials for exhibit in exhibits)
        n_trials = self.trials if self.trials is not None else (quick if self.quick else most)
        if n_trials < 1:
            raise InvalidInputError(f"trials must be at least 1, but it is {n_trials}.")
        return range(n_trials)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study(Generic[C, D]):
    """A grid of cells with all that is needed to run it."""

    name: str
    cells: Sequence[C]
    data: D  # given to the work of every cell
    work: Work[C, D]
    options: Options
    protocol: dict[str, Any]  # what besides the cell decides its result: test sets, digests of the data
    seeds: str  # how training sets and models are seeded, in words
    headline: Sequence[tuple[str, str]]  # (test set, measure) to show while it runs
    test_sets: Callable[[C], Mapping[str, int]]  # the length of each test set of a cell, by name

    def stem(self, cell: C) -> str:
        """Name the cell's file: readable, and different for whatever decides the result."""
        columns = cell.columns()
        decides = [columns, cell.model.estimator, cell.settings(), self.protocol, versions()]
        return f"{readable(columns)}-{fingerprint(decides)}"

    def outline(self, cell: C) -> str:
        """Return the outline that a complete result of a cell has."""
        return outline(cell.columns(), self.test_sets(cell), with_answers=True)


def run_study(
    study: Study[C, D],
    folder: RunFolder,
    engine: Engine,
    *,
    command: Mapping[str, Any] | None = None,
    watch: Callable[[Outcome[C], int, int], None] = lambda outcome, done, total: None,
    resumed: Callable[[CellResult], None] = lambda result: None,
    damaged: Callable[[str], None] = lambda reason: None,
) -> list[Outcome[C]]:
    """Compute the cells that the folder does not have yet, write each at once, and return those that failed.

    The folder is this run's alone meanwhile; ``command`` is what it remembers of the command line.
    ``resumed(result)`` is called for each cell that was there already, ``damaged(reason)`` for each whose
    file is not whole, ``watch(outcome, n_done, n_total)`` as the others finish.
    """
    stems = {study.stem(cell): cell for cell in study.cells}
    with own_folder(folder.path):
        given = {} if command is None else {"command": dict(command)}
        run = folder.begin({**_describe_run(study, engine, stems), **given})
        missing = []
        for stem, cell in stems.items():
            if (result := folder.find(stem)) is not None:
                resumed(result)
                continue
            missing.append(cell)
            if stem in folder.damaged:
                damaged(folder.damaged[stem])
        start, failed = time.perf_counter(), []
        n_done = len(stems) - len(missing)
        with closing(run_cells(missing, study.work, study.data, engine)) as outcomes:
            for outcome in outcomes:
                n_done += 1
                if outcome.result is None:
                    failed.append(outcome)
                else:
                    folder.write(study.stem(outcome.cell), outcome.result)
                watch(outcome, n_done, len(stems))
        errors = {study.stem(outcome.cell): outcome.error for outcome in failed}
        session = {"fits": len(missing) - len(failed), "seconds": time.perf_counter() - start}
        folder.write_run({**run, "failed": errors, "sessions": [*run["sessions"], session]})
        folder.write_tables()
    return failed


def _describe_run(study: Study[C, D], engine: Engine, stems: Mapping[str, C]) -> dict[str, Any]:
    """Return what ``run.json`` says of a study and its cells by name."""
    return {
        "study": study.name,
        "options": asdict(study.options),
        "protocol": study.protocol,
        "seeds": study.seeds,
        "models": {cell.model.name: _describe(cell.model) for cell in study.cells},
        "versions": versions(),
        "hardware": hardware(),
        "engine": asdict(engine),
        "cells": {stem: study.outline(cell) for stem, cell in stems.items()},
    }


def timed_answers(
    fit: Callable[[], Any], tests: Mapping[str, TestSet], *, reference: str, n_classes: int
) -> tuple[Any, dict[str, Answers], dict[str, float]]:
    """Return the fitted model, its predictions and the seconds taken.

    Evidence is kept on the reference set, which is in distribution, and on the sets without labels.
    """
    start = time.perf_counter()
    model = fit()
    fitted = time.perf_counter()
    answers = {
        name: ask(model, x, y, n_classes=n_classes, with_evidence=name == reference or y is None)
        for name, (x, y) in tests.items()
    }
    seconds = {"fit_seconds": fitted - start, "predict_seconds": time.perf_counter() - fitted}
    return model, answers, seconds


def fit_and_ask(
    cell: Cell,
    model: Classifier,
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    tests: Mapping[str, TestSet],
    *,
    reference: str,
    n_classes: int,
) -> CellResult:
    """Do the work of a cell: fit its model to inputs (n, p) and labels (n,), and predict each test set."""
    _, answers, seconds = timed_answers(
        lambda: model.fit(inputs, labels), tests, reference=reference, n_classes=n_classes
    )
    details: dict[str, Any] = {"settings": model.get_params(), "seconds": seconds, "n_train": len(inputs)}
    if len(model.particles_) > 1:
        details["mean_parameter_kernel_sum"] = _mean_parameter_kernel_sum(model)
    return CellResult(
        columns=cell.columns(), answers=answers, measures=measure(answers, reference), details=details
    )


def _mean_parameter_kernel_sum(model: Classifier) -> float:
    """Average sum_j kappa(w_i, w_j) over the particles; the paper says that it is about one."""
    kernel, _ = parameter_kernel(torch.from_numpy(model.particles_).double())
    return float(kernel.sum(dim=1).mean())


def _describe(model: Model) -> dict[str, Any]:
    return {"estimator": model.estimator, "settings": model.settings, "changes": dict(model.changes)}
