"""The paper's first experiment in small: digits, digits rotated, and letters."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca import evaluation
from pnca.estimators import (
    BNNClassifier,
    DNNClassifier,
    EnsembleClassifier,
    NCAClassifier,
    PNCAClassifier,
    paper_settings,
)
from pnca.estimators.base import ParticleClassifier
from pnca_studies.data import ShiftExperiment
from pnca_studies.experiments.store import versions

#: The three test sets of the demo: familiar, shifted, foreign.
TEST_SETS = ("digits", "rotated", "letters")


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoResult:
    """What one model answers on the three test sets.

    Attributes
    ----------
    name : str
        The model's name in tables and figures.
    settings : dict
        Its constructor arguments.
    fit_seconds : float
        Time the training took.
    probabilities : mapping of str to ndarray of shape (n, c)
        Class probabilities on each of ``TEST_SETS``.
    evidence : mapping of str to ndarray of shape (n,), or None
        Log kernel mass on each of ``TEST_SETS``, for the models that have it.
    """

    name: str
    settings: dict[str, Any]
    fit_seconds: float
    probabilities: Mapping[str, NDArray[np.float64]]
    evidence: Mapping[str, NDArray[np.float64]] | None


def demo_models(random_state: int) -> dict[str, ParticleClassifier]:
    """The paper's five models with its settings, and PNCA with our defaults.

    Parameters
    ----------
    random_state : int
        Seed of every model.

    Returns
    -------
    dict of str to classifier
    """
    paper = {
        "DNN": DNNClassifier,
        "BNN": BNNClassifier,
        "Ensemble": EnsembleClassifier,
        "NCA": NCAClassifier,
        "PNCA": PNCAClassifier,
    }
    models: dict[str, ParticleClassifier] = {
        f"{name} (paper)" if name == "PNCA" else name: model(
            **paper_settings(name), random_state=random_state
        )
        for name, model in paper.items()
    }
    return {**models, "PNCA": PNCAClassifier(random_state=random_state)}


def images_by_set(experiment: ShiftExperiment) -> dict[str, NDArray[np.float32]]:
    """The images of each of ``TEST_SETS``: (n, h, w).

    Parameters
    ----------
    experiment : ShiftExperiment
        The data of the demo.

    Returns
    -------
    dict of str to ndarray
    """
    images = experiment.test_images, experiment.rotated_images, experiment.ood_images
    return dict(zip(TEST_SETS, images, strict=True))


def run_demo(experiment: ShiftExperiment, models: Mapping[str, ParticleClassifier]) -> Iterator[DemoResult]:
    """Train each model in turn and ask it about the three test sets.

    Parameters
    ----------
    experiment : ShiftExperiment
        See :func:`pnca_studies.data.load_digits_experiment`.
    models : mapping of str to classifier
        Unfitted models by name.

    Yields
    ------
    DemoResult
        One a model, as soon as it is there.
    """
    train = _flat(experiment.train_images)
    tests = {name: _flat(images) for name, images in images_by_set(experiment).items()}
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(train, experiment.train_labels)
        seconds = time.perf_counter() - start
        if model.was_interrupted_:
            raise KeyboardInterrupt  # it ended that fit; it was meant for all of them
        scores = getattr(model, "evidence", None)
        yield DemoResult(
            name=name,
            settings=model.get_params(),
            fit_seconds=seconds,
            probabilities={key: model.predict_proba(inputs) for key, inputs in tests.items()},
            evidence=scores and {key: scores(inputs) for key, inputs in tests.items()},
        )


def measure(result: DemoResult, labels: NDArray[np.int64]) -> dict[str, float | None]:
    """Reduce a model's answers to the numbers of the demo's table.

    Parameters
    ----------
    result : DemoResult
        What the model answered.
    labels : ndarray of shape (n,)
        True classes of the digits, rotated or not.

    Returns
    -------
    dict of str to float, or None where a model has no evidence
        Out-of-distribution figures compare letters with unrotated digits.
    """
    digits, rotated, letters = (result.probabilities[name] for name in TEST_SETS)
    auroc_by_evidence = None
    if result.evidence is not None:
        auroc_by_evidence = evaluation.ood_auroc(-result.evidence["digits"], -result.evidence["letters"])
    return {
        "accuracy": evaluation.accuracy(labels, digits),
        "nll": evaluation.negative_log_likelihood(labels, digits),
        "ece": evaluation.expected_calibration_error(labels, digits),
        "rotated_accuracy": evaluation.accuracy(labels, rotated),
        "rotated_above_0.9": evaluation.share_above(rotated, 0.9),
        "letters_above_0.9": evaluation.share_above(letters, 0.9),
        "letters_auroc_confidence": evaluation.ood_auroc(-digits.max(axis=1), -letters.max(axis=1)),
        "letters_auroc_evidence": auroc_by_evidence,
        "fit_seconds": result.fit_seconds,
    }


def record(
    results: list[DemoResult], experiment: ShiftExperiment, *, n_train: int, random_state: int
) -> dict[str, Any]:
    """Everything ``results.json`` holds: numbers, settings, seed, versions.

    Parameters
    ----------
    results : list of DemoResult
        One a model.
    experiment : ShiftExperiment
        The data they answered.
    n_train, random_state : int
        How the data were drawn.

    Returns
    -------
    dict
        Ready to be written as JSON.
    """
    return {
        "study": "demo",
        "data": {
            "n_train": n_train,
            "n_test": len(experiment.test_labels),
            "random_state": random_state,
            "test_sets": list(TEST_SETS),
        },
        "versions": versions(),
        "models": {
            result.name: {
                "settings": result.settings,
                "measures": measure(result, experiment.test_labels),
            }
            for result in results
        },
    }


def _flat(images: NDArray[np.float32]) -> NDArray[np.float32]:
    return images.reshape(len(images), -1)
