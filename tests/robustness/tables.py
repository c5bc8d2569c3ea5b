"""Fits of odd tables: text, dates, codes and holes, what they predict, and what must not matter to them."""

import datetime
import decimal
import enum
import fractions
import pickle

import numpy as np
import torch
from sklearn.base import clone

import pnca
from robustness.decisions import CHECKS
from robustness.fits import few_trees
from robustness.oddities import EITHER, ILLEGAL, LEGAL, Odd, pandas, pick
from robustness.small_fits import answers, assert_sane, rounding
from robustness.verdicts import Refused, refusals, untouched_random_numbers

#: The order of the rows moves training, which enlarges rounding, by less.
_ROW_ORDER = 0.01


# --- columns ----------------------------------------------------------------------------------------------


def _numbers(kind, verdict=LEGAL):
    def make(rng, y):
        return pandas().Series(np.abs(np.round(9 * (rng.normal(size=len(y)) + y)))).astype(kind), verdict

    return make


def _text(rng, y):
    return np.array(["low", "middle", "high", "rare"], dtype=object)[(y + (rng.random(len(y)) < 0.2)) % 4]


def _days(rng, y):
    return np.datetime64("2024-02-28", "s") + (30 * y + rng.integers(0, 9, len(y))).astype("m8[D]")


def _objects(values, verdict=LEGAL):
    """Values of Python as they are."""

    def make(rng, y):
        found = np.empty(len(y), dtype=object)
        found[:] = [values(rng, k) for k in y.tolist()]
        return found, verdict

    return make


class Size(str, enum.Enum):
    """An enumeration of texts, whose members are found by other hashes than these."""

    SMALL, MIDDLE, LARGE = "small", "middle", "large"


class Dose(enum.IntEnum):
    """An enumeration of numbers."""

    NONE, SOME, MUCH = 0, 5, 10


def _series(values, kind, verdict=LEGAL):
    return lambda rng, y: (pandas().Series(values(rng, y)).astype(kind), verdict)


def _periods(rng, y):
    return pandas().Series(pandas().to_datetime(_days(rng, y)).to_period("D")), LEGAL


def _ordered(rng, y):
    levels = ["rare", "low", "middle", "high", "unused"]
    return pandas().Series(pandas().Categorical(_text(rng, y), categories=levels, ordered=True)), LEGAL


_COLUMNS = {
    "floats": lambda rng, y: (rng.normal(size=len(y)) + y, LEGAL),
    **{kind: _numbers(kind) for kind in ("f4", "i8", "i1", "u2", "Int64", "Float64")},
    "large": lambda rng, y: (1e12 + rng.normal(size=len(y)) + y, EITHER),
    "huge": lambda rng, y: (1e30 * (rng.normal(size=len(y)) + y), EITHER),
    "beyond float32": lambda rng, y: (1e60 * (rng.normal(size=len(y)) + y), EITHER),
    "constant": lambda rng, y: (np.full(len(y), 3.0), EITHER),  # refused if there is no other
    "infinity": lambda rng, y: (np.where(np.arange(len(y)) == 2, np.inf, y), ILLEGAL),
    "truth values": lambda rng, y: (y + rng.random(len(y)) > 1, LEGAL),
    "boolean": _series(lambda rng, y: y > 0, "boolean"),
    "text": lambda rng, y: (_text(rng, y), LEGAL),
    "string": _series(_text, "string"),
    "category": _series(_text, "category"),
    "ordered category": _ordered,
    "category of numbers": _series(lambda rng, y: y * 3, "category"),
    "a name each": _objects(lambda rng, k: f"patient {rng.integers(10**9)}"),
    "numbers as text": _objects(lambda rng, k: str(k + rng.integers(3))),
    "dates as text": _objects(lambda rng, k: f"2026-0{k + 1}-11"),
    "empty text": _objects(lambda rng, k: " " * k),
    "one text": _objects(lambda rng, k: "always"),
    "text and numbers": _objects(lambda rng, k: "none" if k else 1.5),
    "truth values and numbers": _objects(lambda rng, k: bool(k) if rng.random() < 0.5 else 7, EITHER),
    "dates": lambda rng, y: (_days(rng, y), LEGAL),
    "nanoseconds": _series(_days, "datetime64[ns]"),
    "dates of a zone": lambda rng, y: (pandas().Series(_days(rng, y)).dt.tz_localize("Asia/Tokyo"), LEGAL),
    "periods": _periods,
    "python dates": _objects(lambda rng, k: datetime.date(2020 + k, 2, 28)),
    "python times": _objects(lambda rng, k: datetime.datetime(2020 + k, 2, 28, 23, int(rng.integers(60)))),
    "far dates": _objects(lambda rng, k: datetime.date(1 + 9998 * (k > 0), 1, 1), EITHER),
    "hours": _objects(lambda rng, k: datetime.time(k, 30), EITHER),
    "durations": lambda rng, y: ((y + rng.integers(0, 5, len(y))).astype("m8[m]").astype("m8[s]"), LEGAL),
    "python durations": _objects(lambda rng, k: datetime.timedelta(hours=k, seconds=int(rng.integers(60)))),
    "decimals": _objects(lambda rng, k: decimal.Decimal(k) / 7),
    "numbers as objects": _objects(lambda rng, k: pick(rng, [k, float(k), np.float32(k)])),
    "beyond int64": _objects(lambda rng, k: 10**30 * (k + 1), EITHER),
    "beyond float64": _objects(lambda rng, k: 10**400 * (k + 1), ILLEGAL),
    "complex": lambda rng, y: (y + 1j, ILLEGAL),
    "complex as objects": _objects(lambda rng, k: 1j * k, ILLEGAL),
    "tuples": _objects(lambda rng, k: (k, 1), ILLEGAL),
    "lists": _objects(lambda rng, k: [k], ILLEGAL),
    "dicts": _objects(lambda rng, k: {"a": k}, ILLEGAL),
    "sets": _objects(lambda rng, k: frozenset([k]), ILLEGAL),
    "bytes": _objects(lambda rng, k: b"abc"[k : k + 1], EITHER),
    "types": _objects(lambda rng, k: [int, str, float][k], ILLEGAL),
    "numpy's objects": _objects(
        lambda rng, k: pick(rng, [np.str_(k), np.int8(k), np.float64(k), np.bool_(k)])
    ),
    "numpy's dates": _objects(lambda rng, k: np.datetime64("2026-01-01", "ns") + np.timedelta64(k, "D")),
    "numpy's durations": _objects(lambda rng, k: np.timedelta64(k, "h")),
    "enumerated texts": _objects(lambda rng, k: list(Size)[k]),
    "enumerated numbers": _objects(lambda rng, k: list(Dose)[k], EITHER),
    "fractions": _objects(lambda rng, k: fractions.Fraction(k, 3)),
    "category of dates": _series(_days, "category"),
    "category of periods": lambda rng, y: (_periods(rng, y)[0].astype("category"), EITHER),
    "intervals": lambda rng, y: (pandas().cut(pandas().Series(y + rng.random(len(y))), 3), LEGAL),
    "intervals of dates": lambda rng, y: (pandas().cut(pandas().Series(_days(rng, y)), 3), EITHER),
    "sparse": lambda rng, y: (pandas().arrays.SparseArray(y.astype(float)), EITHER),
}
_LEGAL_COLUMNS = [
    "floats",
    "f4",
    "i8",
    "Int64",
    "text",
    "string",
    "category",
    "dates",
    "truth values",
    "durations",
]


def table(rng, y):
    """A table (n, p) of odd columns, as Odd."""
    pd = pandas()
    names = [pick(rng, _LEGAL_COLUMNS) for _ in range(int(rng.integers(1, 6)))]
    if rng.random() < 0.7:  # few at a time, lest one be hidden behind another
        names[0] = pick(rng, list(_COLUMNS))
    made = [_COLUMNS[name](rng, y) for name in names]
    parts = [pd.Series(values).reset_index(drop=True) for values, _ in made]
    verdict = max(of_column for _, of_column in made)
    if rng.random() < 0.5:
        parts = [_with_holes(rng, part) if rng.random() < 0.5 else part for part in parts]
        verdict = min(verdict, EITHER)  # what is wrong may be lost
    found = pd.concat(parts, axis=1)
    called = pick(rng, ["words"] * 8 + ["numbers"] * 3 + ["mixed", "equal"])
    found.columns = {
        "words": [f"{name} {place}" for place, name in enumerate(names)],
        "numbers": range(len(names)),
        "mixed": [*range(len(names) - 1), "last"],
        "equal": ["same"] * len(names),
    }[called]
    if called in ("mixed", "equal") and len(names) > 1:
        verdict = max(verdict, EITHER)  # scikit-learn wants names that differ, of one type
    found.index = rng.permutation(len(found)) + 5
    return Odd(found, f"{names} called {called}", verdict)


def _with_holes(rng, part):
    """Some values missing, in the way of their type."""
    if part.dtype.kind in "iub" and isinstance(part.dtype, np.dtype):
        part = part.astype(float if part.dtype.kind != "b" else object)
    share = pick(rng, [0.1, 0.4, 1.0]) if rng.random() < 0.9 else 1.0
    return part.mask(rng.random(len(part)) < share)


def _codes(rng, X):
    """Columns that are codes, as Odd; mostly none."""
    names, p = list(X.columns), X.shape[1]
    if rng.random() < 0.8:
        return Odd(None, "")
    value, verdict = pick(
        rng,
        [
            (names[:1], EITHER), ([p - 1], EITHER), ([0, 0], EITHER), ([], LEGAL), (np.array([0]), EITHER),
            ([True] + [False] * (p - 1), EITHER), ([True] * (p + 1), ILLEGAL), (["no column"], ILLEGAL),
            ([p], EITHER), ([-1], ILLEGAL), ([0.5], ILLEGAL), (0, ILLEGAL), ("text", EITHER),
            (range(1), EITHER), ([None], ILLEGAL), ([[0]], ILLEGAL), (np.zeros((2, 2)), ILLEGAL),
            (tuple(names), EITHER),
        ],
    )  # fmt: skip
    return Odd(value, f", categorical_features={value!r}", verdict)


def _model(rng):
    """A classifier; now and then the one without parameters."""
    common = {"random_state": int(rng.integers(100)), "device": "cpu"}
    if rng.random() < 0.04:
        return pnca.PNCAClassifier(**common)
    name, own = pick(
        rng,
        [
            ("PNCAClassifier", {"n_particles": 2, "n_folds": 3}),
            ("PNCAClassifier", {"n_particles": 2, "n_folds": 2, "experts": ("linear",)}),
            ("PNCAClassifier", {"n_particles": 2, "n_folds": 2, "experts": (), "novelty": False}),
            ("PNCAClassifier", {"n_particles": 2, "n_folds": None, "kernel": "positive"}),
            ("NCAClassifier", {}), ("DNNClassifier", {}), ("EnsembleClassifier", {"n_particles": 2}),
            ("BNNClassifier", {"n_particles": 3}),
        ],
    )  # fmt: skip
    small = {"hidden_layer_sizes": (4,), "max_epochs": int(rng.integers(1, 6)), "learning_rate": 0.01}
    return getattr(pnca, name)(**{**common, **small, **own})


# --- the case ---------------------------------------------------------------------------------------------


@few_trees()
def odd_table(seed, folder):
    """A fit on a table of odd columns."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(int(rng.integers(15, 61))) % int(rng.integers(2, 4)))
    X, model = table(rng, y), _model(rng)
    codes = _codes(rng, X.value) if isinstance(model, pnca.PNCAClassifier) else Odd(None, "")
    if codes.value is not None:
        model.set_params(categorical_features=codes.value)
    verdict = max(X.verdict, codes.verdict)
    case = f"odd_table {seed}: {model}, {X.name}{codes.name}"
    kept = X.value.copy()
    with untouched_random_numbers(case):
        try:
            with refusals(case):
                model.fit(X.value, y)
        except Refused as refusal:
            if verdict == LEGAL and "no column that tells its rows apart" not in str(refusal):
                raise AssertionError(f"{case}: refused: {refusal}") from refusal
            return
        finally:
            pandas().testing.assert_frame_equal(X.value, kept)
        assert verdict != ILLEGAL, f"{case}: was taken"
        _check(rng, model, X.value, y, case, folder)


def _check(rng, model, X, y, case, folder):
    with refusals(case):
        expected = answers(model, X)
        assert_sane(model, expected, len(X), case)
        assert [column.name for column in model.columns_] == list(X.columns), f"{case}: {model.columns_}"
        repr(model.columns_), repr(model), model._repr_html_()
        if hasattr(model, "oof_proba_"):
            for method in ("decide", "familiarity", "predict_set", "drift"):
                CHECKS[method](model, X, getattr(model, method)(X), {}, f"{case}: {method}")
    _check_copies(model, X, expected, case, folder)
    _check_batches(rng, model, X, expected, case)
    _check_types(rng, model, X, y, expected, case)
    _check_odd_queries(rng, model, X, case)
    if rng.random() < 0.2:
        _check_row_order(rng, model, X, y, expected, case)


def _assert_same(found, expected, case):
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=f"{case}: {name}")


def _check_copies(model, X, expected, case, folder):
    """Pickled, and saved and loaded."""
    path = folder / "table.pnca"
    try:
        with refusals(f"{case}: saved"):
            pnca.save(model, path)
    except Refused as refusal:
        raise AssertionError(f"{case}: cannot be saved: {refusal}") from refusal
    with refusals(case):
        copies = {"pickled": pickle.loads(pickle.dumps(model)), "loaded": pnca.load(path)}
        for name, again in copies.items():
            _assert_same(answers(again, X), expected, f"{case}: {name}")
            assert again.columns_ == model.columns_, f"{case}: columns_ {name}"
            assert sorted(vars(again)) == sorted(vars(model)), f"{case}: attributes {name}"


def _check_batches(rng, model, X, expected, case):
    rows = rng.permutation(len(X))[:4]
    for part in (rows, rows[:1]):
        with refusals(f"{case}: {len(part)} rows"):
            found = answers(model, X.iloc[part])
        tolerance = rounding(model, expected)[part]
        for name in ("proba", "uncertainty", "evidence"):
            if name in expected:
                error = np.abs(found[name] - expected[name][part]).reshape(len(part), -1).max(axis=1)
                limit = tolerance * (1 + np.abs(expected[name]).max())
                assert (error <= limit).all(), f"{case}: {name} by batch differs by {error}"


def _check_types(rng, model, X, y, expected, case):
    """The same values in columns of other types are the same table."""
    others = {f"{place} as {name}": other for place in range(X.shape[1]) for name, other in _others(X, place)}
    for name, other in others.items():
        with refusals(f"{case}: {name}"):
            _assert_same(answers(model, other), expected, f"{case}: {name}")
    if others and rng.random() < 0.3:
        name = pick(rng, sorted(others))
        with refusals(f"{case}: fitted on {name}"):
            again = clone(model).fit(others[name], y)
            _assert_same(answers(again, X), expected, f"{case}: fitted on {name}")
    if all(kind in ("float64", "float32") for kind in X.dtypes):
        rows = X.to_numpy(dtype=float)
        lists = [[None if np.isnan(v) else v for v in row] for row in rows.tolist()]
        same = {"array": rows, "tensor": torch.from_numpy(rows), "lists": rows.tolist()}
        for name, other in {**same, "objects": np.array(lists, object)}.items():
            with refusals(f"{case}: {name}"):
                _assert_same(answers(model, other), expected, f"{case}: {name}")


def _others(X, place):
    """The table with one column in other types that hold the same, as (name, table)."""
    pd, part = pandas(), X.iloc[:, place]
    kind = part.dtype
    names = []
    if isinstance(kind, np.dtype):
        names = {"f": ["Float64", "object"], "i": ["Int64", "object"], "M": ["object"], "m": ["object"]}.get(
            kind.kind, []
        )
    values = part.dropna().tolist()
    if kind == "string" or (kind.kind == "O" and values and all(isinstance(v, str) for v in values)):
        names = ["object", "string", "category"]
    if isinstance(kind, pd.CategoricalDtype) and all(isinstance(v, str) for v in values):
        names = ["object"]
    if kind == "boolean":
        names = ["object"]
    for name in names:
        column = part.astype(name)
        for hole in [None, float("nan"), pd.NA] if name == "object" and part.isna().any() else [...]:
            filled = column if hole is ... else column.where(column.notna(), hole)
            yield f"{name}, {hole!r}", _with_column(X, place, filled)


def _with_column(X, place, values):
    """A copy with another column; names may occur twice."""
    pd = pandas()
    parts = [values if j == place else X.iloc[:, j] for j in range(X.shape[1])]
    found = pd.concat([pd.Series(part) for part in parts], axis=1)
    found.columns = X.columns
    return found


def _check_row_order(rng, model, X, y, expected, case):
    order = rng.permutation(len(X))
    with refusals(f"{case}: another order"):
        again = clone(model).fit(X.iloc[order], y[order])
        found = answers(again, X)
    for name in ("proba", "evidence"):
        if name in expected:
            scale = 1 + np.abs(expected[name]).max()
            error = np.abs(found[name] - expected[name]).max() / scale
            assert error < _ROW_ORDER, f"{case}: {name} by another order differs by {error}"


# --- tables that the fit did not see ----------------------------------------------------------------------


def _check_odd_queries(rng, model, X, case):
    rows = X.iloc[:3]
    place = int(rng.integers(X.shape[1]))
    n = len(rows)

    def changed(values):
        return _with_column(rows, place, pandas().Series(values, index=rows.index))

    cells = {
        "text": ["a new word"] * n, "numbers": [1e6] * n, "numbers as text": ["1"] * n, "holes": [None] * n,
        "NaN": [float("nan")] * n, "truth values": [True] * n, "codes": [2**60] * n, "bytes": [b"a"] * n,
        "dates": [np.datetime64("1800-01-01", "s")] * n, "far dates": [datetime.date(9999, 1, 1)] * n,
        "mixed": [1, "a", None],
    }  # fmt: skip
    may_be = {
        **{name: changed(values) for name, values in cells.items()}, "an array": rows.to_numpy(),
        "all holes": rows.astype(object).mask(np.ones(rows.shape, bool)), "lists": rows.to_numpy().tolist(),
        "an index of words": rows.set_axis(list("abc")), "transposed": rows.T, "a series": rows.iloc[0],
    }  # fmt: skip
    must_not = {
        "no rows": rows[:0], "no columns": rows.iloc[:, :0], "a column more": rows.assign(**{"one more": 1}),
        "a dict": rows.to_dict(), "None": None, "lists in cells": changed([[1]] * n),
        "complex": changed([1j] * n),
    }  # fmt: skip
    if model.columns_[place].kind != "left out":
        must_not["infinite"] = changed([np.inf] * n)
    else:
        del must_not["lists in cells"], must_not["complex"]
    for name in rng.permutation([*may_be, *must_not])[:8]:
        asked = {**may_be, **must_not}[name]
        of_query = f"{case}: asked about {name} in {model.columns_[place]!r}"
        try:
            with refusals(of_query):
                found = answers(model, asked)
        except Refused:
            continue
        assert name not in must_not, f"{of_query}: was answered"
        assert_sane(model, found, n, of_query)
