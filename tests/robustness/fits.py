"""Small random fits of every kind of model."""

import warnings
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from torch import nn

from models import ALL, SOFTMAX, make
from pnca.models import experts


@contextmanager
def few_trees():
    """Forests of few trees, which are grown in a tenth of the time."""
    with patch.multiple(experts, _TREES=20, _TREES_IN_FOLDS=10):
        yield


def layers():
    """A user's module, with dropout of its own."""
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3))


def random_fit(rng, most_epochs=40):
    """A random model, and examples (n, 4), some with holes, or images, for it."""
    name, n, n_classes = str(rng.choice(ALL)), int(rng.randint(20, 150)), int(rng.randint(2, 4))
    settings = {
        "max_epochs": int(rng.randint(1, most_epochs)),
        "batch_size": [None, 8, 30][rng.randint(3)],
        "random_state": int(rng.randint(1000)),
    }
    if name not in SOFTMAX and name != "NCA":
        settings["n_folds"] = [None, 2, 3][rng.randint(3)]
    kind = str(rng.choice(["rows", "holes", "images", "module"]))
    if kind == "module":
        settings["module"] = layers
    shape = (5, 5) if kind == "images" else (4,)
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.normal(size=(n, *shape)) + y.reshape(-1, *[1] * len(shape))
    if kind == "holes":
        X[rng.rand(*X.shape) < 0.1] = np.nan
    return make(name, **settings), X.astype(np.float32), y


def fitted(model, X, y):
    """The model's clone, fitted; what it warns of does not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(X, y)


def outcome(model, X):
    """All that a fit led to, by name."""
    found = {name: value for name, value in vars(model).items() if isinstance(value, np.ndarray | float)}
    history = {f"history {name}": np.array(values) for name, values in model.history_.items()}
    return {**found, **history, "probabilities": model.predict_proba(X)}


def assert_same(found, expected, case):
    """Two outcomes are equal bit for bit."""
    assert found.keys() == expected.keys(), f"{case}: {sorted(found.keys() ^ expected.keys())}"
    for name, value in expected.items():
        assert np.array_equal(found[name], value, equal_nan=np.asarray(value).dtype.kind == "f"), (
            f"{case}: another {name}"
        )
