"""Selective classification: the error rate when the least confident predictions are declined.

Coverage is the share of predictions kept, the most confident first; selective risk is the error rate among
those kept. In the equations :math:`e_k` is the number of errors among the k most confident of n predictions.
Predictions of equal confidence have no order of their own, so it is the expected number over all orders of
tied predictions: within a tied group errors accrue linearly. Only the order of the confidences matters; they
need not be probabilities.
"""

import numpy as np
from numpy.typing import ArrayLike

from pnca.evaluation._validation import (
    FloatArray,
    check_correct,
    check_fraction,
    check_same_length,
    check_scores,
)


def aurc(correct: ArrayLike, confidence: ArrayLike) -> float:
    r"""Area under the risk-coverage curve: mean selective risk over all coverages.

    .. math:: \frac{1}{n} \sum_{k=1}^n \frac{e_k}{k}

    with :math:`e_k` the expected number of errors among the k most confident predictions. Smaller is better.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction was right, and how sure it was.

    Examples
    --------
    >>> aurc([True, False], [0.9, 0.6])
    0.25
    """
    return float(_selective_risks(correct, confidence).mean())


def augrc(correct: ArrayLike, confidence: ArrayLike) -> float:
    r"""Area under the generalised risk-coverage curve (Traub et al., NeurIPS 2024).

    .. math:: \frac{1}{n} \sum_{k=1}^n \frac{e_k}{n}

    The generalised risk is the share of all predictions that are both kept and wrong; unlike :func:`aurc`,
    which has the same :math:`e_k`, it does not give the few most confident predictions most of the weight.
    Between 0 and (n + 1) / 2n; smaller is better.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction was right, and how sure it was.

    Examples
    --------
    >>> augrc([True, False], [0.9, 0.6])
    0.25
    """
    errors = _expected_errors(correct, confidence)  # (n,)
    return float(errors.mean() / len(errors))


def risk_coverage(correct: ArrayLike, confidence: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""Coverages :math:`k / n` and the selective risk at each, :math:`e_k / k`: both (n,).

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction was right, and how sure it was.

    Examples
    --------
    >>> risk_coverage([True, False], [0.9, 0.6])
    (array([0.5, 1. ]), array([0. , 0.5]))
    """
    risks = _selective_risks(correct, confidence)
    return np.arange(1, len(risks) + 1) / len(risks), risks


def risk_at_coverage(correct: ArrayLike, confidence: ArrayLike, coverage: float = 0.8) -> float:
    r"""Error rate among the most confident share of the predictions.

    .. math:: \frac{e_k}{k}, \qquad k = \lceil \mathrm{coverage} \cdot n \rceil

    with :math:`e_k` the expected number of errors among the k most confident predictions. Smaller is better.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction was right, and how sure it was.
    coverage : float in (0, 1], default=0.8
        Share of the predictions to keep.

    Examples
    --------
    >>> risk_at_coverage([True, True, False, True, False], [0.9, 0.8, 0.7, 0.6, 0.5])
    0.25
    """
    risks = _selective_risks(correct, confidence)  # (n,)
    wanted = check_fraction("coverage", coverage, zero_allowed=False)
    # Comparing with k / n is exact where ceil(0.55 * 100) would round up to 56.
    return float(risks[np.searchsorted(np.arange(1, len(risks) + 1) / len(risks), wanted)])


def coverage_at_risk(correct: ArrayLike, confidence: ArrayLike, risk: float = 0.05) -> float:
    r"""Largest share of the predictions that can be kept at no more than a given error rate.

    .. math:: \max \left\{ \frac{k}{n} : \frac{e_k}{k} \le \mathrm{risk} \right\}

    with :math:`e_k` the expected number of errors among the k most confident predictions; 0 if no k will do.
    Larger is better.

    Parameters
    ----------
    correct, confidence : array-like of shape (n,)
        Whether each prediction was right, and how sure it was.
    risk : float in [0, 1], default=0.05
        Error rate to stay within.

    Examples
    --------
    >>> coverage_at_risk([True, True, False, True], [0.9, 0.8, 0.7, 0.6])
    0.5
    """
    risks = _selective_risks(correct, confidence)  # (n,)
    # Interpolating inside a tied group rounds in the last digits; a risk met exactly must still count.
    within = np.flatnonzero(risks <= check_fraction("risk", risk) + 1e-12)
    return float((within[-1] + 1) / len(risks)) if len(within) else 0.0


def _selective_risks(correct: ArrayLike, confidence: ArrayLike) -> FloatArray:
    errors = _expected_errors(correct, confidence)
    return errors / np.arange(1, len(errors) + 1)  # (n,)


def _expected_errors(correct: ArrayLike, confidence: ArrayLike) -> FloatArray:
    """Return the expected number of errors among the k most confident predictions, for k = 1 to n."""
    hits, scores = check_correct(correct), check_scores("confidence", confidence)
    check_same_length("correct", hits, "confidence", scores)
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)  # surest group first
    group_errors = np.bincount(group, weights=~hits)
    ends = np.concatenate([[0], sizes.cumsum()])
    errors_at_ends = np.concatenate([[0], group_errors.cumsum()])
    errors: FloatArray = np.interp(np.arange(1, len(hits) + 1), ends, errors_at_ends)
    return errors
