"""Predictions of a fitted model on a test set: stored in little space, and measured.

Measures are taken from the stored form, so that a report made from files agrees with the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca import evaluation

#: The least log-odds that is stored; exp(-10000) is zero in any precision, and float16 reaches -65504.
LEAST_LOG_ODDS = -1e4


def compress(log_probabilities: ArrayLike) -> NDArray[np.float16]:
    r"""Store log-probabilities (n, c) in two bytes each, as log-odds against the best class.

    .. math:: a_{ik} = \log p_{ik} - \max_c \log p_{ic}

    The best class has exactly zero and the others less, so the predicted class is kept. The rounding of a
    log-odds is relative (one part in 4,000), so a probability near one or zero keeps its distance from it;
    with up to ten classes the confidence moves by less than .0004.
    """
    logs = np.asarray(log_probabilities, dtype=np.float64)
    behind = np.maximum(logs - logs.max(axis=1, keepdims=True), LEAST_LOG_ODDS)
    compact: NDArray[np.float16] = behind.astype(np.float16)
    compact[(compact == 0) & (behind < 0)] = -np.finfo(np.float16).smallest_subnormal
    return compact


def expand(compact: ArrayLike) -> NDArray[np.float64]:
    """Return the class probabilities (n, c) that :func:`compress` stored, up to its rounding."""
    weights = np.exp(np.asarray(compact, dtype=np.float64))
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """A model's predictions on one test set."""

    compact: NDArray[np.float16]  # (n, c), from compress
    labels: NDArray[np.uint8] | None = None  # (n,), true columns; None where no class is right
    evidence: NDArray[np.float32] | None = None  # (n,), log kernel mass of the models that have it

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Class probabilities: (n, c)."""
        return expand(self.compact)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """Largest class probability: (n,)."""
        confidence: NDArray[np.float64] = self.probabilities.max(axis=1)
        return confidence


def ask(
    model: Any,  # noqa: ANN401
    inputs: NDArray[np.float32],
    labels: NDArray[np.int64] | None,
    *,
    n_classes: int,
    with_evidence: bool = False,
) -> Answers:
    """Predict a test set (n, ...); a class that was not in the training data gets probability zero."""
    logs = np.full((len(inputs), n_classes), -np.inf)
    logs[:, model.classes_] = log_probabilities(model, inputs)
    evidence = getattr(model, "evidence", None) if with_evidence else None
    largest = np.finfo(np.float32).max  # beyond it would be infinity, and a file holds none
    return Answers(
        compact=compress(logs),
        labels=None if labels is None else labels.astype(np.uint8),
        evidence=None if evidence is None else evidence(inputs).clip(-largest, largest).astype(np.float32),
    )


def log_probabilities(model: Any, inputs: NDArray[np.float32]) -> NDArray[np.float64]:  # noqa: ANN401
    """Return log class probabilities (n, c) of any classifier."""
    if hasattr(model, "predict_log_proba"):
        logs: NDArray[np.float64] = model.predict_log_proba(inputs)
        return logs
    with np.errstate(divide="ignore"):
        logs = np.log(model.predict_proba(inputs))
    return logs


def measure(answers: Mapping[str, Answers], reference: str) -> dict[str, dict[str, float | None]]:
    """Measure the predictions on each test set; None stands for a measure that has no value there.

    Sets without labels are out of distribution and compared with the reference set, by confidence and by
    evidence; ``auroc``, of two classes only, is that of the second class.
    """
    known = answers[reference]
    return {name: _measure_one(given, known) for name, given in answers.items()}


def _measure_one(given: Answers, known: Answers) -> dict[str, float | None]:
    p = given.probabilities
    measures: dict[str, float | None] = {
        "n": len(p),
        "mean_confidence": float(p.max(axis=1).mean()),
        "above_0.9": evaluation.share_above(p, 0.9),
    }
    if given.labels is None:
        return {**measures, **_measure_ood(given, known)}
    measures.update(evaluation.summarise(given.labels, p))
    if p.shape[1] == 2:
        both = 0 < int(given.labels.sum()) < len(given.labels)
        negative, positive = p[given.labels == 0, 1], p[given.labels == 1, 1]
        measures["auroc"] = evaluation.ood_auroc(negative, positive) if both else None
    return measures


def _measure_ood(given: Answers, known: Answers) -> dict[str, float | None]:
    measures: dict[str, float | None] = {
        "ood_auroc_confidence": evaluation.ood_auroc(-known.confidence, -given.confidence),
        "ood_fpr95_confidence": evaluation.ood_fpr95(-known.confidence, -given.confidence),
        "ood_auroc_evidence": None,
        "ood_fpr95_evidence": None,
    }
    if given.evidence is not None and known.evidence is not None:
        measures["ood_auroc_evidence"] = evaluation.ood_auroc(-known.evidence, -given.evidence)
        measures["ood_fpr95_evidence"] = evaluation.ood_fpr95(-known.evidence, -given.evidence)
    return measures
