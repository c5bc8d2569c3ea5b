"""How a score falls as the examples grow in number, and what more of them would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pnca.calibration.conformal import FloatArray, IntArray, members
from pnca.exceptions import MissingExtraError

#: Exponents that are tried, chosen so that intervals hold the gains of simulated curves (docs/audit.md).
EXPONENTS = np.geomspace(0.2, 1.2, 10)
#: Resampled curves, and the share of them inside an interval.
N_RESAMPLED, LEVEL = 1000, 0.9
#: A law of three numbers needs so many sizes, spread by such a factor, and so many examples (groups).
_FEWEST_SIZES, _LEAST_SPREAD, FEWEST_UNITS = 4, 2.5, 30


class Curve(NamedTuple):
    """A mean score at each size, and its interval."""

    mean: FloatArray  # (s,)
    low: FloatArray  # (s,)
    high: FloatArray  # (s,)


class Gain(NamedTuple):
    """By how much a loss falls, and the interval; NaN where there is too little to say."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Laws:
    r"""Power laws that agree with a measured curve: :math:`a + b \, n^{-c}`, each as likely as the next."""

    floor: FloatArray  # (r,), a
    factor: FloatArray  # (r,), b
    exponent: FloatArray  # (r,), c

    def at(self, n: float) -> FloatArray:
        """Losses (r,) at n examples."""
        values: FloatArray = self.floor + self.factor * n**-self.exponent
        return values

    def gain(self, n: float, more: float) -> Gain:
        """What so many more examples than n bring."""
        falls = self.at(n) - self.at(n + more)
        low, high = np.quantile(falls, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Gain(float(falls.mean()), float(low), float(high))


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
            ``mean``, ``low`` and ``high`` of a 90 % interval, NaN where there are too few points to say.
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
                f"(90 % interval {nll.low:.3f} to {nll.high:.3f}) and to raise the accuracy by "
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


def resampled_curves(scores: FloatArray, paths: IntArray, units: IntArray, seed: int) -> FloatArray:
    """Mean curves (r, s) of scores (k, s), with paths resampled, and units within them.

    Examples of one path are scored by the same refits, so that both the choice of the examples to learn from
    and of those to score are drawn again. The variance of resampled means of k paths is by a factor of
    (k - 1) / k too small, which is put right.
    """
    rng, rows_of_paths = np.random.RandomState(seed), members(paths)
    n_paths = len(rows_of_paths)
    counts = rng.multinomial(n_paths, np.full(n_paths, 1 / n_paths), size=N_RESAMPLED)
    total = np.zeros((N_RESAMPLED, scores.shape[1]))
    for place, rows in enumerate(rows_of_paths):
        of_units = members(units[rows])
        sums = np.array([scores[rows[own]].sum(axis=0) for own in of_units])  # (u, s)
        sizes = np.array([len(own) for own in of_units], dtype=float)
        drawn = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=N_RESAMPLED)
        total += counts[:, [place]] * (drawn @ sums) / (drawn @ sizes)[:, None]
    mean, widening = _path_mean(scores, paths), np.sqrt(n_paths / max(n_paths - 1, 1))
    curves: FloatArray = mean + widening * (total / n_paths - mean)
    return curves


def mean_curve(scores: FloatArray, paths: IntArray, units: IntArray, seed: int) -> Curve:
    """Mean scores at each size, with their intervals."""
    curves = resampled_curves(scores, paths, units, seed)
    low, high = np.quantile(curves, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Curve(_path_mean(scores, paths), low, high)


def power_laws(scores: FloatArray, paths: IntArray, units: IntArray, sizes: IntArray, seed: int) -> Laws:
    r"""Power laws that agree with scores (k, s) at these sizes (s,).

    .. math:: \ell(n) = a + b \, n^{-c}, \qquad a, b \ge 0

    is fitted to each resampled curve by least squares, weighted by the size, for each of ten exponents c; one
    of them is drawn in proportion to :math:`e^{-r_c / 2 \sigma^2}`, with the residual :math:`r_c` and the
    variance :math:`\sigma^2` of the shape of resampled curves. So the laws differ as much as the data leave
    open: by which examples were there, and by the exponent, which few sizes hardly tell.

    Parameters
    ----------
    scores : ndarray of shape (k, s)
        Losses of left-out examples.
    paths, units : ndarray of int, shape (k,)
        See :class:`Scores`.
    sizes : ndarray of int, shape (s,)
        Examples that were learnt from.
    seed : int
        Of the resampling.

    Returns
    -------
    Laws
    """
    curves, rng = resampled_curves(scores, paths, units, seed), np.random.RandomState(seed)
    weights = sizes / sizes.sum()
    floors, factors, residuals = (
        np.stack(part, axis=1)
        for part in zip(*(_least_squares(curves, sizes, c, weights) for c in EXPONENTS), strict=True)
    )
    shapes = curves - curves.mean(axis=0)
    shapes -= shapes.mean(axis=1, keepdims=True)  # the level is common to all sizes
    variance = max(float((shapes**2 @ weights).mean()) / (len(sizes) - 1), 1e-12)
    likely = np.exp((residuals.min(axis=1, keepdims=True) - residuals) / (2 * variance)).cumsum(axis=1)
    drawn = (likely > rng.uniform(size=(len(likely), 1)) * likely[:, -1:]).argmax(axis=1)
    rows = np.arange(len(curves))
    # Factors are those of n relative to the largest size; the law is in n itself.
    factor = factors[rows, drawn] * float(sizes[-1]) ** EXPONENTS[drawn]
    return Laws(floors[rows, drawn], factor, EXPONENTS[drawn])


def _least_squares(
    curves: FloatArray, sizes: IntArray, exponent: float, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Non-negative floor and factor (r,) of each curve (r, s), and the weighted residual (r,)."""
    x = (sizes / sizes[-1]) ** -exponent
    of_x, of_squares, of_y, of_products = (
        x @ weights,
        x**2 @ weights,
        curves @ weights,
        curves @ (weights * x),
    )
    determinant = of_squares - of_x**2
    floor = (of_squares * of_y - of_x * of_products) / determinant
    factor = (of_products - of_x * of_y) / determinant
    # Where one of the two would be negative it is zero, and the other alone is fitted.
    factor = np.where(factor < 0, 0.0, np.where(floor < 0, of_products / of_squares, factor))
    floor = np.where(factor == 0, of_y, np.where(floor < 0, 0.0, floor))
    residual = (curves - floor[:, None] - factor[:, None] * x) ** 2 @ weights
    return floor, factor, residual


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


def _path_mean(scores: FloatArray, paths: IntArray) -> FloatArray:
    mean: FloatArray = np.mean([scores[rows].mean(axis=0) for rows in members(paths)], axis=0)
    return mean


def _at(curve: Curve, place: int) -> str:
    mean, low, high = (part[place] for part in curve)
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"
