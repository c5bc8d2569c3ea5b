"""What is measured of a model's answers on a test set."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from pnca import evaluation
from pnca.calibration import apply_temperature
from pnca_studies.experiments.benchmark.catalogue import TEST

FloatArray = NDArray[np.float64]

#: Least probability of a class, of every model: a vote of zero among a few hundred trees or neighbours costs
#: 13.8 nats, and not infinity.
LEAST = 1e-6
#: Added to the name of a test set for what is measured before temperature scaling.
AS_IS = ", as is"
#: An answer with more confidence than this counts as sure.
SURE = 0.9
#: Shares of the inputs that are answered, the most confident first.
COVERAGES = tuple(round(0.05 * k, 2) for k in range(1, 21))
_DIGITS = 6


class Answers(NamedTuple):
    """A model's answers on a test set."""

    logs: FloatArray  # (n, c), log class probabilities
    labels: NDArray[np.int64] | None  # (n,); None where no class is right
    evidence: FloatArray | None = None  # (n,), of models that have an out-of-distribution score

    def scaled(self, temperature: float) -> "Answers":
        """The same after temperature scaling."""
        return self._replace(logs=apply_temperature(self.logs, temperature))


def log_of_all(probabilities: FloatArray, classes: NDArray[Any], n_classes: int) -> FloatArray:
    """Log-probabilities (n, n_classes) from those of some classes, each at least :data:`LEAST`."""
    every = np.full((len(probabilities), n_classes), LEAST)
    every[:, np.asarray(classes, dtype=int)] = np.maximum(probabilities, LEAST)
    logs: FloatArray = np.log(every / every.sum(axis=1, keepdims=True))
    return logs


def measure(answers: Mapping[str, Answers], temperature: float) -> dict[str, dict[str, Any]]:
    """Measure answers by test set, after temperature scaling and as they are."""
    found: dict[str, dict[str, Any]] = {}
    scaled = {name: given.scaled(temperature) for name, given in answers.items()}
    for name, given in scaled.items():
        found[name] = _rounded(_measure_one(given, scaled[TEST]))
        found[name]["risks"] = [_round(risk) for risk in _risks(given, scaled[TEST])]
        found[f"{name}{AS_IS}"] = _rounded(_measure_one(answers[name], answers[TEST]))
    return found


def _measure_one(given: Answers, known: Answers) -> dict[str, float]:
    p = np.exp(given.logs)
    is_sure, measures = p.max(axis=1) > SURE, {"n": float(len(p))}
    measures["above"] = float(is_sure.mean())
    if given.labels is None:
        measures["wrong_above"] = measures["above"]
    else:
        is_wrong = p.argmax(axis=1) != given.labels
        measures["wrong_above"] = float((is_sure & is_wrong).mean())
        measures |= {
            "accuracy": float((~is_wrong).mean()),
            "nll": float(-given.logs[np.arange(len(p)), given.labels].mean()),
            "brier": evaluation.brier_score(given.labels, p),
            "ece": evaluation.expected_calibration_error(given.labels, p),
            "augrc": evaluation.augrc(~is_wrong, p.max(axis=1)),
            "auroc": _auroc(given.labels, p),
        }
    if given is not known:
        measures |= _told_apart(given, known)
    return measures


def _auroc(labels: NDArray[np.int64], p: FloatArray) -> float:
    """Area under the curve of each class against the rest, averaged over the classes that are tested."""
    tested = [c for c in range(p.shape[1]) if 0 < (labels == c).sum() < len(labels)]
    return float(np.mean([roc_auc_score(labels == c, p[:, c]) for c in tested])) if tested else float("nan")


def _told_apart(given: Answers, known: Answers) -> dict[str, float]:
    """How well foreign inputs are told from the test rows, by confidence and by evidence."""
    found = {}
    confidences = [np.exp(answers.logs).max(axis=1) for answers in (known, given)]
    for score, (inside, outside) in {
        "confidence": confidences,
        "evidence": [known.evidence, given.evidence],
    }.items():
        if inside is not None and outside is not None:
            found[f"auroc_{score}"] = evaluation.ood_auroc(-inside, -outside)
            found[f"fpr95_{score}"] = evaluation.ood_fpr95(-inside, -outside)
    return found


def _risks(given: Answers, known: Answers) -> list[float]:
    """Share of wrong answers among the most confident at each of :data:`COVERAGES`.

    Of a foreign test set together with as many of the test rows; an answer without a right class is wrong.
    """
    pairs = [given] if given is known else [known, given]
    n = min(len(answers.logs) for answers in pairs)
    correct, confidence = [], []
    for answers in pairs:
        logs = answers.logs[:n]
        is_right = logs.argmax(axis=1) == (-1 if answers.labels is None else answers.labels[:n])
        correct.append(is_right)
        confidence.append(np.exp(logs).max(axis=1))
    right, sure = np.concatenate(correct), np.concatenate(confidence)
    return [evaluation.risk_at_coverage(right, sure, coverage) for coverage in COVERAGES]


def _rounded(measures: Mapping[str, float]) -> dict[str, float]:
    """Measures that exist, in as many digits as matter."""
    return {name: _round(value) for name, value in measures.items() if np.isfinite(value)}


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
