"""Answer or abstain: what held-out predictions promise of the answers that are given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
from pnca.calibration.selective import Threshold, certified_threshold
from pnca.exceptions import MissingExtraError

ANSWERED, UNFAMILIAR, AMBIGUOUS, CANNOT_PROMISE = "answered", "unfamiliar", "ambiguous", "cannot promise"
#: The largest float below one: with promises by class a confidence beside it would be rounded to one.
_LARGEST_CONFIDENCE = math.nextafter(1.0, 0.0)


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
        The :class:`Threshold` on confidence of each class, or of all under the key None.
    probability : float
        Probability, over the draw of the training examples, with which the promises hold.
    min_familiarity : float
        Below it inputs are unfamiliar.
    """

    label: NDArray[np.object_]
    reason: NDArray[np.str_]
    confidence: FloatArray
    familiarity: FloatArray
    promises: Mapping[Any, Threshold]
    probability: float
    min_familiarity: float
    has_groups: bool = False

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        return f"<Decisions: {self.summary()}>"

    def summary(self) -> str:
        """Say in a sentence or two what is answered and what is promised of it."""
        counts = {name: int((self.reason == name).sum()) for name in (UNFAMILIAR, AMBIGUOUS, CANNOT_PROMISE)}
        n_answered = int((self.reason == ANSWERED).sum())
        kept = {label: p for label, p in self.promises.items() if p.value is not None}
        text = f"answers {n_answered} of {len(self)}"
        if kept:
            text += f", of which {_enumerate(kept)}, with confidence {_decimal(self.probability)}"
        text += "; " + ", ".join(f"{n} {name}" for name, n in counts.items() if n or name != CANNOT_PROMISE)
        broken = {label: p for label, p in self.promises.items() if p.value is None}
        return text + "".join(f". {self._why_not(label, promise)}" for label, promise in broken.items())

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return a pandas table with a row for each input (``pip install 'pnca[studies]'``)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "studies") from error
        names = ("label", "reason", "confidence", "familiarity")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def _why_not(self, label: Any, promise: Threshold) -> str:  # noqa: ANN401
        """Why no threshold is certified, and what would help."""
        of_class = "" if label is None else f" as {label!r}"
        what = "groups" if self.has_groups else "examples"
        needs = (
            f"Nothing is answered{of_class}: at most {_percent(promise.max_error)} wrong needs "
            f"{promise.n_needed} {what} answered without a mistake, or more with few"
        )
        there = f"{promise.n_answered} familiar examples were answered{of_class} out of fold"
        if self.has_groups:
            there += f", of {promise.n_independent} groups"
        if promise.n_independent < promise.n_needed:
            return f"{needs}; {there}. More {what} help, a larger max_error, or less confidence"
        return (
            f"{needs}; {there}, {promise.n_wrong} of them wrong, some with high confidence. A larger "
            "max_error helps, less confidence, or examples that make the model better"
        )


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
) -> Decisions:
    r"""Answer inputs that are familiar and certain enough for the share of wrong answers that is allowed.

    .. math:: \text{answer } \hat y(x) = \arg\max_c p_c(x) \quad \text{if} \quad
              p(x) \ge f \text{ and } \max_c p_c(x) > t

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

    Returns
    -------
    Decisions
    """
    weights = None
    if priors is not None:
        assert model_priors is not None
        proba, of_held_out = (_reweighted(p, priors / model_priors) for p in (proba, held_out.proba))
        held_out = held_out._replace(proba=of_held_out)
        weights = _example_weights(held_out, priors)
    thresholds = _thresholds(held_out, classes, max_error, confidence, min_familiarity, weights)
    best, confidences = proba.argmax(axis=1), proba.max(axis=1)
    familiarity = conformal_p_values(held_out.evidence, evidence, held_out.groups)
    values = [thresholds[label if label in thresholds else None].value for label in classes.tolist()]
    of_inputs = np.array([np.nan if v is None else v for v in values])[best]
    reason = np.where(confidences > of_inputs, ANSWERED, AMBIGUOUS)
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
        held_out.groups is not None,
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
    """What is promised: ``at most 5 % wrong (about 4 %)``, or of each class."""
    parts = []
    for label, promise in promises.items():
        of_class = "" if label is None else f" of those given as {label!r}"
        known = f"(about {_percent(promise.error)})"
        parts.append(f"at most {_percent(promise.max_error)}{of_class} are wrong {known}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _decimal(share: float) -> str:
    return f"{share:g}".removeprefix("0")
