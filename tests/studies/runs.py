"""Folders of runs that never trained: the answers are dictated, so every number of a report is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pnca_studies.data import CovidFeatures
from pnca_studies.experiments.answers import Answers, compress, measure
from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.covid import _describe
from pnca_studies.experiments.store import RunFolder, versions

SIX = ("DNN", "BNN", "BNN as published", "Ensemble", "NCA", "PNCA (paper)")
SURE, UNSURE, UNSURE_OF_TWO = 0.95, 0.3, 0.6  # confidences: above .9, below .5, and the same for two classes
PAPERS_CONDITION = ("plain", "paper", "random")
N, N_LETTERS, N_BONES = 100, 80, {"MURA_XR_HAND": 40, "WRIST": 20}
POSITIVE, NEGATIVE = 58, 18  # of Actualmed; its other 109 negatives could not be obtained

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Skill:
    """How a model does on a test set; every share must be a whole number of examples.

    ``sure_accuracy`` is the accuracy among the sure answers; by default it is the overall one.
    """

    accuracy: float = 0.5
    sure: float = 0.0
    sure_accuracy: float | None = None


Skills = Callable[[Columns, str], Skill]


def same(skill: Skill) -> Skills:
    """The same skill of every model on every test set."""
    return lambda columns, test_set: skill


def answers(labels, right, confidence, n_classes=10, evidence=None):
    """Answers with a dictated outcome for each example.

    ``labels`` is an array of classes or, where no class is right, a number of examples; ``right`` says
    which answers are right, and ``confidence`` is what the class answered has, the others sharing the rest.
    """
    known = np.zeros(labels, dtype=np.int64) if np.isscalar(labels) else np.asarray(labels)
    n = len(known)
    confidence = np.broadcast_to(confidence, n)
    answered = np.where(right, known, (known + 1) % n_classes)
    p = np.repeat((1 - confidence)[:, None] / (n_classes - 1), n_classes, axis=1)
    p[np.arange(n), answered] = confidence
    return Answers(
        compact=compress(np.log(p)),
        labels=None if np.isscalar(labels) else known.astype(np.uint8),
        evidence=None if evidence is None else np.broadcast_to(evidence, n).astype(np.float32),
    )


def skilled_answers(labels, skill, n_classes=10, evidence=None):
    """Answers as accurate and as sure as a skill says: the sure ones come first."""
    n = labels if np.isscalar(labels) else len(labels)
    n_right, n_sure = round(skill.accuracy * n), round(skill.sure * n)
    sure_accuracy = skill.accuracy if skill.sure_accuracy is None else skill.sure_accuracy
    n_sure_right = round(sure_accuracy * n_sure)
    assert 0 <= n_right - n_sure_right <= n - n_sure, "no such answers"
    place = np.arange(n)
    sure = place < n_sure
    right = np.where(sure, place < n_sure_right, place - n_sure < n_right - n_sure_right)
    unsure = UNSURE if n_classes > 2 else UNSURE_OF_TWO
    return answers(labels, right, np.where(sure, SURE, unsure), n_classes, evidence)


def mnist_run(
    path: Path,
    skills: Skills,
    *,
    models: Sequence[str] = SIX,
    sizes: Sequence[int] = (100,),
    draws: int = 2,
    angles: Sequence[int] = (),
    study: str = "mnist",
    kernel_sum: float = 1.0,
    answer: Callable[[Columns], dict[str, Answers]] = lambda columns: {},
    finished: Callable[[Columns], bool] = lambda columns: True,
) -> RunFolder:
    """A run of the first experiment, or of the ablation; ``answer`` may replace some answers."""
    digits = np.arange(N) % 10

    def work(columns):
        evidence = 1.0 if "PNCA" in columns["model"] else None
        sets = {"test": digits, "rotated": digits, "notmnist": N_LETTERS}
        sets |= {f"angle {angle}": digits for angle in angles}
        given = answer(columns)
        return {
            name: given.get(name)
            or skilled_answers(
                labels, skills(columns, name), evidence=evidence if name in ("test", "notmnist") else None
            )
            for name, labels in sets.items()
        }

    cells = [
        {"experiment": study, "n_train": n, "draw": draw, "model": model}
        for draw, n, model in product(range(draws), sizes, models)
    ]
    details = {"mean_parameter_kernel_sum": kernel_sum}
    return _write(path, study, cells, work, "test", {"test_sets": {}}, details, finished)


def covid_run(
    path: Path,
    skills: Skills,
    *,
    models: Sequence[str] = SIX,
    conditions: Sequence[tuple[str, str, str]] = (PAPERS_CONDITION,),
    trials: int = 2,
    folds: int = 2,
    positive: int = POSITIVE,
    negative: int = NEGATIVE,
    answer: Callable[[Columns], dict[str, Answers]] = lambda columns: {},
    finished: Callable[[Columns], bool] = lambda columns: True,
) -> RunFolder:
    """A run of the second experiment; ``answer`` may replace some answers."""
    held_out = np.arange(N) % 2
    actualmed = np.repeat([1, 0], [positive, negative])

    def work(columns):
        sets = {"validation": held_out, "actualmed": actualmed, "bones": sum(N_BONES.values())}
        sets |= {f"bones {group}": n for group, n in N_BONES.items()}
        given = answer(columns)
        return {
            name: given.get(name) or skilled_answers(labels, skills(columns, name), n_classes=2)
            for name, labels in sets.items()
        }

    cells = [
        {
            "experiment": "covid",
            "features": features,
            "labels": labels,
            "folds": kind,
            "trial": trial,
            "fold": fold,
            "model": model,
        }
        for trial, fold, (features, labels, kind), model in product(
            range(trials), range(folds), conditions, models
        )
    ]
    protocol = {"data": {name: _covid_counts(positive, negative) for name in {c[0] for c in conditions}}}
    return _write(path, "covid", cells, work, "validation", protocol, {}, finished)


def _write(path, study, cells, work, reference, protocol, details, finished):
    """Write the files as :func:`pnca_studies.experiments.study.run_study` does."""
    folder = RunFolder.create(path, resume=False)
    stems = {"-".join(map(str, columns.values())).replace(" ", "_"): columns for columns in cells}
    folder.write_run(
        {
            "study": study,
            "options": {"trials": None, "train_sizes": None, "models": None, "quick": False},
            "protocol": protocol,
            "seeds": "draw s: seed s",
            "models": {},
            "versions": versions(),
            "hardware": {"machine": "m", "processor": "abacus", "cores": 2, "system": "beads"},
            "engine": {"name": "local", "jobs": 2, "scheduler": None},
            "cells": list(stems),
            "failed": {},
            "sessions": [{"fits": len(stems), "seconds": 90.0}],
        }
    )
    for stem, columns in stems.items():
        if finished(columns):
            given = work(columns)
            folder.write(
                stem,
                CellResult(
                    columns=columns,
                    answers=given,
                    measures=_measure(given, reference),
                    details={"seconds": {"fit_seconds": 1.0, "predict_seconds": 1.0}, **details},
                ),
            )
    return folder


_measured = {}


def _measure(given, reference):
    """Take the measures; those of the same answers, which many runs share, are taken once."""
    parts = ("compact", "labels", "evidence")
    arrays = [getattr(a, part) for a in given.values() for part in parts]
    key = (reference, *given, *(None if array is None else array.tobytes() for array in arrays))
    if key not in _measured:
        _measured[key] = measure(given, reference)
    return _measured[key]


def _covid_counts(positive, negative):
    """Counts as a real run has them in ``run.json``: 20 images, 15 positive; 18 X-rays, 16 positive."""
    n_bones = sum(N_BONES.values())
    return _describe(
        CovidFeatures(
            features=np.zeros((20, 1), dtype=np.float32),
            labels_paper=np.repeat([1, 0], [15, 5]),
            labels_any_covid=np.repeat([1, 0], [16, 4]),
            is_xray=np.arange(20) < 18,
            patients=np.arange(20).astype(str),
            ids=np.arange(20).astype(str),
            test_features=np.zeros((positive + negative, 1), dtype=np.float32),
            test_labels=np.repeat([1, 0], [positive, negative]),
            test_patients=np.arange(positive + negative).astype(str),
            inconclusive_features=np.zeros((0, 1), dtype=np.float32),
            ood_features=np.zeros((n_bones, 1), dtype=np.float32),
            ood_groups=np.repeat(list(N_BONES), list(N_BONES.values())),
        )
    )
