"""What a model says beside predictions, of a scikit-learn pipeline or search that ends in one too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError
from pnca.record import index_of

if TYPE_CHECKING:
    from pnca.calibration import Decisions, Drift
    from pnca.estimators.base import Uncertainty


def familiarity(model: Any, X: ArrayLike, *, by_class: bool = False) -> NDArray[np.float64]:  # noqa: ANN401
    """Familiarity of inputs; see :meth:`pnca.PNCAClassifier.familiarity`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first.
    by_class : bool
        Whether to compare with each class alone.

    Returns
    -------
    ndarray of shape (n,) or (n, c)
    """
    last, inputs = _last_step(model, X, "familiarity")
    found: NDArray[np.float64] = last.familiarity(inputs, by_class=by_class)
    return found


def decide(model: Any, X: ArrayLike, **arguments: Any) -> Decisions:  # noqa: ANN401
    """Answer or abstain; see :meth:`pnca.PNCAClassifier.decide`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first.
    **arguments
        ``max_error``, ``confidence``, ``min_familiarity``, ``priors`` and ``groups`` of the method.

    Returns
    -------
    Decisions
    """
    last, inputs = _last_step(model, X, "decide")
    found: Decisions = last.decide(inputs, **arguments)
    index = index_of(X)  # which a transformation may have dropped
    is_lost = found.index is None and index is not None and len(index) == len(found)
    return replace(found, index=index) if is_lost else found


def predict_set(
    model: Any,  # noqa: ANN401
    X: ArrayLike,
    *,
    coverage: float = 0.9,
    by_class: bool = False,
) -> NDArray[np.bool_]:
    """Predict sets of classes; see :meth:`pnca.PNCAClassifier.predict_set`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first.
    coverage : float
        Share of the sets that shall hold the true class.
    by_class : bool
        Whether that shall hold for each class.

    Returns
    -------
    ndarray of bool, shape (n, c)
    """
    last, inputs = _last_step(model, X, "predict_set")
    found: NDArray[np.bool_] = last.predict_set(inputs, coverage=coverage, by_class=by_class)
    return found


def drift(model: Any, X: ArrayLike, *, groups: ArrayLike | None = None) -> Drift:  # noqa: ANN401
    """Test a batch for drift; see :meth:`pnca.PNCAClassifier.drift`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted. Columns are those that the last step of a pipeline gets.
    X : array-like
        The batch as the model takes it; a pipeline transforms it first.
    groups : array-like of shape (n,), optional
        Inputs that belong together.

    Returns
    -------
    Drift
    """
    last, inputs = _last_step(model, X, "drift")
    found: Drift = last.drift(inputs, groups=groups)
    return found


def evidence(model: Any, X: ArrayLike) -> NDArray[np.float64]:  # noqa: ANN401
    """Log kernel mass of inputs; see :meth:`pnca.PNCAClassifier.evidence`.

    Parameters
    ----------
    model : PNCAClassifier or NCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first.

    Returns
    -------
    ndarray of shape (n,)
    """
    last, inputs = _last_step(model, X, "evidence")
    found: NDArray[np.float64] = last.evidence(inputs)
    return found


def neighbors(
    model: Any,  # noqa: ANN401
    X: ArrayLike,
    k: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find the training examples behind predictions; see :meth:`pnca.PNCAClassifier.neighbors`.

    Parameters
    ----------
    model : PNCAClassifier or NCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first.
    k : int or None
        Number of neighbours; None returns all training examples.

    Returns
    -------
    indices, shares : ndarray of shape (n, k)
        Rows of the training data, and the shares of those examples.
    """
    last, inputs = _last_step(model, X, "neighbors")
    found: tuple[NDArray[np.int64], NDArray[np.float64]] = last.neighbors(inputs, k)
    return found


def uncertainty(model: Any, X: ArrayLike) -> Uncertainty:  # noqa: ANN401
    """Split the uncertainty of predictions; see :meth:`pnca.PNCAClassifier.uncertainty`.

    Parameters
    ----------
    model : classifier of pnca, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first.

    Returns
    -------
    Uncertainty
    """
    last, inputs = _last_step(model, X, "uncertainty")
    found: Uncertainty = last.uncertainty(inputs)
    return found


def _last_step(model: Any, X: Any, method: str) -> tuple[Any, Any]:  # noqa: ANN401
    """The classifier at the end, and its inputs."""
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "best_estimator_"):
        return _last_step(model.best_estimator_, X, method)
    if hasattr(model, "param_grid") or hasattr(model, "param_distributions"):
        raise NotFittedError(
            f"This {type(model).__name__} has no best_estimator_: fit it first, with refit=True."
        )
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        return _last_step(model[-1], model[:-1].transform(X) if len(model) > 1 else X, method)
    if isinstance(model, type) or not hasattr(model, method):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise InvalidInputError(
            f"{name} has no {method}: pass a fitted PNCAClassifier, or a pipeline or search that ends in one."
        )
    return model, X
