r"""Temperature scaling (Guo et al., 2017): one number that sharpens or softens all predictions.

.. math:: p_{ik}(T) \propto \exp(\ell_{ik} / T), \qquad \ell_{ik} = \max(\log p_{ik},\, -100)

:math:`T < 1` sharpens, :math:`T > 1` softens; the order of the classes stays. The floor is for classes of
probability zero: without it a single such example would make the loss infinite at every temperature.
"""

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.utils import check_array

from pnca.exceptions import InvalidInputError

FloatArray = NDArray[np.float64]

_LARGEST = 1e300  # of a temperature, and its inverse the smallest: beyond, numbers overflow
LOG_FLOOR = -100.0  # e^-100 is far below any frequency that data could confirm
LOWEST, HIGHEST = 0.05, 20.0  # beyond them a prediction is as good as certain, or as uniform
#: Standard deviation of the prior of log T: the mean NLL of new examples is flat between .35 and .7
#: (docs/method.md).
SPREAD = 0.5
_GRID = 64  # temperatures among which the search begins where a prior may give the loss two minima


def fit_temperature(
    log_probabilities: ArrayLike,
    labels: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    spread: float | None = SPREAD,
) -> float:
    r"""Find the temperature under which the labels are most probable, given a prior.

    .. math:: \hat T = \arg\min_{0.05 \le T \le 20} \;
              -\sum_i w_i \log p_{i y_i}(T) + \frac{(\log T)^2}{2 \sigma^2}

    The prior is log-normal about one. Without it a hundred held-out predictions without a mistake make all
    later ones as good as certain, and the first mistake among new examples costs more than all that was
    gained. With thousands of predictions, or some mistakes, it hardly matters. Pass held-out predictions.

    Parameters
    ----------
    log_probabilities : array-like of shape (n, c)
        Log class probabilities, or logits: rows need not be normalised. ``-inf`` counts as -100.
    labels : array-like of int, shape (n,)
        Columns :math:`y_i` of the true classes.
    sample_weight : array-like of shape (n,), optional
        Weights, not negative, relative to each other: :math:`w_i` are these divided by the mean of those
        that are not zero. All one if absent.
    spread : float or None
        Standard deviation :math:`\sigma` of :math:`\log T` beforehand; None for the maximum of the
        likelihood alone.

    Examples
    --------
    >>> overconfident = np.log([[0.99, 0.01], [0.99, 0.01], [0.99, 0.01], [0.01, 0.99]])
    >>> round(fit_temperature(overconfident, [0, 0, 1, 1], spread=None), 2)  # right in three of four cases
    4.18
    >>> round(fit_temperature(overconfident, [0, 0, 1, 1]), 2)  # four cases are few
    1.68
    """
    scores = _floored(log_probabilities)
    rows, columns = np.arange(len(scores)), _check_labels(labels, scores)
    weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows)
    if spread is not None and not (isinstance(spread, Real) and 0 < spread <= _LARGEST):
        raise InvalidInputError(f"spread is {spread!r}: pass a positive number, or None for no prior.")

    def loss(log_temperature: float) -> float:
        scaled = log_softmax(scores / math.exp(log_temperature), axis=1)
        of_labels = scaled[rows, columns]
        return float(-(of_labels.mean() if weights is None else np.average(of_labels, weights=weights)))

    n = len(rows) if weights is None else int(np.count_nonzero(weights))

    def cost(log_temperature: float) -> float:
        prior = 0.0 if spread is None else (log_temperature / spread) ** 2 / (2 * n)
        return loss(log_temperature) + prior

    bounds = (math.log(LOWEST), math.log(HIGHEST))
    if spread is not None:  # without a prior the loss is convex in 1 / T: one minimum
        grid = np.linspace(*bounds, _GRID)
        best = int(np.argmin([cost(place) for place in grid.tolist()]))
        bounds = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)]))
    found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    return math.exp(float(found.x))


def apply_temperature(log_probabilities: ArrayLike, temperature: float) -> FloatArray:
    """Divide log-probabilities by a temperature and normalise them again.

    Parameters
    ----------
    log_probabilities : array-like of shape (n, c)
        Log class probabilities or logits; log-probabilities below -100 count as -100.
    temperature : float
        Positive; 1 changes nothing but values below -100.

    Returns
    -------
    ndarray of shape (n, c)

    Examples
    --------
    >>> np.exp(apply_temperature(np.log([[0.9, 0.1]]), 2.0))
    array([[0.75, 0.25]])
    """
    # Written so that NaN, for which every comparison is false, is refused too.
    if not (isinstance(temperature, Real) and 1 / _LARGEST <= temperature <= _LARGEST):
        raise InvalidInputError(
            f"temperature is {temperature!r}: pass a number from {1 / _LARGEST:g} to {_LARGEST:g}."
        )
    scaled: FloatArray = log_softmax(_floored(log_probabilities) / temperature, axis=1)
    return scaled


def _floored(log_probabilities: ArrayLike) -> FloatArray:
    """Normalise the rows and clip them at the floor."""
    try:
        if getattr(getattr(log_probabilities, "dtype", None), "kind", "") in ("m", "M"):
            raise ValueError("dates and durations are no numbers.")
        values = check_array(log_probabilities, dtype=np.float64, ensure_all_finite=False)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"log_probabilities: {error}") from error
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
    try:
        columns = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"labels: {error}") from error
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


def _check_sample_weight(sample_weight: ArrayLike, rows: NDArray[np.intp]) -> FloatArray:
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight: {error}") from error
    if weights.shape != rows.shape or not ((weights >= 0) & np.isfinite(weights)).all() or not weights.any():
        raise InvalidInputError(
            f"sample_weight must have a number that is not negative for each of the {len(rows)} examples, "
            "and not only zeros."
        )
    return weights
