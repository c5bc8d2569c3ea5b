"""The benchmark: every model on every data set, with and without temperature scaling."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration import apply_temperature, fit_temperature
from pnca.exceptions import InvalidInputError
from pnca.training.sampling import assign_folds
from pnca_studies.experiments.answers import Answers, compress, log_probabilities, measure
from pnca_studies.experiments.benchmark_data import Problem, Source, load_sources
from pnca_studies.experiments.cells import CellResult, fingerprint
from pnca_studies.experiments.choices import Question, load_questions
from pnca_studies.experiments.contenders import CONTENDERS, TRIVIAL, Contender
from pnca_studies.experiments.study import Cell, Options, Study, timed_answers

N_DRAWS, _QUICK_DRAWS, _QUICK_SIZE = 10, 2, 100
#: Added to the name of a test set for its measures after temperature scaling.
SCALED = ", scaled"
#: Temperatures are fitted to predictions out of three folds; of many examples a half is enough to tell.
_TEMPERATURE_FOLDS, _FEW_FOLDS, _MANY = 3, 2, 200


@dataclass(frozen=True, kw_only=True)
class BenchmarkCell(Cell):
    """One model on one draw of a data set."""

    experiment: str = "benchmark"
    data: str
    n_train: int
    draw: int  # seed of the draw and of the model
    model: Contender

    def settings(self) -> dict[str, Any]:
        """Return what is changed, and the device; the rest follows from the name and the version."""
        return {"device": self.model.device, **self.model.changes}


def benchmark_study(
    data_dir: Path | None,
    options: Options | None = None,
    *,
    data_sets: tuple[str, ...] | None = None,
    device: str = "cpu",
    choices: bool = False,
) -> tuple[Study[BenchmarkCell, Mapping[str, Source]], list[str]]:
    """Lay out the grid of (data set, n, draw, model), load the data, and say which are missing and why.

    ``choices`` compares PNCA with itself, one choice changed at a time, instead of with baselines.
    """
    options = options or Options()
    sources, missing = load_sources(data_dir, data_sets, quick=options.quick)
    if unknown := [name for name in data_sets or () if name not in sources]:
        reasons = "".join(f" {reason}" for reason in missing)
        raise InvalidInputError(f"No data sets {unknown}; there are {', '.join(sources)}.{reasons}")
    chosen: Mapping[str, Source] = {name: sources[name] for name in data_sets or sources}
    questions = load_questions() if choices else []
    models = _variants(questions, device) if choices else _baselines(device)
    if unknown := [name for name in options.models or () if name not in models]:
        raise InvalidInputError(f"Unknown models {unknown}; known are {', '.join(models)}.")
    n_draws = options.trials or (_QUICK_DRAWS if options.quick else N_DRAWS)
    of_images = {name: question.images for question in questions for name in question.variants}
    cells = [
        BenchmarkCell(data=source.name, n_train=n, draw=draw, model=models[name])
        for draw, source in product(range(n_draws), chosen.values())
        for n, name in product(_sizes(source, options), options.models or models)
        if models[name].takes_part(source) and of_images.get(name, source.has_images) == source.has_images
    ]
    if not cells:
        sizes = "; ".join(f"{name}: {', '.join(map(str, s.sizes))}" for name, s in chosen.items())
        raise InvalidInputError(f"Nothing to fit: these data sets have the sizes {sizes}.")
    study: Study[BenchmarkCell, Mapping[str, Source]] = Study(
        name="choices" if choices else "benchmark",
        cells=cells,
        data=chosen,
        work=run_benchmark_cell,
        options=options,
        protocol={
            "data": {name: fingerprint(*source.arrays) for name, source in chosen.items()},
            "temperature_folds": [_TEMPERATURE_FOLDS, _FEW_FOLDS],
        },
        seeds="draw s: numpy RandomState(s), and random_state=s; COVID: partition s // 5, fold s % 5",
        headline=[("test", "accuracy"), ("test", "nll"), ("test", "ece")],
        test_sets=_test_sets(chosen),
        keeps_answers=False,
    )
    return study, missing


def _test_sets(sources: Mapping[str, Source]) -> Callable[[BenchmarkCell], dict[str, int]]:
    """Return what tells the lengths of the test sets of a cell; those of all models are drawn once."""

    @cache
    def drawn(data: str, n_train: int, draw: int) -> dict[str, int]:
        return {name: len(x) for name, (x, _) in sources[data].draw(n_train, draw).tests.items()}

    def of_cell(cell: BenchmarkCell) -> dict[str, int]:
        plain = drawn(cell.data, cell.n_train, cell.draw)
        is_scaled = cell.model.estimator not in TRIVIAL
        return {**plain, **({f"{name}{SCALED}": n for name, n in plain.items()} if is_scaled else {})}

    return of_cell


def run_benchmark_cell(cell: BenchmarkCell, data: Mapping[str, Source]) -> CellResult:
    """Fit a model and measure it on each test set, as it is and after temperature scaling.

    Predictions are not stored: those of a whole benchmark would take gigabytes.
    """
    source = data[cell.data]
    problem = source.draw(cell.n_train, cell.draw)
    model, answers, seconds = timed_answers(
        lambda: cell.model.fit(cell.model.build(source, len(problem.labels), cell.draw), problem),
        problem.tests,
        reference="test",
        n_classes=problem.n_classes,
    )
    details: dict[str, Any] = {
        "seconds": seconds,
        "n_train": len(problem.labels),
        "device": cell.model.device,
    }
    measures = measure(answers, "test")
    if cell.model.estimator not in TRIVIAL:
        details["temperature"] = _temperature(cell, source, problem, model)
        scaled = {name: _scaled(given, details["temperature"]) for name, given in answers.items()}
        measures.update({f"{name}{SCALED}": m for name, m in measure(scaled, "test").items()})
    for name in ("best_epoch_", "bandwidth_", "background_", "input_weight_", "oof_loss_"):
        if hasattr(model, name):
            details[name.removesuffix("_")] = float(getattr(model, name))
    return CellResult(columns=cell.columns(), answers={}, measures=measures, details=details)


def _baselines(device: str) -> dict[str, Contender]:
    """Return PNCA and what it is compared with."""
    return {name: Contender(name=name, device=device) for name in CONTENDERS}


def _variants(questions: list[Question], device: str) -> dict[str, Contender]:
    """Return PNCA without experts, and the same with one choice changed at a time."""
    changes = {name: given for question in questions for name, given in question.variants.items()}
    return {
        name: Contender(name=name, estimator="PNCA", device=device, changes={"experts": [], **given})
        for name, given in {"PNCA": {}, **changes}.items()
    }


def _sizes(source: Source, options: Options) -> tuple[int, ...]:
    if options.train_sizes:
        # A data set of one size has no choice.
        return tuple(n for n in source.sizes if n in options.train_sizes or len(source.sizes) == 1)
    if options.quick and len(source.sizes) > 1:
        return (_QUICK_SIZE,)
    return source.sizes


def _temperature(cell: BenchmarkCell, source: Source, problem: Problem, model: Any) -> float:  # noqa: ANN401
    """Fit the temperature to out-of-fold predictions, the model's own if it keeps them."""
    if hasattr(model, "oof_proba_"):
        with np.errstate(divide="ignore"):
            return fit_temperature(np.log(model.oof_proba_), problem.labels, spread=None)
    n_folds = _FEW_FOLDS if len(problem.labels) >= _MANY else _TEMPERATURE_FOLDS
    folds = assign_folds(problem.labels, n_folds, np.random.RandomState(cell.draw), problem.groups)
    logs = np.full((len(folds), problem.n_classes), -np.inf)
    for fold in range(folds.max() + 1):
        rest, held_out = folds != fold, folds == fold
        part = replace(problem, inputs=problem.inputs[rest], labels=problem.labels[rest], groups=None)
        fitted = cell.model.fit(cell.model.build(source, int(rest.sum()), cell.draw), part)
        logs[np.ix_(held_out, fitted.classes_)] = log_probabilities(fitted, problem.inputs[held_out])
    return fit_temperature(logs, problem.labels, spread=None)


def _scaled(given: Answers, temperature: float) -> Answers:
    logs: NDArray[np.float64] = apply_temperature(given.compact.astype(np.float64), temperature)
    return replace(given, compact=compress(logs))
