"""What a fitted model answers on a test set: kept in little space, and measured.

Measures are taken from the kept form, so that a report made from files says what the run said.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca import evaluation

#: The least log-odds that is kept; exp(-10000) is zero in any precision, and float16 reaches -65504.
_LEAST = -1e4


def compress(log_probabilities: ArrayLike) -> NDArray[np.float16]:
    r"""Keep class probabilities in two bytes each, as log-odds against the best class.

    .. math:: a_{ik} = \log p_{ik} - \max_c \log p_{ic}

    The best class has exactly zero and the others less, so the predicted class is kept; the rounding of a
    log-odds is relative (one part in 4,000), so a probability near one or near zero keeps its distance
    from it. With up to ten classes the confidence moves by less than .0004.

    Parameters
    ----------
    log_probabilities : array-like of shape (n, c)
        As from ``predict_log_proba``.

    Returns
    -------
    ndarray of shape (n, c), float16
    """
    logs = np.asarray(log_probabilities, dtype=np.float64)
    behind = np.maximum(logs - logs.max(axis=1, keepdims=True), _LEAST)
    compact: NDArray[np.float16] = behind.astype(np.float16)
    compact[(compact == 0) & (behind < 0)] = -np.finfo(np.float16).smallest_subnormal
    return compact


def expand(compact: ArrayLike) -> NDArray[np.float64]:
    """Undo :func:`compress` up to its rounding.

    Parameters
    ----------
    compact : array-like of shape (n, c)
        Log-odds against the best class.

    Returns
    -------
    ndarray of shape (n, c)
        Rows sum to one.

    Examples
    --------
    >>> expand(compress(np.log([[0.25, 0.75]]))).round(3)
    array([[0.25, 0.75]])
    """
    weights = np.exp(np.asarray(compact, dtype=np.float64))
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """A model's answers on one test set.

    Attributes
    ----------
    compact : ndarray of shape (n, c), float16
        See :func:`compress`.
    labels : ndarray of shape (n,), or None
        True classes as column numbers; None where no class is right.
    evidence : ndarray of shape (n,), or None
        Log kernel mass, of the models that have it.
    """

    compact: NDArray[np.float16]
    labels: NDArray[np.uint8] | None = None
    evidence: NDArray[np.float32] | None = None

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
    """Ask a fitted model about a test set.

    Parameters
    ----------
    model : classifier
        Fitted on labels from 0 to ``n_classes - 1``. A class missing from its training data is given
        probability zero.
    inputs : ndarray of shape (n, ...)
        The test set.
    labels : ndarray of shape (n,), or None
        True classes, if any class is right.
    n_classes : int
        Number of columns c.
    with_evidence : bool
        Whether to keep the log kernel mass too, where the model has it.

    Returns
    -------
    Answers
    """
    logs = np.full((len(inputs), n_classes), -np.inf)
    logs[:, model.classes_] = log_probabilities(model, inputs)
    evidence = getattr(model, "evidence", None) if with_evidence else None
    return Answers(
        compact=compress(logs),
        labels=None if labels is None else labels.astype(np.uint8),
        evidence=None if evidence is None else evidence(inputs).astype(np.float32),
    )


def log_probabilities(model: Any, inputs: NDArray[np.float32]) -> NDArray[np.float64]:  # noqa: ANN401
    """Log class probabilities of any classifier.

    Parameters
    ----------
    model : classifier
        Fitted; with ``predict_log_proba`` or at least ``predict_proba``.
    inputs : ndarray of shape (n, ...)
        The test set.

    Returns
    -------
    ndarray of shape (n, c)
    """
    if hasattr(model, "predict_log_proba"):
        logs: NDArray[np.float64] = model.predict_log_proba(inputs)
        return logs
    with np.errstate(divide="ignore"):
        logs = np.log(model.predict_proba(inputs))
    return logs


def measure(answers: Mapping[str, Answers], reference: str) -> dict[str, dict[str, float | None]]:
    """Reduce the answers on each test set to numbers.

    Parameters
    ----------
    answers : mapping of str to Answers
        By test set.
    reference : str
        The familiar test set from which the foreign ones, those without labels, are told apart.

    Returns
    -------
    dict of str to dict of str to float or None
        For each test set ``mean_confidence`` and ``above_0.9``; with labels what
        :func:`pnca.evaluation.summarise` returns and, with two classes, ``auroc`` of the second class;
        without labels ``ood_auroc`` and ``ood_fpr95`` by confidence and by evidence. None where a
        measure has no value.
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
        return {**measures, **_measure_foreign(given, known)}
    measures.update(evaluation.summarise(given.labels, p))
    if p.shape[1] == 2:
        both = 0 < int(given.labels.sum()) < len(given.labels)
        negative, positive = p[given.labels == 0, 1], p[given.labels == 1, 1]
        measures["auroc"] = evaluation.ood_auroc(negative, positive) if both else None
    return measures


def _measure_foreign(given: Answers, known: Answers) -> dict[str, float | None]:
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
