"""Everything that is said of new inputs at once, batch after batch, and whether they drifted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.arguments import check_max_error, check_min_familiarity, check_share
from pnca.calibration.decisions import UNFAMILIAR, Decisions, decide, decide_held_out, held_out_sets
from pnca.calibration.drift import Drift, batch_drift
from pnca.estimators.checks import check_inputs
from pnca.estimators.decisions import held_out_of
from pnca.estimators.explains import NO_RECORD
from pnca.exceptions import InvalidInputError
from pnca.pipelines import last_step
from pnca.record import Record
from pnca.tables.extras import require
from pnca.training.sampling import numbered_groups

if TYPE_CHECKING:
    import pandas as pd

#: Inputs of which drift is judged, drawn from all, and the numbers that they may hold.
SAMPLE_ROWS, _SAMPLE_NUMBERS = 2000, 2**22
_BETWEEN = "; "


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is asked of a model; see :meth:`pnca.PNCAClassifier.decide` and ``predict_set``."""

    max_error: float = 0.05
    confidence: float = 0.9
    coverage: float = 0.9
    n_examples: int = 3  # training examples that are named with each prediction


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """What a model says of inputs, whatever is asked of it later: all that decisions are made of.

    Attributes
    ----------
    inputs : ndarray of shape (n, ...)
        The inputs as the classifier takes them.
    proba : ndarray of shape (n, c)
        Class probabilities.
    evidence : ndarray of shape (n,)
        Log kernel mass.
    rows, shares : ndarray of shape (n, k)
        The training examples that count most in each prediction, and their shares.
    """

    inputs: NDArray[Any]
    proba: NDArray[np.float64]
    evidence: NDArray[np.float64]
    rows: NDArray[np.int64]
    shares: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.evidence)

    def of(self, rows: slice) -> Scores:
        """Those of some inputs."""
        return Scores(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Scores]) -> Scores:
        """Those of several parts, one after the other."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def checked_inputs(model: Any, X: Any) -> NDArray[Any]:  # noqa: ANN401
    """Inputs X (n, ...) as the classifier at the end of a pipeline takes them, or an error."""
    last, given = last_step(model, X, "decide")
    found: NDArray[Any] = check_inputs(last, last.fitted_, given)
    return found


def scores_of(model: Any, inputs: NDArray[Any], n_examples: int = 3) -> Scores:  # noqa: ANN401
    """Ask a model of inputs (n, ...) that :func:`checked_inputs` returned."""
    last, _ = last_step(model, None, "decide")
    fitted, device = last.fitted_, last.device
    rows, shares = np.empty((len(inputs), 0), dtype=np.int64), np.empty((len(inputs), 0))
    if n_examples:
        rows, shares = fitted.neighbours(inputs, device, n_examples)
    return Scores(
        inputs=inputs,
        proba=np.exp(fitted.log_probabilities(inputs, device)),
        evidence=fitted.log_evidence(inputs, device),
        rows=rows,
        shares=shares,
    )


def decisions_out_of_fold(model: Any, settings: Settings) -> Decisions:  # noqa: ANN401
    """Decide the training examples themselves, by models that did not see them.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted with folds.
    settings : Settings
        What is asked.

    Returns
    -------
    Decisions
        In the order of the training data.
    """
    last, _ = last_step(model, None, "decide")
    held_out = held_out_of(last)
    return decide_held_out(
        held_out,
        last.classes_,
        max_error=check_max_error(settings.max_error, last.classes_),
        confidence=settings.confidence,
        min_familiarity=check_min_familiarity(None, held_out.n_units),
    )


class Asked(NamedTuple):
    """What a model says of inputs."""

    inputs: NDArray[Any]  # (n, ...), as its last step takes them
    proba: NDArray[np.float64]  # (n, c)
    evidence: NDArray[np.float64]  # (n,)
    decisions: Decisions


class Answers:
    """Says everything of batches of inputs, and keeps a sample of them to see drift in the end."""

    def __init__(self, model: Any, settings: Settings | None = None, seed: int = 0) -> None:  # noqa: ANN401
        self.settings = settings or Settings()
        self.model = model
        self.last, _ = last_step(model, None, "decide")
        self.held_out = held_out_of(self.last)
        classes = self.last.classes_
        self.max_error = check_max_error(self.settings.max_error, classes)
        check_share("confidence", self.settings.confidence)
        check_share("coverage", self.settings.coverage)
        self.min_familiarity = check_min_familiarity(None, self.held_out.n_units)
        if not 0 <= self.settings.n_examples <= self.last.n_samples_fit_:
            raise InvalidInputError(
                f"The model has {self.last.n_samples_fit_} training examples; {self.settings.n_examples} "
                "cannot be named with each prediction."
            )
        self.tally = Tally(sample=_Sample(seed))
        self._names = names_of_examples(self.last)

    def ask(self, X: Any) -> Asked:  # noqa: ANN401
        """What is said of inputs X (n, ...), as arrays."""
        scores = scores_of(self.model, checked_inputs(self.model, X), 0)
        return Asked(scores.inputs, scores.proba, scores.evidence, self.decisions(scores))

    def frame(self, X: Any, groups: NDArray[Any] | None = None) -> pd.DataFrame:  # noqa: ANN401
        """Table of what is said of inputs X (n, ...): answer, reason, set, probabilities, examples."""
        return self.said(
            scores_of(self.model, checked_inputs(self.model, X), self.settings.n_examples), groups
        )

    def decisions(self, scores: Scores) -> Decisions:
        """Answer or abstain by these settings."""
        return decide(
            scores.proba,
            scores.evidence,
            self.held_out,
            self.last.classes_,
            max_error=self.max_error,
            confidence=self.settings.confidence,
            min_familiarity=self.min_familiarity,
        )

    def said(self, scores: Scores, groups: NDArray[Any] | None = None) -> pd.DataFrame:
        """The same of inputs (n, ...) whose scores are known."""
        decisions = self.decisions(scores)
        self.tally.add(decisions)
        self.tally.sample.add(scores.inputs, scores.evidence, groups)
        columns = self._columns(decisions, scores)
        if self.settings.n_examples:
            columns["examples"] = [_BETWEEN.join(row) for row in self._names[scores.rows]]
            columns["shares"] = [_BETWEEN.join(f"{share:.3f}" for share in row) for row in scores.shares]
        return require("pandas").DataFrame(columns)

    @property
    def n(self) -> int:
        """Inputs so far."""
        return self.tally.n

    @property
    def counts(self) -> dict[str, int]:
        """How many of them have which reason."""
        return self.tally.counts

    @property
    def broken_promises(self) -> tuple[str, ...]:
        """Why nothing is answered, where nothing is."""
        return self.tally.broken_promises

    def drift(self) -> Drift | None:
        """Whether the inputs so far are less familiar than the training examples; None of one alone."""
        if self.n < 2:
            return None
        sample, held_out = self.tally.sample, self.held_out
        compared = self.last.fitted_.comparable_columns(sample.inputs)
        groups = None if sample.groups is None else numbered_groups(sample.groups, len(sample.groups))
        return batch_drift(held_out.evidence, sample.evidence, compared, held_out.groups, groups)

    def sets(self, scores: Scores) -> NDArray[np.bool_]:
        """The classes (n, c) that cannot be ruled out."""
        return held_out_sets(scores.proba, self.held_out, self.settings.coverage)

    def _columns(self, decisions: Decisions, scores: Scores) -> dict[str, Any]:
        pandas, classes = require("pandas"), self.last.classes_
        shown = [str(label) for label in classes.tolist()]
        quoted = np.array([json.dumps(text) if ";" in text else text for text in shown], dtype=object)
        sets, proba = self.sets(scores), scores.proba
        sets[decisions.reason == UNFAMILIAR] = False  # what holds for familiar inputs says nothing of them
        return {
            "label": pandas.Series(decisions.label, dtype=_type_of_labels(classes)),
            "reason": pandas.Series(decisions.reason, dtype="str"),
            "confidence": decisions.confidence,
            "familiarity": decisions.familiarity,
            "set": pandas.Series([_BETWEEN.join(quoted[row]) or None for row in sets], dtype="str"),
            **{f"probability_{text}": proba[:, c] for c, text in enumerate(shown)},
        }


@dataclass(kw_only=True)
class Tally:
    """What is known of all inputs so far, of which those of other processes may be some."""

    sample: _Sample
    n: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    broken_promises: tuple[str, ...] = ()

    def add(self, decisions: Decisions) -> None:
        """Count some inputs."""
        names, counts = np.unique(decisions.reason, return_counts=True)
        self._count(len(decisions), dict(zip(names.tolist(), counts.tolist(), strict=True)))
        self.broken_promises = decisions.broken_promises

    def merge(self, other: Tally) -> None:
        """Count the inputs of another tally, which came after these."""
        self._count(other.n, other.counts)
        self.broken_promises = other.broken_promises
        self.sample.merge(other.sample)

    def _count(self, n: int, counts: Mapping[str, int]) -> None:
        self.n += n
        for reason, count in counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count


class _Sample:
    """Inputs drawn without replacement from all that come: those with the smallest of random keys."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.keys = np.empty(0)
        self.inputs: NDArray[Any] = np.empty((0, 0))
        self.evidence = np.empty(0)
        self.groups: NDArray[Any] | None = None

    def add(self, inputs: NDArray[Any], evidence: NDArray[np.float64], groups: NDArray[Any] | None) -> None:
        self._take(self.rng.random(len(inputs)), inputs, evidence, groups)

    def merge(self, other: _Sample) -> None:
        """Take the inputs of another sample, whose keys are others, as those that came after these."""
        if len(other.keys):
            self._take(other.keys, other.inputs, other.evidence, other.groups)

    def _take(
        self,
        drawn: NDArray[np.float64],
        inputs: NDArray[Any],
        evidence: NDArray[np.float64],
        groups: NDArray[Any] | None,
    ) -> None:
        keys = np.concatenate([self.keys, drawn])
        most = max(2, min(SAMPLE_ROWS, _SAMPLE_NUMBERS // max(1, inputs[0].size)))
        kept = np.sort(np.argpartition(keys, most)[:most]) if len(keys) > most else np.arange(len(keys))
        is_new = kept >= len(self.keys)
        old, new = kept[~is_new], kept[is_new] - len(self.keys)

        def joined(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([before[old], after[new]]) if len(before) else after[new]

        if groups is not None:
            self.groups = joined(np.empty(0) if self.groups is None else self.groups, groups)
        self.inputs, self.evidence = joined(self.inputs, inputs), joined(self.evidence, evidence)
        self.keys = keys[kept]


def names_of_examples(model: Any) -> NDArray[np.object_]:  # noqa: ANN401
    """Names (n,) of the training examples: their identifiers where the fit kept them, else rows from 1."""
    record = getattr(model, "record_", None)
    ids = getattr(record, "ids", None)
    names = range(1, model.n_samples_fit_ + 1) if ids is None else ids
    return np.array([str(name) for name in names], dtype=object)


def with_names(model: Any) -> Any:  # noqa: ANN401
    """The model, whose examples are called by their row from 1 where they have no identifiers.

    Python counts rows from 0; people who look into a file count from 1, as predictions do.
    """
    last = model[-1] if hasattr(model, "steps") else model
    rows = np.arange(1, last.n_samples_fit_ + 1)
    record = getattr(last, "record_", None)
    if record is None:
        labels = last.classes_[last.support_labels_]
        last.record_ = Record(inputs=None, labels=labels, ids=rows, missing=NO_RECORD)
    elif record.ids is None:
        last.record_ = replace(record, ids=rows)
    return model


def _type_of_labels(classes: NDArray[Any]) -> str:
    """A type of pandas that holds these labels, and none."""
    return {"b": "boolean", "i": "Int64", "u": "Int64"}.get(classes.dtype.kind, "str")
