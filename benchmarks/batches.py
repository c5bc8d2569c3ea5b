"""Measure how often `decide` warns of batches that are as the training examples, or changed.

``python benchmarks/batches.py --draws 30`` writes a row for each draw, size and change to
benchmarks/results/batches.csv and prints the table of docs/decisions.md; ``--report`` prints it from that
file. With ``PNCA_DATA_DIR`` some tables of ``tables30.npz`` are measured too.
"""

import argparse
import csv
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from decisions import SETTINGS, sources
from pnca import PNCAClassifier

FloatArray = NDArray[np.float64]

SIZES, N_BATCHES = (10, 30, 100, 300, 1000), 5
#: A column of breast cancer, and what may happen to it between a laboratory and the next.
COLUMN, N_CHANGED = 21, 200  # worst texture
CHANGES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "divided by 10": lambda values: values / 10,
    "set to 0": np.zeros_like,
    "missing": lambda values: np.full_like(values, np.nan),
}


def fitted(X: FloatArray, y: NDArray[Any], seed: int) -> PNCAClassifier:
    """Fit a model as fast as it goes."""
    return PNCAClassifier(random_state=seed, **SETTINGS).fit(X, y)


def alarms(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Whether batches of each size that are drawn as the training examples cause a warning."""
    make, n = sources()[name]
    draw = make(n, np.random.RandomState(seed))
    model, rng = fitted(draw.inputs, draw.labels, seed), np.random.RandomState(seed)
    for size in [size for size in SIZES if size <= len(draw.new_labels)]:
        batches = [rng.permutation(len(draw.new_labels))[:size] for _ in range(N_BATCHES)]
        n_warned = sum(model.drift(draw.new_inputs[rows]).is_clear for rows in batches)
        yield {"data": name, "seed": seed, "size": size, "batches": N_BATCHES, "warned": n_warned}


def caught(seed: int) -> Iterator[dict[str, Any]]:
    """Whether changes of one column of breast cancer cause a warning."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.RandomState(seed).permutation(len(y))
    model, new = fitted(X[order[:150]], y[order[:150]], seed), X[order[150:][:N_CHANGED]]
    for name, change in CHANGES.items():
        batch = new.copy()
        batch[:, COLUMN] = change(batch[:, COLUMN])
        is_clear = model.drift(batch).is_clear
        yield {"data": name, "seed": seed, "size": N_CHANGED, "batches": 1, "warned": int(is_clear)}


def report(path: Path) -> str:
    """Draw a table in Markdown: batches that caused a warning, of all."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = ["| batches | of size | batches | warned |", "|---|--:|--:|--:|"]
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        sizes = sorted({int(row["size"]) for row in own})
        of_sizes = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
        n, n_warned = (sum(int(row[key]) for row in own) for key in ("batches", "warned"))
        what = f"breast cancer, worst texture {name}" if name in CHANGES else name
        lines.append(f"| {what} | {of_sizes} | {n:,} | {n_warned} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/batches.csv"))
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--data", nargs="*", help="names of data sets; all without groups if not given")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        names = given.data or [name for name in sources() if not name.startswith("patients")]
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), given.out.open("w", encoding="utf-8", newline="") as file:
            warnings.simplefilter("ignore")
            writer = csv.DictWriter(file, ["data", "seed", "size", "batches", "warned"])
            writer.writeheader()
            for name in names:
                for seed in range(given.draws):
                    writer.writerows(alarms(name, seed))
                    file.flush()
            for seed in range(given.draws):
                writer.writerows(caught(seed))
    print(report(given.out))


if __name__ == "__main__":
    main()
