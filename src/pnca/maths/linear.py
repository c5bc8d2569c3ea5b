"""Multinomial logistic regression with a ridge, in numpy: problems so small that torch would only wait."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

FloatArray = NDArray[np.float64]

#: Steps at most, and the largest slope of the mean loss at which the optimum is reached.
_STEPS, _FLAT = 500, 1e-4


def ridge_loss(
    coefficients: FloatArray, inputs: FloatArray, targets: FloatArray, weights: FloatArray, ridge: float
) -> tuple[float, FloatArray]:
    r"""Mean cross-entropy of a linear classifier with a ridge on all but the intercepts, and its gradient.

    .. math:: \frac{1}{\sum_i \omega_i} \Big( -\sum_i \omega_i \log
              \frac{e^{b_{y_i} + x_i^\top a_{y_i}}}{\sum_c e^{b_c + x_i^\top a_c}}
              + \frac{\rho}{2} \sum_c \|a_c\|^2 \Big)

    of coefficients (p + 1, c), the last row the intercepts :math:`b`, for inputs (n, p), one-hot targets
    (n, c) and weights :math:`\omega` (n,).
    """
    shares, slopes = weights / weights.sum(), coefficients[:-1]
    logits = inputs @ slopes + coefficients[-1]
    logits -= logits.max(axis=1, keepdims=True)
    odds = np.exp(logits)
    totals = odds.sum(axis=1, keepdims=True)
    pull = ridge / weights.sum() * slopes
    losses = np.log(totals[:, 0]) - (targets * logits).sum(axis=1)
    residuals = (odds / totals - targets) * shares[:, None]
    gradient = np.vstack([inputs.T @ residuals + pull, residuals.sum(axis=0)])
    return float(shares @ losses + (pull * slopes).sum() / 2), gradient


def fit_ridge(
    inputs: FloatArray, targets: FloatArray, weights: FloatArray, ridge: float, start: FloatArray
) -> FloatArray:
    """Coefficients (p + 1, c) of the least :func:`ridge_loss`, by L-BFGS from a start of that shape.

    >>> inputs, targets = np.array([[-1.0], [1.0]]), np.eye(2)
    >>> fit_ridge(inputs, targets, np.ones(2), 1.0, np.zeros((2, 2))).round(1) + 0.0
    array([[-0.5,  0.5],
           [ 0. ,  0. ]])
    """

    def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = ridge_loss(flat.reshape(start.shape), inputs, targets, weights, ridge)
        return loss, gradient.ravel()

    options: Any = {"maxiter": _STEPS, "gtol": _FLAT}
    found = minimize(loss_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    solution: FloatArray = found.x.reshape(start.shape)
    return solution
