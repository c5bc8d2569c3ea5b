"""One fit of odd parameters on odd data, and what it predicts for odd queries.

``small_fit`` takes milliseconds; ``default_fit`` is a fit of PNCAClassifier() as it comes, in seconds.
"""

import pickle

import numpy as np
import torch
from sklearn.base import clone

import pnca
from robustness import oddities
from robustness.decisions import CHECKS
from robustness.fits import few_trees
from robustness.oddities import EITHER, ILLEGAL, LEGAL, pick
from robustness.parameters import parameters
from robustness.verdicts import Refused, refusals, untouched_random_numbers

#: In log space: so much less mass than the background's is none.
_NOTHING = -40.0


@few_trees()
def small_fit(seed, folder):
    """A fit of few epochs on at most sixty rows."""
    rng = np.random.default_rng(seed)
    # Few parts at a time are odd, lest one be hidden behind another.
    is_odd = rng.random(5) < pick(rng, [0.1, 0.3, 0.6])
    made = parameters(rng, is_odd[0])
    (kind, settings), verdict = made.value, made.verdict
    classes, shape = _classes(rng), oddities.shape_of_inputs(rng)
    numbers = oddities.numbers(rng, len(classes), shape, classes, is_odd[1])
    inputs = oddities.contained(rng, numbers, is_odd[2])
    labels, groups = oddities.labels(rng, classes, is_odd[3]), oddities.groups(rng, len(classes), is_odd[4])
    if not issubclass(kind, pnca.PNCAClassifier | pnca.NCAClassifier):
        groups = oddities.Odd(None, "no groups")
    verdict = max(verdict, inputs.verdict, labels.verdict, groups.verdict)
    case = f"small_fit {seed}: {made.name}, {shape} {inputs.name}, {labels.name}, {groups.name}"
    others = {} if groups.value is None else {"groups": groups.value}
    verdict = _cautious(verdict, settings, shape)
    _check(rng, kind, settings, inputs.value, labels.value, others, verdict, case, folder)


def default_fit(seed, folder):
    """A fit with the parameters that PNCAClassifier has by itself, on legal data."""
    rng = np.random.default_rng(seed)
    classes = _classes(rng, 20)[:40]
    shape = oddities.shape_of_inputs(rng)
    inputs = oddities.Odd(None, "", ILLEGAL)
    while inputs.verdict == ILLEGAL:
        numbers = oddities.numbers(rng, len(classes), shape, classes, rng.random() < 0.8)
        inputs = oddities.contained(rng, numbers, rng.random() < 0.3)
    case = f"default_fit {seed}: {shape} {inputs.name}"
    settings = {"random_state": int(rng.integers(100)), "device": "cpu"}
    verdict = _cautious(inputs.verdict, settings, shape)
    _check(rng, pnca.PNCAClassifier, settings, inputs.value, classes, {}, verdict, case, folder)


def _classes(rng, least=3):
    """Classes (n,) of a few examples, two of each at least unless there are too few."""
    n = int(rng.integers(least, 61))
    k = int(rng.integers(2, 5)) if n >= 8 else 2
    classes = rng.permutation(np.r_[np.arange(2 * k) % k, rng.integers(0, k, size=max(0, n - 2 * k))][:n])
    rare = np.where(rng.random(n) < 0.9, 0, classes)
    return rare if rng.random() < 0.2 and rare.any() else classes


def _cautious(verdict, settings, shape):
    """The verdict, where parts that are legal alone may be refused together."""
    combines = {"kernel", "expectation", "module", "image_shape", "augmentation", "batch_size", "n_folds"}
    is_odd = any(name in settings for name in combines - {"n_folds"})
    return EITHER if verdict == LEGAL and is_odd else verdict


def _check(rng, kind, settings, X, y, others, verdict, case, folder):
    before = _fingerprint(X), _fingerprint(y)
    with untouched_random_numbers(case, but_numpy=settings.get("random_state") is None):
        model = _fitted(kind, settings, X, y, others, verdict, case)
        assert (_fingerprint(X), _fingerprint(y)) == before, f"{case}: the data were changed"
        if model is None:
            return
        assert verdict != ILLEGAL, f"{case}: was taken"
        _check_estimator(model, case)
        _check_classes(model, y, case)
        rows = _plain(X)
        _check_predictions(model, X, len(rows), case)
        _check_queries(rng, model, rows, case)
        _check_layouts(model, rows, case)
        _check_odd_queries(rng, model, rows, case)
        if hasattr(model, "oof_proba_"):
            _check_decisions(model, X, case)
        if rng.random() < 0.3:
            _check_repeated(model, kind, settings, X, y, others, case)
        if settings.get("module") is None:
            _check_pickled(model, rows, case)
        _check_saved(model, rows, case, folder)


def _fitted(kind, settings, X, y, others, verdict, case):
    """A fitted model; None if it was refused."""
    try:
        with refusals(case):
            return kind(**settings).fit(X, y, **others)
    except Refused as refusal:
        assert verdict != LEGAL or "The loss became" in str(refusal), f"{case}: refused: {refusal}"
        return None


def _fingerprint(data):
    if isinstance(data, np.ndarray) and data.dtype.kind != "O":
        return data.tobytes()
    if isinstance(data, torch.Tensor) and data.layout == torch.strided and not data.requires_grad:
        return data.numel(), data.dtype, repr(data)
    return None if hasattr(data, "__next__") else repr(data)


def _plain(X):
    """The numbers of inputs that were taken, in float64."""
    if isinstance(X, torch.Tensor):
        return X.detach().double().numpy()
    return np.asarray(X).astype(float)


# --- what every fitted model must do --------------------------------------------------------------------


def _check_estimator(model, case):
    with refusals(case):
        assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys(), case
        assert type(model).__name__ in repr(model), case
        assert type(model).__name__ in model._repr_html_(), case
        for name in dir(model):
            getattr(model, name, None)
    assert len(set(model.classes_.tolist())) == len(model.classes_) >= 2, f"{case}: classes {model.classes_}"


def _check_classes(model, y, case):
    """No two labels have become one."""
    names = y.tolist() if isinstance(y, torch.Tensor) else y if isinstance(y, list) else np.ravel(y).tolist()
    given = set(names)
    assert len(model.classes_) == len(given), f"{case}: classes {model.classes_} of {given}"


def answers(model, X):
    """All that a model says of inputs, by name."""
    found = {
        "proba": model.predict_proba(X),
        "log_proba": model.predict_log_proba(X),
        "labels": model.predict(X),
        "uncertainty": np.stack(model.uncertainty(X), axis=1),
    }
    if hasattr(model, "evidence"):
        indices, shares = model.neighbors(X)
        found |= {"evidence": model.evidence(X), "embed": model.embed(X).swapaxes(0, 1)}
        found |= {"indices": indices, "shares": shares}
    return found


def assert_sane(model, found, n, case):
    """Answers for n inputs are numbers that mean what their names say."""
    proba, log_proba = found["proba"], found["log_proba"]
    assert proba.shape == log_proba.shape == (n, len(model.classes_)), f"{case}: shape {proba.shape}"
    for name, values in found.items():
        assert len(values) == n, f"{case}: {name} has {len(values)} rows"
        if name not in ("labels", "log_proba"):
            assert np.isfinite(values).all(), f"{case}: {name} is not finite"
    assert not np.isnan(log_proba).any(), f"{case}: log_proba is NaN"
    assert log_proba.max() <= 1e-12, f"{case}: log_proba {log_proba.max()}"
    assert ((proba >= 0) & (proba <= 1 + 1e-12)).all(), f"{case}: probabilities out of [0, 1]"
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-9, err_msg=case)
    np.testing.assert_allclose(proba, np.exp(log_proba), rtol=1e-12, err_msg=case)
    assert (found["labels"] == model.classes_[log_proba.argmax(axis=1)]).all(), f"{case}: labels"
    assert found["labels"].dtype == model.classes_.dtype, f"{case}: labels are {found['labels'].dtype}"
    total, aleatoric, epistemic = found["uncertainty"].T
    np.testing.assert_allclose(total, aleatoric + epistemic, atol=1e-6, err_msg=case)
    assert found["uncertainty"].min() >= -1e-6, f"{case}: uncertainty {found['uncertainty'].min()}"
    assert total.max() <= np.log(len(model.classes_)) + 1e-6, f"{case}: uncertainty {total.max()}"
    if "shares" in found:
        _assert_sane_shares(model, found, case)


def _assert_sane_shares(model, found, case):
    indices, shares = found["indices"], found["shares"]
    assert ((shares >= 0) & (shares <= 1 + 1e-6)).all(), (
        f"{case}: shares from {shares.min()} to {shares.max()}"
    )
    assert shares.sum(axis=1).max() <= 1 + 1e-6, f"{case}: shares sum to {shares.sum(axis=1).max()}"
    assert (np.diff(shares, axis=1) <= 0).all(), f"{case}: shares are not in order"
    assert (np.sort(indices, axis=1) == np.arange(model.n_samples_fit_)).all(), f"{case}: indices"


def _check_predictions(model, X, n, case):
    """Of the very inputs of the fit, as they were handed over."""
    with refusals(f"{case}: its own inputs"):
        found = answers(model, X)
        assert_sane(model, found, n, f"{case}: its own inputs")
        score = model.score(X, found["labels"])
    assert score == 1, f"{case}: score {score} of its own labels"


def _queries(rng, rows):
    """Inputs that a model may be asked about: near, between and far away."""
    with np.errstate(all="ignore"):
        moved = rows[rng.integers(0, len(rows), size=6)] + rng.normal(size=(6, *rows.shape[1:]))
        far = [10.0**power * rng.choice([-1, 1], size=(1, *rows.shape[1:])) for power in (2, 6, 15, 30, 38)]
        found = np.concatenate([rows[:2], moved, np.zeros_like(rows[:1]), *far])
    return np.clip(found, -3e38, 3e38)


def _check_queries(rng, model, rows, case):
    X = _queries(rng, rows)
    name = f"{case}: queries"
    try:
        with refusals(name):
            found = answers(model, X)
    except Refused as refusal:
        # A module computes in float32, where the farthest queries may overflow.
        assert model.module is not None and "outputs" in str(refusal), f"{name}: refused: {refusal}"
        return
    assert_sane(model, found, len(X), name)
    _check_far(model, X, found["proba"], name)
    tolerance = rounding(model, found)
    picked = rng.permutation(len(X))[:3]
    for part in (picked, picked[:1]):
        again = answers(model, X[part])
        for key in ("proba", "uncertainty", "evidence", "embed"):
            if key in found:
                a, b = again[key], found[key][part]
                error = np.abs(a - b).reshape(len(part), -1).max(axis=1)
                limit = tolerance[part] * (1 + np.abs(b).reshape(len(part), -1).max(axis=1))
                assert (error <= limit).all(), f"{name}: {key} by batch: {error} > {limit}"


def rounding(model, found):
    """How far rounding may move the answers (n,): far away, large numbers are subtracted."""
    log_proba = np.nan_to_num(found["log_proba"], neginf=0)
    largest = np.abs(found.get("evidence", 0)) + np.abs(log_proba).max(axis=1)
    if "embed" in found and (support := getattr(model, "support_embeddings_", None)) is not None:
        largest = largest + np.square(support - support.mean(axis=1, keepdims=True)).max() / model.bandwidth_
    if (support := getattr(model, "support_inputs_", None)) is not None:
        width = np.square(support - support.mean(axis=0)).reshape(len(support), -1).sum(axis=1).max()
        largest = largest + model.input_weight_ * width / model.input_scale_
    precise = model.network_.prediction_dtype == torch.float64
    return (1e-9 if precise else 1e-3) + (1e-13 if precise else 1e-5) * largest


def _check_far(model, X, proba, case):
    """Where no example has mass beside the background's, the probability is the class shares."""
    fitted = vars(model)
    if not fitted.get("input_weight_") or not fitted.get("background_") or "input_scale_" not in fitted:
        return
    X, columns = X.reshape(len(X), -1), model.fitted_.columns
    if columns is not None and not columns.is_plain:
        X = columns.encode(X)[:, :-1]
    scaled = X
    if "input_spread_" in fitted:
        scaled = (scaled - model.input_centre_) / model.input_spread_
    support = model.support_inputs_.reshape(len(model.support_inputs_), -1).astype(float)
    with np.errstate(all="ignore"):
        nearest = np.min([np.square(scaled - row).sum(axis=1) for row in support], axis=0)  # (n,)
        log_mass = model.input_weight_ * (1 - nearest / model.input_scale_) + np.log(1e6 * len(support))
    is_far = log_mass - np.log(model.background_) < _NOTHING
    pool, expected = model.fitted_.reader.pool, np.broadcast_to(model.class_prior_, proba[is_far].shape)
    # Neighbours say nothing there, and experts have a say of their own.
    says = 0 if pool is None else 1 - model.pool_weights_["neighbours"]
    if says and pool.say is not None:
        rows = torch.from_numpy(X[is_far].astype(float))
        inputs = rows if model.fitted_.scaler is None else model.fitted_.scaler.apply(rows)
        says = says * pool.say.log(inputs.double()).exp().numpy()[:, None]
    error = np.abs(proba[is_far] - expected)
    assert (error <= 1e-6 * expected + 1e-9 + says).all(), f"{case}: far away: {proba[is_far]}"


def _check_layouts(model, rows, case):
    """The same numbers in another layout or container are the same inputs."""
    with np.errstate(over="ignore"):
        X = rows.astype(np.float32)
    if not np.isfinite(X).all():
        return
    expected = model.predict_log_proba(X)
    wide = np.zeros((2 * len(X), *X.shape[1:]), np.float32)
    wide[::2] = X
    others = {
        "float64": X.astype(float),
        "Fortran order": np.asfortranarray(X),
        "every other row": wide[::2],
        "big-endian": X.astype(">f8"),
        "tensor": torch.from_numpy(X),
        "lists": X.tolist(),
        "objects": X.astype(object),
    }
    for name, other in others.items():
        np.testing.assert_array_equal(model.predict_log_proba(other), expected, err_msg=f"{case}: {name}")


def _check_decisions(model, X, case):
    """Of the very inputs of the fit."""
    with refusals(f"{case}: decisions"):
        for method in ("familiarity", "decide", "predict_set", "drift"):
            CHECKS[method](model, X, getattr(model, method)(X), {}, f"{case}: {method}")


def _check_repeated(model, kind, settings, X, y, others, case):
    if settings.get("random_state") is None or not isinstance(settings["random_state"], int | np.integer):
        return
    with refusals(case):
        again = kind(**settings).fit(X, y, **others)
    np.testing.assert_array_equal(again.particles_, model.particles_, err_msg=f"{case}: fitted again")
    for name in ("bandwidth_", "background_", "novelty_depth_"):
        assert getattr(again, name, None) == getattr(model, name, None), f"{case}: {name} when fitted again"


def _check_pickled(model, rows, case):
    X = rows[:3].clip(-1e30, 1e30)
    with refusals(case):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_log_proba(X), model.predict_log_proba(X), err_msg=case)
    assert sorted(vars(again)) == sorted(vars(model)), f"{case}: attributes after pickling"


def _check_saved(model, rows, case, folder):
    """What is loaded from a file is the model; only a parameter that is no plain value may be refused."""
    path, X = folder / "model.pnca", rows[:3].clip(-1e30, 1e30)
    try:
        with refusals(f"{case}: saved"):
            pnca.save(model, path, overwrite=True)
    except Refused as refusal:
        assert "The parameter" in str(refusal), f"{case}: cannot be saved: {refusal}"
        return
    with refusals(f"{case}: loaded"):
        again = pnca.load(path, module=model.module)
        for name, expected in answers(model, X).items():
            np.testing.assert_array_equal(answers(again, X)[name], expected, err_msg=f"{case}: loaded {name}")
        repr(again), clone(again)
    assert sorted(vars(again)) == sorted(vars(model)), f"{case}: attributes after loading"
    assert (again.classes_ == model.classes_).all(), f"{case}: classes after loading"
    assert again.classes_.dtype == model.classes_.dtype, f"{case}: type of the classes after loading"


# --- queries that cannot be right -----------------------------------------------------------------------


def _check_odd_queries(rng, model, rows, case):
    shape, row = rows.shape[1:], rows[:2].clip(-1e30, 1e30)
    wrong = row.copy()
    missing = [np.nan] if len(shape) > 1 else []  # in rows of numbers NaN is a hole
    wrong.flat[-1] = pick(rng, [*missing, np.inf, -np.inf])
    bad = {
        "not finite": wrong,
        "a column more": np.zeros((2, *shape[:-1], shape[-1] + 1)),
        "another dimension": np.zeros((2, *shape, 2)),
        "one number": 3.0,
        "one input alone": np.zeros(shape) if len(shape) > 1 else np.zeros(shape[0] + 1),
        "text": "text",
        "None": None,
        "nothing": np.zeros((0, *shape)),
        "words": np.full((2, *shape), "word", dtype=object),
        "complex": row + 1j,
        "dates": np.full((2, *shape), np.datetime64("2026-01-01")),
        "ragged": [[1.0], [1.0, 2.0]],
        "sparse tensor": torch.zeros(2, *shape).to_sparse(),
    }
    method = pick(rng, ["predict", "predict_proba", "uncertainty", "evidence", "embed", "neighbors"])
    method = getattr(model, method, model.predict_log_proba)
    for name in rng.permutation(list(bad))[:5]:
        _assert_refused(method, bad[name], f"{case}: {method.__name__} of {name}")
    if hasattr(model, "neighbors"):
        for k in (0, -1, 1.5, "all", model.n_samples_fit_ + 1, np.nan, [1]):
            _assert_refused(lambda X, k=k: model.neighbors(X, k=k), row, f"{case}: neighbors of k={k!r}")
    beyond = np.full((1, *shape), pick(rng, [1e39, 1e200, -1e308]))
    try:
        with refusals(f"{case}: beyond float32"):
            assert_sane(model, answers(model, beyond), 1, f"{case}: beyond float32")
    except Refused:
        pass


def _assert_refused(method, X, case):
    try:
        with refusals(case):
            method(X)
    except Refused:
        return
    raise AssertionError(f"{case}: was answered")
