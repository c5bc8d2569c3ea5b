"""What must not matter: who else asks, the type of the numbers, threads, the order of the rows, the seed."""

import threading

import numpy as np
import torch
from sklearn.base import clone

import pnca
from models import share_of_line
from robustness.fits import few_trees
from robustness.oddities import pick
from robustness.small_fits import answers
from robustness.verdicts import untouched_random_numbers

#: Rounding moves probabilities by less, in float64.
_ROUNDING = 1e-9


def blobs(rng, n=None, shape=None, *, holes=False):
    """Inputs (n, ...) of two or three classes that overlap a little, and their labels as words.

    With ``holes`` every fourth table lacks numbers.
    """
    n = int(rng.integers(12, 50)) if n is None else n
    shape = pick(rng, [(2,), (5,), (30,), (4, 5), (3, 3, 3)]) if shape is None else shape
    classes = np.arange(n) % int(rng.integers(2, 4))
    centres = rng.normal(size=(3, *shape)) * 2
    X = rng.normal(size=(n, *shape)) + centres[classes]
    if holes and len(shape) == 1 and rng.random() < 0.25:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X * 10.0 ** rng.uniform(-2, 2), np.array(["ash", "birch", "cedar"])[classes]


def some_model(rng, **settings):
    """A small classifier of any kind, or the one without parameters."""
    kinds = [
        ("PNCAClassifier", None),
        ("PNCAClassifier", {"n_particles": 4, "n_folds": 3}),
        ("PNCAClassifier", {"n_particles": 4, "n_folds": 3, "experts": ()}),
        ("PNCAClassifier", {"n_particles": 2, "n_folds": None, "expectation": "cross"}),
        ("PNCAClassifier", {"n_particles": 2, "n_folds": None, "kernel": "positive"}),
        ("PNCAClassifier", {"n_particles": 2, "n_folds": 3, "background": 0.0, "novelty": False}),
        ("NCAClassifier", {}),
        ("DNNClassifier", {}),
        ("EnsembleClassifier", {"n_particles": 3}),
        ("BNNClassifier", {"n_particles": 3}),
    ]
    name, own = pick(rng, kinds)
    common = {"random_state": int(rng.integers(1000)), "device": "cpu"}
    small = {"hidden_layer_sizes": pick(rng, [(6,), (), (5, 4)]), "max_epochs": int(rng.integers(3, 12))}
    chosen = {} if own is None else {**small, **own}  # or as it comes
    return getattr(pnca, name)(**{**common, **chosen, **settings})


def assert_same(found, expected, tolerance, case):
    """All answers agree within a tolerance; zero stands for every bit."""
    for name, values in expected.items():
        if tolerance and name in ("labels", "indices", "shares"):
            continue  # ties may be broken by rounding; probabilities tell whether it was more
        if tolerance:
            error = f"{case}: {name}"
            np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance, err_msg=error)
        else:
            np.testing.assert_array_equal(found[name], values, err_msg=f"{case}: {name}")


@few_trees()
def same_under_batches(seed, folder):
    """A row's answer depends neither on the other rows nor on where it stands."""
    rng = np.random.default_rng(seed)
    X, y = blobs(rng, holes=True)
    model = some_model(rng).fit(X, y)
    queries = np.concatenate([X, 3 * X, X + 0.1, 1e4 * X[:5]])
    case = f"same_under_batches {seed}: {model}"
    expected = answers(model, queries)
    order = rng.permutation(len(queries))
    assert_same(answers(model, queries[order]), {k: v[order] for k, v in expected.items()}, _ROUNDING, case)
    for part in np.array_split(order, int(rng.integers(2, len(order)))):
        assert_same(answers(model, queries[part]), {k: v[part] for k, v in expected.items()}, _ROUNDING, case)
    long = np.concatenate([queries] * (1100 // len(queries) + 1))  # more than are predicted at once
    repeated = {k: np.concatenate([v] * (len(long) // len(queries))) for k, v in expected.items()}
    assert_same(answers(model, long), repeated, _ROUNDING, case)


@few_trees()
def same_under_dtype(seed, folder):
    """Equal numbers in other types, layouts and containers give equal models and equal answers."""
    rng = np.random.default_rng(seed)
    X, y = blobs(rng)
    X = np.clip(np.round(X / np.abs(X).max() * 100), -100, 100)  # exact in all of these types
    spread = np.zeros((3 * len(X), *X.shape[1:]))
    spread[::3] = X
    read_only = X.copy()
    read_only.setflags(write=False)
    (mapped := np.memmap(folder / "numbers", X.dtype, "w+", shape=X.shape))[:] = X
    others = {
        **{kind: X.astype(kind) for kind in ("f4", "f2", "i1", "i8", ">f8", ">i2", "O")},
        **{
            str(kind): torch.from_numpy(X).to(kind)
            for kind in (torch.bfloat16, torch.float16, torch.int32, torch.float64)
        },
        "Fortran order": np.asfortranarray(X),
        "strided": spread[::3],
        "read-only": read_only,
        "memory map": mapped,
        "lists": X.tolist(),
        "tensor with gradient": torch.tensor(X, requires_grad=True),
    }
    model = some_model(rng)
    expected = answers(fitted := clone(model).fit(X, y), X)
    names = list(others)
    for name in rng.permutation(names):
        case = f"same_under_dtype {seed}: {model}, {name}"
        with untouched_random_numbers(case):
            assert_same(answers(fitted, others[name]), expected, 0, case)
    for name in rng.permutation(names)[:2]:
        again = clone(model).fit(others[name], y.tolist())
        assert_same(answers(again, X), expected, 0, f"same_under_dtype {seed}: {model} fitted on {name}")


@few_trees()
def same_under_threads(seed, folder):
    """Torch's threads do not matter to predictions, nor do the user's to fits."""
    rng = np.random.default_rng(seed)
    X, y = blobs(rng, holes=True)
    model = some_model(rng)
    if rng.random() < 0.3 and getattr(model, "dropout", 0) == 0 and not np.isnan(X).any():
        model.set_params(module=_module)
    case = f"same_under_threads {seed}: {model}"
    fits = [clone(model).set_params(random_state=k) for k in range(3)]
    expected = [answers(clone(fit).fit(X, y), X) for fit in fits]
    threads = [threading.Thread(target=fit.fit, args=(X, y)) for fit in fits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fit, answer in zip(fits, expected, strict=True):
        assert_same(answers(fit, X), answer, 0, f"{case}: fitted beside others")
    found = [None] * 4
    before = torch.get_num_threads()

    def predict(place):
        found[place] = answers(fits[0], X)

    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            assert_same(answers(fits[0], X), expected[0], _ROUNDING, f"{case}: {n_threads} threads of torch")
        torch.set_num_threads(before)
        threads = [threading.Thread(target=predict, args=(place,)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        torch.set_num_threads(before)
    for answer in found:
        assert_same(answer, expected[0], 0, f"{case}: asked by several threads")


def _module():
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.Dropout(0.2)
    )


@few_trees()
def same_under_row_order(seed, folder):
    """The order of the training rows does not matter; what is told of each row is told in its place."""
    rng = np.random.default_rng(seed)
    X, y = blobs(rng)
    model = some_model(rng)
    is_grouped = hasattr(model, "evidence") and getattr(model, "kernel", "") != "positive"
    groups = np.arange(len(X)) // 3 if is_grouped and rng.random() < 0.3 else None
    order = rng.permutation(len(X))
    first, second = clone(model), clone(model)
    if groups is None:
        first.fit(X, y), second.fit(X[order], y[order])
    else:
        first.fit(X, y, groups=groups), second.fit(X[order], y[order], groups=groups[order])
    case = f"same_under_row_order {seed}: {model}, groups: {groups is not None}"
    queries = np.concatenate([X, 2 * X, X + X.std()])
    error = np.abs(first.predict_proba(queries) - second.predict_proba(queries)).max()
    assert error < 0.01, f"{case}: probabilities differ by {error:.3g}"
    if not hasattr(first, "evidence"):
        return
    np.testing.assert_allclose(
        first.evidence(queries), second.evidence(queries), rtol=0.01, atol=0.01, err_msg=case
    )
    if hasattr(first, "oof_proba_"):
        same = np.abs(first.oof_proba_[order] - second.oof_proba_).max()
        assert same < 0.01, f"{case}: oof_proba_ is not in the order of the rows (by {same:.3g})"
        assert (first.folds_[order] == second.folds_).all(), f"{case}: folds_ is not in the order of the rows"
    _assert_places(first, X, y, case), _assert_places(second, X[order], y[order], case)


def _assert_places(model, X, y, case):
    """Whatever has an entry for each training row has it in the row's place."""
    assert (model.classes_[model.support_labels_] == y).all(), f"{case}: support_labels_"
    np.testing.assert_allclose(model.support_embeddings_, model.embed(X), rtol=1e-6, atol=1e-6, err_msg=case)
    indices, shares = model.neighbors(X)
    if getattr(model, "kernel", "") == "positive":
        return
    of_class = np.stack([(shares * (y[indices] == name)).sum(axis=1) for name in model.classes_], axis=1)
    of_class = of_class + share_of_line(model, X)
    missing = 1 - of_class.sum(axis=1, keepdims=True)
    expected = of_class + missing * model.class_prior_
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6, err_msg=f"{case}: neighbors")


@few_trees()
def seeds(seed, folder):
    """A fit with this ``random_state`` is finite and accurate."""
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[y]
    models = {
        "PNCA": pnca.PNCAClassifier(n_particles=4, hidden_layer_sizes=(20,), max_epochs=40, n_folds=3),
        "NCA": pnca.NCAClassifier(hidden_layer_sizes=(20,), max_epochs=40),
        "Ensemble": pnca.EnsembleClassifier(
            n_particles=3, hidden_layer_sizes=(20,), max_epochs=40, learning_rate=0.01
        ),
    }
    for name, model in models.items():
        model.set_params(random_state=seed, device="cpu").fit(X[:30], y[:30])
        found, case = answers(model, X[30:]), f"seeds {seed}: {name}"
        assert all(np.isfinite(v).all() for v in found.values()), f"{case}: not finite"
        accuracy = (found["labels"] == y[30:]).mean()
        assert accuracy >= 0.75, f"{case}: accuracy {accuracy:.2f}"
    forgotten = models["PNCA"].predict_proba(1e6 * np.ones((1, 4)))
    np.testing.assert_allclose(
        forgotten, models["PNCA"].class_prior_[None], atol=1e-6, err_msg=f"seeds {seed}"
    )
