"""Curves over the confidence threshold, from the answers that a run kept."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pnca import evaluation
from pnca_studies.experiments.answers import Answers
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.panels import Panel

#: Confidence thresholds of the curves.
THRESHOLDS: NDArray[np.float64] = np.arange(51) / 50

#: An accuracy over fewer examples is not drawn.
LEAST_EXAMPLES = 10


def accuracy_curve(answers: Answers) -> NDArray[np.float64]:
    """Accuracy among the examples above each of ``THRESHOLDS``; NaN if fewer than ``LEAST_EXAMPLES``."""
    if answers.labels is None:
        raise ValueError("accuracy needs labels")
    curve = evaluation.accuracy_vs_confidence(answers.labels, answers.probabilities, THRESHOLDS)
    return np.where(count_curve(answers) >= LEAST_EXAMPLES, curve.values, np.nan)


def count_curve(answers: Answers) -> NDArray[np.float64]:
    """Number of examples above each of ``THRESHOLDS``."""
    return evaluation.count_vs_confidence(answers.probabilities, THRESHOLDS).values.astype(np.float64)


def curves(
    folder: RunFolder,
    models: Sequence[str],
    test_set: str,
    measure: Callable[[Answers], NDArray[np.float64]],
    where: Mapping[str, object],
) -> dict[str, NDArray[np.float64]]:
    """Curves (fits, thresholds) on a test set by model, of the fits with some values of columns."""
    found: dict[str, list[NDArray[np.float64]]] = {model: [] for model in models}
    for result in folder.results(test_sets=[test_set]):
        columns = result.columns
        wanted = columns["model"] in found and all(columns.get(key) == where[key] for key in where)
        if wanted and test_set in result.answers:
            found[columns["model"]].append(measure(result.answers[test_set]))
    return {model: np.stack(lines) for model, lines in found.items() if lines}


def threshold_panel(title: str, lines: dict[str, NDArray[np.float64]], n: int | None = None) -> Panel:
    """Draw curves of accuracy or, of n examples, curves of counts."""
    top = n or 1
    return Panel(
        title=title,
        x=THRESHOLDS,
        lines=lines,
        x_label="confidence threshold τ",
        y_label=f"of {n:,}, confidence ≥ τ" if n else "accuracy where confidence ≥ τ",
        y_range=(-0.02 * top, 1.02 * top),
    )
