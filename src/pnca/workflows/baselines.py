"""Models of scikit-learn that a user would consider for a table, each with an encoder that suits it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration import apply_temperature, fit_temperature
from pnca.reports.comparison import LOGISTIC, SHARES
from pnca.tables.extras import require
from pnca.tables.values import DATE_FORMATS, DURATION, NUMBER, TEXT, TRUTH
from pnca.training.sampling import assign_folds

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_N_TREES = 300
_N_INNER_FOLDS = 5
#: Penalties of the logistic regression, of which the best is taken.
_PENALTIES = (1.0, 0.1, 0.01, 10.0)
#: Categories of a column that gradient boosting takes; rarer ones are one.
_MOST_CATEGORIES = 200


class Columns(NamedTuple):
    """Columns of a table by what they hold."""

    numbers: list[str]
    categories: list[str]


@dataclass(frozen=True)
class Baseline:
    """A model: candidates for its settings, and whether its probabilities get a temperature."""

    name: str
    candidates: Callable[[Columns, int, list[tuple[IntArray, IntArray]]], list[Any]]
    has_temperature: bool = True


def columns_of(sorts: Mapping[str, str], codes: tuple[str, ...]) -> Columns:
    """Columns of numbers (dates among them) and of categories, without those that are empty.

    Parameters
    ----------
    sorts : mapping
        What each column holds; see :mod:`pnca.tables.values`.
    codes : tuple of str
        Columns of numbers that are names.
    """
    are_numbers = {NUMBER, DURATION, *DATE_FORMATS}
    numbers = [name for name, sort in sorts.items() if sort in are_numbers and name not in codes]
    categories = [n for n, sort in sorts.items() if sort in {TEXT, TRUTH} or (n in codes and sort == NUMBER)]
    return Columns(numbers, categories)


def as_numbers_and_texts(X: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """The table with dates as days, and categories as texts.

    Parameters
    ----------
    X : DataFrame of shape (n, p)
        As :func:`pnca.tables.read_examples` returns it.
    columns : Columns
        What its columns hold.
    """
    pandas, found = require("pandas"), {}
    for name in columns.numbers:
        values = X[name]
        if values.dtype.kind in "mM":
            start = pandas.Timestamp(0) if values.dtype.kind == "M" else pandas.Timedelta(0)
            values = (values - start) / pandas.Timedelta(days=1)
        found[name] = values.astype(np.float64)
    for name in columns.categories:
        texts = X[name].astype(object)
        found[name] = texts.where(texts.isna(), texts.map(str)).where(~texts.isna(), np.nan).astype(object)
    table: pd.DataFrame = pandas.DataFrame(found)
    return table


def baselines() -> list[Baseline]:
    """Logistic regression, random forest, gradient boosting, support vector machine, class shares."""
    return [
        Baseline(LOGISTIC, _logistic),
        Baseline("random forest", _forest),
        Baseline("gradient boosting", _boosting),
        Baseline("calibrated SVM", _machine, has_temperature=False),
        Baseline(SHARES, _shares, has_temperature=False),
    ]


def fit_predict(
    baseline: Baseline,
    columns: Columns,
    X: pd.DataFrame,
    labels: IntArray,
    new: pd.DataFrame,
    *,
    n_classes: int,
    seed: int,
    groups: IntArray | None = None,
) -> FloatArray:
    """Fit a baseline with its best settings and its temperature, and predict: (n', c).

    Settings and temperature are those under which the labels are most probable in five folds of the training
    examples, which keep groups together.

    Parameters
    ----------
    baseline : Baseline
        The model.
    columns : Columns
        What the columns hold.
    X, new : DataFrame
        Training rows and new ones, from :func:`as_numbers_and_texts`.
    labels : ndarray of int, shape (n,)
        Positions of the classes.
    n_classes : int
        Classes; one that has no training example gets no probability.
    seed : int
        Of the fits and folds.
    groups : ndarray of int, shape (n,), optional
        Equal for examples that belong together.
    """
    folds = assign_folds(labels, _N_INNER_FOLDS, np.random.RandomState(seed), groups)
    splits = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
    candidates = baseline.candidates(columns, seed, splits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, and of columns that are the same in a fold
        best, temperature = candidates[0], 1.0
        if baseline.has_temperature:
            tried = [_tempered(model, X, labels, splits, n_classes) for model in candidates]
            place = int(np.argmin([loss for loss, _ in tried]))
            best, temperature = candidates[place], tried[place][1]
        proba = _aligned(best.fit(X, labels), new, n_classes)
    if not baseline.has_temperature:
        return proba
    return np.exp(apply_temperature(_log(proba), temperature))


def _tempered(
    model: Any,  # noqa: ANN401
    X: pd.DataFrame,
    labels: IntArray,
    splits: list[tuple[IntArray, IntArray]],
    n_classes: int,
) -> tuple[float, float]:
    """NLL out of fold after the best temperature, and that temperature."""
    proba = np.empty((len(labels), n_classes))
    for shown, held_out in splits:
        proba[held_out] = _aligned(model.fit(X.iloc[shown], labels[shown]), X.iloc[held_out], n_classes)
    temperature = fit_temperature(_log(proba), labels)
    calibrated = apply_temperature(_log(proba), temperature)
    return float(-calibrated[np.arange(len(labels)), labels].mean()), temperature


def _log(proba: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(proba)
    return logs


def _aligned(model: Any, X: pd.DataFrame, n_classes: int) -> FloatArray:  # noqa: ANN401
    """Probabilities of all classes (n, c), zero of those that the model has not seen."""
    proba = np.zeros((len(X), n_classes))
    proba[:, model.classes_] = model.predict_proba(X)
    return proba


def _logistic(columns: Columns, seed: int, splits: Any) -> list[Any]:  # noqa: ANN401
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return [
        make_pipeline(_encoder(columns), LogisticRegression(C=C, max_iter=2000, random_state=seed))
        for C in _PENALTIES
    ]


def _forest(columns: Columns, seed: int, splits: Any) -> list[Any]:  # noqa: ANN401
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    return [make_pipeline(_encoder(columns), RandomForestClassifier(_N_TREES, random_state=seed))]


def _boosting(columns: Columns, seed: int, splits: Any) -> list[Any]:  # noqa: ANN401
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
        max_categories=_MOST_CATEGORIES,
    )
    parts = [("categories", encoder, columns.categories), ("numbers", "passthrough", columns.numbers)]
    model = HistGradientBoostingClassifier(
        categorical_features=list(range(len(columns.categories))), random_state=seed
    )
    return [make_pipeline(ColumnTransformer(parts), model)]


def _machine(columns: Columns, seed: int, splits: list[tuple[IntArray, IntArray]]) -> list[Any]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    machine = make_pipeline(_encoder(columns), SVC(random_state=seed))
    return [CalibratedClassifierCV(machine, cv=splits, ensemble=False)]


def _shares(columns: Columns, seed: int, splits: Any) -> list[Any]:  # noqa: ANN401
    from sklearn.dummy import DummyClassifier

    return [DummyClassifier(strategy="prior")]


def _encoder(columns: Columns) -> Any:  # noqa: ANN401
    """Numbers standardised with holes marked, categories one column each."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(filled, StandardScaler()), columns.numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), columns.categories),
        ]
    )
