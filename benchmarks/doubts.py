"""Measure rules by which a label is doubted, on the data of ``audits.py`` as they are and with some flipped.

``python benchmarks/doubts.py --draws 3`` appends a row for each fit to benchmarks/results/doubts.csv, so that
a run can be continued, and prints the tables of docs/audit.md; ``--report`` prints them from that file. Each
rule gets the same predictions out of fold. With ``PNCA_DATA_DIR`` some of ``tables30.npz`` are measured
too.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from audits import FIRST, FLIPPED, SETTINGS, N, flip, sources
from csv_rows import make_missing, read
from pnca import PNCAClassifier
from pnca.calibration.labels import doubted_labels, self_confidence

FloatArray = NDArray[np.float64]
Rows = NDArray[np.intp]

#: A share of false discoveries that is accepted, and what is believed of flips beforehand: examples.
FALSE, PRIOR_FLIPPED, PRIOR_RIGHT = 0.5, 1.0, 49.0
_ROUNDS = 200


def ours(proba: FloatArray, labels: Rows) -> Rows:
    """Doubt as an audit does."""
    return doubted_labels(proba, labels).rows


def _confident(proba: FloatArray, labels: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """The class that each example is confidently of, and whether there is one (Northcutt et al., 2021)."""
    is_above = proba >= self_confidence(proba, labels)
    return np.where(is_above, proba, -1).argmax(axis=1), is_above.any(axis=1)


def confident_joint(proba: FloatArray, labels: Rows) -> Rows:
    """Doubt examples that are confidently of another class: off the diagonal of the confident joint."""
    best, is_confident = _confident(proba, labels)
    return np.flatnonzero(is_confident & (best != labels))


def by_noise_rate(proba: FloatArray, labels: Rows) -> Rows:
    """Doubt, for each pair of classes, as many as the confident joint estimates, by their margin."""
    best, is_confident = _confident(proba, labels)
    joint = np.zeros((proba.shape[1], proba.shape[1]))
    np.add.at(joint, (labels[is_confident], best[is_confident]), 1)
    joint *= (np.bincount(labels, minlength=len(joint)) / joint.sum(axis=1).clip(1))[:, None]
    found: set[int] = set()
    for given, other in zip(*np.nonzero(joint), strict=True):
        if given != other:
            rows = np.flatnonzero(labels == given)
            margins = proba[rows, given] - proba[rows, other]
            found.update(rows[np.argsort(margins, kind="stable")[: round(joint[given, other])]].tolist())
    return np.array(sorted(found), dtype=np.intp)


def by_false_discoveries(proba: FloatArray, labels: Rows) -> Rows:
    """Doubt as many as half of which are expected to be flipped, at random and at an estimated rate."""
    own, rate = proba[np.arange(len(labels)), labels], FLIPPED
    others = (1 - own) / (proba.shape[1] - 1)
    for _ in range(_ROUNDS):
        is_flipped = rate * others / (rate * others + (1 - rate) * own)
        rate = (is_flipped.sum() + PRIOR_FLIPPED) / (len(labels) + PRIOR_FLIPPED + PRIOR_RIGHT)
    order = np.argsort(-is_flipped, kind="stable")
    expected = np.cumsum(1 - is_flipped[order]) / np.arange(1, len(order) + 1)
    few = np.flatnonzero(expected <= FALSE)
    return order[: few[-1] + 1] if len(few) else order[:0]


def least_believed(proba: FloatArray, labels: Rows) -> Rows:
    """Doubt one in twenty, as many as are flipped: those with the least share of their class's confidence."""
    return np.argsort(believed(proba, labels), kind="stable")[: round(FLIPPED * len(labels))]


def believed(proba: FloatArray, labels: Rows) -> FloatArray:
    """Probability of the label over the self-confidence of its class: (n,)."""
    return proba[np.arange(len(labels)), labels] / self_confidence(proba, labels)[labels]


RULES: dict[str, Callable[[FloatArray, Rows], Rows]] = {
    "audit": ours,
    "confident joint": confident_joint,
    "pruned by noise rate": by_noise_rate,
    "half false discoveries": by_false_discoveries,
    "least believed 5 %": least_believed,
}


def measure(name: str, seed: int, condition: str) -> dict[str, Any]:
    """Fit one draw, and count what each rule doubts and finds."""
    X, y = sources()[name]
    rng = np.random.RandomState(seed)
    rows = rng.permutation(len(y))[: min(N, len(y) * 3 // 4)]
    X, y, changed = X[rows], y[rows], np.empty(0, dtype=int)
    if condition == "flipped":
        y, changed = flip(y, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PNCAClassifier(random_state=seed, **SETTINGS).fit(X, y)
    return counted(name, seed, condition, model.oof_proba_, np.searchsorted(model.classes_, y), changed)


def counted(
    name: str, seed: int, condition: str, proba: FloatArray, labels: Rows, changed: NDArray[Any]
) -> dict[str, Any]:
    """What each rule doubts and finds by predictions (n, c) of labels (n,), of which some were changed."""
    found: dict[str, Any] = {"data": name, "seed": seed, "condition": condition, "n": len(labels)}
    found["changed"] = len(changed)
    for rule, doubted in RULES.items():
        rows = doubted(proba, labels)
        found |= {f"{rule} doubted": len(rows), f"{rule} found": len(np.intersect1d(rows, changed))}
    is_changed = np.isin(np.arange(len(labels)), changed)
    found["ranking"] = ""
    if len(changed):
        found["ranking"] = round(float(average_precision_score(is_changed, -believed(proba, labels))), 4)
    return found


def report(path: Path) -> str:
    """Shares of flips found, of doubts that are flips, and of labels doubted in data as they are, by rule."""
    rows = read(path)
    lines = ["| rule | doubted, as it is | flipped found | doubted are flipped |", "|---|--:|--:|--:|"]
    clean, flipped = ([r for r in rows if r["condition"] == c] for c in ("as it is", "flipped"))

    def total(cells: list[dict[str, str]], key: str) -> float:
        return sum(float(cell[key]) for cell in cells)

    for rule in RULES:
        doubted, hits = total(flipped, f"{rule} doubted"), total(flipped, f"{rule} found")
        share = total(clean, f"{rule} doubted") / total(clean, "n")
        precision = f"{hits / doubted:.2f}" if doubted else "-"
        lines.append(
            f"| {rule} | {100 * share:.1f} % | {hits / total(flipped, 'changed'):.2f} | {precision} |"
        )
    lines += ["", "| data | ranking | " + " | ".join(RULES) + " |", "|---|--:|" + "--:|" * len(RULES)]
    for name in dict.fromkeys(r["data"] for r in rows):
        own = [r for r in flipped if r["data"] == name]
        shares = [f"{total(own, f'{rule} found') / total(own, 'changed'):.2f}" for rule in RULES]
        lines.append(f"| {name} | {total(own, 'ranking') / len(own):.2f} | {' | '.join(shares)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/doubts.csv"))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--data", nargs="*", help="names of data sets; all without it")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        names, seeds = given.data or list(sources()), range(FIRST, FIRST + given.draws)
        tasks = [(n, seed, c) for seed in seeds for n in names for c in ("as it is", "flipped")]
        make_missing(given.out, ("data", "seed", "condition"), tasks, measure)
    print(report(given.out))


if __name__ == "__main__":
    main()
