"""A case as plain values, as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pnca.record import is_missing

if TYPE_CHECKING:
    from pnca.explanations.case import Example, Explanation


def case_as_dict(case: Explanation) -> dict[str, Any]:
    """What is said of a case, without pictures: texts, numbers, truth values, lists and None.

    Parameters
    ----------
    case : Explanation
        From ``explain``.

    Returns
    -------
    dict
    """
    classes, agreement = [str(label) for label in case.classes.tolist()], case.agreement

    def by_class(values: Iterable[Any]) -> dict[str, Any]:
        return dict(zip(classes, map(plain, values), strict=True))

    usual = case.usual
    return {
        "row": case.row if case.number is None else case.number,
        "id": plain(case.name),
        "label": plain(case.label),
        "probabilities": by_class(case.proba),
        "parts": {name: by_class(part) for name, part in case.parts.items()},
        "examples": [_example(example) for example in case.examples],
        "familiarity": None if usual is None else plain(usual.familiarity),
        "evidence": None if usual is None else plain(usual.evidence),
        "members": agreement.n_members,
        "members_for": by_class(agreement.votes),
        "experts": {name: by_class(values) for name, values in agreement.experts.items()},
        "deviations": plain(case.deviations),
        "columns": [
            {name: plain(value) for name, value in column._asdict().items()} for column in case.columns
        ],
        "notes": list(case.notes),
    }


def plain(value: Any) -> Any:  # noqa: ANN401
    """A value as JSON has it: what is missing or no number is None, a date its text.

    >>> plain(np.float64("nan")), plain(np.int64(3)), plain(np.datetime64("2024-05-01"))
    (None, 3, '2024-05-01')
    """
    if is_missing(value):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _example(example: Example) -> dict[str, Any]:
    return {
        "name": plain(example.row if example.id is None else example.id),
        "label": plain(example.label),
        "share": plain(example.share),
        "distance": plain(example.distance),
    }
