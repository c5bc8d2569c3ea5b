"""A decision in plain words, for people who read one case at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.decisions import AMBIGUOUS, ANSWERED, UNFAMILIAR, Decisions
from pnca.explanations.text import decimal, short

Reason = Literal["answered", "ambiguous", "unfamiliar", "cannot promise"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is decided of one input.

    Attributes
    ----------
    reason : str
        ``"answered"``, ``"unfamiliar"``, ``"ambiguous"`` or ``"cannot promise"``.
    title : str
        The decision, in a few words.
    details : str
        What it rests on, in one or two sentences.
    """

    reason: Reason
    title: str
    details: str


def verdict_of(
    decisions: Decisions, place: int, classes: NDArray[Any], proba: NDArray[np.float64]
) -> Verdict:
    """Say in words what is decided of one of several inputs.

    Parameters
    ----------
    decisions : Decisions
        By a single promise for all classes.
    place : int
        Which input.
    classes : ndarray of shape (c,)
        The labels.
    proba : ndarray of shape (c,)
        Its probabilities.

    Returns
    -------
    Verdict
    """
    reason, promise = str(decisions.reason[place]), decisions.promises[None]
    best = short(classes.tolist()[int(proba.argmax())], most=60)
    probability, allowed = decimal(float(proba.max())), f"{100 * promise.max_error:.3g} %"
    familiarity = decimal(float(decisions.familiarity[place]))
    likely = f"The most probable class is {best}, with probability {probability}"
    if reason == ANSWERED:
        title, confidence = f"{best}: answered", f"{decisions.probability:g}".removeprefix("0")
        details = (
            f"Of all answers that the model gives, at most {allowed} are wrong, with confidence "
            f"{confidence}, for inputs like the training examples. This one has a probability of "
            f"{probability} and a familiarity of {familiarity}."
        )
    elif reason == UNFAMILIAR:
        title = "Not answered: unfamiliar, unlike the training data"
        details = (
            f"Familiarity {familiarity}, and inputs below {decimal(decisions.min_familiarity)} are not "
            f"answered. {likely}, but the model has hardly seen inputs like this one."
        )
    elif reason == AMBIGUOUS:
        title = "Not answered: ambiguous, no class is certain enough"
        least = decimal(float(promise.value or 0.0))
        details = f"{likely}; answers are given from {least} on, so that at most {allowed} of them are wrong."
    else:
        title = f"Not answered: cannot promise at most {allowed} wrong answers"
        details = f"{likely}. {'. '.join(decisions.broken_promises)}."
    return Verdict(reason=cast("Reason", reason), title=title, details=details)
