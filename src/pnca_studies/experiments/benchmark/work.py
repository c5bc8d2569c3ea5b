"""The work of a cell: fit a model, find its temperature out of fold, and measure its answers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pnca.calibration import fit_temperature
from pnca.training.sampling import assign_folds
from pnca_studies.experiments.benchmark.cells import Cell, Line, code_fingerprint
from pnca_studies.experiments.benchmark.measures import Answers, log_of_all, measure
from pnca_studies.experiments.benchmark.models import PNCA, Setting, build, fit
from pnca_studies.experiments.benchmark.problems import Problem, Source
from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.store import hardware, versions
from pnca_studies.rivals import SCORES

FloatArray = NDArray[np.float64]
T = TypeVar("T")

#: Folds of models that do not predict out of fold by themselves: they are fitted again in each.
N_FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the work of every cell is given."""

    sources: Mapping[str, Source]
    device: str = "cpu"  # where this package's networks are trained
    machine: str = field(default="", compare=False)


def this_machine() -> str:
    """Name the processor, its cores, and the versions of what decides the numbers."""
    found = hardware()
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"{found['processor']}, {found['cores']} cores; {packages}"


def run_cell(cell: Cell, bench: Bench) -> CellResult:
    """Compute a cell; its line is in the details."""
    problem = bench.sources[cell.data].draw(cell.size, cell.draw)
    estimator = PNCA if cell.study == "choices" else cell.model
    device = "cpu" if estimator not in _ON_DEVICE else bench.device
    clock = Clock(device)
    model = build(estimator, Setting.of(problem), cell.draw, device, cell.changes)
    fitted = clock.time("fit", lambda: fit(model, problem))
    answers = clock.time("predict", lambda: _answers(fitted, problem))
    temperature = 1.0
    if estimator not in SCORES:
        logs = clock.time("out of fold", lambda: out_of_fold(fitted, model, problem, cell.draw))
        known = np.isfinite(logs).all(axis=1)
        temperature = fit_temperature(logs[known], problem.labels[known]) if known.any() else 1.0
    measures = measure(answers, temperature)
    line: Line = {
        **cell.columns(),
        "key": cell.key(),
        "n": len(problem.labels),
        "temperature": float(f"{temperature:.6g}"),
        "seconds": clock.seconds,
        "device": device,
        "code": code_fingerprint(),
        "machine": bench.machine,
        "measures": measures,
    }
    numbers = {
        name: {key: v for key, v in given.items() if key != "risks"} for name, given in measures.items()
    }
    return CellResult(columns=cell.columns(), answers={}, measures=numbers, details={"line": line})


#: Models whose networks are trained on the device that is asked for.
_ON_DEVICE = (
    PNCA,
    "DNN",
    "BNN",
    "Ensemble",
    "NCA",
    "PNCA (paper)",
    "Ensemble, tuned dropout",
    "TabPFN",
    "TabICL",
)


class Clock:
    """Seconds of the processor by phase; on a GPU, seconds on the wall, under names that say so."""

    def __init__(self, device: str) -> None:
        self.is_gpu = device.startswith("cuda")
        self.seconds: dict[str, float] = {}

    def time(self, phase: str, work: Callable[[], T]) -> T:
        """Do some work and keep how long it took."""
        now = time.perf_counter if self.is_gpu else time.process_time
        start = now()
        found = work()
        self.seconds[f"GPU {phase}" if self.is_gpu else phase] = round(now() - start, 4)
        return found


def _answers(model: Any, problem: Problem) -> dict[str, Answers]:  # noqa: ANN401
    evidence = getattr(model, "evidence", None)
    return {
        name: Answers(
            log_of_all(model.predict_proba(inputs), model.classes_, problem.n_classes),
            labels,
            None if evidence is None else np.asarray(evidence(inputs), dtype=np.float64),
        )
        for name, (inputs, labels) in problem.tests.items()
    }


def out_of_fold(fitted: Any, model: Any, problem: Problem, seed: int) -> FloatArray:  # noqa: ANN401
    """Log-probabilities (n, c) of the training examples out of fold; NaN of those that were held out nowhere.

    A model that cross-validates itself keeps them; any other is fitted again in three folds, in which no
    group is split.
    """
    if (kept := getattr(fitted, "oof_proba_", None)) is not None:
        known = np.isfinite(kept).all(axis=1)
        logs = np.full((len(kept), problem.n_classes), np.nan)
        logs[known] = log_of_all(kept[known], fitted.classes_, problem.n_classes)
        return logs
    folds = assign_folds(problem.labels, N_FOLDS, np.random.RandomState(seed), problem.groups)
    logs = np.full((len(folds), problem.n_classes), np.nan)
    for fold in range(folds.max() + 1):
        held_out = folds == fold
        if len(np.unique(problem.labels[~held_out])) > 1:
            again = fit(_unfitted(model), problem, ~held_out)
            proba = again.predict_proba(problem.inputs[held_out])
            logs[held_out] = log_of_all(proba, again.classes_, problem.n_classes)
    return logs


def _unfitted(model: Any) -> Any:  # noqa: ANN401
    return clone(model) if hasattr(model, "get_params") else type(model)(clone(model.model))
