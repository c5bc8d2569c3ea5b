"""Checking what a user asks for when decisions are made; every complaint names the argument."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.conformal import FloatArray
from pnca.exceptions import InvalidInputError

#: The share of in-distribution inputs that are declined as unfamiliar, where that can be told. Of the inputs
#: of a class that was never seen, half as many are answered as with .01 (benchmarks/unseen_classes.py).
_USUAL_LEAST = 0.05


def check_share(name: str, value: Any, *, zero_allowed: bool = False) -> float:  # noqa: ANN401
    """Return a number above zero (or zero) and below one as a float.

    >>> check_share("coverage", 0.9)
    0.9
    """
    is_number = isinstance(value, (Real, np.number)) and not isinstance(value, (bool, np.bool_))
    # Written so that NaN, for which every comparison is false, is refused too.
    if not (is_number and (0 < value < 1 or (zero_allowed and value == 0))):
        least = "0, or a number" if zero_allowed else "a number"
        raise InvalidInputError(f"{name} is {value!r}: pass {least} above 0 and below 1.")
    return float(value)


def check_min_familiarity(value: float | None, n_units: int) -> float:
    r"""Return the familiarity below which inputs are declined, or choose it.

    .. math:: \max \left( 0.05, \; \frac{1.5}{G + 1} \right)

    The least p-value that G examples (or groups) can give is 1 / (G + 1), that of an input with less evidence
    than all of them; the default declines it always, and about 5 % of in-distribution inputs where G
    allows to tell them. A level that could decline nothing is refused, zero apart.

    >>> check_min_familiarity(None, 1000), check_min_familiarity(None, 14)
    (0.05, 0.1)
    """
    if value is None:
        return max(_USUAL_LEAST, 1.5 / (n_units + 1))
    level = check_share("min_familiarity", value, zero_allowed=True)
    if 0 < level <= 1 / (n_units + 1):
        raise InvalidInputError(
            f"min_familiarity={level:g} can decline nothing: with {n_units} independent examples no input is "
            f"less familiar than 1/{n_units + 1} = {1 / (n_units + 1):.3g}. Pass a larger number, None for "
            "the default, or 0 to decline nothing."
        )
    return level


def check_max_error(max_error: Any, classes: NDArray[Any]) -> float | dict[Any, float]:  # noqa: ANN401
    """Return the share of wrong answers that is allowed: of all answers, or by class, in their order.

    >>> check_max_error({"b": 0.1, "a": 0.05}, np.array(["a", "b"]))
    {'a': 0.05, 'b': 0.1}
    """
    if not _is_mapping(max_error):
        return check_share("max_error", max_error)
    found = _by_class("max_error", max_error, classes)
    return {label: check_share(f"max_error[{label!r}]", value) for label, value in found.items()}


def check_priors(priors: Any, classes: NDArray[Any]) -> FloatArray:  # noqa: ANN401
    """Return how frequent the classes are in use, as shares (c,) that sum to one.

    >>> check_priors({"b": 3, "a": 1}, np.array(["a", "b"])).tolist()
    [0.25, 0.75]
    """
    if _is_mapping(priors):
        values = list(_by_class("priors", priors, classes).values())
    elif not _is_sequence(priors) or len(priors) != len(classes):
        raise InvalidInputError(
            f"priors must be one number for each of the {len(classes)} classes, in the order of classes_, or "
            "a mapping from class to number."
        )
    else:
        values = list(priors)
    for label, value in zip(classes.tolist(), values, strict=True):
        is_number = isinstance(value, (Real, np.number)) and not isinstance(value, (bool, np.bool_))
        if not (is_number and 0 < value <= sys.float_info.max):
            raise InvalidInputError(
                f"priors gives class {label!r} {value!r}: pass a finite number above zero. For a class that "
                "never occurs in use, fit the model without it."
            )
    shares = np.array([float(value) for value in values])
    normalised: FloatArray = shares / shares.max() / (shares / shares.max()).sum()
    return normalised


def _is_mapping(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, Mapping) or hasattr(value, "to_dict")  # such as a pandas Series


def _is_sequence(value: Any) -> bool:  # noqa: ANN401
    """Whether it holds something in an order: a list or a tuple, or an array of one dimension."""
    if isinstance(value, Sequence):
        return not isinstance(value, (str, bytes))
    return getattr(value, "ndim", 0) == 1


def _by_class(name: str, given: Any, classes: NDArray[Any]) -> dict[Any, Any]:  # noqa: ANN401
    """Values of a mapping by class, in the order of the classes; each is named, and nothing else."""
    values = dict(given.to_dict() if hasattr(given, "to_dict") else given)
    labels = classes.tolist()
    if unknown := [key for key in values if key not in labels]:
        raise InvalidInputError(f"{name} names {unknown[0]!r}, which is no class; the classes are {labels}.")
    if missing := [label for label in labels if label not in values]:
        raise InvalidInputError(f"{name} lacks class {missing[0]!r}: give a number for each of {labels}.")
    return {label: values[label] for label in labels}
