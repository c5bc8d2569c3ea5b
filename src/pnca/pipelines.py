"""What a model says beside predictions, of a scikit-learn pipeline or search that ends in one too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError
from pnca.record import index_of, labels_of_rows

if TYPE_CHECKING:
    from pnca.calibration import Audit, Decisions, Drift, LearningCurve, Suggestions
    from pnca.estimators.base import Uncertainty
    from pnca.explanations.case import Explanations


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
    last, inputs = last_step(model, X, "familiarity")
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
    last, inputs = last_step(model, X, "decide")
    found: Decisions = last.decide(inputs, **arguments)
    index = index_of(X)  # which a transformation may have dropped
    if found.index is None and index is not None and len(index) == len(found):
        found = replace(found, index=index)
    if last is not model and found.drift is not None:
        found = replace(found, drift=_with_names(found.drift, model))
    return found


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
    last, inputs = last_step(model, X, "predict_set")
    found: NDArray[np.bool_] = last.predict_set(inputs, coverage=coverage, by_class=by_class)
    return found


def drift(model: Any, X: ArrayLike, *, groups: ArrayLike | None = None) -> Drift:  # noqa: ANN401
    """Test a batch for drift; see :meth:`pnca.PNCAClassifier.drift`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted. Columns are those that the last step of a pipeline gets, by their names
        (``get_feature_names_out``), if the steps before say so.
    X : array-like
        The batch as the model takes it; a pipeline transforms it first.
    groups : array-like of shape (n,), optional
        Inputs that belong together.

    Returns
    -------
    Drift
    """
    last, inputs = last_step(model, X, "drift")
    found: Drift = last.drift(inputs, groups=groups)
    return found if last is model else _with_names(found, model)


def explain(
    model: Any,  # noqa: ANN401
    X: ArrayLike,
    k: int = 5,
    *,
    record: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    **arguments: Any,  # noqa: ANN401
) -> Explanations:
    """Say what answers consist of and who carries them; see :meth:`pnca.PNCAClassifier.explain`.

    Parameters
    ----------
    model : PNCAClassifier or NCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like
        Inputs as the model takes them; a pipeline transforms them first. Of a pipeline, cases are shown by
        their rows in X, as they came. Columns that make them unusual are those that the last step gets, by
        their names (``get_feature_names_out``), if the steps before say so.
    k : int
        Number of training examples that are named.
    record : array-like of shape (n_train, ...), optional
        The X that a pipeline was fitted on, by which training examples are shown: the last step, which has a
        record of its own, knows the transformed rows only. Without it they are shown by row, id and label.
    ids : array-like of shape (n,), optional
        Names of the inputs; without them the index of X, if it is a pandas table.
    **arguments
        ``example_ids``, ``max_error``, ``confidence`` and ``min_familiarity`` of the method.

    Returns
    -------
    Explanations
    """
    from pnca.explanations.case import Explanations

    last, inputs = last_step(model, X, "explain")
    found: Explanations = last.explain(inputs, k, ids=ids, **arguments)
    names = labels_of_rows(X)  # which a transformation may have dropped
    if ids is None and names is not None and len(names) == len(found):
        found = Explanations(replace(case, name=name) for case, name in zip(found, names, strict=True))
    return found if last is model else _as_given(found, model, X, record)


def _as_given(found: Explanations, model: Any, X: Any, record: Any) -> Explanations:  # noqa: ANN401
    """Cases of a pipeline, shown by the rows that it was given."""
    from sklearn.pipeline import Pipeline

    from pnca.explanations.gathering import in_other_columns

    model = _best(model)
    if not isinstance(model, Pipeline) or len(model) == 1:
        return found
    n = len(found[0].source.record)
    if record is not None and len(record) != n:
        raise InvalidInputError(
            f"record has {len(record)} rows, but the model was fitted on {n}: pass the X of the fit, without "
            "examples of weight zero."
        )
    if record is not None and _columns_of(record) != _columns_of(X):
        raise InvalidInputError("record has other columns than X: pass the X of the fit.")
    return in_other_columns(found, X, record, _column_names(model))


def _best(model: Any) -> Any:  # noqa: ANN401
    """The model that searches have found."""
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    return model


def _with_names(found: Drift, model: Any) -> Drift:  # noqa: ANN401
    """Numbered columns by the names that the steps before give them, if they were fitted on a table."""
    names = _column_names(_best(model)) if hasattr(_best(model), "feature_names_in_") else None
    if names is None or {column.name for column in found.columns} != set(range(len(names))):
        return found
    return replace(found, columns=tuple(column._replace(name=names[column.name]) for column in found.columns))


def _column_names(model: Any) -> list[Any] | None:  # noqa: ANN401
    """Names of the columns that the last step gets; None where a step has no names for its columns."""
    try:
        names = _names_of_last_step(model, None)
    except (AttributeError, ValueError, NotImplementedError):
        return None
    return None if names is None else list(names)


def _names_of_last_step(model: Any, names: Any) -> Any:  # noqa: ANN401
    """Names of the columns that the classifier at the end of pipelines in pipelines gets."""
    while hasattr(model, "steps"):
        names = model[:-1].get_feature_names_out(names) if len(model) > 1 else names
        model = model[-1]
    return names


def _columns_of(X: Any) -> list[Any]:  # noqa: ANN401
    """Names of the columns of a table; of an array the sizes of its rows."""
    return list(X.columns) if hasattr(X, "columns") else list(np.shape(X)[1:])


def audit(model: Any) -> Audit:  # noqa: ANN401
    """Look for what is suspicious in the training examples; see :meth:`pnca.PNCAClassifier.audit`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted. Columns are those that the last step of a pipeline gets; ``set_output(transform="pandas")``
        lets them keep their names.

    Returns
    -------
    Audit
    """
    last, _ = last_step(model, None, "audit")
    found: Audit = last.audit()
    return found


def suggest(model: Any, X_pool: ArrayLike, k: int = 10) -> Suggestions:  # noqa: ANN401
    """Suggest which inputs of a pool to label next; see :meth:`pnca.PNCAClassifier.suggest`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X_pool : array-like
        Inputs as the model takes them; a pipeline transforms them first.
    k : int
        Suggestions.

    Returns
    -------
    Suggestions
    """
    last, inputs = last_step(model, X_pool, "suggest")
    found: Suggestions = last.suggest(inputs, k)
    return found


def learning_curve(model: Any, **arguments: Any) -> LearningCurve:  # noqa: ANN401
    """Measure what more labels would bring; see :meth:`pnca.PNCAClassifier.learning_curve`.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted. Of a pipeline the last step is fitted again, and the steps before stay as all the examples
        made them.
    **arguments
        ``sizes``, ``repeats``, ``max_error`` and ``verbose`` of the method.

    Returns
    -------
    LearningCurve
    """
    last, _ = last_step(model, None, "learning_curve")
    found: LearningCurve = last.learning_curve(**arguments)
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
    last, inputs = last_step(model, X, "evidence")
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
    last, inputs = last_step(model, X, "neighbors")
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
    last, inputs = last_step(model, X, "uncertainty")
    found: Uncertainty = last.uncertainty(inputs)
    return found


def last_step(model: Any, X: Any, method: str) -> tuple[Any, Any]:  # noqa: ANN401
    """The classifier at the end, and its inputs; an error if it has no such method.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline or search that ends in one
        Fitted.
    X : array-like or None
        Inputs as the model takes them, if there are any.
    method : str
        What is asked of the classifier.
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "best_estimator_"):
        return last_step(model.best_estimator_, X, method)
    if hasattr(model, "param_grid") or hasattr(model, "param_distributions"):
        raise NotFittedError(
            f"This {type(model).__name__} has no best_estimator_: fit it first, with refit=True."
        )
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        is_changed = X is not None and len(model) > 1
        return last_step(model[-1], model[:-1].transform(X) if is_changed else X, method)
    if isinstance(model, type) or not hasattr(model, method):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise InvalidInputError(
            f"{name} has no {method}: pass a fitted PNCAClassifier, or a pipeline or search that ends in one."
        )
    return model, X
