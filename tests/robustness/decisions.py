"""Decisions of odd models on odd questions: what a slow count says, or a refusal that names the argument."""

import functools
import warnings
from types import SimpleNamespace

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pnca
from models import make
from robustness.oddities import EITHER, ILLEGAL, LEGAL, flat, groups, pandas, pick
from robustness.verdicts import Refused, refusals, untouched_random_numbers

ABSTENTIONS = {"unfamiliar", "ambiguous", "cannot promise"}
#: Counts and levels are sums and products of floats.
_ROUNDING = 1e-9


# --- the models -------------------------------------------------------------------------------------------


def _examples(shape=(3,), n=50):
    rng = np.random.RandomState(2)
    y = np.arange(n) % 3
    return rng.normal(size=(n, *shape)) + 2.0 * y.reshape(-1, *[1] * len(shape)), y


def _plain(name="PNCA", labels=lambda y: y, shape=(3,), n=50, others=None, **settings):
    """A small fitted model, and its inputs."""
    X, y = _examples(shape, n)
    return make(name, **{"max_epochs": 4, "hidden_layer_sizes": (5,), **settings}).fit(
        X, labels(y), **(others or {})
    ), X


def _table():
    pd = pandas()
    X, y = _examples()
    table = pd.DataFrame(X[:, :2], columns=["age", "dose"])
    table["town"] = np.where(X[:, 2] > 2, "north", "south")
    table.loc[::7, "dose"] = np.nan
    return make("PNCA pooled", max_epochs=4).fit(table, y), table


def _interrupted():
    """A fit that Ctrl-C ended: nothing is known out of fold."""
    model, X = _plain(n_folds=None)
    model.was_interrupted_ = True
    return model, X


def _search():
    X, y = _examples()
    made = make_pipeline(StandardScaler(), make("PNCA", max_epochs=3))
    return GridSearchCV(made, {}, cv=2).fit(X, y), X


def _words(y):
    return np.array(["ash", "birch", "cedar"])[y]


_MODELS = {
    "neighbours": _plain,
    "pool": lambda: _plain("PNCA pooled"),
    "default": lambda: _plain("PNCA pooled", hidden_layer_sizes="auto", n_particles="auto", n=90),
    "groups": lambda: _plain("PNCA pooled", others={"groups": np.arange(50) // 3}),
    "few groups": lambda: _plain(others={"groups": np.arange(50) % 6}),
    "words": lambda: _plain(labels=_words),
    "one and True": lambda: _plain(labels=lambda y: np.array([1, "1", "b"], dtype=object)[y].astype(str)),
    "truth values": lambda: _plain(labels=lambda y: y > 0),
    "whole floats": lambda: _plain(labels=lambda y: y.astype(float)),
    "a class of one": lambda: _plain(labels=lambda y: np.where(np.arange(50) == 1, 2, y > 0)),
    "class weights": lambda: _plain(class_weight={0: 1e6, 1: 1.0, 2: 1e-6}),
    "few": lambda: _plain(n=9, n_folds=3),
    "images": lambda: _plain(shape=(4, 4)),
    "module": lambda: _plain(module=flat),
    "positive": lambda: _plain("PNCA positive", n_folds=3),
    "cross": lambda: _plain("PNCA cross"),
    "no novelty": lambda: _plain(novelty=False, background=0.0),
    "no inputs": lambda: _plain(input_weight=0.0),
    "table": _table,
    "pipeline": lambda: (
        make_pipeline(StandardScaler(), make("PNCA pooled", max_epochs=3)).fit(*_examples()),
        _examples()[0],
    ),
    "search": _search,
    "no folds": lambda: _plain(n_folds=None),
    "interrupted": _interrupted,
    "not fitted": lambda: (make("PNCA"), _examples()[0]),
    "softmax": lambda: _plain("DNN"),
    "other": lambda: (LogisticRegression().fit(*_examples()), _examples()[0]),
    "pipeline of other": lambda: (
        make_pipeline(StandardScaler(), LogisticRegression()).fit(*_examples()),
        _examples()[0],
    ),
    "class": lambda: (pnca.PNCAClassifier, _examples()[0]),
}
_HELPLESS = ["no folds", "interrupted", "not fitted", "softmax", "other", "pipeline of other", "class"]


@functools.cache
def _model(name):
    """A model, its inputs, and the fitted classifier at its end with the inputs that this gets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, X = _MODELS[name]()
    whole = getattr(model, "best_estimator_", model)
    return model, X, whole[-1] if hasattr(whole, "steps") else whole


def _inside(model, X):
    """What the classifier at the end gets."""
    whole = getattr(model, "best_estimator_", model)
    return whole[:-1].transform(X) if hasattr(whole, "steps") else X


# --- the questions ----------------------------------------------------------------------------------------

_SHARES = [(value, LEGAL) for value in (0.05, 0.3, 0.999999, 1e-12, 5e-324, np.nextafter(1.0, 0))]
_SHARES += [(np.float32(0.1), LEGAL), (np.float16(0.1), LEGAL)]
_SHARES += [(np.array(0.1), EITHER), (torch.tensor(0.1), EITHER)]
_SHARES += [(value, ILLEGAL) for value in (0, 1, 1.0, -0.1, 5, 10**400, float("nan"), float("inf"), 0.1 + 0j)]
_SHARES += [(value, ILLEGAL) for value in (True, np.bool_(False), "0.1", [0.1], None, object())]
_WEIGHTS = [(value, LEGAL) for value in (1, 0.2, 1e6, 1e-300, 1e300, np.int8(3))]
_BAD_WEIGHTS = [(value, ILLEGAL) for value in (0, -1, float("nan"), float("inf"), 10**400)]
_BAD_WEIGHTS += [(value, ILLEGAL) for value in ("1", True, None, 1j, [1])]


def _by_class(rng, classes, values):
    """A number for each class in a mapping or a list, or nearly so: (value, verdict)."""
    labels = classes.tolist()
    kind = pick(
        rng, ["whole", "whole", "whole", "series", "lacking", "unknown", "empty", "positions", "odd keys"]
    )
    picked = [pick(rng, values) for _ in labels]
    verdict = max(of_value for _, of_value in picked)
    mapping = {label: value for label, (value, _) in zip(labels, picked, strict=True)}
    if kind == "series":
        return pandas().Series([value for value, _ in picked], index=labels, dtype=object), verdict
    if kind == "lacking":
        del mapping[labels[0]]
        return mapping, ILLEGAL
    if kind == "positions":  # which may be the labels
        return dict(enumerate(mapping.values())), EITHER
    others = {"empty": {}, "unknown": {**mapping, "no class": 0.1}, "odd keys": {(): 0.1, **mapping}}
    return (others[kind], ILLEGAL) if kind in others else (mapping, verdict)


def _priors(rng, classes):
    values = _WEIGHTS if rng.random() < 0.6 else _WEIGHTS + _BAD_WEIGHTS
    if rng.random() < 0.5:
        return _by_class(rng, classes, values)
    picked = [pick(rng, values) for _ in classes]
    verdict, given = max(of_value for _, of_value in picked), [value for value, _ in picked]
    odd = [
        ([*given, 1.0], ILLEGAL),
        (given[:-1], ILLEGAL),
        ([given], ILLEGAL),
        ("auto", ILLEGAL),
        (1.0, ILLEGAL),
    ]
    odd += [(tuple(given), verdict), (set(range(len(given))), EITHER), (range(len(given)), ILLEGAL)]
    if verdict == LEGAL:
        odd += [(np.array(given, dtype=float), LEGAL), (torch.tensor(given, dtype=torch.float64), EITHER)]
    return pick(rng, odd) if rng.random() < 0.5 else (given, verdict)


def _arguments(rng, method, classes, n):
    """Arguments of a method, and whether they may be taken."""
    found, verdict = {}, LEGAL

    def give(name, value, of_value):
        nonlocal verdict
        found[name], verdict = value, max(verdict, of_value)

    legal = [share for share in _SHARES if share[1] == LEGAL]
    shares = _SHARES if rng.random() < 0.3 else legal
    if method == "decide":
        if rng.random() < 0.8:
            give("max_error", *(_by_class(rng, classes, shares) if rng.random() < 0.3 else pick(rng, shares)))
        if rng.random() < 0.5:
            give("confidence", *pick(rng, shares))
        if rng.random() < 0.4:
            level, of_level = pick(rng, [*shares, (0, LEGAL), (0.0, LEGAL), (-0.0, LEGAL), (None, LEGAL)])
            # Levels that could decline nothing are refused.
            zero = isinstance(level, int | float) and level == 0 and not isinstance(level, bool)
            give("min_familiarity", level, LEGAL if zero or level is None else max(of_level, EITHER))
        if rng.random() < 0.4:
            give("priors", *_priors(rng, classes))
    if method == "predict_set" and rng.random() < 0.8:
        give("coverage", *pick(rng, shares))
    if method in ("predict_set", "familiarity") and rng.random() < 0.5:
        found["by_class"] = bool(rng.random() < 0.5)
    if method == "drift" and n > 2 and rng.random() < 0.5:
        given = groups(rng, n, is_odd=True)
        give("groups", given.value, given.verdict)
    return found, verdict


def _queries(rng, X):
    """Inputs that are asked about, and whether they may be."""
    rows = rng.integers(0, len(X), size=pick(rng, [1, 2, 3, 30, 1100]))
    taken = X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]
    kind = pick(rng, ["same", "same", "same", "far", "near", "none", "wider", "None", "infinite"])
    if hasattr(X, "iloc"):
        odd = {"none": taken[:0], "wider": taken.assign(more=1.0), "None": None}
        odd["infinite"] = taken.assign(age=np.inf)
        return (odd[kind], ILLEGAL, kind) if kind in odd else (taken, LEGAL, "same")
    odd = {"none": taken[:0], "wider": np.concatenate([taken, taken], axis=-1), "None": None}
    odd["infinite"] = np.where(np.arange(taken.size).reshape(taken.shape) == 1, np.inf, taken)
    if kind in odd:
        return odd[kind], ILLEGAL, kind
    if kind == "far":
        return taken * 10.0 ** rng.uniform(0, 12), LEGAL, kind
    return taken + (kind == "near") * rng.normal(size=taken.shape), LEGAL, kind


def decision(seed, folder):
    """One question to one model, by its method or through ``pnca.decide`` and the like."""
    rng = np.random.default_rng(seed)
    names = list(_MODELS)
    name = pick(rng, _HELPLESS if rng.random() < 0.1 else [name for name in names if name not in _HELPLESS])
    model, X, last = _model(name)
    method = pick(rng, ["familiarity", "decide", "decide", "predict_set", "drift"])
    asked, of_asked, kind = _queries(rng, X)
    n = 0 if asked is None else len(asked)
    classes = getattr(last, "classes_", np.arange(3))
    arguments, verdict = _arguments(rng, method, classes, n)
    verdict = ILLEGAL if name in _HELPLESS or (method == "drift" and n < 2) else max(verdict, of_asked)
    case = f"decision {seed}: {method} of {name}, {n} rows, {kind}, {arguments}"
    is_direct = hasattr(model, method) and not isinstance(model, type) and rng.random() < 0.5
    call = getattr(model, method) if is_direct else functools.partial(getattr(pnca, method), model)
    try:
        with refusals(case), untouched_random_numbers(case):
            found = call(asked, **arguments)
    except Refused as refusal:
        assert verdict != LEGAL, f"{case}: refused: {refusal}"
        return
    assert verdict != ILLEGAL, f"{case}: was answered"
    with np.errstate(all="ignore"):
        CHECKS[method](last, _inside(model, asked), found, arguments, case)


# --- what is right ----------------------------------------------------------------------------------------


def _share_of_units(calibration, score, units):
    """One and the units (groups) with no larger score, each counted once, among one more than there are."""
    names = np.unique(units)
    shares = [(calibration[units == name] <= score).mean() for name in names]
    return (1 + sum(shares)) / (1 + len(names))


def _held_out(model):
    units = getattr(model, "groups_", np.arange(len(model.oof_evidence_)))
    return SimpleNamespace(evidence=model.oof_evidence_, proba=model.oof_proba_, units=units)


def _p_values(calibration, scores, units, rows=slice(None)):
    unique, places = np.unique(scores, return_inverse=True)
    found = np.array([_share_of_units(calibration[rows], score, units[rows]) for score in unique])
    return found[places.reshape(np.shape(scores))]


def _check_familiarity(model, X, found, arguments, case):
    known, evidence = _held_out(model), model.evidence(X)
    if not arguments.get("by_class"):
        expected = _p_values(known.evidence, evidence, known.units)
    else:
        of_class = [model.support_labels_ == c for c in range(len(model.classes_))]
        columns = [_p_values(known.evidence, evidence, known.units, rows) for rows in of_class]
        expected = np.stack(columns, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=case)
    assert (found > 0).all(), f"{case}: familiarity {found.min()}"
    assert (found <= 1).all(), f"{case}: familiarity {found.max()}"


def _check_decide(model, X, found, arguments, case):
    n, classes, proba = len(X), model.classes_, model.predict_proba(X)
    if (priors := arguments.get("priors")) is not None:
        mapping = priors.to_dict() if hasattr(priors, "to_dict") else priors
        of_class = (
            [mapping[label] for label in classes.tolist()] if isinstance(mapping, dict) else list(priors)
        )
        ratios = np.array([float(value) for value in of_class]) / model.class_prior_
        with np.errstate(under="ignore"):
            proba = proba * (ratios / ratios.max())
        proba = np.divide(proba, (totals := proba.sum(axis=1, keepdims=True)), where=totals > 0, out=proba)
        proba = np.where(totals > 0, proba, model.predict_proba(X))
    best, confidence = proba.argmax(axis=1), proba.max(axis=1)
    np.testing.assert_allclose(found.confidence, confidence, rtol=1e-9, err_msg=case)
    known = _held_out(model)
    expected = _p_values(known.evidence, model.evidence(X), known.units)
    np.testing.assert_allclose(found.familiarity, expected, rtol=1e-9, err_msg=case)
    assert len(found) == len(found.label) == len(found.reason) == n, f"{case}: {len(found)} rows"
    for row in range(n):
        label, reason = classes.tolist()[best[row]], str(found.reason[row])
        promise = found.promises[label] if label in found.promises else found.promises[None]
        if found.familiarity[row] < found.min_familiarity - _ROUNDING:
            expected = "unfamiliar"
        elif promise.value is None:
            expected = "cannot promise"
        else:
            expected = "answered" if found.confidence[row] >= promise.value else "ambiguous"
        assert reason == expected, f"{case}: row {row} is {reason}, not {expected}"
        given = None if reason in ABSTENTIONS else label
        assert found.label[row] == given, f"{case}: row {row} is given as {found.label[row]!r}, not {given!r}"
    _check_promises(model, found, arguments, case)
    assert str(sum(found.reason == "answered")) in found.summary(), case
    assert repr(found).startswith("<Decisions: "), case


def _check_promises(model, found, arguments, case):
    """What is said of the held-out answers is so, and no fewer than the promise needs."""
    allowed = arguments.get("max_error", 0.05)
    is_mapping = hasattr(allowed, "keys")
    assert set(found.promises) == (set(model.classes_.tolist()) if is_mapping else {None}), case
    best, confidence = model.oof_proba_.argmax(axis=1), model.oof_proba_.max(axis=1)
    for label, promise in found.promises.items():
        assert promise.max_error == float(allowed[label] if is_mapping else allowed), f"{case}: {promise}"
        assert 0 <= promise.n_wrong <= promise.n_answered <= len(best), f"{case}: {promise}"
        if promise.value is None:
            continue
        # The least number is that of answers without a mistake; bets and groups need more.
        least = np.log1p(-found.probability) / np.log1p(-promise.max_error)
        assert promise.n_independent >= least - 1e-6, f"{case}: {promise} of fewer than {least:.1f}"
        assert promise.error <= promise.max_error or found.probability < 0.5, f"{case}: {promise}"
        if arguments.get("priors") is not None:
            continue
        above = confidence >= promise.value
        if is_mapping:
            above &= model.classes_[best] == label
        is_wrong = best != model.support_labels_
        assert promise.n_answered <= above.sum(), f"{case}: {promise} of {above.sum()} above"
        assert promise.n_wrong <= (above & is_wrong).sum(), f"{case}: {promise}"


def _check_predict_set(model, X, found, arguments, case):
    known, proba = _held_out(model), model.predict_proba(X)
    of_truth = known.proba[np.arange(len(known.proba)), model.support_labels_]
    level = 1 - float(arguments.get("coverage", 0.9))
    for c in range(len(model.classes_)):
        rows = model.support_labels_ == c if arguments.get("by_class") else slice(None)
        p_values = _p_values(of_truth, proba[:, c], known.units, rows)
        is_near = np.abs(p_values - level) < 2 * _ROUNDING
        expected = (p_values > level) | (proba.argmax(axis=1) == c)
        assert (is_near | (found[:, c] == expected)).all(), f"{case}: class {c}"
    assert found.dtype == bool, f"{case}: sets of {found.dtype}"
    assert found[np.arange(len(found)), proba.argmax(axis=1)].all(), f"{case}: not the most probable class"


def _check_drift(model, X, found, arguments, case):
    known, evidence = _held_out(model), model.evidence(X)
    new_units = arguments.get("groups")
    names = np.arange(len(evidence)) if new_units is None else np.array([repr(g) for g in list(new_units)])
    weights, new_weights = (_weights(units) for units in (known.units, names))
    below = (evidence[:, None] < known.evidence) + 0.5 * (evidence[:, None] == known.evidence)
    share = new_weights @ below @ weights
    assert abs(found.share - share) < 1e-9, f"{case}: share {found.share}, not {share}"
    assert 0 <= found.p_value <= 1, f"{case}: p = {found.p_value}"
    assert found.n == len(evidence), f"{case}: {found.n} inputs"
    assert found.share > 0.5 or found.p_value > 0.05, f"{case}: {found}"
    assert bool(found.columns) != bool(found.note), f"{case}: {found}"
    for column in found.columns:
        assert 0 <= column.p_value <= 1, f"{case}: {column}"
        assert 0 <= column.statistic <= 1 + _ROUNDING, f"{case}: {column}"
    if found.columns:
        used = {column.name for column in model.columns_ if column.n_places}  # a constant text has none
        assert {column.name for column in found.columns} == used, f"{case}: columns {found.columns}"
    assert str(len(evidence)) in found.summary(), case


def _weights(units):
    """The share of each example in the whole, where each unit (group) has the same."""
    _, place, size = np.unique(units, return_inverse=True, return_counts=True)
    return 1 / size[place] / len(size)


CHECKS = {
    "familiarity": _check_familiarity,
    "decide": _check_decide,
    "predict_set": _check_predict_set,
    "drift": _check_drift,
}
