"""Odd parameters of the five classifiers."""

import numpy as np

import pnca
from robustness.oddities import EITHER, ILLEGAL, LEGAL, MODULES, Odd, pick

#: Classes, and settings with which a case takes some milliseconds.
CLASSIFIERS = {
    "PNCAClassifier": {"n_particles": 2, "n_components": 3, "n_folds": None},
    "NCAClassifier": {"n_components": 3},
    "DNNClassifier": {},
    "EnsembleClassifier": {"n_particles": 2},
    "BNNClassifier": {"n_particles": 3},
}

_OF_ANY = [
    ("text", EITHER),
    ([], EITHER),
    ({}, EITHER),
    (object(), EITHER),
    (float("nan"), EITHER),
    (-1, EITHER),
    (1j, EITHER),
    (np.array([1, 2]), EITHER),
]
_COUNTS = [
    (0, ILLEGAL),
    (-3, ILLEGAL),
    (1.5, ILLEGAL),
    (2.0, ILLEGAL),
    (1, EITHER),
    (np.int8(3), EITHER),
    (np.uint64(2), EITHER),
    (True, EITHER),
    (np.bool_(True), EITHER),
    ("2", ILLEGAL),
]
_AMOUNTS = [
    (float("nan"), ILLEGAL),
    (float("inf"), EITHER),
    (-0.0, EITHER),
    (-1e-9, ILLEGAL),
    (0, EITHER),
    (1e-300, EITHER),
    (1e-8, EITHER),
    (1e8, EITHER),
    (1e38, EITHER),
    (1e300, EITHER),
    (10**400, EITHER),
    (np.float32(0.5), EITHER),
    (np.float16(0.5), EITHER),
    (True, EITHER),
    ("0.5", ILLEGAL),
]

VALUES = {
    "n_particles": [*_COUNTS, (4, LEGAL), ("auto", EITHER)],
    "n_components": [*_COUNTS, (40, LEGAL)],
    "bandwidth": [*_AMOUNTS, (1e-6, EITHER), (100.0, EITHER), ("auto", ILLEGAL)],
    "kernel": [
        ("exact", LEGAL), ("orthogonal", EITHER), ("positive", EITHER), ("rbf", ILLEGAL), (None, ILLEGAL),
        ("Exact", ILLEGAL), (np.str_("exact"), EITHER), (["exact"], ILLEGAL), (b"exact", ILLEGAL),
    ],
    "expectation": [("cross", LEGAL), ("shared", LEGAL), ("both", ILLEGAL), (None, ILLEGAL), (1, ILLEGAL)],
    "input_weight": [*_AMOUNTS, ("auto", LEGAL), (0.5, EITHER), (None, ILLEGAL)],
    "novelty": [(True, LEGAL), (False, LEGAL), (None, ILLEGAL), (1, EITHER), ("yes", ILLEGAL), (np.bool_(1), EITHER)],
    "background": [*_AMOUNTS, ("auto", EITHER), (0.1, LEGAL), (None, ILLEGAL)],
    "n_feature_blocks": [*_COUNTS, (30, LEGAL)],
    "update": [
        ("functional", EITHER), ("independent", EITHER), ("svgd", EITHER), ("as_published", EITHER), ("adam", ILLEGAL),
    ],
    "n_folds": [*_COUNTS, (2, EITHER), (3, EITHER), (1000, EITHER), (None, LEGAL), ("auto", ILLEGAL)],
    "experts": [
        ("auto", LEGAL), ((), LEGAL), (("linear",), EITHER), (["forest"], EITHER), (["forest", "linear"], EITHER),
        (["linear", "linear"], EITHER), (np.array(["linear"]), EITHER), ("linear", ILLEGAL), (["tree"], ILLEGAL),
        (None, ILLEGAL), ([None], ILLEGAL), ([["linear"]], ILLEGAL), (0, ILLEGAL), ([b"linear"], ILLEGAL),
    ],
    "categorical_features": [
        (None, LEGAL), ([], EITHER), ([0], EITHER), (np.array([0]), EITHER), ([True], EITHER), ([-1], ILLEGAL),
        (["age"], EITHER), ([0.5], ILLEGAL), ([None], ILLEGAL), ([[0]], ILLEGAL), ("age", ILLEGAL), (0, ILLEGAL),
        (np.zeros((2, 2)), ILLEGAL), ([float("nan")], ILLEGAL), ([10**30], ILLEGAL), (range(1), EITHER),
    ],
    "scaling": [("auto", LEGAL), ("columns", LEGAL), ("common", LEGAL), (None, EITHER), ("rows", ILLEGAL), (0, ILLEGAL)],
    "prior_precision": [*_AMOUNTS, (2.0, LEGAL)],
    "hidden_layer_sizes": [
        ((), LEGAL), ((5, 3), LEGAL), ([4], LEGAL), (np.array([4, 2]), EITHER), ((0,), ILLEGAL), ((-2, 3), ILLEGAL),
        ((2.5,), ILLEGAL), (4, ILLEGAL), ("44", ILLEGAL), ((True,), EITHER), ([[2, 2]], ILLEGAL), (("4",), ILLEGAL),
        (np.array(5), ILLEGAL), ((None,), ILLEGAL), (np.zeros((2, 2), int), ILLEGAL), ({4}, ILLEGAL), ({4: 1}, ILLEGAL),
        (range(2, 4), EITHER), ((10**30,), EITHER), ((2**62,), EITHER),
    ],
    "module": [*MODULES, (None, LEGAL)],
    "max_epochs": [*_COUNTS, (12, LEGAL), (None, ILLEGAL)],
    "learning_rate": [*_AMOUNTS, (0.1, EITHER), (None, ILLEGAL)],
    "solver": [("adam", LEGAL), ("nadam", LEGAL), ("sgd", ILLEGAL), (None, ILLEGAL)],
    "dropout": [*_AMOUNTS, (0.5, LEGAL), (0.999, EITHER), (1, ILLEGAL), (1.0, ILLEGAL)],
    "augmentation": [*_AMOUNTS, (1.0, EITHER)],
    "image_shape": [
        (None, LEGAL), ((2, 2), EITHER), ((1, 3), EITHER), ((2,), EITHER), ((), EITHER), ((1, 1, 1, 1), EITHER),
        ((2.5, 2), ILLEGAL), ("ab", ILLEGAL), (7, ILLEGAL), ((-1, -1), ILLEGAL), ((0, 0), ILLEGAL),
        (np.array([2, 2]), EITHER), (("2", "2"), ILLEGAL), ([[1, 2]], ILLEGAL), ((True, 3), EITHER), ({2: 1}, ILLEGAL),
        ((2**63, 2**63), EITHER),
    ],
    "batch_size": [*_COUNTS, (7, EITHER), (10**9, EITHER), (None, LEGAL), ("auto", EITHER)],
    "class_weight": [
        (None, LEGAL), ("balanced", EITHER), ({0: 2.0}, EITHER), ({"class 0": 2.0}, EITHER), ({0: 1e300, 1: 1e-300}, EITHER),
        ({0: -1.0, 1: 1.0}, EITHER), ({0: "heavy"}, EITHER), ({0: None}, EITHER), ({}, EITHER), ("equal", ILLEGAL), ([1, 2], ILLEGAL),
        ({99: 1.0}, EITHER), ({0: float("nan")}, EITHER), ({0: 1 + 1j}, EITHER), ({0: [1, 2]}, EITHER), ({(): 1}, EITHER),
        ({0: 10**400}, EITHER), ({0: True, 1: np.float32(3)}, EITHER),
    ],
    "device": [
        ("cpu", LEGAL), ("auto", LEGAL), ("meta", ILLEGAL), ("tpu", ILLEGAL), (None, ILLEGAL), ("cuda:99", ILLEGAL),
        ("cpu:0", EITHER), ("", ILLEGAL), ("CPU", ILLEGAL), (0, ILLEGAL),
    ],
    "random_state": [
        (0, LEGAL), (None, LEGAL), (2**32 - 1, LEGAL), (2**32, ILLEGAL), (-1, ILLEGAL), (1.5, ILLEGAL), ("seed", ILLEGAL),
        (np.random.RandomState(3), LEGAL), (np.random.default_rng(0), ILLEGAL), (np.int64(4), LEGAL), (True, EITHER), (10**30, ILLEGAL),
    ],
    "verbose": [(False, LEGAL), (0, LEGAL), (None, ILLEGAL), ("loud", ILLEGAL), (-1, EITHER), (1.5, ILLEGAL)],
}  # fmt: skip


def _places(module):
    return [place for place, (other, _) in enumerate(MODULES) if other is module]


def parameters(rng, is_odd):
    """A class of classifiers and its parameters, some of them odd: as Odd."""
    name = pick(rng, ["PNCAClassifier"] * 3 + list(CLASSIFIERS))
    settings = {
        "hidden_layer_sizes": (4,), "max_epochs": int(rng.integers(1, 7)), "device": "cpu",
        "random_state": int(rng.integers(100)), "learning_rate": 0.01, **CLASSIFIERS[name],
    }  # fmt: skip
    kind = getattr(pnca, name)
    if name == "PNCAClassifier" and rng.random() < 0.4:
        settings["n_folds"] = int(rng.integers(2, 4))
    own = sorted(set(kind._get_param_names()) & set(VALUES))
    verdict, odd = LEGAL, []
    for parameter in rng.permutation(own)[: pick(rng, [1, 1, 2, 4]) if is_odd else 0]:
        value, of_value = pick(rng, VALUES[parameter] + (_OF_ANY if rng.random() < 0.1 else []))
        settings[str(parameter)] = value
        verdict = max(verdict, of_value)
        shown = f"[{places[0]}]" if parameter == "module" and (places := _places(value)) else repr(value)
        odd.append(f"{parameter}={shown}"[:60])
    return Odd((kind, settings), f"{name}({', '.join(odd)})", verdict)
