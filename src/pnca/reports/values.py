"""How well a model does on labelled inputs: every number of a report, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.decisions import AMBIGUOUS, ANSWERED, CANNOT_PROMISE, UNFAMILIAR, Decisions
from pnca.calibration.selective import Threshold
from pnca.evaluation import share_above

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Confidence above which an answer is called confident.
CONFIDENT = 0.9
REASONS = (ANSWERED, UNFAMILIAR, AMBIGUOUS, CANNOT_PROMISE)


_PLAIN = (
    "n", "n_groups", "is_out_of_fold", "accuracy_of_shares", "balanced_accuracy", "nll", "nll_of_shares",
    "brier", "ece", "auroc", "min_familiarity",
)  # fmt: skip


class Interval(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


class Said(NamedTuple):
    """What a model says of inputs."""

    proba: FloatArray  # (n, c)
    evidence: FloatArray  # (n,)
    familiarity: FloatArray  # (n,)
    reason: NDArray[np.str_]  # (n,), why they are answered or not

    def of(self, rows: Any) -> Said:  # noqa: ANN401
        """Some of them."""
        return Said(*(part[rows] for part in self))

    @classmethod
    def by(cls, decisions: Decisions, proba: FloatArray, evidence: FloatArray) -> Said:
        """What was decided of inputs with these probabilities (n, c) and this evidence (n,)."""
        return cls(proba, evidence, decisions.familiarity, decisions.reason)


class ClassScores(NamedTuple):
    """How a class fares."""

    name: str
    n: int
    recall: Interval | None  # of its inputs, the share that is named so; None where there are none
    n_named: int  # inputs that are named so
    precision: Interval | None  # of these, the share that is of the class
    n_answered: int  # of its inputs
    n_wrong: int  # of these answers


class Bin(NamedTuple):
    """Predictions of like confidence."""

    low: float
    high: float
    n: int
    confidence: float  # mean
    accuracy: Interval


class Curve(NamedTuple):
    """Values at each confidence, or at each coverage."""

    at: FloatArray
    values: FloatArray


class OperatingPoint(NamedTuple):
    """What is answered, and how much of it is wrong."""

    n: int
    n_answered: int
    n_wrong: int
    coverage: float  # share that is answered
    error: Interval | None  # share of the answers that is wrong; None where nothing is answered


class Others(NamedTuple):
    """Inputs that belong to no class of the model."""

    said: Said
    auroc: float  # of less evidence than the labelled inputs; NaN where there are none
    auroc_of_confidence: float  # likewise, of less confidence

    @property
    def n(self) -> int:
        """Inputs."""
        return len(self.said.evidence)

    @property
    def n_answered(self) -> int:
        """Inputs that are answered, wrongly whatever is said."""
        return int((self.said.reason == ANSWERED).sum())

    @property
    def share_confident(self) -> float:
        """Share with a confidence above .9."""
        return share_above(self.said.proba, CONFIDENT)


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """How a model does on labelled inputs.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes.
    said : Said
        What the model says of the n inputs of known classes.
    labels : ndarray of int, shape (n,)
        Positions of their classes.
    n_groups : int or None
        Groups of inputs, where some are known; intervals count them.
    is_out_of_fold : bool
        Whether the inputs are the training examples, by models that had not seen them.
    accuracy : Interval
        Share of right classes, whether they are answered or not.
    accuracy_of_shares : float
        The same of always naming the most frequent class of the training data.
    balanced_accuracy, nll, nll_of_shares, brier, ece, auroc : float
        See :mod:`pnca.evaluation`; of the class shares of the training data alone for comparison.
    confusion : ndarray of int, shape (c, c)
        Inputs by true class (rows) and most probable class (columns).
    by_class : tuple of ClassScores
        Each class.
    bins : tuple of Bin
        Confidence and accuracy in the bins of the calibration error that hold something.
    accuracy_by_confidence, count_by_confidence : Curve
        Accuracy (NaN where there is none) and number of the inputs with at least some confidence.
    risk : Curve
        Share of wrong answers among the most confident ones, by the share that is kept.
    point : OperatingPoint
        What is answered.
    reasons : dict
        Inputs by reason.
    promise : Threshold
        The confidence from which on answers are given, and what is promised of them.
    promise_confidence : float
        Probability with which the promise holds.
    why_not : str
        Why nothing can be promised; empty where it can.
    min_familiarity : float
        Inputs below it are not answered.
    of_training : ndarray of shape (n',)
        Familiarity of the training examples out of fold.
    unknown_classes : dict
        Labels that are no class of the model, with their counts.
    unknown : Others or None
        What is said of inputs with such labels.
    ood : Others or None
        What is said of inputs that a user named as out-of-distribution.
    """

    classes: tuple[str, ...]
    said: Said
    labels: IntArray
    n_groups: int | None
    is_out_of_fold: bool
    accuracy: Interval
    accuracy_of_shares: float
    balanced_accuracy: float
    nll: float
    nll_of_shares: float
    brier: float
    ece: float
    auroc: float
    confusion: IntArray
    by_class: tuple[ClassScores, ...]
    bins: tuple[Bin, ...]
    accuracy_by_confidence: Curve
    count_by_confidence: Curve
    risk: Curve
    point: OperatingPoint
    reasons: Mapping[str, int]
    promise: Threshold
    promise_confidence: float
    why_not: str
    min_familiarity: float
    of_training: FloatArray
    unknown_classes: Mapping[str, int]
    unknown: Others | None
    ood: Others | None

    @property
    def n(self) -> int:
        """Labelled inputs of known classes."""
        return len(self.labels)

    @property
    def named(self) -> IntArray:
        """Positions (n,) of the most probable classes."""
        named: IntArray = self.said.proba.argmax(axis=1)
        return named

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Whether the most probable class is another than the label (n,)."""
        wrong: NDArray[np.bool_] = self.named != self.labels
        return wrong

    def confident_mistakes(self, most: int) -> IntArray:
        """Rows of mistakes, the most confident first."""
        rows = np.flatnonzero(self.is_wrong)
        confidence = self.said.proba[rows].max(axis=1)
        return rows[np.argsort(-confidence, kind="stable")][:most]

    def least_familiar(self, most: int) -> IntArray:
        """Rows, those with the least evidence first."""
        return np.argsort(self.said.evidence, kind="stable")[:most]

    def as_dict(self) -> dict[str, Any]:
        """Return what is said of all inputs together, as JSON has it."""
        found = {name: _plain(getattr(self, name)) for name in _PLAIN}
        return found | {
            "classes": list(self.classes),
            "accuracy": self.accuracy._asdict(),
            "confusion": self.confusion.tolist(),
            "by_class": [_as_dict(scores) for scores in self.by_class],
            "reliability": [_as_dict(found_bin) for found_bin in self.bins],
            "answers": _as_dict(self.point) | {"reasons": dict(self.reasons)},
            "promise": {
                "max_error": self.promise.max_error,
                "confidence": self.promise_confidence,
                "threshold": self.promise.value,
                "n_needed": self.promise.n_needed,
            },
            "unknown_classes": dict(self.unknown_classes),
            "unknown": _of_others(self.unknown),
            "ood": _of_others(self.ood),
        }


def _of_others(found: Others | None) -> dict[str, Any] | None:
    if found is None:
        return None
    names = ("n", "n_answered", "auroc", "auroc_of_confidence", "share_confident")
    return {name: _plain(getattr(found, name)) for name in names}


def _as_dict(found: Any) -> dict[str, Any]:  # noqa: ANN401
    return {name: _plain(value) for name, value in found._asdict().items()}


def _plain(value: Any) -> Any:  # noqa: ANN401
    """A value as JSON has it, which has no NaN."""
    if isinstance(value, Interval):
        return value._asdict()
    return None if isinstance(value, float) and value != value else value
