"""Answer or abstain: what held-out predictions promise of the answers that are given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.conformal import (
    ROUNDING,
    BoolArray,
    FloatArray,
    IntArray,
    class_p_values,
    conformal_p_values,
    held_out_p_values,
    prediction_sets,
    unit_weights,
)
from pnca.calibration.drift import Drift
from pnca.calibration.selective import Threshold, certified_threshold
from pnca.exceptions import MissingExtraError

ANSWERED, UNFAMILIAR, AMBIGUOUS, CANNOT_PROMISE = "answered", "unfamiliar", "ambiguous", "cannot promise"
REASONS = (ANSWERED, AMBIGUOUS, UNFAMILIAR, CANNOT_PROMISE)
#: The largest float below one: with promises by class a confidence beside it would be rounded to one.
_LARGEST_CONFIDENCE = math.nextafter(1.0, 0.0)
_TINY = float(np.finfo(np.float64).tiny)


class HeldOut(NamedTuple):
    """What is known of the training examples by models that were not trained on them."""

    proba: FloatArray  # (n, c)
    evidence: FloatArray  # (n,)
    labels: IntArray  # (n,), positions of the true classes
    groups: IntArray | None = None  # (n,), equal for examples that belong together

    @property
    def n_units(self) -> int:
        """Independent examples: groups, or without them all."""
        return len(self.labels) if self.groups is None else len(np.unique(self.groups))

    @property
    def beats_shares(self) -> bool:
        """Whether the labels are surely more likely by these probabilities than by the class shares.

        That is if the mean log ratio lies two standard errors above zero.
        """
        counts = np.bincount(self.labels, minlength=self.proba.shape[1])
        of_truth = self.proba[np.arange(len(self.labels)), self.labels]
        log_ratios = np.log(of_truth.clip(min=_TINY)) - np.log(counts / counts.sum())[self.labels]
        return bool(log_ratios.mean() > 2 * log_ratios.std() / np.sqrt(len(log_ratios)))


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """What to answer for each input, why not, and what is promised of the answers.

    Attributes
    ----------
    label : ndarray of object, shape (n,)
        The most probable class where it is answered, None where not.
    reason : ndarray of str, shape (n,)
        ``"answered"``, ``"unfamiliar"``, ``"ambiguous"`` or ``"cannot promise"``.
    confidence : ndarray of shape (n,)
        The largest class probability.
    familiarity : ndarray of shape (n,)
        The conformal p-value of the evidence.
    promises : dict
        The :class:`Threshold` on confidence of each class, or of all under the key None: the confidence
        from which on answers are given, the out-of-fold answers by which it is certified, and how many of
        them are wrong.
    probability : float
        Probability, over the draw of the training examples, with which the promises hold.
    min_familiarity : float
        Below it inputs are unfamiliar.
    drift : Drift or None
        Whether the batch as a whole is unlike the training data. None for fewer than ten inputs, with
        ``priors``, and where the fit had groups and ``groups`` does not name those of the batch.
    has_groups : bool
        Whether the training examples came in groups.
    beats_shares : bool
        Whether the model is surely better, by its likelihood out of fold, than always answering the class
        shares.
    lone_classes : tuple
        Classes with a single training example.
    index : pandas.Index or None
        That of X, if it was a pandas table.
    """

    label: NDArray[np.object_]
    reason: NDArray[np.str_]
    confidence: FloatArray
    familiarity: FloatArray
    promises: Mapping[Any, Threshold]
    probability: float
    min_familiarity: float
    has_groups: bool = False
    beats_shares: bool = True
    lone_classes: tuple[Any, ...] = ()
    drift: Drift | None = None
    index: Any = None

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        return f"<Decisions: {self.summary()}>"

    @property
    def is_answered(self) -> NDArray[np.bool_]:
        """Which inputs (n,) are answered: ``(decisions.label == y)[decisions.is_answered].mean()``."""
        answered: NDArray[np.bool_] = self.reason == ANSWERED
        return answered

    def summary(self) -> str:
        """Say in a sentence or two what is answered, and what is promised for inputs like the examples."""
        counts = {name: int((self.reason == name).sum()) for name in (UNFAMILIAR, AMBIGUOUS, CANNOT_PROMISE)}
        kept = {label: p for label, p in self.promises.items() if p.value is not None}
        text = f"answers {int(self.is_answered.sum())} of {len(self)}"
        if kept:
            text += (
                f"; for inputs like the training examples {_enumerate(kept)}, with confidence "
                f"{_decimal(self.probability)}"
            )
        text += "; " + ", ".join(f"{n} {name}" for name, n in counts.items() if n or name != CANNOT_PROMISE)
        if self.drift is not None and self.drift.is_clear:
            text += f". {self.drift.warning()}"
        return ". ".join([text, *self.broken_promises])

    @property
    def broken_promises(self) -> tuple[str, ...]:
        """Why nothing is answered (as some class), and what would help; empty where all can be promised."""
        return tuple(self.why_not.values())

    @property
    def why_not(self) -> dict[Any, str]:
        """The same by the keys of ``promises``."""
        return {label: self._why_not(label, p) for label, p in self.promises.items() if p.value is None}

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return a pandas table with a row for each input (``pip install 'pnca[studies]'``).

        It has the index of X, if that was a pandas table. The label of what is not answered is None.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "studies") from error
        columns = {"label": pd.Series(self.label, index=self.index, dtype=object)}
        for name in ("reason", "confidence", "familiarity"):
            columns[name] = pd.Series(getattr(self, name), index=self.index)
        return pd.DataFrame(columns)

    def _why_not(self, label: Any, promise: Threshold) -> str:  # noqa: ANN401
        """Why no threshold is certified, and what would help."""
        of_class = "" if label is None else f" as {label!r}"
        what = "groups" if self.has_groups else "examples"
        least = f"at most {_percent(promise.max_error)} of the answers{of_class} are wrong"
        if promise.n_independent < promise.n_needed:
            there = f"{promise.n_answered} familiar examples were answered{of_class} out of fold"
            if self.has_groups:
                there += f", of {promise.n_independent} groups"
            reason = (
                f"to show that {least} takes {promise.n_needed} {what} answered without a mistake, and more "
                f"where there are mistakes; {there}"
            )
        else:
            reason = (
                f"{promise.n_wrong} of {promise.n_answered} answers{of_class} were wrong out of fold, and "
                f"confidence does not tell these from the right ones well enough to show that {least}"
            )
        lone = [name for name in self.lone_classes if label is None or name == label]
        notes = [
            f"Class {name!r} has a single example, so out of fold nothing is known of it" for name in lone
        ]
        if self.beats_shares:
            notes.append(f"More {what} help, a larger tolerated share, or less confidence")
        else:
            notes.append(
                "As far as the examples show, the model is no better than always answering the class shares: "
                "the inputs say nothing about the classes"
            )
        return ". ".join([f"Nothing is answered{of_class}: {reason}", *notes])


def decide(
    proba: FloatArray,
    evidence: FloatArray,
    held_out: HeldOut,
    classes: NDArray[Any],
    *,
    max_error: float | Mapping[Any, float],
    confidence: float,
    min_familiarity: float,
    priors: FloatArray | None = None,
    model_priors: FloatArray | None = None,
    drift: Drift | None = None,
    index: Any = None,  # noqa: ANN401
) -> Decisions:
    r"""Answer inputs that are familiar and certain enough for the share of wrong answers that is allowed.

    .. math:: \text{answer } \hat y(x) = \arg\max_c p_c(x) \quad \text{if} \quad
              p(x) \ge f \text{ and } \max_c p_c(x) \ge t

    with the conformal p-value :math:`p(x)` of the evidence, :math:`f` ``min_familiarity``, and the threshold
    :math:`t` of ``certified_threshold`` by the held-out examples that are familiar themselves. With an error
    for each class there is a promise for each predicted class, and they share what ``confidence`` leaves.

    Under other ``priors`` :math:`\pi'` probabilities become :math:`p_c \pi'_c / \pi_c`, normalised, with the
    model's :math:`\pi`, and a held-out example of class c counts :math:`\pi'_c / s_c` times, with the share
    :math:`s_c` of the class in the held-out examples.

    Parameters
    ----------
    proba, evidence : ndarray of shape (n', c) and (n',)
        What the model predicts for new inputs.
    held_out : HeldOut
        The same of training examples by models that did not see them.
    classes : ndarray of shape (c,)
        Names of the classes.
    max_error : float, or mapping from each class to float
        Share of the answers (given as that class) that may be wrong.
    confidence : float
        Probability with which the promise, or all promises, shall hold.
    min_familiarity : float
        P-value below which an input is not answered.
    priors, model_priors : ndarray of shape (c,), optional
        Shares of the classes in use, and those that the model's probabilities are for.
    drift : Drift, optional
        What is known of the batch as a whole.
    index : pandas.Index, optional
        Names of the inputs.

    Returns
    -------
    Decisions
    """
    beats_shares, weights = held_out.beats_shares, None
    if priors is not None:
        assert model_priors is not None
        proba, of_held_out = (_reweighted(p, priors / model_priors) for p in (proba, held_out.proba))
        held_out = held_out._replace(proba=of_held_out)
        weights = _example_weights(held_out, priors)
    thresholds = _thresholds(held_out, classes, max_error, confidence, min_familiarity, weights)
    familiarity = conformal_p_values(held_out.evidence, evidence, held_out.groups)
    decided = _decided(proba, familiarity, held_out, classes, thresholds, confidence, min_familiarity)
    return replace(decided, beats_shares=beats_shares, drift=drift, index=index)


def decide_held_out(
    held_out: HeldOut,
    classes: NDArray[Any],
    *,
    max_error: float | Mapping[Any, float],
    confidence: float,
    min_familiarity: float,
) -> Decisions:
    """Decide the held-out examples themselves, by the thresholds that :func:`decide` certifies with them.

    Parameters
    ----------
    held_out, classes, max_error, confidence, min_familiarity
        As for :func:`decide`. An example is compared with those of other groups, or with all others.

    Returns
    -------
    Decisions
    """
    thresholds = _thresholds(held_out, classes, max_error, confidence, min_familiarity, None)
    familiarity = held_out_p_values(held_out.evidence, held_out.groups)
    return _decided(held_out.proba, familiarity, held_out, classes, thresholds, confidence, min_familiarity)


def _decided(
    proba: FloatArray,
    familiarity: FloatArray,
    held_out: HeldOut,
    classes: NDArray[Any],
    thresholds: Mapping[Any, Threshold],
    confidence: float,
    min_familiarity: float,
) -> Decisions:
    """Answers and reasons by thresholds that are known."""
    best, confidences = proba.argmax(axis=1), proba.max(axis=1)
    values = [thresholds[label if label in thresholds else None].value for label in classes.tolist()]
    of_inputs = np.array([np.nan if v is None else v for v in values])[best]
    reason = np.where(confidences >= of_inputs, ANSWERED, AMBIGUOUS)
    reason = np.where(np.isnan(of_inputs), CANNOT_PROMISE, reason)
    reason = np.where(familiarity < min_familiarity - ROUNDING, UNFAMILIAR, reason)
    label = np.full(len(best), None, dtype=object)
    is_answered = reason == ANSWERED
    label[is_answered] = classes[best[is_answered]]
    return Decisions(
        label,
        reason,
        confidences,
        familiarity,
        thresholds,
        confidence,
        min_familiarity,
        has_groups=held_out.groups is not None,
        beats_shares=held_out.beats_shares,
        lone_classes=tuple(classes[np.bincount(held_out.labels, minlength=len(classes)) == 1].tolist()),
    )


def held_out_sets(
    proba: FloatArray, held_out: HeldOut, coverage: float, *, by_class: bool = False
) -> BoolArray:
    """Sets of classes (n', c) that hold the true one for a share ``coverage`` of new inputs.

    Parameters
    ----------
    proba : ndarray of shape (n', c)
        What the model predicts for new inputs.
    held_out : HeldOut
        The same of training examples by models that did not see them.
    coverage : float
        Share of the sets that should hold the true class.
    by_class : bool
        Whether that shall hold for each class.
    """
    of_truth = held_out.proba[np.arange(len(held_out.labels)), held_out.labels]
    p_values = class_p_values(of_truth, held_out.labels, proba, held_out.groups, by_class=by_class)
    return prediction_sets(p_values, proba.argmax(axis=1), coverage)


def _thresholds(
    held_out: HeldOut,
    classes: NDArray[Any],
    max_error: float | Mapping[Any, float],
    confidence: float,
    min_familiarity: float,
    weights: FloatArray | None,
) -> dict[Any, Threshold]:
    """Thresholds by class, or one under None, of the examples that would be familiar."""
    best, confidences = held_out.proba.argmax(axis=1), held_out.proba.max(axis=1)
    own_familiarity = held_out_p_values(held_out.evidence, held_out.groups)
    is_familiar = own_familiarity >= min_familiarity - ROUNDING

    def of(rows: NDArray[np.bool_], allowed: float, chance: float) -> Threshold:
        return certified_threshold(
            confidences[rows],
            (best != held_out.labels)[rows],
            allowed,
            min(1 - chance, _LARGEST_CONFIDENCE),
            weights=None if weights is None else weights[rows],
            groups=None if held_out.groups is None else held_out.groups[rows],
        )

    if not isinstance(max_error, Mapping):
        return {None: of(is_familiar, max_error, 1 - confidence)}
    chance = (1 - confidence) / len(classes)
    return {
        label: of(is_familiar & (best == c), max_error[label], chance)
        for c, label in enumerate(classes.tolist())
    }


def _reweighted(proba: FloatArray, ratios: FloatArray) -> FloatArray:
    """Probabilities (n, c) where classes are so many times (c,) as frequent."""
    products = proba * (ratios / ratios.max())
    totals = products.sum(axis=1, keepdims=True)
    reweighted: FloatArray = np.divide(products, totals, out=proba.copy(), where=totals > 0)
    return reweighted


def _example_weights(held_out: HeldOut, priors: FloatArray) -> FloatArray:
    """How often an example (n,) occurs in use relative to here, at most one."""
    counts = np.bincount(
        held_out.labels, weights=unit_weights(len(held_out.labels), held_out.groups), minlength=len(priors)
    )
    ratios = np.divide(priors, counts, out=np.zeros_like(priors), where=counts > 0)
    weights: FloatArray = (ratios / ratios.max())[held_out.labels]
    return weights


def _enumerate(promises: Mapping[Any, Threshold]) -> str:
    """What is promised: ``at most 5 % of all answers are wrong (out of fold 4 %)``, or of each class."""
    parts = []
    for label, promise in promises.items():
        answers = "all answers" if label is None else f"the answers {label!r}"
        known = f"(out of fold {_percent(promise.error)})"
        parts.append(f"at most {_percent(promise.max_error)} of {answers} are wrong {known}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _decimal(share: float) -> str:
    return f"{share:g}".removeprefix("0")
