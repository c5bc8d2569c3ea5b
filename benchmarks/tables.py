"""Measure the default and its rivals on the tables of ``tables30.npz``: 100 rows of each, and half of them.

Every cell (a table, a size, a draw, a model) is one line of a file of JSON lines, so that a run can be
continued; ``benchmarks/tables_report.py`` writes docs/tables.md from it. CatBoost and LightGBM are measured
where they are installed.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pnca
from pnca import PNCAClassifier
from pnca.calibration import apply_temperature, fit_temperature
from pnca.maths.pool import Answers, pool_weights
from pnca.models.experts import fit_forest, fit_linear
from pnca.models.options import Options
from pnca.models.plan import scaled
from pnca.models.pooling import prior_counts
from pnca.training.sampling import Examples, assign_folds
from pnca_studies.rivals.classical import CalibratedSVM, MedianGaussianProcess, logistic_regression

FloatArray = NDArray[np.float64]

#: Tables on which the method was set; it was run on the others once it stood still.
TUNING = (
    "balance-scale",
    "blood-transfusion-service-center",
    "breast-w",
    "cmc",
    "credit-approval",
    "diabetes",
    "dresses-sales",
    "eucalyptus",
    "kc2",
    "mfeat-fourier",
    "mfeat-morphological",
    "pc4",
    "qsar-biodeg",
    "steel-plates-fault",
    "tic-tac-toe",
)
SIZES = ("100", "half")
N_FOLDS = 5
#: Probability that a model gives at least to a class that it does not know.
_LEAST = 1e-9
_MOST_TESTED = 1000


class Draw(NamedTuple):
    """Rows to train on and to test on; encoded, as numbers without holes, and as they came."""

    inputs: FloatArray  # (n, p)
    labels: NDArray[np.int64]  # (n,), from 0 to c - 1
    tested: FloatArray  # (n_test, p)
    truth: NDArray[np.int64]  # (n_test,)
    raw: FloatArray  # (n, columns), categories as codes, holes NaN
    raw_tested: FloatArray  # (n_test, columns)
    categories: list[int]  # columns of raw that are categories


class Answer(NamedTuple):
    """Log class probabilities out of fold (n, c), None where a model has none, and of the tested rows."""

    out_of_fold: FloatArray
    tested: FloatArray


def draw_from(data: Any, name: str, size: str, seed: int) -> Draw:
    """Draw rows of a table at random; tested are at most 1,000 others, of classes that were drawn."""
    table, names, columns = data[f"{name}/X"].astype(float), data[f"{name}/y"], data[f"{name}/cat"]
    n = len(names) // 2 if size == "half" else int(size)
    order = np.random.RandomState(seed).permutation(len(names))
    train, test = order[:n], order[n:][:_MOST_TESTED]
    test = test[np.isin(names[test], names[train])]
    known, labels = np.unique(names[train], return_inverse=True)
    categories = np.flatnonzero(columns) if columns.dtype == bool else columns.astype(int)
    inputs, tested = encode(table[train], table[test], set(categories.tolist()))
    return Draw(
        inputs,
        labels.astype(np.int64),
        tested,
        np.searchsorted(known, names[test]),
        table[train],
        table[test],
        categories.tolist(),
    )


def encode(train: FloatArray, test: FloatArray, categories: set[int]) -> tuple[FloatArray, FloatArray]:
    """Categories as one column for each value (two values: one), holes as the median, no constant columns."""
    parts: list[tuple[FloatArray, FloatArray]] = []
    for number, (a, b) in enumerate(zip(train.T, test.T, strict=True)):
        known = np.unique(a[~np.isnan(a)])
        if number in categories:
            parts += [((a == v) * 1.0, (b == v) * 1.0) for v in (known[:1] if len(known) == 2 else known)]
        else:
            middle = float(np.median(a[~np.isnan(a)])) if len(known) else 0.0
            parts.append((np.nan_to_num(a, nan=middle), np.nan_to_num(b, nan=middle)))
    parts = [(a, b) for a, b in parts if a.std() > 0]
    return np.stack([a for a, _ in parts], axis=1), np.stack([b for _, b in parts], axis=1)


# Models: each from a draw and a seed to log probabilities, out of fold and tested


def class_shares(draw: Draw, seed: int) -> Answer:
    """Answer the class shares, whatever is asked."""
    shares = np.log(np.bincount(draw.labels) / len(draw.labels))
    return Answer(np.tile(shares, (len(draw.labels), 1)), np.tile(shares, (len(draw.truth), 1)))


def default(draw: Draw, seed: int) -> Answer:
    """Fit the default."""
    model = PNCAClassifier(random_state=seed, device="cpu").fit(draw.inputs, draw.labels)
    return Answer(np.log(model.oof_proba_.clip(_LEAST)), model.predict_log_proba(draw.tested))


def line_and_forest(draw: Draw, seed: int) -> Answer:
    """Pool the experts without neighbours, weights and all."""
    n_classes = int(draw.labels.max()) + 1
    given = Examples(
        inputs=draw.inputs,
        labels=draw.labels,
        classes=np.arange(n_classes),
        class_weight=np.ones(n_classes),
        input_shape=draw.inputs.shape[1:],
    )
    examples = scaled(Options.of(PNCAClassifier()).settled(given.input_shape), given)
    folds = assign_folds(draw.labels, N_FOLDS, np.random.RandomState(seed))
    fits = [fit_linear(examples, folds, seed), fit_forest(examples, folds, seed)]
    held_out = torch.stack([fit.log_probabilities for fit in fits])
    rows = torch.arange(len(draw.labels))
    likelihoods = held_out[:, rows, torch.from_numpy(draw.labels)].exp()
    counts = prior_counts(len(fits), n_classes, draw.inputs.shape[1])[1:]
    weights = pool_weights(likelihoods, torch.ones(len(rows)).double(), counts).log()[:, None]
    scaler = examples.scaler
    assert scaler is not None
    asked = scaler.apply(torch.from_numpy(draw.tested))
    tested = torch.stack([fit.expert.log_probabilities(asked) for fit in fits])
    return Answer(*(Answers(logs, weights).mean().numpy() for logs in (held_out, tested)))


def from_sklearn(build: Callable[[int], Any]) -> Callable[[Draw, int], Answer]:
    """Fit an estimator of scikit-learn to encoded rows, and once more in each fold."""

    def answer(draw: Draw, seed: int) -> Answer:
        def fitted(rows: NDArray[np.bool_], asked: FloatArray) -> FloatArray:
            model = make_pipeline(StandardScaler(), build(seed)).fit(draw.inputs[rows], draw.labels[rows])
            return filled(model.predict_proba(asked), model.classes_, draw)

        return in_folds(draw, seed, fitted, draw.inputs, draw.tested)

    return answer


def boosted(library: str) -> Callable[[Draw, int], Answer]:
    """Fit CatBoost or LightGBM to rows as they came; both know categories and holes."""

    def answer(draw: Draw, seed: int) -> Answer:
        prepare = as_catboost if library == "catboost" else as_lightgbm
        everything = prepare(np.vstack([draw.raw, draw.raw_tested]), draw.categories)
        asked_from = len(draw.raw)

        def fitted(rows: NDArray[np.bool_], asked: Any) -> FloatArray:
            model = booster(library, draw.categories, seed)
            model.fit(everything.iloc[:asked_from][rows], draw.labels[rows])
            return filled(model.predict_proba(asked), model.classes_, draw)

        return in_folds(draw, seed, fitted, everything.iloc[:asked_from], everything.iloc[asked_from:])

    return answer


def booster(library: str, categories: list[int], seed: int) -> Any:
    """Build a boosted model as its library recommends it, on one core."""
    if library == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(
            iterations=300,
            verbose=0,
            random_seed=seed,
            thread_count=1,
            cat_features=[str(column) for column in categories],
            allow_writing_files=False,
        )
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)


def as_catboost(table: FloatArray, categories: list[int]) -> Any:
    """Return a table whose categories are strings, a hole among them."""
    import pandas as pd

    columns = {str(i): pd.Series(column) for i, column in enumerate(table.T)}
    return pd.DataFrame({k: v.map(repr) if int(k) in categories else v for k, v in columns.items()})


def as_lightgbm(table: FloatArray, categories: list[int]) -> Any:
    """Return a table whose categories are pandas'."""
    import pandas as pd

    return pd.DataFrame(table).astype({column: "category" for column in categories})


MODELS: dict[str, Callable[[Draw, int], Answer]] = {
    "class shares": class_shares,
    "pnca": default,
    "line and forest": line_and_forest,
    "logistic regression": from_sklearn(logistic_regression),
    "random forest": from_sklearn(lambda seed: RandomForestClassifier(300, random_state=seed)),
    "SVM": from_sklearn(lambda seed: CalibratedSVM(random_state=seed)),
    "Gaussian process": from_sklearn(lambda seed: MedianGaussianProcess(random_state=seed)),
    "CatBoost": boosted("catboost"),
    "LightGBM": boosted("lightgbm"),
}


def filled(probabilities: FloatArray, classes: NDArray[Any], draw: Draw) -> FloatArray:
    """Log probabilities of all classes, of which a model may not know some."""
    every = np.full((len(probabilities), int(draw.labels.max()) + 1), _LEAST)
    every[:, classes.astype(int)] = probabilities.clip(_LEAST)
    logs: FloatArray = np.log(every / every.sum(axis=1, keepdims=True))
    return logs


def in_folds(
    draw: Draw,
    seed: int,
    fitted: Callable[[NDArray[np.bool_], Any], FloatArray],
    inputs: Any,
    tested: Any,
) -> Answer:
    """Fit to all rows, and to all but each fold."""
    folds = assign_folds(draw.labels, N_FOLDS, np.random.RandomState(seed))
    take = inputs.iloc.__getitem__ if hasattr(inputs, "iloc") else inputs.__getitem__
    held_out = np.empty((len(draw.labels), int(draw.labels.max()) + 1))
    for fold in range(N_FOLDS):
        held_out[folds == fold] = fitted(folds != fold, take(folds == fold))
    return Answer(held_out, fitted(np.ones(len(folds), dtype=bool), tested))


def measures(answer: Answer, draw: Draw) -> dict[str, float]:
    """Likelihood before and after the model's own temperature, accuracy and area under the curves."""
    rows = np.arange(len(draw.truth))
    temperature = fit_temperature(answer.out_of_fold, draw.labels, spread=None)
    calibrated = apply_temperature(answer.tested, temperature)
    probabilities = np.exp(calibrated)
    return {
        "nll": float(-np.maximum(answer.tested, np.log(_LEAST))[rows, draw.truth].mean()),
        "nll_calibrated": float(-np.maximum(calibrated, np.log(_LEAST))[rows, draw.truth].mean()),
        "accuracy": float((calibrated.argmax(axis=1) == draw.truth).mean()),
        "auroc": area(probabilities, draw.truth),
        "temperature": temperature,
    }


def area(probabilities: FloatArray, truth: NDArray[np.int64]) -> float:
    """Area under the curve of each class against the rest, averaged over the classes that are tested."""
    tested = [c for c in range(probabilities.shape[1]) if 0 < (truth == c).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == c, probabilities[:, c]) for c in tested]))


def cells(names: list[str], sizes: list[str], n_draws: int) -> Iterator[tuple[str, str, int]]:
    """Tables, sizes and draws, the first draw of all first."""
    for seed in range(n_draws):
        for size in sizes:
            for name in names:
                yield name, size, seed


def main() -> None:
    """Measure what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PNCA_DATA_DIR"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tables.jsonl")
    parser.add_argument("--part", choices=["tuning", "final"], default="tuning")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--draws", type=int, default=5)
    given = parser.parse_args()
    data = np.load(given.data_dir / "tables30.npz")
    every = sorted({key.split("/")[0] for key in data.files})
    names = TUNING if given.part == "tuning" else [name for name in every if name not in TUNING]
    done = set()
    if given.out.exists():
        lines = given.out.read_text(encoding="utf-8").splitlines()
        done = {(c["table"], c["size"], c["draw"], c["model"]) for c in map(json.loads, lines)}
    for name, size, seed in cells(names, given.sizes, given.draws):
        for model in given.models:
            if (name, size, seed, model) in done:
                continue
            draw, start = draw_from(data, name, size, seed), time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # rare classes, and optimisers at their limit
                answer = MODELS[model](draw, seed)
            cell = {"table": name, "size": size, "draw": seed, "model": model, "version": pnca.__version__}
            cell |= measures(answer, draw) | {"seconds": time.process_time() - start, "n": len(draw.labels)}
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")


if __name__ == "__main__":
    main()
