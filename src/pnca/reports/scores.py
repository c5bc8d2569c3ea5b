"""Compute every number of a report from arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.decisions import ANSWERED, Decisions
from pnca.evaluation import (
    accuracy_vs_confidence,
    auroc,
    balanced_accuracy,
    brier_score,
    confidence_bins,
    count_vs_confidence,
    expected_calibration_error,
    negative_log_likelihood,
    ood_auroc,
    risk_coverage,
    share_interval,
)
from pnca.reports.values import (
    REASONS,
    Bin,
    ClassScores,
    Curve,
    Evaluation,
    FloatArray,
    IntArray,
    Interval,
    OperatingPoint,
    Others,
    Said,
)

#: Confidence thresholds of the two curves.
_THRESHOLDS = np.arange(21) / 20


def evaluate(
    said: Said,
    labels: IntArray,
    classes: NDArray[Any],
    decided: Decisions,
    *,
    shares: FloatArray,
    groups: IntArray | None = None,
    unknown: tuple[Said, Mapping[str, int]] | None = None,
    ood: Said | None = None,
    is_out_of_fold: bool = False,
) -> Evaluation:
    """Compute all that a report says of labelled inputs.

    Parameters
    ----------
    said : Said
        What the model says of n inputs; at least one.
    labels : ndarray of int, shape (n,)
        Positions of their classes.
    classes : ndarray of shape (c,)
        The classes.
    decided : Decisions
        Of the training examples out of fold, by one threshold for all classes.
    shares : ndarray of shape (c,)
        Shares of the classes in the training data.
    groups : ndarray of int, shape (n,), optional
        Equal for inputs that are not independent.
    unknown : tuple of Said and dict, optional
        What the model says of inputs whose label it does not know, and these labels with their counts.
    ood : Said, optional
        What it says of inputs that belong to no class.
    is_out_of_fold : bool
        Whether the inputs are the training examples.

    Returns
    -------
    Evaluation
    """
    proba, named = said.proba, said.proba.argmax(axis=1)
    correct, confidence = named == labels, proba.max(axis=1)
    thresholds = _THRESHOLDS[1 / len(classes) <= _THRESHOLDS]
    kept = accuracy_vs_confidence(labels, proba, thresholds)
    counts = count_vs_confidence(proba, thresholds)
    return Evaluation(
        classes=tuple(str(label) for label in classes.tolist()),
        said=said,
        labels=labels,
        n_groups=None if groups is None else len(np.unique(groups)),
        is_out_of_fold=is_out_of_fold,
        accuracy=Interval(*share_interval(correct, groups)),
        accuracy_of_shares=float((labels == shares.argmax()).mean()),
        balanced_accuracy=_balanced_accuracy(labels, proba),
        nll=negative_log_likelihood(labels, proba),
        nll_of_shares=negative_log_likelihood(labels, np.tile(shares, (len(labels), 1))),
        brier=brier_score(labels, proba),
        ece=expected_calibration_error(labels, proba),
        auroc=auroc(labels, proba),
        confusion=confusion(labels, named, len(classes)),
        by_class=class_scores(said, labels, classes, groups),
        bins=reliability(labels, proba, groups),
        accuracy_by_confidence=Curve(kept.thresholds, kept.values.astype(np.float64)),
        count_by_confidence=Curve(counts.thresholds, counts.values.astype(np.float64)),
        risk=Curve(*risk_coverage(correct, confidence)),
        point=operating_point(said, labels, groups),
        reasons={reason: int((said.reason == reason).sum()) for reason in REASONS},
        promise=decided.promises[None],
        promise_confidence=decided.probability,
        why_not=decided.why_not.get(None, ""),
        min_familiarity=decided.min_familiarity,
        of_training=decided.familiarity,
        unknown_classes={} if unknown is None else unknown[1],
        unknown=None if unknown is None else others(unknown[0], said),
        ood=None if ood is None else others(ood, said),
    )


def confusion(labels: IntArray, named: IntArray, n_classes: int) -> IntArray:
    """Count inputs by true class (rows) and most probable class (columns): (c, c).

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(counts, (labels, named), 1)
    return counts


def class_scores(
    said: Said, labels: IntArray, classes: NDArray[Any], groups: IntArray | None = None
) -> tuple[ClassScores, ...]:
    """Recall, precision and answers of each class.

    Parameters
    ----------
    said : Said
        Of n inputs.
    labels : ndarray of int, shape (n,)
        Positions of their classes.
    classes : ndarray of shape (c,)
        The classes.
    groups : ndarray of int, shape (n,), optional
        Equal for inputs that are not independent.
    """
    named, is_answered = said.proba.argmax(axis=1), said.reason == ANSWERED
    correct = named == labels

    def share(rows: NDArray[np.bool_]) -> Interval | None:
        own = None if groups is None else groups[rows]
        return Interval(*share_interval(correct[rows], own)) if rows.any() else None

    return tuple(
        ClassScores(
            name=str(label),
            n=int((labels == c).sum()),
            recall=share(labels == c),
            n_named=int((named == c).sum()),
            precision=share(named == c),
            n_answered=int((is_answered & (labels == c)).sum()),
            n_wrong=int((is_answered & (labels == c) & ~correct).sum()),
        )
        for c, label in enumerate(classes.tolist())
    )


def reliability(labels: IntArray, proba: FloatArray, groups: IntArray | None = None) -> tuple[Bin, ...]:
    """Confidence and accuracy in the bins of :func:`pnca.evaluation.expected_calibration_error`.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        Positions of the true classes.
    proba : ndarray of shape (n, c)
        Class probabilities.
    groups : ndarray of int, shape (n,), optional
        Equal for inputs that are not independent.
    """
    bins, confidence, correct, edges = confidence_bins(labels, proba)
    found = []
    for place in np.unique(bins).tolist():
        rows = bins == place
        accuracy = share_interval(correct[rows], None if groups is None else groups[rows])
        ends = float(edges[place]), float(edges[place + 1])
        found.append(Bin(*ends, int(rows.sum()), float(confidence[rows].mean()), Interval(*accuracy)))
    return tuple(found)


def operating_point(said: Said, labels: IntArray, groups: IntArray | None = None) -> OperatingPoint:
    """How many inputs are answered, and how many of these answers are wrong.

    Parameters
    ----------
    said : Said
        Of n inputs.
    labels : ndarray of int, shape (n,)
        Positions of their classes.
    groups : ndarray of int, shape (n,), optional
        Equal for inputs that are not independent.
    """
    rows = said.reason == ANSWERED
    is_wrong = said.proba[rows].argmax(axis=1) != labels[rows]
    n_answered = int(rows.sum())
    error = None
    if n_answered:
        error = Interval(*share_interval(is_wrong, None if groups is None else groups[rows]))
    return OperatingPoint(len(labels), n_answered, int(is_wrong.sum()), n_answered / len(labels), error)


def others(said: Said, of_labelled: Said) -> Others:
    """Compare inputs of no known class with labelled ones."""
    if not len(of_labelled.evidence):
        return Others(said, float("nan"), float("nan"))
    confidences = (-part.proba.max(axis=1) for part in (of_labelled, said))
    return Others(said, ood_auroc(-of_labelled.evidence, -said.evidence), ood_auroc(*confidences))


def _balanced_accuracy(labels: IntArray, proba: FloatArray) -> float:
    """Of many classes with few cases each, too, which scikit-learn takes for a mistake."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        return balanced_accuracy(labels, proba)
