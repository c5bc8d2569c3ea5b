"""Training examples as samples to try: decided out of fold, and explained by the model without them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pnca.calibration.decisions import REASONS
from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanation
from pnca.models.ledger import with_support
from pnca.workflows.answers import Settings, decisions_out_of_fold


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A training example that is asked about as if it were new.

    Attributes
    ----------
    row : int
        In the training data, from zero.
    label : object
        Its true class.
    case : Explanation
        The answer by the model without this example among its neighbours; the networks and what else was
        learnt have seen it.
    """

    row: int
    label: Any
    case: Explanation


def samples_of(model: Any, settings: Settings) -> dict[str, int]:  # noqa: ANN401
    """Choose a training example for each reason that occurs out of fold: the row of the middle one.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted with folds.
    settings : Settings
        What is asked.

    Returns
    -------
    dict
        Rows by reason; empty where the model has no record of its inputs.
    """
    if getattr(getattr(model, "record_", None), "inputs", None) is None:
        return {}
    decisions = decisions_out_of_fold(model, settings)
    found = {}
    for reason in REASONS:
        rows = np.flatnonzero(decisions.reason == reason)
        if len(rows):
            order = np.argsort(decisions.confidence[rows], kind="stable")
            found[reason] = int(rows[order[len(rows) // 2]])
    return found


def sample_of(model: Any, row: int, k: int = 5) -> Sample:  # noqa: ANN401
    """Explain the answer for a training example by the model without it.

    Parameters
    ----------
    model : PNCAClassifier
        With its record.
    row : int
        Of the training data, from zero.
    k : int
        Training examples that are named.

    Returns
    -------
    Sample
    """
    record = getattr(model, "record_", None)
    if record is None or record.inputs is None:
        raise InvalidInputError(
            "The model has no record of its training examples (store='predictive'), so none can be shown."
        )
    if not 0 <= row < len(record):
        raise InvalidInputError(f"There is no training example {row + 1}: there are {len(record)}.")
    support = model.fitted_.reader.support
    weights = support.weights.numpy().copy()
    weights[row] = 0
    other = copy.copy(model)
    other.fitted_ = with_support(model.fitted_, support.labels.numpy(), weights)
    inputs = record.inputs
    X = inputs.iloc[[row]] if hasattr(inputs, "iloc") else inputs[row : row + 1]
    case = replace(other.explain(X, min(k + 1, len(record)))[0], row=row + 1)
    others = tuple(example for example in case.examples if example.row != row)[:k]
    return Sample(row=row, label=record.labels.tolist()[row], case=replace(case, examples=others))
