"""A guard for changes that must not change results: many small fits, and all that they lead to.

Run it on two checkouts of the same machine and compare, bit for bit::

    OMP_NUM_THREADS=1 PYTHONPATH=FORMER/src python tests/manifest.py write former.npz
    OMP_NUM_THREADS=1 PYTHONPATH=src python tests/manifest.py write now.npz
    python tests/manifest.py compare former.npz now.npz

``tests/estimators/test_manifest.py`` compares the predictions of some of these fits with a file in the
repository. A commit that is meant to change results renews it, and names what changed::

    OMP_NUM_THREADS=1 PYTHONPATH=src python tests/manifest.py write tests/estimators/manifest.npz --stored
"""

import argparse
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris
from torch import nn

import pnca

#: Arrays and numbers that a fit leaves behind, where a model has them.
ATTRIBUTES = [
    "particles_",
    "oof_proba_",
    "oof_evidence_",
    "oof_loss_",
    "folds_",
    "pool_weights_",
    "bandwidth_",
    "background_",
    "input_weight_",
    "input_scale_",
    "novelty_depth_",
    "typical_log_residual_",
    "log_residual_spread_",
    "input_mean_",
    "input_directions_",
    "input_noise_",
    "best_epoch_",
    "augmentation_",
    "class_prior_",
    "class_weight_",
    "support_embeddings_",
    "class_features_",
    "places_",
    "place_scales_",
    "directions_",
    "frequencies_",
    "input_centre_",
    "input_spread_",
    "n_iter_",
]

#: Fits whose predictions are in the repository. Another instruction set of the processor moves these by less
#: than a tenth of the test's tolerance, and some of the others by more: rounding decides there.
STORED = [
    "PNCA exact shared folds=3",
    "PNCA exact cross folds=3",
    "PNCA orthogonal cross folds=3",
    "PNCA positive shared folds=3",
    "PNCA positive cross folds=None",
    "PNCA functional",
    "PNCA batches",
    "PNCA balanced",
    "PNCA module",
    "PNCA groups shared",
    "PNCA pooled",
    "PNCA pooled groups",
    "PNCA images",
    "NCA module",
    "DNN balanced",
    "BNN paper",
    "BNN as published",
    "Ensemble module",
]
PREDICTIONS = ["predict_log_proba", "oof_proba_"]

SMALL = {"hidden_layer_sizes": (8,), "max_epochs": 6, "random_state": 0, "device": "cpu"}


def iris() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every third row, labels as words, and what is asked: other rows and some far away."""
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return X[::3], names[y[::3]], np.concatenate([X[1::9], X[:2] + 30])


def digits(n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:n].reshape(-1, 8, 8), y[:n], X[n : n + 12].reshape(-1, 8, 8)


def groups() -> np.ndarray:
    return np.arange(50) // 2


def module() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.1), nn.Linear(6, 3))


def image_module() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))


def cases() -> dict[str, tuple]:
    """Name to (class, parameters, data, groups)."""
    P, found = pnca.PNCAClassifier, {}
    common = {"n_particles": 3, "n_components": 3, "experts": ()}

    def add(name, model, data=iris, groups=None, **parameters):
        found[name] = model, {**SMALL, **parameters}, data, groups

    for kernel, expectation, folds in product(
        ("exact", "orthogonal", "positive"), ("shared", "cross"), (None, 3)
    ):
        if (kernel, expectation) != ("orthogonal", "shared"):
            name = f"PNCA {kernel} {expectation} folds={folds}"
            add(name, P, kernel=kernel, expectation=expectation, n_folds=folds, **common)
    changes = {
        "functional": {"update": "functional", "solver": "nadam"},
        "functional cross": {"update": "functional", "expectation": "cross"},
        "batches": {"batch_size": 12, "n_folds": 3},
        "batches positive": {"batch_size": 12, "n_folds": 3, "kernel": "positive"},
        "batches cross": {"batch_size": 12, "n_folds": 3, "expectation": "cross"},
        "balanced": {"class_weight": {"setosa": 1.0, "versicolor": 3.0, "virginica": 0.5}},
        "balanced cross": {"class_weight": "balanced", "expectation": "cross"},
        "balanced positive": {
            "class_weight": {"setosa": 1, "versicolor": 3, "virginica": 1},
            "kernel": "positive",
        },
        "no novelty": {"novelty": False},
        "no factors": {"novelty": False, "input_weight": 0.0, "background": 0.0},
        "given": {"input_weight": 2.0, "background": 0.2, "dropout": 0.25, "bandwidth": 2.0},
        "unscaled": {"scaling": None, "n_folds": None},
        "columns": {"scaling": "columns"},
        "common scale": {"scaling": "common"},
        "linear": {"hidden_layer_sizes": ()},
        "deep": {"hidden_layer_sizes": (6, 5), "n_particles": 4},
        "module": {"module": module},
        "module instance": {"module": module(), "n_folds": None},
    }
    for name, change in changes.items():
        add(f"PNCA {name}", P, **{**common, "n_folds": 3, **change})
    for expectation in ("shared", "cross"):
        add(f"PNCA groups {expectation}", P, groups=groups, expectation=expectation, n_folds=3, **common)
    add("PNCA groups no folds", P, groups=groups, n_folds=None, **common)
    pooled = {**common, "n_folds": 3, "experts": "auto"}
    add("PNCA pooled", P, **pooled)
    add("PNCA pooled groups", P, groups=groups, **pooled)
    add("PNCA pooled balanced", P, class_weight="balanced", **pooled)
    add("PNCA pooled linear", P, **{**pooled, "experts": ("linear",)})
    images = {"n_components": 3, "n_particles": 4}
    add("PNCA images", P, digits, n_folds=3, **images)
    add("PNCA images cross", P, digits, n_folds=3, expectation="cross", **images)
    add("PNCA images positive", P, digits, n_folds=3, kernel="positive", **images)
    add("PNCA images strength", P, digits, n_folds=None, augmentation=0.5, **images)
    add("PNCA images unmoved", P, digits, n_folds=3, augmentation=0.0, **images)
    add("PNCA images module", P, digits, n_folds=3, module=image_module, **images)
    add("PNCA tiled", P, lambda: digits(700), batch_size=None, n_folds=2, **{**images, "n_particles": 2})
    add(
        "PNCA tiled cross",
        P,
        lambda: digits(700),
        batch_size=None,
        n_folds=2,
        expectation="cross",
        **{**images, "n_particles": 2},
    )
    add("PNCA tiled images", P, lambda: digits(500), batch_size=None, n_folds=2, **images)
    for name in ("PNCA", "NCA", "DNN", "BNN", "Ensemble"):
        settings = pnca.paper_settings(name)
        model = getattr(pnca, f"{name}Classifier")
        add(f"{name} paper", model, **{**settings, **SMALL})
        few = {} if name in ("NCA", "DNN") else {"n_particles": 3}
        if name != "PNCA":
            add(f"{name} images", model, digits, augmentation=0.7, dropout=0.1, **few)
            add(f"{name} module", model, module=module, **few)
            add(f"{name} balanced", model, class_weight="balanced", batch_size=16, **few)
    add("NCA groups", pnca.NCAClassifier, groups=groups)
    add("BNN as published", pnca.BNNClassifier, n_particles=3, update="as_published")
    return found


def results(case: tuple) -> dict[str, np.ndarray]:
    """All that a fit leads to, by name."""
    model, parameters, data, groups = case
    X, y, X_new = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Instances of modules are drawn anew, but what is frozen in them must be the same.
        torch.manual_seed(0)
        fitted = model(**parameters).fit(X, y, **({} if groups is None else {"groups": groups()}))
    found = {name: getattr(fitted, name) for name in ATTRIBUTES if hasattr(fitted, name)}
    if pool := found.get("pool_weights_"):
        found["pool_weights_"] = list(pool.values())
    found |= {f"history {name}": values for name, values in fitted.history_.items()}
    found["predict_log_proba"] = fitted.predict_log_proba(X_new)
    found["uncertainty"] = np.stack(fitted.uncertainty(X_new))
    found["predict"] = np.asarray(fitted.predict(X_new)).astype("U")
    if hasattr(fitted, "evidence"):
        found["evidence"] = fitted.evidence(X_new)
        found["embed"] = fitted.embed(X_new)
        found["neighbours"], found["shares"] = fitted.neighbors(X_new, k=4)
    return {name: np.asarray(value) for name, value in found.items()}


def named(name: str, found: dict[str, np.ndarray], parts: list[str] | None = None) -> dict[str, np.ndarray]:
    """Results of a case, or some parts of them, by the names that they have in a file."""
    return {f"{name}|{part}": array for part, array in found.items() if parts is None or part in parts}


def write(path: Path, only: str, *, is_stored: bool) -> None:
    torch.set_num_threads(1)
    arrays = {}
    for name, case in cases().items():
        if only in name and (not is_stored or name in STORED):
            print(name, flush=True)
            parts = PREDICTIONS if is_stored else None
            arrays |= named(name, results(case), parts)
    np.savez_compressed(path, **arrays)
    print(f"{path}: {len(arrays)} arrays of pnca in {Path(pnca.__file__).parent}")


def compare(former: Path, now: Path) -> int:
    """Print what differs; the exit status says whether anything does."""
    with np.load(former) as a, np.load(now) as b:
        missing = sorted(set(a.files) - set(b.files))
        different = [name for name in a.files if name in b.files and not _same(a[name], b[name])]
        for name in missing:
            print(f"missing: {name}")
        for name in different:
            far = (
                np.abs(a[name] - b[name]).max()
                if a[name].dtype.kind == "f" and a[name].shape == b[name].shape
                else ""
            )
            print(f"differs: {name} {far}")
        n_new = len(set(b.files) - set(a.files))
        print(f"{len(a.files)} arrays, {len(different)} differ, {len(missing)} missing, {n_new} new")
    return int(bool(different or missing))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="fit all cases and keep their results")
    writing.add_argument("path", type=Path)
    writing.add_argument("--only", default="", help="a part of the names")
    writing.add_argument("--stored", action="store_true", help="only what the test suite compares")
    comparing = commands.add_parser("compare", help="say what differs, bit for bit")
    comparing.add_argument("former", type=Path)
    comparing.add_argument("now", type=Path)
    given = parser.parse_args()
    if given.command == "write":
        write(given.path, given.only, is_stored=given.stored)
    else:
        sys.exit(compare(given.former, given.now))
