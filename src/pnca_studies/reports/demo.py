"""The demo's figures and table, from its results."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pnca.evaluation import accuracy_vs_confidence, count_vs_confidence
from pnca_studies.data import LETTERS, ShiftExperiment
from pnca_studies.experiments.demo import TEST_SETS, DemoResult, images_by_set
from pnca_studies.reports.figures import (
    Curves,
    accuracy_vs_confidence_figure,
    count_vs_confidence_figure,
    input_strip_figure,
    save_figures,
)
from pnca_studies.reports.tables import NOTHING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Heading and format of each column of the table, by the name of its measure.
COLUMNS: Mapping[str, tuple[str, str]] = {
    "accuracy": ("\nacc.", "{:.3f}"),
    "nll": ("\nNLL", "{:.2f}"),
    "ece": ("\nECE", "{:.3f}"),
    "rotated_accuracy": ("rotated\nacc.", "{:.3f}"),
    "rotated_above_0.9": ("rotated\n> .9", "{:.1%}"),
    "letters_above_0.9": ("letters\n> .9", "{:.1%}"),
    "letters_auroc_confidence": ("AUROC\nconf.", "{:.3f}"),
    "letters_auroc_evidence": ("AUROC\nevid.", "{:.3f}"),
    "fit_seconds": ("fit\ns", "{:.1f}"),
}

_EXAMPLES_PER_SET = 3


def table_rows(models: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    """Name and formatted measures of each model in ``results.json``; a dash where there is no value."""
    for name, entry in models.items():
        values = [(entry["measures"][key], layout) for key, (_, layout) in COLUMNS.items()]
        yield [name, *(NOTHING if value is None else layout.format(value) for value, layout in values)]


def write_figures(
    results: Sequence[DemoResult], experiment: ShiftExperiment, folder: Path, formats: Sequence[str] = ()
) -> list[Path]:
    """Draw the demo's four figures into a folder that exists, as PNG and in further formats: svg, pdf."""
    labels, n = experiment.test_labels, len(experiment.test_labels)

    def curves(kind: str, name: str) -> Curves:
        drawn: dict[str, tuple[ArrayLike, ArrayLike]] = {}
        for result in results:
            p = result.probabilities[name]
            curve = accuracy_vs_confidence(labels, p) if kind == "accuracy" else count_vs_confidence(p)
            drawn[result.name] = (curve.thresholds, curve.values)
        return drawn

    figures = {
        "accuracy_vs_confidence_rotated.png": accuracy_vs_confidence_figure(
            curves("accuracy", "rotated"), "Digits rotated by 60°: is a confident answer right?"
        ),
        "count_vs_confidence_rotated.png": count_vs_confidence_figure(
            curves("count", "rotated"), "Digits rotated by 60°: how often is a model sure?", n
        ),
        "count_vs_confidence_letters.png": count_vs_confidence_figure(
            curves("count", "letters"), "Letters, which are no digits: how often is a model sure?", n
        ),
        "inputs.png": _strip(results, experiment),
    }
    return [path for name, figure in figures.items() for path in save_figures(figure, folder / name, formats)]


def _strip(results: Sequence[DemoResult], experiment: ShiftExperiment) -> "Figure":
    """A few inputs of each test set, with every model's answer and confidence."""
    digits, letters = experiment.test_labels, experiment.ood_labels
    # The first test digits of different classes, and different letters: not chosen by their outcome.
    picked_digits = np.unique(digits, return_index=True)[1][:_EXAMPLES_PER_SET]
    picked_letters = np.unique(letters, return_index=True)[1][:_EXAMPLES_PER_SET]
    picked = {"digits": picked_digits, "rotated": picked_digits, "letters": picked_letters}
    images = images_by_set(experiment)
    answers = {
        result.name: np.concatenate([result.probabilities[name][picked[name]] for name in TEST_SETS])
        for result in results
    }
    names = experiment.class_names
    return input_strip_figure(
        np.concatenate([images[name][picked[name]] for name in TEST_SETS]),
        [name for name in TEST_SETS for _ in picked[name]],
        {model: [names[c] for c in p.argmax(axis=1)] for model, p in answers.items()},
        {model: p.max(axis=1) for model, p in answers.items()},
        captions=[
            *[f"a {names[c]}" for c in digits[picked_digits]],
            *[f"a {names[c]}, rotated" for c in digits[picked_digits]],
            *[f"the letter {LETTERS[c]}" for c in letters[picked_letters]],
        ],
    )
