"""Checking what a user gives: inputs, labels and groups, of which every complaint is made here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_X_y, validate_data
from torch import Tensor

from pnca.columns import Columns, are_needed, as_numbers, has_holes
from pnca.estimators._compat import n_samples, rows_of
from pnca.estimators.notices import warn_of_columns, warn_of_inputs
from pnca.exceptions import InvalidInputError
from pnca.models.fitted import Fitted
from pnca.models.options import Options
from pnca.models.plan import scaled
from pnca.record import Record, is_table, unique_ids
from pnca.training.sampling import (
    Examples,
    as_numpy,
    class_weights,
    holds_dates,
    numbered_groups,
    refuse_merged_labels,
    warn_of_merged_integers,
)
from pnca.training.weights import relative_weights, sample_weights

#: Numbers in X up to which the examples are brought into an order of their own; more are left where they are.
_MOST_SORTED = 2**28
#: Inputs (n, ...) in float32 or float64.
Inputs = NDArray[np.floating[Any]]


class Given(NamedTuple):
    """What a fit was given: one row, or one entry, for each example."""

    X: Any
    y: Any
    groups: Any = None
    ids: Any = None
    sample_weight: Any = None

    def that_count(self) -> Given:
        """The same without examples of weight zero, and relative weights of the others."""
        if self.sample_weight is None or (n := _length(self.y)) is None:
            return self._replace(sample_weight=None)
        weights = sample_weights(self.sample_weight, n)
        parts = {name: part for name, part in self._asdict().items() if part is not None}
        del parts["sample_weight"]
        is_kept = weights > 0
        if not is_kept.all() and all(_length(part) == n for part in parts.values()):
            rows, weights = np.flatnonzero(is_kept), weights[is_kept]
            parts = {name: rows_of(_with_rows(part), rows) for name, part in parts.items()}
        return self._replace(**parts, sample_weight=relative_weights(weights))


def _with_rows(part: Any) -> Any:  # noqa: ANN401
    """What has rows that can be picked; a list keeps the types of its items."""
    return part if hasattr(part, "shape") or isinstance(part, list | tuple) else np.asarray(part)


def _length(part: Any) -> int | None:  # noqa: ANN401
    """Rows that can be picked, if there are any."""
    try:
        return None if issparse(part) else n_samples(part)
    except TypeError:
        return None


def check_examples(estimator: BaseEstimator, options: Options, given: Given) -> Examples:
    """Validate X (n, ...), labels y (n,), groups, ids and weights (n,); every complaint is made here.

    scikit-learn notes the columns of X on the estimator.
    """
    X, y, groups, ids, sample_weight = given.that_count()
    refuse_merged_labels(y)
    X = _here(X)
    columns = _columns(options, X)
    inputs, targets = _validate(estimator, X, y, columns=columns, reset=True)
    check_classification_targets(targets)
    _refuse_large_floats(targets)
    n, shape = len(inputs), inputs.shape[1:]
    options = options.settled(shape)
    if n < 3:
        raise InvalidInputError(f"fit needs at least 3 examples; got n_samples={n}.")
    classes, labels = np.unique(targets, return_inverse=True)
    if len(classes) < 2:
        only = classes.tolist()[0]
        raise InvalidInputError(f"fit needs at least 2 classes; all {n} belong to one class, {only!r}.")
    _check_input_shape(options, shape)
    weights = class_weights(options.class_weight, classes, targets, sample_weight)
    of_examples = weights[labels] * (1 if sample_weight is None else sample_weight)
    examples = Examples(
        inputs=_rows(inputs, is_flat=options.module is None),
        labels=labels.astype(np.int64),
        classes=classes,
        # Weights are relative: with a mean of one, learning_rate and background keep their meaning.
        class_weight=weights * n / of_examples.sum(),
        input_shape=shape,
        groups=None if groups is None else numbered_groups(groups, n),
        columns=columns or _plain(options, X, inputs),
        record=_record(estimator, X, targets, groups, ids),
        sample_weight=sample_weight,
    )
    _look_at_columns(estimator, X, examples)
    if inputs.size <= _MOST_SORTED:
        examples = examples.in_own_order()
    return scaled(options, examples)


def _check_input_shape(options: Options, shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise InvalidInputError(f"X has inputs of shape {shape}, which hold no numbers.")
    if options.image_shape is not None and options.image(shape).n_numbers != math.prod(shape):
        raise InvalidInputError(
            f"image_shape={tuple(options.image_shape)} has {options.image(shape).n_numbers} numbers, but the "
            f"inputs have {math.prod(shape)}."
        )
    if any(options.strengths(shape)) or (len(shape) > 1 and options.module is None):
        options.image(shape)  # an input that is no image is refused here


def _look_at_columns(estimator: BaseEstimator, X: Any, examples: Examples) -> None:  # noqa: ANN401
    """Refuse X (n, p) in which nothing differs, and say which of its columns are perhaps not meant."""
    if (columns := examples.columns) is None:
        return
    if all(column.is_constant or column.kind == "left out" for column in columns.parts):
        raise InvalidInputError("Every column of X is constant: nothing tells the examples apart.")
    takes_ids = getattr(estimator, "_keeps_record", False)
    warn_of_columns(columns, X, examples.groups, takes_ids=takes_ids)


def _record(
    estimator: BaseEstimator,
    X: Any,  # noqa: ANN401
    targets: NDArray[Any],
    groups: ArrayLike | None,
    ids: ArrayLike | None,
) -> Record | None:
    """What the fit was given, for a model that keeps it."""
    if not getattr(estimator, "_keeps_record", False):
        return None
    named = None if ids is None else unique_ids(ids, len(targets))
    return Record.of(
        X if hasattr(X, "dtype") or is_table(X) else np.asarray(X), targets.copy(), named, groups
    )


def _refuse_large_floats(targets: NDArray[Any]) -> None:
    if targets.dtype.kind == "f" and np.abs(targets).max() >= 2 / np.finfo(targets.dtype).eps:
        raise InvalidInputError(
            "y holds floats so large that they cannot be told from the next: make labels integers of one "
            "type, or strings."
        )


def _plain(options: Options, X: Any, inputs: Inputs) -> Columns | None:  # noqa: ANN401
    """Columns of rows of numbers, by which later rows may lack some."""
    is_rows = options.module is None and not options.takes_images(inputs.shape[1:])
    return Columns.of_numbers(X, inputs) if is_rows else None


def _here(X: Any) -> Any:  # noqa: ANN401
    """X on this machine, in which NaN is a missing number."""
    if isinstance(X, Mapping) and not issparse(X):  # some sparse arrays are dicts
        # Of numbers and texts pandas makes a table only where they are in a list.
        rows = (
            "X"
            if any(hasattr(value, "__len__") and not isinstance(value, str) for value in X.values())
            else "[X]"
        )
        raise InvalidInputError(f"X is a dict: pass a pandas table, pandas.DataFrame({rows}).")
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        raise InvalidInputError("X is a list of dicts: pass a pandas table, pandas.DataFrame(X).")
    if hasattr(X, "iloc") and not is_table(X):
        raise InvalidInputError(
            "X is a pandas Series: pass a table. One row of a table is table.iloc[[i]], and one column is "
            "table[[name]]."
        )
    return as_numbers(as_numpy(X) if isinstance(X, Tensor) else X)


def _columns(options: Options, X: Any) -> Columns | None:  # noqa: ANN401
    """How the columns of X become numbers, if they are not numbers without holes."""
    coded = options.categorical_features
    is_rows = options.module is None and options.image_shape is None and getattr(X, "ndim", 2) == 2
    if coded is None and not (is_rows and are_needed(X)):
        return None
    if not is_rows:
        raise InvalidInputError("categorical_features are for rows of numbers, without a module or images.")
    columns = Columns.fit(X, coded)
    return None if columns.is_plain else columns  # such as objects that are all numbers


def _validate(
    estimator: BaseEstimator,
    *arrays: Any,  # noqa: ANN401
    columns: Columns | None,
    reset: bool,
) -> Any:  # noqa: ANN401
    """Let scikit-learn check X (and y); a torch tensor may be on any device.

    X becomes float64, or float32 where that holds all its numbers.
    """
    here = tuple(as_numpy(a) if isinstance(a, Tensor) else a for a in arrays)
    if any(isinstance(array, np.ma.MaskedArray) for array in here):
        raise InvalidInputError("Masked arrays are not taken: leave the masked examples out, or fill them.")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # too large for it: the checks that follow say so
            if columns is None:
                found = _validate_numbers(estimator, here, reset=reset)
            else:
                found = _validate_columns(estimator, here, columns, reset=reset)
    except OverflowError as error:
        raise InvalidInputError(f"X holds a number that is too large: {error}.") from error
    inputs = found[0] if reset else found
    if reset:
        warn_of_merged_integers(here[0])
    if inputs.size and max(inputs.max(), -inputs.min()) > np.finfo(np.float32).max:
        raise InvalidInputError("Input X contains a value too large for dtype('float32').")
    return found


def _validate_numbers(estimator: BaseEstimator, arrays: tuple[Any, ...], *, reset: bool) -> Any:  # noqa: ANN401
    X = arrays[0]
    # numpy would turn dates into numbers, and a missing date into one too.
    is_table = getattr(X, "ndim", 0) == 2 and hasattr(X, "dtypes")
    kinds: Any = getattr(X, "dtypes", ()) if is_table else [getattr(X, "dtype", None)]
    if any(getattr(kind, "kind", "") in ("m", "M") for kind in kinds) or holds_dates(X):
        raise InvalidInputError("X holds dates or durations: convert them to numbers, such as days, first.")
    if is_table and any(getattr(kind, "kind", "") == "c" for kind in kinds):
        raise InvalidInputError("X holds complex numbers: take their parts.")  # pandas drops the imaginary
    is_single = all(isinstance(kind, np.dtype) and np.can_cast(kind, np.float32) for kind in kinds)
    dtype = np.float32 if is_single else np.float64
    try:
        return validate_data(estimator, *arrays, reset=reset, dtype=dtype, allow_nd=True)
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise InvalidInputError(
            f"X holds text ({error}): pass a pandas table, whose text is taken for categories."
        ) from error


def _validate_columns(
    estimator: BaseEstimator, arrays: tuple[Any, ...], columns: Columns, *, reset: bool
) -> Any:  # noqa: ANN401
    """The same of a table, whose columns become numbers; scikit-learn notes the columns as they came."""
    validate_data(estimator, arrays[0], reset=reset, skip_check_array=True)
    encoded = columns.encode(arrays[0])
    if reset:  # in which nothing is unseen
        return check_X_y(encoded[:, :-1], arrays[1], dtype=np.float64, estimator=estimator)
    return check_array(encoded, dtype=np.float64, estimator=estimator)


def check_inputs(estimator: BaseEstimator, fitted: Fitted, X: Any) -> Inputs:  # noqa: ANN401
    """Validate X (n, ...) for prediction; one more column may count what was never seen."""
    _check_shape(estimator, fitted, tuple(getattr(X, "shape", ()))[1:])  # first: scikit-learn says columns
    X, columns = _here(X), fitted.columns
    if columns is not None and columns.is_plain and not has_holes(X):
        columns = None
    inputs = _validate(estimator, X, columns=columns, reset=False)
    if columns is None:
        _check_shape(estimator, fitted, inputs.shape[1:])
    else:
        warn_of_inputs(columns, X, vars(estimator)["n_samples_fit_"])
    return _rows(inputs, is_flat=fitted.network.takes_rows)


def _check_shape(estimator: BaseEstimator, fitted: Fitted, shape: tuple[int, ...]) -> None:
    # Of tables scikit-learn does it.
    if shape and max(len(shape), len(fitted.input_shape)) > 1 and shape != fitted.input_shape:
        raise InvalidInputError(
            f"X has inputs of shape {shape}, but {type(estimator).__name__} was fitted on inputs of shape "
            f"{fitted.input_shape}."
        )


def _rows(inputs: Inputs, *, is_flat: bool) -> Inputs:
    """Images as rows of numbers, unless a user's module takes them as they are."""
    rows = inputs.reshape(len(inputs), -1) if is_flat else inputs
    return np.require(rows, requirements=["C", "W"])  # torch warns of read-only memory
