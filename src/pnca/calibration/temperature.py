r"""Temperature scaling: one number that makes all predictions bolder or more cautious.

.. math:: p_{ik}(T) \propto \exp(\ell_{ik} / T), \qquad \ell_{ik} = \max(\log p_{ik},\, -100)

:math:`T < 1` sharpens, :math:`T > 1` softens, and the order of the classes stays as it is (Guo et al., 2017).

A model may call a class impossible, :math:`\log p_{ik} = -\infty`. No temperature would mend that, and a
single such example would make every temperature equally bad. Log-probabilities are therefore raised to a
floor of -100 before they are scaled, which lets a high temperature give such a class some probability: at
T = 20 up to :math:`e^{-5}`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]

#: Least log-probability before scaling; e^-100 is far below any frequency that data could confirm.
LOG_FLOOR = -100.0
#: Temperatures that are considered; beyond them a prediction is as good as certain, or as uniform.
LOWEST, HIGHEST = 0.05, 20.0


def fit_temperature(log_probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Find the temperature under which the labels are most probable.

    .. math:: \hat T = \arg\min_{0.05 \le T \le 20} \; -\frac{1}{n} \sum_i \log p_{i y_i}(T)

    The loss is convex in 1 / T, so that it has one minimum, also as a function of log T, over which it is
    searched. Give predictions for examples that the model was not trained on.

    Parameters
    ----------
    log_probabilities : array-like of shape (n, c)
        Log class probabilities; ``-inf`` counts as -100. Rows need not be normalised: logits serve as well.
    labels : array-like of int, shape (n,)
        Column numbers :math:`y_i` of the true classes.

    Returns
    -------
    float
        At the end of the range if the labels ask for more: close to 0.05 when every prediction is right.

    Examples
    --------
    >>> overconfident = np.log([[0.99, 0.01], [0.99, 0.01], [0.99, 0.01], [0.01, 0.99]])
    >>> round(fit_temperature(overconfident, [0, 0, 1, 1]), 2)  # right in three of four cases
    4.18
    """
    scores = _floored(log_probabilities)
    columns = _check_labels(labels, scores)
    rows = np.arange(len(scores))

    def loss(log_temperature: float) -> float:
        scaled = log_softmax(scores / math.exp(log_temperature), axis=1)
        return float(-scaled[rows, columns].mean())

    limits = (math.log(LOWEST), math.log(HIGHEST))
    found = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-7})
    return math.exp(float(found.x))


def apply_temperature(log_probabilities: ArrayLike, temperature: float) -> FloatArray:
    r"""Divide log-probabilities by a temperature and normalise them again.

    Parameters
    ----------
    log_probabilities : array-like of shape (n, c)
        Log class probabilities; those below -100 count as -100, as they do in :func:`fit_temperature`.
    temperature : float
        Positive; 1 changes nothing but values below -100.

    Returns
    -------
    ndarray of shape (n, c)
        Log-probabilities; the exponentials of a row sum to one.

    Examples
    --------
    >>> np.exp(apply_temperature(np.log([[0.9, 0.1]]), 2.0))
    array([[0.75, 0.25]])
    """
    # Written so that NaN, for which every comparison is false, is refused too.
    if not 0 < temperature < math.inf:
        raise InvalidInputError(f"temperature is {temperature}: pass a positive, finite number.")
    scaled: FloatArray = log_softmax(_floored(log_probabilities) / temperature, axis=1)
    return scaled


def _floored(log_probabilities: ArrayLike) -> FloatArray:
    """Normalise the rows, then raise what is below the floor to it."""
    values = np.asarray(log_probabilities, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(
            f"log_probabilities has shape {values.shape}: pass one row per example and one column per class."
        )
    best = values.max(axis=1)  # (n,); NaN where a row holds one
    if not np.isfinite(best).all():
        row = int((~np.isfinite(best)).argmax())
        raise InvalidInputError(
            f"Row {row} of log_probabilities has no finite maximum ({best[row]}): pass log-probabilities "
            "without NaN, at least one of them finite in each row."
        )
    normalised: FloatArray = log_softmax(values, axis=1)
    return normalised.clip(min=LOG_FLOOR)


def _check_labels(labels: ArrayLike, scores: FloatArray) -> NDArray[np.int64]:
    columns = np.asarray(labels)
    n, n_classes = scores.shape
    if columns.shape != (n,) or columns.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels has shape {columns.shape} and dtype {columns.dtype}: pass the integer column number of "
            f"the true class of each of the {n} examples."
        )
    if columns.min() < 0 or columns.max() >= n_classes:
        raise InvalidInputError(
            f"labels range from {columns.min()} to {columns.max()}: pass column numbers 0 to {n_classes - 1}."
        )
    return columns.astype(np.int64)
