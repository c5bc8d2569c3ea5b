"""Measure what an audit finds: in data as they are, with flipped labels, and with planted faults.

``python benchmarks/audits.py --draws 3`` appends a row for each fit to benchmarks/results/audits.csv, so
that a run can be continued, and prints the tables of docs/audit.md; ``--report`` prints them from that file.
With ``PNCA_DATA_DIR`` some tables of ``tables30.npz`` are measured too.
"""

import argparse
import os
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from csv_rows import make_missing, read
from pnca import PNCAClassifier
from pnca.calibration.audit import KINDS

#: Six tables; the constants of the audit were chosen on other draws of the first two and of others.
TABLES = ("breast-w", "diabetes", "banknote-authentication", "vehicle", "mfeat-zernike", "ilpd")
SETTINGS: dict[str, Any] = {"n_particles": 4, "max_epochs": 20, "device": "cpu"}
CONDITIONS = ("as it is", "flipped", "planted")
#: The first draw, in which familiarity is measured, too; draws below it were those of choices.
FIRST = 10
N, FLIPPED, N_REPEATED, _MOST_NEW = 150, 0.05, 5, 500


def sources() -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Data sets by name."""
    names = {
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
        "digits": load_digits,
    }
    found = {name: load(return_X_y=True) for name, load in names.items()}
    if folder := os.environ.get("PNCA_DATA_DIR"):
        data = np.load(Path(folder) / "tables30.npz")
        for name in TABLES:
            labels = np.unique(data[f"{name}/y"], return_inverse=True)[1]
            found[name] = (data[f"{name}/X"].astype(float), labels)
    return found


def flip(y: NDArray[np.int64], rng: np.random.RandomState) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Labels of which one in twenty is another class, and the rows of those."""
    rows = rng.permutation(len(y))[: round(FLIPPED * len(y))]
    n_classes, given = int(y.max()) + 1, y.copy()
    given[rows] = (y[rows] + rng.randint(1, n_classes, size=len(rows))) % n_classes
    return given, rows


def plant(
    X: NDArray[np.float64], y: NDArray[np.int64], rng: np.random.RandomState
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.intp]]:
    """Five cases that repeat others but for noise, and a row number, a leak, a copy and a constant column."""
    rows = rng.permutation(len(y))
    copied, originals = rows[:N_REPEATED], rows[N_REPEATED : 2 * N_REPEATED]
    X, y, leak = X.copy(), y.copy(), y + 0.01 * rng.normal(size=len(y))
    y[copied], leak[copied] = y[originals], leak[originals]
    X[copied] = X[originals] + 1e-6 * np.nanstd(X, axis=0) * rng.normal(size=X[originals].shape)
    number = 5000.0 + np.arange(len(y))
    copy = 3 + 2 * X[:, np.nanargmax(np.nanstd(X, axis=0))]
    return np.column_stack([X, number, leak, copy, np.full(len(y), 7.0)]), y, copied


def measure(name: str, seed: int, condition: str) -> dict[str, Any]:
    """Fit one draw, and count what its audit finds."""
    X, y = sources()[name]
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(y))
    n = min(N, len(y) * 3 // 4)
    rows, new = order[:n], order[n : n + _MOST_NEW]
    X, y, new_inputs = X[rows], y[rows], X[new]
    changed = np.empty(0, dtype=int)
    n_columns = X.shape[1]
    if condition == "flipped":
        y, changed = flip(y, rng)
    if condition == "planted":
        X, y, changed = plant(X, y, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = PNCAClassifier(random_state=seed, **SETTINGS).fit(X, y).audit()
        counts = Counter(finding.kind for finding in audit)
        doubted = {f.what[0] for f in audit if f.kind == "doubted label"}
        repeated = {row for f in audit if f.kind in ("repeated", "contradiction") for row in f.what}
        found: dict[str, Any] = {"data": name, "seed": seed, "condition": condition, "n": len(y)}
        found |= {kind: counts[kind] for kind in KINDS}
        found["changed"] = len(changed)
        found["found"] = len((doubted if condition == "flipped" else repeated) & set(changed.tolist()))
        planted = {"number": n_columns, "leak": n_columns + 1}
        kinds = {"number": "identifier", "leak": "decider"}
        for what, column in planted.items():
            found[what] = sum(f.kind == kinds[what] and f.what == (column,) for f in audit)
        found["unfamiliar"] = found["unfamiliar with number"] = ""
        if condition == "as it is" and seed == FIRST:
            found |= unfamiliar(X, y, new_inputs, seed)
    return found


def unfamiliar(
    X: NDArray[np.float64], y: NDArray[np.int64], new: NDArray[np.float64], seed: int
) -> dict[str, float]:
    """Share of new inputs that decisions call unfamiliar, and with a row number left in."""
    shares = {}
    for key, numbers in (("unfamiliar", False), ("unfamiliar with number", True)):
        a, b = X, new
        if numbers:
            a = np.column_stack([X, np.arange(len(X))])
            b = np.column_stack([new, 10_000 + np.arange(len(new))])
        model = PNCAClassifier(random_state=seed, **SETTINGS).fit(a, y)
        shares[key] = float((model.decide(b).reason == "unfamiliar").mean())
    return shares


def report(path: Path) -> str:
    """Tables in Markdown: flipped labels; and what is found in data as they are and with planted faults."""
    rows = read(path)
    first = ["| data | n | doubted, as it is | doubted, 5 % flipped | flipped found | doubted are flipped |"]
    first.append("|---|--:|--:|--:|--:|--:|")
    second = ["| data | " + " | ".join(KINDS) + " | unfamiliar | with a row number |"]
    second.append("|---|" + "--:|" * (len(KINDS) + 2))
    for name in dict.fromkeys(row["data"] for row in rows):
        own = {c: [r for r in rows if r["data"] == name and r["condition"] == c] for c in CONDITIONS}
        clean, flipped = own["as it is"], own["flipped"]

        def total(cells: list[dict[str, str]], key: str) -> float:
            return sum(float(cell[key]) for cell in cells)

        n, doubted = total(flipped, "n"), total(flipped, "doubted label")
        precision = f"{total(flipped, 'found') / doubted:.2f}" if doubted else "-"
        parts = [
            name,
            clean[0]["n"],
            f"{100 * total(clean, 'doubted label') / total(clean, 'n'):.1f} %",
            f"{100 * doubted / n:.1f} %",
            f"{total(flipped, 'found') / total(flipped, 'changed'):.2f}",
            precision,
        ]
        first.append(f"| {' | '.join(parts)} |")
        means = [f"{total(clean, kind) / len(clean):.1f}".replace("0.0", "0") for kind in KINDS]
        (first_draw,) = [row for row in clean if row["seed"] == str(FIRST)]
        shares = [f"{float(first_draw[key]):.3f}" for key in ("unfamiliar", "unfamiliar with number")]
        second.append(f"| {' | '.join([name, *means, *shares])} |")
    return "\n".join([*first, "", *second, "", planted_sentence(rows)])


def planted_sentence(rows: list[dict[str, str]]) -> str:
    """What was found of what was planted."""
    own = [row for row in rows if row["condition"] == "planted"]
    n = len(own)
    numbers, leaks = (sum(int(row[key]) for row in own) for key in ("number", "leak"))
    copies, constants = (sum(int(row[key]) > 0 for row in own) for key in ("copy", "constant"))
    found, changed = (sum(int(row[key]) for row in own) for key in ("found", "changed"))
    return (
        f"Of {n} fits with planted faults the audit named the row number in {numbers}, the leak in {leaks}, "
        f"the copied column in {copies}, the constant one in {constants}, and {found} of the {changed} "
        "repeated rows."
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/audits.csv"))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--data", nargs="*", help="names of data sets; all without it")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        names, seeds = given.data or list(sources()), range(FIRST, FIRST + given.draws)
        tasks = [(name, seed, condition) for seed in seeds for name in names for condition in CONDITIONS]
        make_missing(given.out, ("data", "seed", "condition"), tasks, measure)
    print(report(given.out))


if __name__ == "__main__":
    main()
