r"""Which confidence is enough, so that few of the answers that are given are wrong.

A threshold on confidence is certified by held-out answers: the hypothesis that more than a share
:math:`\alpha` of the answers above it are wrong is tested, and thresholds are lowered as long as it is
rejected (learn then test; Angelopoulos, Bates, Candès, Jordan and Lei, 2021; Geifman and El-Yaniv, 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from pnca.calibration.conformal import ROUNDING, BoolArray, FloatArray, IntArray, unit_weights

#: Places where a test of thresholds starts; with fewer examples than so many times the least number, one.
_STARTS, _MANY = 3, 5
#: What a gambler stakes who bets on few mistakes, as parts of what could be lost.
_BETS = (0.25, 0.5, 0.75, 0.99)
#: How much smaller a bet's p-value without a mistake must be before a walk starts: the first answers may
#: count for less than others.
_SLACK = 1.5
#: More examples than anyone has; numbers beyond are not told apart.
_COUNTLESS = 10**15


@dataclass(frozen=True)
class Threshold:
    """A confidence from which on answers are given, and what is known of those answers.

    Attributes
    ----------
    value : float or None
        The least confidence of an answer: that of the least certain held-out answer for which the promise
        is certified, as nothing is known below. None: no threshold can be certified.
    max_error : float
        The share of wrong answers for which it is certified.
    n_answered, n_wrong : int
        Held-out examples with at least this confidence, and how many of these answers are wrong. Without a
        threshold, of all that are familiar.
    n_independent : int
        As ``n_answered``; with groups, how many groups those are of.
    error : float
        The share of wrong answers among them, weighted; NaN where there are none.
    n_needed : int
        Examples (with groups, groups) without a mistake that the promise needs at least.
    """

    value: float | None
    max_error: float
    n_answered: int
    n_wrong: int
    n_independent: int
    error: float
    n_needed: int


def examples_needed(max_error: float, confidence: float, share: float | None = None) -> int:
    r"""Count the answers without a mistake that show, with this confidence, that few are wrong.

    .. math:: \left\lceil \frac{\log (1 - \mathrm{confidence})}{\log (1 - \mathrm{max\_error})} \right\rceil

    With a ``share``, the number of groups (or weighted examples) that count so much each, for
    ``betting_p_values``. Numbers beyond 10^15 are given as that.

    >>> examples_needed(0.05, 0.9), examples_needed(0.05, 0.9, share=1.0)
    (45, 71)
    """
    exact = math.log1p(-confidence) / math.log1p(-max_error)
    least = max(1, math.ceil(min(exact, _COUNTLESS) - ROUNDING))
    if share is None:
        return least
    rates = np.array(_BETS) / (1 - max_error)
    gains = np.log1p(rates * max_error * share)
    n = least
    while n < _COUNTLESS and np.exp(n * gains).mean() * (1 - confidence) < _SLACK:
        n += 1 + n // 100
    return min(n, _COUNTLESS)


def binomial_p_values(n_wrong: FloatArray, n: FloatArray, max_error: float) -> FloatArray:
    r"""Probability of so few mistakes in n answers if a share ``max_error`` were wrong: (k,).

    .. math:: P\big( \mathrm{Bin}(n, \alpha) \le e \big)

    >>> binomial_p_values(np.array([0.0, 1.0]), np.array([45.0, 76.0]), 0.05).round(3).tolist()
    [0.099, 0.101]
    """
    p_values: FloatArray = bdtr(n_wrong, n.astype(np.int64), max_error)
    return p_values


def betting_p_values(excess: FloatArray, groups: IntArray, max_error: float) -> FloatArray:
    r"""Bound the probability of sums that lie so far below zero, after each of several additions: (n,).

    .. math:: p = \Big( \frac{1}{4} \sum_{\lambda} \prod_g (1 - \lambda Z_g) \Big)^{-1}, \qquad
              \lambda \, (1 - \alpha) \in \{ .25, .5, .75, .99 \}

    if the groups' sums :math:`Z_g \in [-\alpha, 1 - \alpha]` are independent and of expectation at least
    zero: the capital of a gambler who bets that they are below has then an expectation of at most one
    (Waudby-Smith and Ramdas, 2024). It needs far fewer groups than the bound of Hoeffding and Bentkus, to
    which a group with one answer is as noisy as a group with ten.

    Parameters
    ----------
    excess : ndarray of shape (n,)
        What is added to the sum of a group, one after the other.
    groups : ndarray of int, shape (n,)
        To the sum of which group.
    max_error : float
        The :math:`\alpha` of the range.

    Examples
    --------
    >>> betting_p_values(np.array([-0.05, -0.05, 0.95]), np.array([0, 1, 2]), 0.05).round(2).tolist()
    [0.97, 0.94, 1.0]
    """
    after = _sums_so_far(excess, groups)
    # Near alpha = 1 rounding is more than the range, and beyond it a logarithm may have no value.
    after, before = (np.minimum(sums, 1 - max_error) for sums in (after, after - excess))
    log_capital = np.full(len(excess), -np.inf)
    for bet in _BETS:
        rate = bet / (1 - max_error)
        gains = np.log1p(-rate * after) - np.log1p(-rate * before)
        log_capital = np.logaddexp(log_capital, gains.cumsum() - math.log(len(_BETS)))
    p_values: FloatArray = np.exp(-log_capital.clip(min=0))
    return p_values


def _sums_so_far(values: FloatArray, groups: IntArray) -> FloatArray:
    """Sum (n,) of the values of the own group up to each place."""
    order = np.argsort(groups, kind="stable")
    sums = values[order].cumsum()
    is_first = np.append(True, np.diff(groups[order]) != 0)[: len(order)]
    before = (sums - values[order])[np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))]
    found = np.empty_like(sums)
    found[order] = sums - before
    return found


def certified_threshold(
    confidences: FloatArray,
    is_wrong: BoolArray,
    max_error: float,
    confidence: float,
    *,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
) -> Threshold:
    r"""Find the lowest threshold above which, with some confidence, few answers are wrong.

    Thresholds are tried from the highest down. With :math:`a_i = w_i / n_{g_i}`, the hypothesis for one,

    .. math:: H_t: \; \mathbb{E} \sum_{i \in g} a_i \, 1[c_i > t] \, (e_i - \alpha) \ge 0 ,

    says that a weighted share of at least :math:`\alpha` of the answers above it is wrong. Where every group
    is one example and all weights are one, the mistakes are counted and the binomial tail is exact; otherwise
    ``betting_p_values`` has the tail of the groups' sums.

    The walk starts where enough answers lie above to show anything at all, goes down answer by answer, and
    ends where the p-value exceeds :math:`\delta = 1 - \mathrm{confidence}`: in a fixed sequence no correction
    is needed. As one mistake among the first few would end it, with many examples that are counted there are
    three starts, each with a third of :math:`\delta`; a walk that arrives at the next adds that one's share
    to its own (the fallback procedure; Wiens, 2003). This is exact if the share of wrong answers, once it
    exceeds :math:`\alpha` as the threshold falls, stays above. Then what holds above t also holds from the
    next held-out confidence on, which is the threshold that is returned: no answer is less certain than all
    that were counted.

    Parameters
    ----------
    confidences : ndarray of shape (n,)
        Confidence :math:`c_i` of each held-out answer.
    is_wrong : ndarray of bool, shape (n,)
        Whether it is wrong, :math:`e_i`.
    max_error : float
        The share :math:`\alpha` of the answers that may be wrong.
    confidence : float
        Probability with which that shall hold, over the draw of the examples.
    weights : ndarray of shape (n,), optional
        How often such an example occurs in use relative to here, divided by the largest such ratio that there
        can be: above zero, at most one.
    groups : ndarray of int, shape (n,), optional
        The group of each example; groups are independent, their members are not.

    Examples
    --------
    >>> confidences, is_wrong = np.linspace(1, 0.5, 100), np.arange(100) >= 80
    >>> round(certified_threshold(confidences, is_wrong, 0.05, 0.9).value, 3)
    0.596
    """
    delta, n = 1 - confidence, len(confidences)
    order = np.argsort(-confidences, kind="stable")
    sorted_confidences, wrong = confidences[order], is_wrong[order]
    own_groups = np.arange(n) if groups is None else groups[order]
    in_group = unit_weights(n, own_groups)
    own_weights = np.ones(n) if weights is None else weights[order]
    n_units = _units_so_far(own_groups)
    shares = in_group * own_weights
    is_counted = bool((np.abs(shares - 1) < ROUNDING).all())
    # Where a walk starts must not depend on which answers are wrong, nor on classes, which are weighed by.
    typical = in_group * (own_weights.mean() if n else 1.0)
    if is_counted:
        p_values = binomial_p_values(wrong.cumsum().astype(np.float64), n_units, max_error)
        error_free = binomial_p_values(np.zeros(n), n_units, max_error)
    else:
        p_values = betting_p_values(shares * (wrong - max_error), own_groups, max_error)
        error_free = _SLACK * betting_p_values(-max_error * typical, own_groups, max_error)
    n_needed = examples_needed(max_error, confidence, None if is_counted else own_weights.mean())
    n_starts = _STARTS if is_counted and n >= _MANY * n_needed else 1
    # A threshold lies between distinct confidences, or below them all.
    is_end = np.append(np.diff(sorted_confidences) < 0, True)[: len(order)]
    last = _walk(p_values, error_free, n_units, is_end, delta / n_starts, n_starts)
    n_answered = len(order) if last is None else last + 1
    total = shares[:n_answered].sum()
    return Threshold(
        value=None if last is None else float(sorted_confidences[last]),
        max_error=max_error,
        n_answered=n_answered,
        n_wrong=int(wrong[:n_answered].sum()),
        n_independent=int(n_units[n_answered - 1]) if n_answered else 0,
        error=float(shares[:n_answered] @ wrong[:n_answered] / total) if total else math.nan,
        n_needed=n_needed,
    )


def _units_so_far(groups: IntArray) -> FloatArray:
    """How many groups (n,) the first answers are of."""
    is_first = np.zeros(len(groups), dtype=bool)
    is_first[np.unique(groups, return_index=True)[1]] = True
    return is_first.cumsum().astype(np.float64)


def _walk(
    p_values: FloatArray,
    error_free: FloatArray,
    n_units: FloatArray,
    is_end: BoolArray,
    part: float,
    n_starts: int,
) -> int | None:
    """Position of the last threshold that is certified, each start adding a part; None if there is none."""
    is_enough = np.flatnonzero(error_free <= part * (1 + ROUNDING))
    if not len(is_enough):
        return None
    starts = np.geomspace(n_units[is_enough[0]], n_units[-1], n_starts + 1)[:-1]
    opens = np.searchsorted(n_units, starts - ROUNDING).clip(min=is_enough[0])
    level, last = 0.0, None
    for k in range(int(is_enough[0]), len(p_values)):
        level += part * int((opens == k).sum())
        if is_end[k]:
            if p_values[k] <= level * (1 + ROUNDING):
                last = k
            else:
                level = 0.0
    return last
