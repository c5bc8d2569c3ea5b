"""How well a score tells out-of-distribution examples from in-distribution ones.

Out-of-distribution is the positive class, and a larger score means further out of distribution: negate an
evidence or a confidence first. Only the order of the scores matters, so they may be infinite.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from pnca.evaluation._validation import FloatArray, IntArray, check_scores


def ood_auroc(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    r"""Area under the ROC curve: the chance that an outlier scores above an inlier, ties counting half.

    .. math:: \frac{1}{n_{in}\, n_{out}} \sum_i \sum_j
              \left( \mathbf{1}[s^{out}_j > s^{in}_i] + \tfrac12 \mathbf{1}[s^{out}_j = s^{in}_i] \right)

    Between 0 and 1; larger is better, a constant score gives 0.5.

    Parameters
    ----------
    scores_in, scores_out : array-like of shape (n_in,) and (n_out,)
        Scores of in-distribution and of out-of-distribution examples; larger means further out.

    Examples
    --------
    >>> ood_auroc([0.1, 0.4], [0.3, 0.9])
    0.75
    """
    return float(roc_auc_score(*_is_out_and_ranks(scores_in, scores_out)))


def ood_aupr(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    r"""Area under the precision-recall curve with outliers as positives, as average precision.

    .. math:: \sum_t (R_t - R_{t-1})\, P_t

    over the distinct scores as thresholds, in falling order, with precision :math:`P_t` and recall
    :math:`R_t`. Larger is better; a constant score gives the share of outliers. With inliers as positives
    it is ``ood_aupr(-scores_out, -scores_in)``.

    Parameters
    ----------
    scores_in, scores_out : array-like of shape (n_in,) and (n_out,)
        Scores of in-distribution and of out-of-distribution examples; larger means further out.

    Examples
    --------
    >>> round(ood_aupr([0.1, 0.4], [0.3, 0.9]), 4)
    0.8333
    """
    return float(average_precision_score(*_is_out_and_ranks(scores_in, scores_out)))


def ood_fpr95(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    r"""Share of inliers flagged by the highest threshold that catches at least 95 % of the outliers.

    .. math:: \frac{1}{n_{in}} \sum_i \mathbf{1}[s^{in}_i \ge t], \qquad
              t = \max \left\{ u : \frac{1}{n_{out}} \sum_j \mathbf{1}[s^{out}_j \ge u] \ge 0.95 \right\}

    Between 0 and 1; smaller is better.

    Parameters
    ----------
    scores_in, scores_out : array-like of shape (n_in,) and (n_out,)
        Scores of in-distribution and of out-of-distribution examples; larger means further out.

    Examples
    --------
    >>> ood_fpr95([0.1, 0.4], [0.3, 0.9])
    0.5
    """
    # Dropped intermediate points could hide the first one that reaches the wanted recall.
    false_rate, true_rate, _ = roc_curve(*_is_out_and_ranks(scores_in, scores_out), drop_intermediate=False)
    return float(false_rate[np.searchsorted(true_rate, 0.95)])


def _is_out_and_ranks(scores_in: ArrayLike, scores_out: ArrayLike) -> tuple[IntArray, FloatArray]:
    inside, outside = check_scores("scores_in", scores_in), check_scores("scores_out", scores_out)
    is_out = np.repeat([0, 1], [len(inside), len(outside)])
    # Dense ranks keep order and ties, and let infinite scores through scikit-learn's finiteness check.
    return is_out, rankdata(np.concatenate([inside, outside]), method="dense")
