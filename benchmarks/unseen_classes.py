"""Measure what `decide` answers of a class that was never seen, against the least familiarity and the score.

``python benchmarks/unseen_classes.py`` leaves out one class of a data set at a time, trains on the others,
asks about new inputs of these and about inputs of the class left out, writes a row for each fit and rule to
benchmarks/results/unseen_classes.csv and prints the tables of docs/decisions.md; ``--report`` prints them
from that file. With ``PNCA_DATA_DIR`` the tables of ``tables30.npz`` on which the method was set are measured
too, where they have three classes or more.
"""

import argparse
import csv
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, load_wine

from pnca import PNCAClassifier
from pnca.calibration.conformal import ROUNDING, conformal_p_values, held_out_p_values
from pnca.calibration.selective import certified_threshold

FloatArray = NDArray[np.float64]

TABLES = (
    "balance-scale",
    "cmc",
    "eucalyptus",
    "mfeat-fourier",
    "mfeat-morphological",
    "steel-plates-fault",
)
MAX_ERRORS, CONFIDENCE = (0.05, 0.1, 0.2), 0.9
LEVELS = (0.01, 0.02, 0.05, 0.1)
_MOST_ORDINARY, _MOST_UNSEEN, _MOST_CLASSES = 300, 200, 5


class Source(NamedTuple):
    """A data set, how many examples to train on, and how often each class is left out."""

    inputs: FloatArray
    labels: NDArray[Any]
    n: int
    n_draws: int
    n_left_out: int
    settings: dict[str, Any]


class Rule(NamedTuple):
    """What an answer needs."""

    min_familiarity: float
    is_floored: bool = True  # as much confidence as the least certain answer that was counted, if all were
    full_familiarity: float = 0.0  # the score is the confidence times the familiarity as a share of this


RULES = {
    **{f"{level:g}, no floor": Rule(level, is_floored=False) for level in LEVELS},
    **{f"{level:g}": Rule(level) for level in LEVELS},
    **{f"0.01, score by {full:g}": Rule(0.01, full_familiarity=full) for full in (0.05, 0.1, 0.2)},
}


class Asked(NamedTuple):
    """Training examples out of fold and new inputs, as a fit sees them."""

    held_out: FloatArray  # (n, c)
    held_out_evidence: FloatArray  # (n,)
    is_wrong: NDArray[np.bool_]  # (n,)
    proba: FloatArray  # (n', c)
    evidence: FloatArray  # (n',)
    new_is_wrong: NDArray[np.bool_]  # (n',)
    is_unseen: NDArray[np.bool_]  # (n',)


def sources() -> dict[str, Source]:
    """Data sets by name."""
    found = {
        "iris": Source(*load_iris(return_X_y=True), 60, 5, 3, {}),
        "wine": Source(*load_wine(return_X_y=True), 80, 5, 3, {}),
        "digits": Source(*load_digits(return_X_y=True), 100, 3, 10, {}),
    }
    if folder := os.environ.get("PNCA_DATA_DIR"):
        data = np.load(Path(folder) / "tables30.npz")
        for name in TABLES:
            X, y, columns = (data[f"{name}/{part}"] for part in ("X", "y", "cat"))
            codes = np.flatnonzero(columns) if columns.dtype == bool else columns.astype(int)
            settings = {"categorical_features": codes.tolist()} if len(codes) else {}
            n_classes = min(_MOST_CLASSES, len(np.unique(y)))
            found[name] = Source(X.astype(float), y, 100, 2, n_classes, settings)
    return found


def ask(source: Source, left_out: int, seed: int) -> Asked:
    """Fit without a class and ask about new inputs of the others, and about its own."""
    rng, (X, y) = np.random.RandomState(1000 * seed + left_out), source[:2]
    name = np.unique(y)[left_out]
    order = rng.permutation(np.flatnonzero(y != name))
    train, ordinary = order[: source.n], order[source.n :][:_MOST_ORDINARY]
    ordinary = ordinary[np.isin(y[ordinary], y[train])]
    unseen = rng.permutation(np.flatnonzero(y == name))[:_MOST_UNSEEN]
    model = PNCAClassifier(random_state=seed, device="cpu", **source.settings).fit(X[train], y[train])
    rows = np.concatenate([ordinary, unseen])
    proba = model.predict_proba(X[rows])
    return Asked(
        model.oof_proba_,
        model.oof_evidence_,
        model.oof_proba_.argmax(axis=1) != model.support_labels_,
        proba,
        model.evidence(X[rows]),
        model.classes_[proba.argmax(axis=1)] != y[rows],
        np.arange(len(rows)) >= len(ordinary),
    )


def answered(asked: Asked, rule: Rule, max_error: float) -> NDArray[np.bool_]:
    """Which of the new inputs (n',) a rule answers."""
    least = max(rule.min_familiarity, 1.5 / (len(asked.held_out) + 1))
    own = held_out_p_values(asked.held_out_evidence)
    new = conformal_p_values(asked.held_out_evidence, asked.evidence)
    scores, new_scores = asked.held_out.max(axis=1), asked.proba.max(axis=1)
    if rule.full_familiarity:
        scores = scores * (own / rule.full_familiarity).clip(max=1)
        new_scores = new_scores * (new / rule.full_familiarity).clip(max=1)
    is_familiar = own >= least - ROUNDING
    found = certified_threshold(scores[is_familiar], asked.is_wrong[is_familiar], max_error, CONFIDENCE)
    if found.value is None:
        return np.zeros(len(new), dtype=bool)
    below = scores[is_familiar & (scores < found.value)]
    enough = new_scores >= found.value if rule.is_floored else new_scores > below.max(initial=0)
    answers: NDArray[np.bool_] = enough & (new >= least - ROUNDING)
    return answers


def rows_of(name: str, left_out: int, seed: int, asked: Asked) -> Iterator[dict[str, Any]]:
    """What each rule answers."""
    unseen = asked.is_unseen
    for max_error in MAX_ERRORS:
        for rule in RULES:
            answers = answered(asked, RULES[rule], max_error)
            yield {
                "data": name,
                "left out": left_out,
                "seed": seed,
                "max_error": max_error,
                "rule": rule,
                "unseen": f"{answers[unseen].mean():.4f}",
                "ordinary": f"{answers[~unseen].mean():.4f}",
                "wrong": f"{(answers & asked.new_is_wrong)[~unseen].mean():.4f}",
            }


def report(path: Path) -> str:
    """Draw two tables in Markdown: means over the data sets by rule, and each set by the default's rule."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(dict.fromkeys(row["data"] for row in rows))

    def means(name: str, rule: str, max_error: float) -> FloatArray:
        own = [r for r in rows if (r["data"], r["rule"], r["max_error"]) == (name, rule, str(max_error))]
        return np.array([[float(r[key]) for key in ("unseen", "ordinary", "wrong")] for r in own]).mean(
            axis=0
        )

    def cells(of: dict[float, FloatArray]) -> str:
        return " | ".join(f"{u:.2f} | {o:.2f} | {w:.3f}" for u, o, w in of.values())

    def table(first: str, lines: dict[str, dict[float, FloatArray]]) -> list[str]:
        heads = [f"unseen, {100 * e:g} % | ordinary | and wrong" for e in MAX_ERRORS]
        body = [f"| {line} | {cells(of)} |" for line, of in lines.items()]
        return [f"| {first} | {' | '.join(heads)} |", f"|---|{'--:|' * 3 * len(MAX_ERRORS)}", *body]

    by_rule = {r: {e: np.mean([means(n, r, e) for n in names], axis=0) for e in MAX_ERRORS} for r in RULES}
    by_data = {n: {e: means(n, "0.05", e) for e in MAX_ERRORS} for n in names}
    return "\n".join([*table("least familiarity", by_rule), "", *table("data", by_data)])


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/unseen_classes.csv"))
    parser.add_argument("--data", nargs="*", help="names of data sets; all without it")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        found, writer = sources(), None
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), given.out.open("w", encoding="utf-8", newline="") as file:
            warnings.simplefilter("ignore")
            for name in given.data or list(found):
                for left_out in range(found[name].n_left_out):
                    for seed in range(found[name].n_draws):
                        rows = list(rows_of(name, left_out, seed, ask(found[name], left_out, seed)))
                        writer = writer or csv.DictWriter(file, list(rows[0]))
                        if not file.tell():
                            writer.writeheader()
                        writer.writerows(rows)
                        file.flush()
    print(report(given.out))


if __name__ == "__main__":
    main()
