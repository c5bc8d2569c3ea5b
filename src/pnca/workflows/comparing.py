"""Compare the default with other models on a user's own table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pnca.exceptions import InvalidInputError
from pnca.reports.comparison import DEFAULT, Comparison, compare_predictions
from pnca.tables import LabelledTable
from pnca.training.sampling import assign_folds, numbered_groups
from pnca.workflows.baselines import (
    FloatArray,
    IntArray,
    as_numbers_and_texts,
    baselines,
    columns_of,
    fit_predict,
)
from pnca.workflows.evaluating import silent

#: Fits and predicts: training rows and rows that are left out.
_Fit = Callable[[IntArray, IntArray, int], FloatArray]


def compare_on(
    examples: LabelledTable,
    *,
    codes: tuple[str, ...] = (),
    n_folds: int = 5,
    n_repeats: int = 2,
    seed: int = 0,
    stage: Callable[[str], None] = silent,
) -> Comparison:
    """Fit the default and its baselines in the same folds, dealt several times, and compare them.

    Parameters
    ----------
    examples : LabelledTable
        From :func:`pnca.tables.read_examples`; groups are kept together.
    codes : tuple of str
        Columns of numbers that are names of categories.
    n_folds, n_repeats : int
        Folds, and how often they are dealt.
    seed : int
        Of folds and fits.
    stage : callable
        Called with what is being done.

    Returns
    -------
    Comparison
    """
    n = len(examples.y)
    classes, labels = np.unique(examples.y, return_inverse=True)
    groups = None if examples.groups is None else numbered_groups(examples.groups, n)
    _check(labels, groups, n_folds)
    fits = _fits(examples, labels, groups, len(classes), codes)
    predictions: dict[str, FloatArray] = {}
    seconds: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    rng = np.random.RandomState(seed)
    dealt = np.stack([assign_folds(labels, n_folds, rng, groups) for _ in range(n_repeats)])
    for repeat, folds in enumerate(dealt):
        for fold in np.unique(folds).tolist():
            shown, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            for name, fit in fits.items():
                if name in failed:
                    continue
                place = f"repeat {repeat + 1} of {n_repeats}, fold {fold + 1} of {n_folds}"
                stage(f"{place}: {name}")
                started = time.perf_counter()
                try:
                    found = fit(shown, held_out, seed + repeat)
                except (ValueError, ArithmeticError) as error:
                    if name == DEFAULT:
                        raise
                    failed[name] = " ".join(str(error).split())[:200]
                    continue
                seconds.setdefault(name, []).append(time.perf_counter() - started)
                proba = predictions.setdefault(name, np.zeros((n_repeats, n, len(classes))))
                proba[repeat, held_out] = found
    kept = {name: proba for name, proba in predictions.items() if name not in failed}
    mean = {name: float(np.mean(seconds[name])) for name in kept}
    return compare_predictions(kept, labels, dealt, mean, groups=groups, failed=failed)


def _check(labels: IntArray, groups: IntArray | None, n_folds: int) -> None:
    n_units = len(labels) if groups is None else len(np.unique(groups))
    if n_units < 2 * n_folds:
        what = "examples" if groups is None else "groups"
        raise InvalidInputError(
            f"There are {n_units} {what}, and {n_folds} folds need {2 * n_folds} to compare models: add "
            "some, or pass fewer --folds."
        )


def _fits(
    examples: LabelledTable,
    labels: IntArray,
    groups: IntArray | None,
    n_classes: int,
    codes: tuple[str, ...],
) -> dict[str, _Fit]:
    """What fits each model, the default first."""
    columns = columns_of(examples.source.sorts, codes)
    table = as_numbers_and_texts(examples.X, columns)

    def of_baseline(baseline: Any, shown: IntArray, held_out: IntArray, seed: int) -> FloatArray:  # noqa: ANN401
        return fit_predict(
            baseline,
            columns,
            table.iloc[shown],
            labels[shown],
            table.iloc[held_out],
            n_classes=n_classes,
            seed=seed,
            groups=None if groups is None else groups[shown],
        )

    def of_default(shown: IntArray, held_out: IntArray, seed: int) -> FloatArray:
        from pnca.estimators import PNCAClassifier

        X, own = examples.X, None if groups is None else groups[shown]
        model = PNCAClassifier(random_state=seed, categorical_features=list(codes) or None)
        proba = np.zeros((len(held_out), n_classes))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pnca fit says them
            model.fit(X.iloc[shown], labels[shown], groups=own)
            proba[:, model.classes_] = model.predict_proba(X.iloc[held_out])
        return proba

    return {
        DEFAULT: of_default,
        **{baseline.name: partial(of_baseline, baseline) for baseline in baselines()},
    }
