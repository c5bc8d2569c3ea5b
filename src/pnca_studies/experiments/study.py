"""A study: a grid of cells, the data they need, and the work of one cell."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError
from pnca.maths.stein import parameter_kernel
from pnca_studies.experiments.answers import ask, measure
from pnca_studies.experiments.grid import Engine, Outcome, Work, run_cells
from pnca_studies.experiments.settings import Exhibit, ModelSettings, load_models
from pnca_studies.experiments.store import CellResult, RunFolder, fingerprint, hardware, versions

#: A test set: inputs (n, p) and, where a class is right, labels (n,).
TestSet = tuple[NDArray[np.float32], NDArray[np.int64] | None]


class Model(Protocol):
    """Which model a cell fits."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    @property
    def estimator(self) -> str:
        """What it is made from."""

    @property
    def settings(self) -> str:
        """Whose settings it has."""

    @property
    def changes(self) -> Mapping[str, Any]:
        """Arguments that differ from those."""


class Cell(Protocol):
    """One fit."""

    @property
    def model(self) -> Model:
        """Which model is fitted."""

    def columns(self) -> dict[str, Any]:
        """What identifies the cell, as columns of the tidy table."""

    def settings(self) -> dict[str, Any]:
        """Every constructor argument of its model, as far as they can be told before the data are split."""


C = TypeVar("C", bound=Cell)
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run may change about a study.

    Attributes
    ----------
    trials : int, optional
        Draws of the training set, or partitions into folds.
    train_sizes : tuple of int, optional
        Numbers of training images.
    models : tuple of str, optional
        Names of models.
    quick : bool
        A small run: few draws, few test images.
    """

    trials: int | None = None
    train_sizes: tuple[int, ...] | None = None
    models: tuple[str, ...] | None = None
    quick: bool = False

    def pick_models(self, exhibits: Iterable[Exhibit]) -> list[ModelSettings]:
        """Models of the exhibits, in order, or those asked for by name.

        Parameters
        ----------
        exhibits : iterable of Exhibit
            Whose models.

        Returns
        -------
        list of ModelSettings
        """
        known = load_models()
        shown = dict.fromkeys(name for exhibit in exhibits for name in exhibit.models)
        if unknown := [name for name in self.models or () if name not in shown]:
            raise InvalidInputError(f"Unknown models {unknown}; the models here are {', '.join(shown)}.")
        return [known[name] for name in dict.fromkeys(self.models or shown)]

    def pick_trials(self, exhibits: Iterable[Exhibit], quick: int) -> range:
        """Numbers of the draws.

        Parameters
        ----------
        exhibits : iterable of Exhibit
            The most that any of them asks for is the default.
        quick : int
            How many a quick run has by default.

        Returns
        -------
        range
        """
        most = max(exhibit.trials for exhibit in exhibits)
        n_trials = self.trials if self.trials is not None else (quick if self.quick else most)
        if n_trials < 1:
            raise InvalidInputError(f"trials must be at least 1, but it is {n_trials}.")
        return range(n_trials)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study(Generic[C, D]):
    """A grid with all that is needed to run it.

    Attributes
    ----------
    name : str
        ``"mnist"``, ``"covid"`` or ``"ablation"``.
    cells : sequence of Cell
        The grid, in the order in which it is computed: a full mix of models in each round, so that the
        time left can be told from the cells done.
    data : object
        What the cells share.
    work : callable
        ``work(cell, data)``.
    options : Options
        What was asked for.
    protocol : dict
        What besides the cell decides its result: test sets, digests of the data.
    seeds : str
        How training sets and models are seeded, in words.
    headline : sequence of (test set, measure)
        What to show while it runs.
    """

    name: str
    cells: Sequence[C]
    data: D
    work: Work[C, D]
    options: Options
    protocol: dict[str, Any]
    seeds: str
    headline: Sequence[tuple[str, str]]

    def stem(self, cell: C) -> str:
        """Name of the cell's file: readable, and different for whatever decides the result."""
        columns = cell.columns()
        decides = [columns, cell.model.estimator, cell.settings(), self.protocol, versions()]
        words = "-".join(str(value) for value in columns.values())
        readable = "".join(c if c.isalnum() or c in "-." else "_" for c in words)
        return f"{readable}-{fingerprint(decides)}"


def run_study(
    study: Study[C, D],
    folder: RunFolder,
    engine: Engine,
    *,
    watch: Callable[[Outcome[C], int, int], None] = lambda outcome, done, total: None,
    resumed: Callable[[CellResult], None] = lambda result: None,
) -> list[Outcome[C]]:
    """Compute the cells that the folder does not have yet, and write each at once.

    Parameters
    ----------
    study : Study
        The grid.
    folder : RunFolder
        Where results go; cells it has are not computed again.
    engine : Engine
        Who computes.
    watch : callable
        ``watch(outcome, n_done, n_total)``, called as cells finish.
    resumed : callable
        Called with each result that was there already.

    Returns
    -------
    list of Outcome
        The cells that failed.
    """
    stems = {study.stem(cell): cell for cell in study.cells}
    run = folder.begin(
        {
            "study": study.name,
            "options": asdict(study.options),
            "protocol": study.protocol,
            "seeds": study.seeds,
            "models": {cell.model.name: _describe(cell.model) for cell in study.cells},
            "versions": versions(),
            "hardware": hardware(),
            "engine": asdict(engine),
            "cells": list(stems),
        }
    )
    missing = []
    for stem, cell in stems.items():
        if (result := folder.find(stem)) is None:
            missing.append(cell)
        else:
            resumed(result)
    start, failed = time.perf_counter(), []
    n_done = len(stems) - len(missing)
    for outcome in run_cells(missing, study.work, study.data, engine):
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


def fit_and_ask(
    cell: Cell,
    model: ParticleClassifier,
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64],
    tests: Mapping[str, TestSet],
    *,
    reference: str,
    n_classes: int,
) -> CellResult:
    """Do the work of a cell: fit its model and ask it about each test set.

    Parameters
    ----------
    cell : Cell
        Which.
    model : ParticleClassifier
        Unfitted.
    inputs : ndarray of shape (n, p)
        Training inputs.
    labels : ndarray of shape (n,)
        Their classes, from 0 to ``n_classes - 1``.
    tests : mapping of str to TestSet
        What to ask.
    reference : str
        The familiar test set; on it and on those without labels evidence is kept.
    n_classes : int
        Number of classes c.

    Returns
    -------
    CellResult
    """
    start = time.perf_counter()
    model.fit(inputs, labels)
    fitted = time.perf_counter()
    if model.was_interrupted_:
        raise KeyboardInterrupt  # it ended that fit; it was meant for the whole run
    answers = {
        name: ask(model, x, y, n_classes=n_classes, with_evidence=name == reference or y is None)
        for name, (x, y) in tests.items()
    }
    seconds = {"fit_seconds": fitted - start, "predict_seconds": time.perf_counter() - fitted}
    details: dict[str, Any] = {"settings": model.get_params(), "seconds": seconds, "n_train": len(inputs)}
    if len(model.particles_) > 1:
        details["mean_parameter_kernel_sum"] = _mean_parameter_kernel_sum(model)
    return CellResult(
        columns=cell.columns(), answers=answers, measures=measure(answers, reference), details=details
    )


def _mean_parameter_kernel_sum(model: ParticleClassifier) -> float:
    """The mean over particles of sum_j kappa(w_i, w_j), of which the paper says it is about one."""
    kernel, _ = parameter_kernel(torch.from_numpy(model.particles_).double())
    return float(kernel.sum(dim=1).mean())


def _describe(model: Model) -> dict[str, Any]:
    return {"estimator": model.estimator, "settings": model.settings, "changes": dict(model.changes)}
