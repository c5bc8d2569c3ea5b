"""Measure what decisions promise: many draws of training examples, each with new examples to compare.

``python benchmarks/decisions.py --draws 50`` writes a row for each draw to benchmarks/results/decisions.csv
and prints the tables of docs/decisions.md; ``--report`` prints them from that file. With ``PNCA_DATA_DIR``
some tables of ``tables30.npz`` are measured too.
"""

import argparse
import csv
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from pnca import PNCAClassifier

FloatArray = NDArray[np.float64]

TABLES = ("banknote-authentication", "vehicle", "mfeat-zernike")
SETTINGS = {"n_particles": 4, "max_epochs": 20, "device": "cpu"}
#: The share of wrong answers that is allowed, and the probability with which that is promised.
MAX_ERRORS, CONFIDENCE, COVERAGE = (0.05, 0.1), 0.9, 0.9
_MOST_TESTED, _BATCH = 1000, 50
#: Sizes of batches that are drawn as the training examples were, and how many of each.
SIZES, N_BATCHES = (10, 30, 100, 300, 1000), 5
#: A column of breast cancer (worst texture), what may happen to it from one laboratory to the next, and to
#: how many rows.
COLUMN, N_CHANGED = 21, 200
CHANGES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "divided by 10": lambda values: values / 10,
    "set to 0": np.zeros_like,
    "missing": lambda values: np.full_like(values, np.nan),
}


class Draw(NamedTuple):
    """Examples to train on and new ones."""

    inputs: FloatArray
    labels: NDArray[Any]
    new_inputs: FloatArray
    new_labels: NDArray[Any]
    groups: NDArray[np.int64] | None = None


def gaussians(n: int, rng: np.random.RandomState) -> Draw:
    """Two classes that overlap; one in ten is on the wrong side of the best boundary."""
    y = rng.randint(2, size=n + _MOST_TESTED)
    X = rng.normal(size=(len(y), 5)) + np.outer(2 * y - 1, np.full(5, 1.2816 / math.sqrt(5)))
    return Draw(X[:n], y[:n], X[n:], y[n:])


def noisy_labels(n: int, rng: np.random.RandomState) -> Draw:
    """Three classes far apart; one label in twenty-five is another's, where confidence is high."""
    y = rng.randint(3, size=n + _MOST_TESTED)
    X = rng.normal(size=(len(y), 4)) + 5 * np.eye(3, 4)[y]
    given = np.where(rng.uniform(size=len(y)) < 0.04, (y + rng.randint(1, 3, size=len(y))) % 3, y)
    return Draw(X[:n], given[:n], X[n:], given[n:])


def patients(n: int, rng: np.random.RandomState) -> Draw:
    """Groups of four examples that are alike; new examples are one of each new group."""
    n_groups = n // 4
    group = np.concatenate([np.repeat(np.arange(n_groups), 4), n_groups + np.arange(_MOST_TESTED)])
    y = rng.randint(2, size=group.max() + 1)[group]
    own = 0.8 * rng.normal(size=(group.max() + 1, 5))[group]
    X = own + 0.6 * rng.normal(size=own.shape) + np.outer(2 * y - 1, np.full(5, 0.7))
    k = 4 * n_groups
    return Draw(X[:k], y[:k], X[k:], y[k:], group[:k])


def from_table(X: FloatArray, y: NDArray[Any]) -> Callable[[int, np.random.RandomState], Draw]:
    """Draws of rows without return."""

    def draw(n: int, rng: np.random.RandomState) -> Draw:
        order = rng.permutation(len(y))
        a, b = order[:n], order[n:][:_MOST_TESTED]
        b = b[np.isin(y[b], y[a])]
        return Draw(X[a], y[a], X[b], y[b])

    return draw


def sources() -> dict[str, tuple[Callable[[int, np.random.RandomState], Draw], int]]:
    """Data sets by name, and how many examples to train on."""
    found: dict[str, Any] = {
        "gaussians": (gaussians, 200),
        "noisy labels": (noisy_labels, 200),
        "patients (50 groups of 4)": (patients, 200),
        "patients (100 groups of 4)": (patients, 400),
        "iris": (from_table(*load_iris(return_X_y=True)), 75),
        "wine": (from_table(*load_wine(return_X_y=True)), 90),
        "breast cancer": (from_table(*load_breast_cancer(return_X_y=True)), 150),
        "digits": (from_table(*load_digits(return_X_y=True)), 200),
    }
    if folder := os.environ.get("PNCA_DATA_DIR"):
        data = np.load(Path(folder) / "tables30.npz")
        for name in TABLES:
            if f"{name}/X" in data.files:
                found[name] = (from_table(data[f"{name}/X"].astype(float), data[f"{name}/y"]), 200)
    return found


def measure(name: str, seed: int) -> dict[str, Any]:
    """Fit one draw and compare what is promised with what new examples show."""
    make, n = sources()[name]
    draw = make(n, np.random.RandomState(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_groups = {} if draw.groups is None else {"groups": draw.groups}
        model = PNCAClassifier(random_state=seed, **SETTINGS).fit(draw.inputs, draw.labels, **fit_groups)
        found: dict[str, Any] = {
            "data": name,
            "n": len(draw.labels),
            "seed": seed,
            "tested": len(draw.new_labels),
        }
        familiarity = model.familiarity(draw.new_inputs)
        for level in (0.02, 0.05, 0.1, 0.2):
            found[f"below {level}"] = float((familiarity <= level).mean())
        sets = model.predict_set(draw.new_inputs, coverage=COVERAGE)
        truth = np.searchsorted(model.classes_, draw.new_labels)
        found["covered"] = float(sets[np.arange(len(truth)), truth].mean())
        found["size"] = float(sets.sum(axis=1).mean())
        for allowed in MAX_ERRORS:
            decisions = model.decide(draw.new_inputs, max_error=allowed, confidence=CONFIDENCE)
            is_answered = decisions.reason == "answered"
            found[f"answered {allowed}"] = int(is_answered.sum())
            found[f"wrong {allowed}"] = int((decisions.label != draw.new_labels)[is_answered].sum())
        found["error"] = float((model.predict(draw.new_inputs) != draw.new_labels).mean())
        for key, batch in (("drift", draw.new_inputs[:_BATCH]), ("drift of all", draw.new_inputs)):
            drift = model.drift(batch)
            found |= {f"{key} p": drift.p_value, f"{key} share": drift.share}
        return found | warned(model, draw, seed) | caught(model, draw, name)


def warned(model: PNCAClassifier, draw: Draw, seed: int) -> dict[str, int]:
    """How many batches of each size cause a warning; -1 where there are not so many new examples."""
    rng, found = np.random.RandomState(seed), {f"warned {size}": -1 for size in SIZES}
    n_new = len(draw.new_labels)
    for size in [size for size in SIZES if size <= n_new]:
        batches = [draw.new_inputs[rng.permutation(n_new)[:size]] for _ in range(N_BATCHES)]
        groups = None if draw.groups is None else np.arange(size)
        found[f"warned {size}"] = sum(model.drift(batch, groups=groups).is_clear for batch in batches)
    return found


def caught(model: PNCAClassifier, draw: Draw, name: str) -> dict[str, int]:
    """Whether each change causes a warning; -1 for other data sets."""
    found = dict.fromkeys((f"caught {change}" for change in CHANGES), -1)
    if name == "breast cancer":
        for change, changed in CHANGES.items():
            batch = draw.new_inputs[:N_CHANGED].copy()
            batch[:, COLUMN] = changed(batch[:, COLUMN])
            found[f"caught {change}"] = int(model.drift(batch).is_clear)
    return found


def rows_of(path: Path) -> Iterator[tuple[str, list[dict[str, float]]]]:
    """Rows of a file by data set, in their order."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        yield name, [{key: float(value) for key, value in row.items() if key != "data"} for row in own]


def report(path: Path) -> str:
    """Three tables in Markdown: familiarity, sets and drift; answers; and warnings of batches."""
    first = ["| data | n | p ≤ .05 | p ≤ .1 | p ≤ .2 | class in set | size of set | drift, 50 | drift, all |"]
    first.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    second = ["| data | error | answered, 5 % | wrong | above 5 % | answered, 10 % | wrong | above 10 % |"]
    second.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    third = ["| batches | of size | batches | warned |", "|---|--:|--:|--:|"]
    changed = []
    for name, rows in rows_of(path):
        mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        alarms = [np.mean([row[f"{key} p"] < 0.05 for row in rows]) for key in ("drift", "drift of all")]
        cells = [name, f"{mean['n']:.0f}"]
        cells += [f"{mean[f'below {level}']:.3f}" for level in (0.05, 0.1, 0.2)]
        cells += [f"{mean['covered']:.3f}", f"{mean['size']:.2f}", *(f"{a:.2f}" for a in alarms)]
        first.append(f"| {' | '.join(cells)} |")
        cells = [name, f"{mean['error']:.3f}"]
        for allowed in MAX_ERRORS:
            answered, wrong = ([row[f"{key} {allowed}"] for row in rows] for key in ("answered", "wrong"))
            above = sum(w > allowed * a for a, w in zip(answered, wrong, strict=True))
            share = sum(answered) / sum(row["tested"] for row in rows)
            error = f"{sum(wrong) / sum(answered):.3f}" if sum(answered) else "-"
            cells += [f"{share:.2f}", error, f"{above} of {len(rows)}"]
        second.append(f"| {' | '.join(cells)} |")
        sizes = [size for size in SIZES if rows[0][f"warned {size}"] >= 0]
        n_warned = sum(int(row[f"warned {size}"]) for row in rows for size in sizes)
        n_batches = N_BATCHES * len(sizes) * len(rows)
        third.append(f"| {name} | {sizes[0]} to {sizes[-1]} | {n_batches:,} | {n_warned} |")
        for change in CHANGES:
            if rows[0][f"caught {change}"] >= 0:
                n_caught = sum(int(row[f"caught {change}"]) for row in rows)
                line = f"| {name}, worst texture {change} | {N_CHANGED} | {len(rows)} | {n_caught} |"
                changed.append(line)
    return "\n".join([*first, "", *second, "", *third, *changed])


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/decisions.csv"))
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", nargs="*", help="names of data sets; all without it")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        names = given.data or list(sources())
        tasks = [(name, seed) for seed in range(given.draws) for name in names]
        rows = Parallel(n_jobs=given.jobs, return_as="generator")(delayed(measure)(*task) for task in tasks)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", encoding="utf-8", newline="") as file:
            writer = None
            for row in rows:
                if writer is None:
                    writer = csv.DictWriter(file, list(row))
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
    print(report(given.out))


if __name__ == "__main__":
    main()
