"""Measure how many labels suggestions save: rounds of labelling, beside random draws and the least margin.

``python benchmarks/suggest.py --draws 6`` appends a line for each fit to benchmarks/results/suggest.jsonl, so
that a run can be continued, and prints the tables of docs/audit.md; ``--report`` prints them from that file.
``PNCA_DATA_DIR`` names the folder with ``mnist.npz`` and ``tables30.npz``.
"""

import argparse
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca import PNCAClassifier
from pnca.evaluation import accuracy, negative_log_likelihood, paired_interval

#: Two tables of the half that choices are made on; steel-plates-fault, breast-w, eucalyptus and the 8 x 8
#: digits were those on which the criterion was chosen.
DATA = ("MNIST", "qsar-biodeg", "mfeat-morphological")
WAYS = ("random", "margin", "suggest")
SETTINGS: dict[str, Any] = {"n_particles": 4, "max_epochs": 20, "device": "cpu"}
#: Labels at the start, in a round, in the end, and in the end of random draws, which need more.
START, ROUND, LAST, LAST_RANDOM = 20, 20, 120, 220
#: Sizes at which differences are reported.
REPORTED = (60, 120)
_MOST_POOL, _MOST_TESTED = 1500, 1500


class Question(NamedTuple):
    """A pool whose labels can be bought, and new examples."""

    pool: NDArray[np.float64]
    labels: NDArray[np.int64]
    tested: NDArray[np.float64]
    truth: NDArray[np.int64]


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A whole data set; images as rows of 14 x 14 means, which a fit is quick on."""
    folder = Path(os.environ["PNCA_DATA_DIR"])
    if name == "MNIST":
        data = np.load(folder / "mnist.npz")
        images = data["x_train"][:20000].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
        return images.reshape(len(images), -1), data["y_train"][:20000].astype(np.int64)
    data = np.load(folder / "tables30.npz")
    return data[f"{name}/X"].astype(float), np.unique(data[f"{name}/y"], return_inverse=True)[1]


def draw(X: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> Question:
    """Random rows: at least a third to test on, the others as the pool."""
    order = np.random.RandomState(seed).permutation(len(y))
    n_tested = min(_MOST_TESTED, len(y) // 3)
    tested, pool = order[:n_tested], order[n_tested : n_tested + _MOST_POOL]
    return Question(X[pool], y[pool], X[tested], y[tested])


def first_rows(labels: NDArray[np.int64]) -> list[int]:
    """The first two of each class, and the next until there are enough."""
    rows = [int(row) for c in np.unique(labels) for row in np.flatnonzero(labels == c)[:2]]
    return rows + [row for row in range(len(labels)) if row not in rows][: max(0, START - len(rows))]


def next_rows(
    way: str, model: PNCAClassifier, X: NDArray[np.float64], rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Rows of a pool to label next."""
    if way == "random":
        return rng.permutation(len(X))[:ROUND]
    if way == "suggest":
        return model.suggest(X, ROUND).rows
    two_largest = np.sort(model.predict_proba(X), axis=1)[:, -2:]
    return np.diff(two_largest)[:, 0].argsort(kind="stable")[:ROUND]


def measure(question: Question, way: str, seed: int, known: Sequence[dict[str, Any]], write: Any) -> None:
    """Label in rounds; each fit is written, and those that are known are not made again."""
    have, rng = first_rows(question.labels), np.random.RandomState(1000 + seed)
    found = {cell["n"]: cell for cell in known}
    last = LAST_RANDOM if way == "random" else LAST
    while len(have) <= last:
        cell = found.get(len(have))
        if cell is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = PNCAClassifier(random_state=seed, **SETTINGS)
                model.fit(question.pool[have], question.labels[have])
                proba = model.predict_proba(question.tested)
                rest = np.setdiff1d(np.arange(len(question.labels)), have)
                chosen = rest[next_rows(way, model, question.pool[rest], rng)]
            cell = {
                "n": len(have),
                "accuracy": accuracy(question.truth, proba),
                "nll": negative_log_likelihood(question.truth, proba),
                "next": chosen.tolist(),
            }
            write(cell)
        elif way == "random":
            rng.permutation(len(question.labels) - len(have))
        have += cell["next"]


def read(path: Path) -> list[dict[str, Any]]:
    """Cells of a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(path: Path, names: Sequence[str], draws: Sequence[int]) -> None:
    """Make the cells that the file lacks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for seed in draws:
        for name in names:
            question = draw(*load(name), seed)
            for way in WAYS:
                key = {"data": name, "draw": seed, "way": way}
                known = [cell for cell in read(path) if all(cell[k] == v for k, v in key.items())]

                def write(cell: dict[str, Any], key: dict[str, Any] = key) -> None:
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(key | cell) + "\n")

                measure(question, way, seed, known, write)


def curves(cells: list[dict[str, Any]], name: str, way: str, measure: str) -> tuple[Any, Any]:
    """Sizes (s,) and values (draws, s) of the draws that are complete in every way."""
    own = [cell for cell in cells if cell["data"] == name]
    last = {w: max((c["n"] for c in own if c["way"] == w), default=0) for w in WAYS}
    ends = [{c["draw"] for c in own if c["way"] == w and c["n"] == last[w]} for w in WAYS]
    draws = sorted(set.intersection(*ends))
    sizes = sorted({c["n"] for c in own if c["way"] == way})
    at = {(c["draw"], c["n"]): c[measure] for c in own if c["way"] == way}
    return np.array(sizes), np.array([[at[draw, size] for size in sizes] for draw in draws])


def labels_needed(sizes: Any, values: Any, target: float) -> float:
    """Labels at which a mean curve (s,) of losses first reaches a target; infinite if it never does."""
    lowest = np.minimum.accumulate(values)
    if target < lowest[-1]:
        return float("inf")
    return float(np.interp(-target, -lowest, sizes))


def saved(cells: list[dict[str, Any]], name: str, way: str, n: int) -> tuple[float, float, float]:
    """Random labels that reach what n labels of a way reach, less n, by NLL; 95 % over resampled draws."""
    sizes, of_random = curves(cells, name, "random", "nll")
    own_sizes, own = curves(cells, name, way, "nll")
    rng, place = np.random.RandomState(0), int(np.flatnonzero(own_sizes == n)[0])

    def of(rows: Any) -> float:
        return labels_needed(sizes, of_random[rows].mean(axis=0), own[rows, place].mean()) - n

    resampled = [of(rng.randint(len(own), size=len(own))) for _ in range(2000)]
    low, high = np.quantile(resampled, [0.025, 0.975], method="nearest")
    return of(np.arange(len(own))), float(low), float(high)


def report(path: Path) -> str:
    """Tables in Markdown: differences to random draws, and labels saved."""
    cells = read(path)
    rows = ["| data | labels | random: accuracy, NLL | way | accuracy | NLL | labels saved |"]
    rows.append("|---|--:|--:|---|--:|--:|--:|")
    for name in dict.fromkeys(cell["data"] for cell in cells):
        for n in REPORTED:
            for way in WAYS[1:]:
                base, parts = [], []
                for of in ("accuracy", "nll"):
                    sizes, random = curves(cells, name, "random", of)
                    place = int(np.flatnonzero(sizes == n)[0])
                    base.append(f"{random[:, place].mean():.3f}")
                    own_sizes, own = curves(cells, name, way, of)
                    at = int(np.flatnonzero(own_sizes == n)[0])
                    mean, low, high = paired_interval(own[:, at], random[:, place])
                    parts.append(f"{mean:+.3f} ({low:+.3f} to {high:+.3f})")
                amount, low, high = saved(cells, name, way, n)
                most = int(sizes[-1]) - n
                text = f"{_saved(amount, most)} ({_saved(low, most)} to {_saved(high, most)})"
                rows.append(f"| {name} | {n} | {', '.join(base)} | {way} | {' | '.join(parts)} | {text} |")
    return "\n".join(rows)


def _saved(value: float, most: int) -> str:
    return f"{value:.0f}" if np.isfinite(value) else f"over {most}"


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/suggest.jsonl"))
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--data", nargs="*", default=DATA, help="names of data sets")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        run(given.out, given.data, range(given.draws))
    print(report(given.out))


if __name__ == "__main__":
    main()
