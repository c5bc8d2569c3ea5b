"""All that one report shows, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.reports.values import Evaluation, FloatArray, IntArray

if TYPE_CHECKING:
    from pnca.calibration import Audit, Drift, LearningCurve
    from pnca.explanations import Explanation

#: Mistakes, and unfamiliar inputs, that are listed; of the first ones the evidence is shown.
MOST_LISTED, MOST_SHOWN = 10, 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Photo:
    """A picture of an input, or of a training example, where inputs themselves are none."""

    pixels: NDArray[np.uint8]  # (h, w) or (h, w, 3)
    caption: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownCase:
    """An input with its evidence."""

    case: Explanation
    without_itself: FloatArray | None = None  # (c,), of a training example: the answer without it
    photos: tuple[Photo, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """What a report shows.

    Attributes
    ----------
    evaluation : Evaluation
        How the model does.
    about : dict
        What the model file holds; see :func:`pnca.workflows.about_model`.
    data, ood : str
        Names of the files with labelled and with out-of-distribution inputs; empty where there are none.
    names : ndarray of object, shape (n,)
        What the labelled inputs are called.
    cases : dict
        Evidence of some inputs, by their row in the evaluation.
    audit : Audit or None
        What is suspicious in the training examples.
    drift : Drift or None
        Whether the labelled inputs as a whole are less familiar than the training examples.
    curve : LearningCurve or None
        What more examples would bring, where that was measured.
    notes : tuple of str
        What a reader should know of how it was made.
    checksums : dict
        SHA-256 of each file.
    versions : dict
        Of the software.
    made : str
        The day.
    """

    evaluation: Evaluation
    about: Mapping[str, Any]
    data: str
    ood: str
    names: NDArray[np.object_]
    cases: Mapping[int, ShownCase]
    audit: Audit | None
    drift: Drift | None
    curve: LearningCurve | None
    notes: tuple[str, ...]
    checksums: Mapping[str, str]
    versions: Mapping[str, str]
    made: str


def shown_rows(evaluation: Evaluation) -> IntArray:
    """Rows whose evidence is shown: of the most confident mistakes, and of the least familiar inputs.

    Parameters
    ----------
    evaluation : Evaluation
        Of n inputs.

    Returns
    -------
    ndarray of int
        Each row once, rising.
    """
    mistakes, unfamiliar = evaluation.confident_mistakes(MOST_SHOWN), evaluation.least_familiar(MOST_SHOWN)
    return np.unique(np.concatenate([mistakes, unfamiliar]))
