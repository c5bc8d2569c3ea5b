"""How a score falls as the examples grow in number, and what more of them would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pnca.calibration.conformal import FloatArray, IntArray, members
from pnca.calibration.laws import LEVEL, Gain, Laws, path_mean, power_laws, resampled_curves
from pnca.exceptions import MissingExtraError

#: A law of three numbers needs so many sizes, spread by such a factor, and so many examples (groups).
_FEWEST_SIZES, _LEAST_SPREAD, FEWEST_UNITS = 4, 2.5, 30


class Curve(NamedTuple):
    """A mean score at each size, and its interval."""

    mean: FloatArray  # (s,)
    low: FloatArray  # (s,)
    high: FloatArray  # (s,)


class Scores(NamedTuple):
    """Scores of left-out examples by refits on nested subsets of the others."""

    nll: FloatArray  # (k, s), of each left-out example at each size
    is_wrong: FloatArray  # (k, s), zero or one
    is_answered: FloatArray | None  # (k, s), likewise; None if nothing is decided
    paths: IntArray  # (k,), equal for examples that the same refits scored
    units: IntArray  # (k,), equal for examples that belong together


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """Scores of left-out examples as the number of examples grows.

    Attributes
    ----------
    sizes : ndarray of int, shape (s,)
        Examples that refits were trained on.
    nll, accuracy : Curve
        Mean negative log-likelihood and share of right predictions, with 90 % intervals.
    answered : Curve or None
        Share that :meth:`pnca.PNCAClassifier.decide` answers.
    n : int
        Examples of the model.
    laws : dict
        Power laws for ``"nll"`` and ``"error"``, None where there are too few points.
    max_error : float
        Of the decisions.
    n_fits : int
        Refits.
    seconds : float
        What they took.
    note : str
        Why nothing is said of more examples, or what was not scored; empty where all is well.
    """

    sizes: IntArray
    nll: Curve
    accuracy: Curve
    answered: Curve | None
    n: int
    laws: dict[str, Laws | None]
    max_error: float
    n_fits: int
    seconds: float
    note: str = ""

    def gain(self, more: int = 100, of: str = "nll") -> Gain:
        """Say by how much the NLL (or with ``of="accuracy"`` the error) is expected to fall.

        Parameters
        ----------
        more : int
            Labels beside those of the model.
        of : "nll" or "accuracy"
            Which score.

        Returns
        -------
        Gain
            ``mean``, ``low`` and ``high`` of a 90 % prediction interval: it is for the labels that come next,
            with their luck, so it may be below zero. NaN where there are too few points to say.
        """
        laws = self.laws["nll" if of == "nll" else "error"]
        return Gain(np.nan, np.nan, np.nan) if laws is None else laws.gain(self.n, more)

    def __repr__(self) -> str:
        rows = [f"<LearningCurve: {self.summary()}>"]
        for place, size in enumerate(self.sizes.tolist()):
            text = f"- {size} examples: NLL {_at(self.nll, place)}, accuracy {_at(self.accuracy, place)}"
            if self.answered is not None:
                text += f", answered {_at(self.answered, place)}"
            rows.append(text)
        return "\n".join(rows)

    def summary(self, more: int = 100) -> str:
        """Say in a sentence or two what more labels would bring."""
        text = f"{self.n_fits} refits in {self.seconds:.0f} s. "
        if self.laws["nll"] is None:
            text += "Too few points to say what more labels would bring"
        else:
            nll, error = self.gain(more), self.gain(more, "accuracy")
            text += (
                f"{more} more labels beside the {self.n} are expected to lower the NLL by {nll.mean:.3f} "
                f"(90 % prediction interval {nll.low:.3f} to {nll.high:.3f}) and to raise the accuracy by "
                f"{error.mean:.3f} ({error.low:.3f} to {error.high:.3f})"
            )
        return f"{text}. {self.note}" if self.note else text

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return a pandas table with a row for each size (``pip install 'pnca[studies]'``)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "studies") from error
        curves = {"nll": self.nll, "accuracy": self.accuracy}
        curves |= {} if self.answered is None else {"answered": self.answered}
        found = {
            name + end: values
            for name, curve in curves.items()
            for end, values in zip(("", "_low", "_high"), curve, strict=True)
        }
        return pd.DataFrame(found, index=pd.Index(self.sizes, name="examples"))


def nested_order(
    labels: IntArray, groups: IntArray | None, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Put rows in a random order whose first ones hold every class, groups in one piece.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        Classes of the rows.
    groups : ndarray of int, shape (n,), or None
        Their groups.
    rng : RandomState
        Draws the order.

    Returns
    -------
    order : ndarray of int, shape (n,)
        Rows. The first ones hold two of each class, or all there are.
    sizes : ndarray of int
        Where the order can be cut so that no group is split and every class is held, rising.

    Examples
    --------
    >>> order, sizes = nested_order(np.array([0, 0, 0, 1, 1]), None, np.random.RandomState(0))
    >>> sizes.tolist(), sorted(np.array([0, 0, 0, 1, 1])[order[:4]].tolist())
    ([4, 5], [0, 0, 1, 1])
    """
    units = members(np.arange(len(labels)) if groups is None else groups)
    lacking = np.minimum(np.bincount(labels), 2)
    first: list[Any] = []
    rest: list[Any] = []
    for place in rng.permutation(len(units)).tolist():
        counts = np.bincount(labels[units[place]], minlength=len(lacking))
        is_needed = bool((counts[lacking > 0] > 0).any())
        lacking = np.maximum(lacking - counts, 0)
        (first if is_needed else rest).append(units[place])
    ends = np.cumsum([len(rows) for rows in first + rest])
    return np.concatenate(first + rest), ends[len(first) - 1 :]


def default_sizes(least: int, most: int, count: int = 5) -> list[int]:
    """Sizes from least to most, evenly spaced in their logarithm.

    >>> default_sizes(10, 160)
    [10, 20, 40, 80, 160]
    """
    return sorted({round(float(size)) for size in np.geomspace(max(1, min(least, most)), most, count)})


def mean_curve(scores: FloatArray, paths: IntArray, units: IntArray, seed: int) -> Curve:
    """Mean scores at each size, with their intervals, which no mean of such scores can leave."""
    curves = resampled_curves(scores, paths, units, seed).clip(scores.min(), scores.max())
    low, high = np.quantile(curves, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Curve(path_mean(scores, paths), low, high)


def too_few(sizes: IntArray, n_units: int) -> str:
    """Why there is too little to say what more examples bring; empty if there is enough.

    >>> too_few(np.array([10, 20, 40, 80]), 100)
    ''
    """
    if n_units < FEWEST_UNITS:
        return f"There are {n_units} independent examples to score, and {FEWEST_UNITS} are needed"
    if len(sizes) < _FEWEST_SIZES or sizes[-1] < _LEAST_SPREAD * sizes[0]:
        return (
            f"There are {len(sizes)} sizes from {sizes[0]} to {sizes[-1]}; {_FEWEST_SIZES} are needed, the "
            f"largest {_LEAST_SPREAD:g} times the smallest"
        )
    return ""


def learning_curve(
    scores: Scores,
    sizes: Sequence[int],
    *,
    n: int,
    max_error: float,
    n_fits: int,
    seconds: float,
    seed: int,
    note: str = "",
) -> LearningCurve:
    """Curves of scores, and the laws that agree with them.

    Parameters
    ----------
    scores : Scores
        Of the refits.
    sizes : sequence of int, length s
        Examples that they were trained on.
    n : int
        Examples of the model.
    max_error, n_fits, seconds, note
        See :class:`LearningCurve`.
    seed : int
        Of the resampling.

    Returns
    -------
    LearningCurve
    """
    at, (paths, units) = np.array(sizes), (scores.paths, scores.units)
    why = too_few(at, len(np.unique(units)))
    laws: dict[str, Laws | None] = {"nll": None, "error": None}
    if not why:
        laws = {
            name: power_laws(part, paths, units, at, seed)
            for name, part in (("nll", scores.nll), ("error", scores.is_wrong))
        }
    answered = scores.is_answered
    return LearningCurve(
        sizes=at,
        nll=mean_curve(scores.nll, paths, units, seed),
        accuracy=mean_curve(1 - scores.is_wrong, paths, units, seed),
        answered=None if answered is None else mean_curve(answered, paths, units, seed),
        n=n,
        laws=laws,
        max_error=max_error,
        n_fits=n_fits,
        seconds=seconds,
        note=". ".join(part for part in (why, note) if part),
    )


def _at(curve: Curve, place: int) -> str:
    mean, low, high = (part[place] for part in curve)
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"
