"""Measure what learning curves foretell: the gain of 100 more labels, beside the gain when they are there.

``python benchmarks/curves.py --draws 3`` appends a row for each draw to benchmarks/results/curves.csv, so
that a run can be continued, and prints the tables of docs/audit.md; ``--report`` prints them from that file.
Simulated curves, whose gain is known, are drawn anew each time. With ``PNCA_DATA_DIR`` tables of
``tables30.npz`` are measured too.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from csv_rows import make_missing, read
from pnca import PNCAClassifier
from pnca.calibration.laws import power_laws
from pnca.calibration.learning import default_sizes
from pnca.evaluation import accuracy, negative_log_likelihood

FloatArray = NDArray[np.float64]

TABLES = (
    "diabetes",
    "qsar-biodeg",
    "steel-plates-fault",
    "banknote-authentication",
    "vehicle",
    "mfeat-zernike",
)
#: Without the forest, for speed: a curve takes 25 fits.
SETTINGS: dict[str, Any] = {"n_particles": 4, "max_epochs": 20, "experts": ("linear",), "device": "cpu"}
N, MORE, _MOST_TESTED = 100, 100, 1500
#: Floors, exponents and sizes of simulated curves, and how much a fit differs from the mean of its size.
FLOORS, CURVES_EXPONENTS, SIZES, SPREADS = (0.0, 0.3), (0.3, 0.6, 1.0), (100, 300), (0.1, 0.25)
#: The first draw; by draws 200 to 204 and 300 to 303 it was decided how the spread of fits is estimated.
FIRST = 400
_PATHS, _HARDNESS = 5, 0.5


def sources() -> dict[str, tuple[FloatArray, NDArray[np.int64]]]:
    """Data sets by name."""
    found = {"breast cancer": load_breast_cancer(return_X_y=True), "digits": load_digits(return_X_y=True)}
    if folder := os.environ.get("PNCA_DATA_DIR"):
        data = np.load(Path(folder) / "tables30.npz")
        for name in TABLES:
            labels = np.unique(data[f"{name}/y"], return_inverse=True)[1]
            found[name] = (data[f"{name}/X"].astype(float), labels)
    return found


def measure(name: str, seed: int) -> dict[str, Any]:
    """What a curve of 100 examples foretells, and what 100 further ones bring."""
    X, y = sources()[name]
    order = np.random.RandomState(seed).permutation(len(y))
    tested = order[N + MORE :][:_MOST_TESTED]
    tested = tested[np.isin(y[tested], y[order[:N]])]  # a class without examples cannot be learnt
    found: dict[str, Any] = {"data": name, "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (N, N + MORE):
            model = PNCAClassifier(random_state=seed, **SETTINGS).fit(X[order[:n]], y[order[:n]])
            proba, truth = model.predict_proba(X[tested]), np.searchsorted(model.classes_, y[tested])
            found[f"nll {n}"] = negative_log_likelihood(truth, proba)
            found[f"accuracy {n}"] = accuracy(truth, proba)
            if n == N:
                curve = model.learning_curve()
    for of in ("nll", "accuracy"):
        found |= {f"{of} {end}": value for end, value in curve.gain(MORE, of)._asdict().items()}
    return found | {"note": curve.note}


class Simulated(NamedTuple):
    """Losses (n, s) of left-out examples, their paths, the sizes, and the gains that are true."""

    losses: FloatArray
    paths: NDArray[np.int64]
    sizes: list[int]
    gain: float  # of the mean
    own: float  # of one draw of n examples and those that are added


def simulate(n: int, floor: float, exponent: float, spread: float, rng: np.random.RandomState) -> Simulated:
    """Draw a curve whose law is known."""
    factor = rng.uniform(0.2, 0.8) * 20**exponent

    def mean(size: Any) -> Any:
        return floor + factor * np.asarray(size, dtype=float) ** -exponent

    sizes = default_sizes(10, round(0.8 * n))
    paths = np.arange(n) % _PATHS
    steps = rng.normal(size=(_PATHS, len(sizes))) * spread * (mean(sizes) - floor)
    for s in range(1, len(sizes)):  # subsets are nested: neighbouring sizes err alike
        steps[:, s] = 0.5 * steps[:, s - 1] + np.sqrt(0.75) * steps[:, s]
    # Few examples have most of the loss.
    hardness = rng.gamma(_HARDNESS, 1 / _HARDNESS, size=(n, 1))
    own = 1 + 0.3 * rng.normal(size=(n, len(sizes)))
    losses = ((mean(sizes) + steps)[paths] * hardness * own).clip(min=0)
    gain = float(mean(n) - mean(n + MORE))
    first, second = rng.normal(size=2) * spread
    correlation = 0.5 ** (np.log1p(MORE / n) / np.log(sizes[1] / sizes[0]))  # as that of sizes so far apart
    second = correlation * first + np.sqrt(1 - correlation**2) * second
    own = gain + first * (mean(n) - floor) - second * (mean(n + MORE) - floor)
    return Simulated(losses, paths, sizes, gain, float(own))


def simulated(draws: int) -> str:
    """Coverage of the 90 % intervals for simulated curves, in a table."""
    rows = [
        "| examples | exponent | spread of fits | mean gain held | own gain held | mean width / gain "
        "| mean gain / gain |"
    ]
    rows.append("|--:|--:|--:|--:|--:|--:|--:|")
    for n in SIZES:
        for exponent in CURVES_EXPONENTS:
            for spread in SPREADS:
                rng, found = np.random.RandomState(0), []
                for place in range(draws):
                    floor = FLOORS[place % len(FLOORS)]
                    losses, paths, sizes, gain, own = simulate(n, floor, exponent, spread, rng)
                    laws = power_laws(losses, paths, np.arange(n), np.array(sizes), seed=place)
                    mean, low, high = laws.gain(n, MORE)
                    held = (low <= gain <= high, low <= own <= high)
                    found.append((*held, (high - low) / gain, mean / gain))
                means = np.mean(found, axis=0)
                cells = [f"{value:.{digits}f}" for value, digits in zip(means, (2, 2, 1, 2), strict=True)]
                rows.append(f"| {n} | {exponent} | {spread} | {' | '.join(cells)} |")
    return "\n".join(rows)


def report(path: Path) -> str:
    """Foretold and real gains of each data set, and how many intervals hold them, in a table."""
    rows = read(path)
    names = list(dict.fromkeys(row["data"] for row in rows))
    lines = ["| data | draws | score | at 100 | real gain | foretold | mean gain held | own gain held |"]
    lines.append("|---|--:|---|--:|--:|--:|--:|--:|")
    for of, sign in (("nll", 1), ("accuracy", -1)):
        totals = np.zeros(3)
        for name in names:
            own = [row for row in rows if row["data"] == name and row[f"{of} low"] != "nan"]

            def column(key: str, own: list[dict[str, str]] = own) -> FloatArray:
                return np.array([float(row[key]) for row in own])

            real = sign * (column(f"{of} {N}") - column(f"{of} {N + MORE}"))
            low, high = column(f"{of} low"), column(f"{of} high")
            n_mean = int(((low <= real.mean()) & (real.mean() <= high)).sum())
            n_own = int(((low <= real) & (real <= high)).sum())
            totals += (n_mean, n_own, len(own))
            lines.append(
                f"| {name} | {len(own)} | {of} | {column(f'{of} {N}').mean():.3f} | {real.mean():.3f} | "
                f"{column(f'{of} mean').mean():.3f} | {n_mean} of {len(own)} | {n_own} of {len(own)} |"
            )
        n_mean, n_own, n = totals.astype(int)
        lines.append(f"| all | {n} | {of} | | | | {n_mean} of {n} | {n_own} of {n} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/curves.csv"))
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--simulated", type=int, default=60, help="curves of each kind")
    parser.add_argument("--data", nargs="*", help="names of data sets; all without it")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        tasks = [
            (name, seed) for seed in range(FIRST, FIRST + given.draws) for name in given.data or sources()
        ]
        make_missing(given.out, ("data", "seed"), tasks, measure)
    print(report(given.out), simulated(given.simulated), sep="\n\n")


if __name__ == "__main__":
    main()
