"""Power laws of a learning curve, and by how much fits differ: what more examples would bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from pnca.calibration.conformal import FloatArray, IntArray, members

#: Exponents that are tried, chosen so that intervals hold the gains of simulated curves (docs/audit.md).
EXPONENTS = np.geomspace(0.2, 1.2, 10)
#: Resampled curves, and the share of them inside an interval.
N_RESAMPLED, LEVEL = 1000, 0.9


class Gain(NamedTuple):
    """By how much a loss falls, and its prediction interval; NaN where there is too little to say."""

    mean: float
    low: float
    high: float


class Spread(NamedTuple):
    """How far single fits lie from the mean curve, and how well that is known; see :func:`fit_spread`."""

    total: float  # mean square of fits at their sizes, with the luck of the examples that they are scored on
    within: float  # the part that is this luck alone
    degrees: int  # of freedom of the total
    size: float  # harmonic mean of the sizes

    def variances(self, count: int, rng: np.random.RandomState) -> FloatArray:
        r"""Draw variances (count,) of fits to ``size`` examples, as likely as the total makes them.

        .. math:: v \mid m \propto v^{-d / 2 - 1} e^{-d m / 2 v}, \quad v \ge w

        is the posterior of the variance v whose estimate is the total m, with d degrees of freedom and
        Jeffreys' prior, given that it is no less than the part w within (Box and Tiao, 1973). The variance
        of fits is v - w. The difference of the estimates would often be negative, and zero taken as certain.
        """
        if self.total <= 0:
            return np.zeros(count)
        precision = stats.gamma(self.degrees / 2, scale=2 / (self.degrees * self.total))
        most = precision.cdf(1 / self.within) if self.within > 0 else 1.0
        drawn = precision.ppf(rng.uniform(size=count) * most)
        found: FloatArray = np.maximum(1 / drawn - self.within, 0.0) if most > 0 else np.zeros(count)
        return found


@dataclass(frozen=True, eq=False)
class Laws:
    r"""Power laws that agree with a measured curve: :math:`a + b \, n^{-c}`, each as likely as the next."""

    floor: FloatArray  # (r,), a
    factor: FloatArray  # (r,), b
    exponent: FloatArray  # (r,), c
    spread: Spread

    def at(self, n: float) -> FloatArray:
        """Losses (r,) at n examples."""
        values: FloatArray = self.floor + self.factor * n**-self.exponent
        return values

    def gain(self, n: float, more: float) -> Gain:
        r"""Predict what so many more examples than n bring.

        .. math:: g + \sqrt{v \left(\tfrac{h}{n} + \tfrac{h}{n + k}\right)} \, \varepsilon

        with the fall g of a law, which differ by what the data leave open of the mean curve; a variance v of
        fits to h examples, which falls as one over their number, as that of a mean does; and a standard
        normal :math:`\varepsilon`. Both fits, before and after k more, have luck of their own; that they
        share n examples is not counted, which makes the interval rather too wide.
        """
        falls, rng = self.at(n) - self.at(n + more), np.random.RandomState(0)
        variances = self.spread.variances(len(falls), rng) * self.spread.size * (1 / n + 1 / (n + more))
        drawn = falls + np.sqrt(variances) * rng.normal(size=len(falls))
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Gain(float(falls.mean()), float(low), float(high))


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
    mean, widening = path_mean(scores, paths), np.sqrt(n_paths / max(n_paths - 1, 1))
    curves: FloatArray = mean + widening * (total / n_paths - mean)
    return curves


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
    return Laws(floors[rows, drawn], factor, EXPONENTS[drawn], fit_spread(scores, paths, units, sizes))


def fit_spread(scores: FloatArray, paths: IntArray, units: IntArray, sizes: IntArray) -> Spread:
    r"""How far fits differ from the mean of their size: the interaction of paths and sizes.

    .. math:: m = \frac{1}{(k - 1)(s - 1)} \sum_{ps}
              (\bar\ell_{ps} - \bar\ell_p - \bar\ell_s + \bar\ell)^2

    of the mean scores :math:`\bar\ell_{ps}` of k paths at s sizes, as in a two-way analysis of variance. Each
    path has examples of its own to learn from and to be scored on, so the total has both kinds of luck. What
    the left-out examples alone bring is the same mean square within each path, over the number of
    examples. What a path has at all sizes cancels in a gain. Paths share examples to learn from, so that
    they differ somewhat less than independent draws would.

    Parameters
    ----------
    scores : ndarray of shape (k, s)
        Losses of left-out examples.
    paths, units : ndarray of int, shape (k,)
        See :class:`pnca.calibration.learning.Scores`.
    sizes : ndarray of int, shape (s,)
        Examples that were learnt from.

    Returns
    -------
    Spread
    """
    of_paths = members(paths)
    means = np.array([scores[rows].mean(axis=0) for rows in of_paths])
    own = []
    for rows in of_paths:
        of_units = np.array([scores[rows[unit]].mean(axis=0) for unit in members(units[rows])])
        if len(of_units) > 1:
            own.append(_interaction(of_units) / len(of_units))
    degrees = (len(of_paths) - 1) * (len(sizes) - 1)
    return Spread(
        _interaction(means), float(np.mean(own)) if own else 0.0, degrees, float(1 / np.mean(1 / sizes))
    )


def _interaction(table: FloatArray) -> float:
    """Variance of a table (r, s) beyond what its rows, and its columns, have in common."""
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    return float((centred**2).sum() / ((len(table) - 1) * (table.shape[1] - 1)))


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


def path_mean(scores: FloatArray, paths: IntArray) -> FloatArray:
    """Mean scores (s,) of paths, each of which counts once."""
    mean: FloatArray = np.mean([scores[rows].mean(axis=0) for rows in members(paths)], axis=0)
    return mean
