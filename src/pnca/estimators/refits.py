"""Fits of the same parameters on parts of the examples, scored on the others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from pnca.calibration.conformal import IntArray
from pnca.calibration.learning import LearningCurve, Scores, default_sizes, learning_curve, nested_order
from pnca.exceptions import InvalidInputError
from pnca.record import Record, is_table
from pnca.training.progress import bar
from pnca.training.sampling import assign_folds, numbered_groups

_N_FOLDS = 5


class Path(NamedTuple):
    """Rows to learn from, in an order whose beginnings are learnt from, and rows to score."""

    order: IntArray
    cuts: IntArray  # (s,), lengths of the beginnings
    scored: IntArray


def make_paths(
    labels: IntArray,
    groups: IntArray | None,
    sizes: Sequence[int] | None,
    repeats: int,
    rng: np.random.RandomState,
) -> tuple[list[Path], list[int]]:
    """Paths of all folds and repeats, and the mean sizes; without groups all paths have the same."""
    drawn = []
    for _ in range(repeats):
        folds = assign_folds(labels, _N_FOLDS, rng, groups)
        for fold in range(int(folds.max()) + 1):
            shown, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            if len(np.unique(labels[shown])) < 2:
                raise InvalidInputError(
                    "A learning curve needs two classes outside of every fold, and one fold holds all "
                    "examples of a class: add examples (groups) of that class."
                )
            within, cuts = nested_order(labels[shown], None if groups is None else groups[shown], rng)
            known = np.isin(labels[held_out], labels[shown])
            drawn.append(Path(shown[within], cuts, held_out[known]))
    least = max(10, *(int(path.cuts[0]) for path in drawn))
    most = min(int(path.cuts[-1]) for path in drawn)
    chosen = default_sizes(least, most) if sizes is None else check_sizes(sizes, least, most)
    paths = []
    for path in drawn:
        # The next place where no group is split.
        places = np.searchsorted(path.cuts, chosen).clip(max=len(path.cuts) - 1)
        paths.append(path._replace(cuts=path.cuts[places]))
    learnt = np.mean([path.cuts for path in paths], axis=0)
    return paths, [round(size) for size in learnt.tolist()]


def check_sizes(sizes: Sequence[int], least: int, most: int) -> list[int]:
    """Sizes as they were given, rising, or an error that says between what they must lie."""
    found = list(sizes)
    are_whole = all(isinstance(size, Integral) and not isinstance(size, bool) for size in found)
    if not found or not are_whole or not least <= min(found) <= max(found) <= most:
        raise InvalidInputError(
            f"sizes is {sizes!r}: pass whole numbers from {least}, which hold every class, to {most}, the "
            "examples of four folds."
        )
    return sorted({int(size) for size in found})


def measure_curve(
    model: Any,  # noqa: ANN401
    record: Record,
    labels: IntArray,
    sizes: Sequence[int] | None,
    *,
    repeats: int,
    max_error: float,
    verbose: bool,
) -> LearningCurve:
    """Refit a model on nested parts of its examples, and score those that are left out."""
    if not (isinstance(repeats, Integral) and not isinstance(repeats, bool) and repeats >= 1):
        raise InvalidInputError(f"repeats is {repeats!r}: pass a whole number from 1.")
    rng = check_random_state(deepcopy(model.random_state))  # a generator of the caller's stays as it is
    groups = None if record.groups is None else numbered_groups(record.groups, len(labels))
    paths, chosen = make_paths(labels, groups, sizes, int(repeats), rng)
    seed, started = int(rng.randint(2**31)), time.monotonic()
    n_fits = len(paths) * len(chosen)
    silent = nullcontext(lambda steps=1, state="": None)
    with bar("learning curve", n_fits) if verbose else silent as advance:
        found = [_scored(model, record, labels, path, max_error, seed, advance) for path in paths]
    nll, is_wrong, is_answered = (
        None if part[0] is None else np.concatenate(part) for part in zip(*found, strict=True)
    )
    rows = np.concatenate([path.scored for path in paths])
    of_paths = np.repeat(np.arange(len(paths)), [len(path.scored) for path in paths])
    n_lost = repeats * len(labels) - len(rows)
    note = f"{n_lost // repeats} examples are of classes that one fold alone holds, and were not scored"
    return learning_curve(
        Scores(nll, is_wrong, is_answered, of_paths, rows if groups is None else groups[rows]),
        chosen,
        n=len(labels),
        max_error=max_error,
        n_fits=n_fits,
        seconds=time.monotonic() - started,
        seed=seed,
        note=note if n_lost else "",
    )


def _scored(
    model: Any,  # noqa: ANN401
    record: Record,
    labels: IntArray,
    path: Path,
    max_error: float,
    seed: int,
    advance: Callable[..., None],
) -> tuple[Any, Any, Any]:
    """NLL, errors and answers (k, s) of the rows that a path scores."""
    X, truth = record.inputs, labels[path.scored]
    scored = _rows(X, path.scored)
    columns = []
    for cut in path.cuts.tolist():
        rows, fit_groups = path.order[:cut], {}
        if record.groups is not None:
            fit_groups["groups"] = record.groups[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the model's own fit has said it
            part = clone(model).set_params(verbose=False, random_state=seed)
            part.fit(_rows(X, rows), record.labels[rows], **fit_groups)
            log_proba = part.predict_log_proba(scored)
            column_of_truth = np.searchsorted(np.unique(labels[rows]), truth)
            of_truth = log_proba[np.arange(len(truth)), column_of_truth]
            is_wrong = log_proba.argmax(axis=1) != column_of_truth
            column = [-of_truth, is_wrong.astype(float)]
            if hasattr(part, "oof_proba_"):
                decided = part.decide(scored, max_error=max_error)
                column.append((decided.reason == "answered").astype(float))
        columns.append(column)
        advance()
    nll, errors, *answered = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    return nll, errors, answered[0] if answered else None


def _rows(X: Any, rows: IntArray) -> Any:  # noqa: ANN401
    return X.iloc[rows] if is_table(X) else X[rows]
