"""Ranks of models over data sets, and tests of whether their differences may be luck."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, wilcoxon

FloatArray = NDArray[np.float64]
#: Differences smaller than this are rounding.
_DIGITS = 9


class Comparison(NamedTuple):
    """One model against another over data sets."""

    n_better: int  # data sets on which the first is better
    n_worse: int
    p: float  # of Wilcoxon's test, corrected by Holm for the number of models

    def is_loss(self, level: float = 0.05) -> bool:
        """Whether the first is worse, and not by luck."""
        return self.p < level and self.n_worse > self.n_better

    def is_win(self, level: float = 0.05) -> bool:
        """Whether the first is better, and not by luck."""
        return self.p < level and self.n_better > self.n_worse


def mean_ranks(means: FloatArray, *, more: bool = False) -> FloatArray:
    """Mean rank (models,) over data sets of means (data sets, models); 1 is best, equals share a rank.

    >>> mean_ranks(np.array([[0.1, 0.2], [0.3, 0.3]])).tolist()
    [1.25, 1.75]
    """
    losses = np.round(-means if more else means, _DIGITS)
    ranks: FloatArray = np.array([rankdata(row) for row in losses]).mean(axis=0)
    return ranks


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number, in their order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, corrected, least = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, p_values[place] * (len(p_values) - rank)))
        corrected[place] = least
    return corrected


def compare(means: FloatArray, *, more: bool = False) -> list[Comparison]:
    """Compare the first column of means (data sets, models) with each of the others.

    Wilcoxon's signed-rank test over data sets, corrected by Holm for the number of the others.
    """
    losses = np.round(-means if more else means, _DIGITS)
    ours, others = losses[:, :1], losses[:, 1:]
    p_values = holm([_wilcoxon(ours[:, 0] - other) for other in others.T])
    return [
        Comparison(int((ours[:, 0] < other).sum()), int((ours[:, 0] > other).sum()), p)
        for other, p in zip(others.T, p_values, strict=True)
    ]


def pairwise(means: FloatArray, *, more: bool = False) -> FloatArray:
    """P values (models, models) of every pair, corrected by Holm for the number of pairs."""
    losses, n = np.round(-means if more else means, _DIGITS), means.shape[1]
    pairs = [(i, j) for i in range(n) for j in range(i)]
    p_values = holm([_wilcoxon(losses[:, i] - losses[:, j]) for i, j in pairs])
    found = np.ones((n, n))
    for (i, j), p in zip(pairs, p_values, strict=True):
        found[i, j] = found[j, i] = p
    return found


def _wilcoxon(differences: FloatArray) -> float:
    return float(wilcoxon(differences).pvalue) if differences.any() else 1.0
