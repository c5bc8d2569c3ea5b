"""The paper's first experiment in small: digits, digits rotated, and letters."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca import estimators, evaluation
from pnca.estimators import PNCAClassifier, paper_settings
from pnca.sources import ImageSource
from pnca_studies.data import ShiftExperiment
from pnca_studies.experiments.settings import Classifier
from pnca_studies.experiments.store import versions

#: In distribution, shifted, out of distribution.
TEST_SETS = ("digits", "rotated", "letters")


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoResult:
    """One model's predictions on each of ``TEST_SETS``."""

    name: str  # in tables and figures
    settings: dict[str, Any]  # constructor arguments
    fit_seconds: float
    probabilities: Mapping[str, NDArray[np.float64]]  # (n, c)
    evidence: Mapping[str, NDArray[np.float64]] | None  # (n,), log kernel mass of the models that have it


def demo_models(random_state: int) -> dict[str, Classifier]:
    """Build the paper's five models with its settings, and PNCA with its defaults."""
    models: dict[str, Classifier] = {
        name: getattr(estimators, f"{name}Classifier")(**paper_settings(name), random_state=random_state)
        for name in ("DNN", "BNN", "Ensemble", "NCA")
    }
    models["PNCA (paper)"] = PNCAClassifier(**paper_settings("PNCA"), random_state=random_state)
    models["PNCA"] = PNCAClassifier(random_state=random_state)
    return models


def images_by_set(experiment: ShiftExperiment) -> dict[str, NDArray[np.float32]]:
    """Return the images (n, h, w) of each of ``TEST_SETS``."""
    images = experiment.test_images, experiment.rotated_images, experiment.ood_images
    return dict(zip(TEST_SETS, images, strict=True))


def run_demo(experiment: ShiftExperiment, models: Mapping[str, Classifier]) -> Iterator[DemoResult]:
    """Train each model in turn and yield its predictions on the three test sets."""
    train = _flat(experiment.train_images)
    tests = {name: _flat(images) for name, images in images_by_set(experiment).items()}
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(train, experiment.train_labels)
        seconds = time.perf_counter() - start
        scores = getattr(model, "evidence", None)
        yield DemoResult(
            name=name,
            settings=model.get_params(),
            fit_seconds=seconds,
            probabilities={key: model.predict_proba(inputs) for key, inputs in tests.items()},
            evidence=scores and {key: scores(inputs) for key, inputs in tests.items()},
        )


def fit_images(experiment: ShiftExperiment, random_state: int) -> PNCAClassifier:
    """Fit PNCA with its defaults on the training digits as images, which its page takes as files."""
    images = as_bytes(experiment.train_images)
    labels = np.array(experiment.class_names)[experiment.train_labels]
    model = PNCAClassifier(random_state=random_state)
    model.fit(images, labels)
    model.source_ = ImageSource(shape=images.shape[1:], is_resized=True)
    return model


def as_bytes(images: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Images of values from zero to one as grey values of files."""
    grey: NDArray[np.uint8] = np.rint(255 * images).clip(0, 255).astype(np.uint8)
    return grey


def measure(result: DemoResult, labels: NDArray[np.int64]) -> dict[str, float | None]:
    """Compute the demo's table for one model; letters are compared with unrotated digits."""
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
    """Return the content of ``results.json``: measures, settings, seed and versions."""
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
