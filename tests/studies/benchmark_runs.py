"""Runs of the benchmark that never trained: their numbers are dictated.

By default PNCA is better than the others, who are all alike, in every measure and by the same in every draw:
every target is met. The trivial scores would be the best classifiers if anyone looked at them as such.
"""

import re
from itertools import product

from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.contenders import CONTENDERS, ON_IMAGES, TRIVIAL
from pnca_studies.experiments.store import RunFolder, versions
from pnca_studies.reports.benchmark import Results, write_benchmark
from pnca_studies.reports.benchmark.runs import cell_rows

SMALL = [("wine", 50), ("iris", 50)]
WHOLE = [
    *product(("MNIST", "MNIST images"), (100, 200, 400)),
    *[("COVID", 80), ("digits", 100), ("breast cancer", 50), *SMALL],
]
FEW = ("PNCA", "RBF-SVM", "k-NN", *TRIVIAL)
TWO_CLASSES = ("COVID", "breast cancer", "wine", "iris")
BETTER = {"accuracy": 0.9, "nll": 0.3, "brier": 0.15, "ece": 0.02, "augrc": 0.01, "auroc": 0.95}
OTHER = {"accuracy": 0.8, "nll": 0.5, "brier": 0.3, "ece": 0.05, "augrc": 0.05, "auroc": 0.9}
PERFECT = {"accuracy": 1.0, "nll": 0.001, "brier": 0.001, "ece": 0.0, "augrc": 0.0, "auroc": 1.0}
OOD = {  # by confidence, by evidence, share above .9
    "PNCA": (0.992, 0.997, 0.001),
    "nearest distance": (0.5, 0.95, 0.0),
    "PCA residual": (0.5, 0.94, 0.0),
}


def nothing_changed(columns, test_set):
    return {}


def at(data, n, model, test_set, **changes):
    """Change some measures of a model at a data set and n; None stands for all."""

    def change(columns, given):
        wanted = {"data": data, "n_train": n, "model": model}
        here = all(value is None or columns[key] == value for key, value in wanted.items())
        return changes if here and given == test_set else {}

    return change


def measures(columns, change):
    """The measures of a cell, by test set; ``change(columns, test_set)`` says what is different."""
    data, model, bonus = columns["data"], columns["model"], 0.01 * columns["draw"]
    labelled = dict(PERFECT if model in TRIVIAL else BETTER if model == "PNCA" else OTHER, n=90)
    labelled["accuracy"] -= bonus
    if data not in TWO_CLASSES:
        del labelled["auroc"]
    confidence, evidence, above = OOD.get(model, (0.8, None if model == "DNN" else 0.9, 0.1))
    found = {"test": labelled}
    if data.startswith("MNIST"):
        found["rotated"] = {**labelled, "accuracy": labelled["accuracy"] / 3, "augrc": labelled["augrc"] * 4}
    if data != "breast cancer":
        found["ood"] = {
            "n": 70,
            "above_0.9": above,
            "ood_auroc_confidence": confidence,
            "ood_fpr95_confidence": 1 - confidence,
            "ood_auroc_evidence": evidence,
            "ood_fpr95_evidence": None if evidence is None else 1 - evidence,
        }
    if model not in TRIVIAL:
        scaled = {**labelled, "nll": 0.9 * labelled["nll"], "ece": 0.8 * labelled["ece"]}
        found |= {f"{name}, scaled": scaled if name == "test" else given for name, given in found.items()}
    return {name: given | change(columns, name) for name, given in found.items()}


def cells(change=nothing_changed, places=WHOLE, models=CONTENDERS, draws=range(2), details=None):
    found = []
    for draw, (data, n), model in product(draws, places, models):
        if data != "MNIST images" or model in ON_IMAGES or model not in CONTENDERS:
            columns = {"experiment": "benchmark", "data": data, "n_train": n, "draw": draw, "model": model}
            seconds = {"fit_seconds": 2.0, "predict_seconds": 0.5}
            found.append(
                CellResult(
                    columns=columns,
                    answers={},
                    measures=measures(columns, change),
                    details={"seconds": seconds, "device": "cpu"} | (details(columns) if details else {}),
                )
            )
    return found


def results(*arguments, **options):
    return Results(row for cell in cells(*arguments, **options) for row in cell_rows("", cell, {}))


def run(path, given, study="benchmark", finished=True):
    """A run's folder with these cells; if it is not finished, it has planned one cell more."""
    folder = RunFolder.create(path, resume=False)
    stems = {f"{i}-" + "-".join(map(str, cell.columns.values())): cell for i, cell in enumerate(given)}
    folder.write_run(
        {
            "study": study,
            "options": {"trials": None, "train_sizes": None, "models": None, "quick": False},
            "protocol": {
                "data": {cell.columns["data"]: "digest" for cell in given},
                "temperature_folds": [3, 2],
            },
            "seeds": "draw s: seed s",
            "models": {},
            "versions": versions(),
            "hardware": {"machine": "m", "processor": "abacus", "cores": 2, "system": "beads"},
            "engine": {"name": "local", "jobs": 2, "scheduler": None},
            "cells": [*stems, *([] if finished else ["planned"])],
            "failed": {},
            "sessions": [],
        }
    )
    for stem, cell in stems.items():
        folder.write(stem, cell)
    return folder


def document(folder, *arguments, name="run", **options):
    """The text of the document about one run."""
    given = run(folder / name, cells(*arguments, **options))
    return write_benchmark([given], folder / f"{name}.md").read_text(encoding="utf-8")


def section(text, heading):
    """What stands under a heading, up to the next one of its level."""
    level = heading.split()[0]
    (found,) = re.findall(
        rf"^{re.escape(heading)}$(.*?)(?=^{level} |^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return found


def tables(text):
    """Each table as a list of rows by heading; the first column without its emphasis."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line[2:-2].split(" | ")] for line in block.splitlines()]
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def row_of(table, model):
    (row,) = [row for row in table if next(iter(row.values())).strip("*") == model]
    return row
