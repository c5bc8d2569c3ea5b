"""Measure what the prior of ``fit_temperature`` is worth: NLL of new examples for several spreads of it.

``python benchmarks/temperatures.py --draws 4`` appends a row for each draw of 100 rows to
benchmarks/results/temperatures.csv, so that a run can be continued, and prints the table of docs/method.md;
``--report`` prints it from that file. Data are the 15 tuning tables (``PNCA_DATA_DIR``) and four sets of
scikit-learn; models are the default, and its logistic regression and forest alone.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn import datasets

from csv_rows import make_missing, read
from pnca import PNCAClassifier
from pnca.calibration import apply_temperature, fit_temperature
from pnca.models import experts
from pnca.models.options import Options
from pnca.models.plan import scaled
from pnca.training.sampling import Examples, assign_folds
from tables import N_FOLDS, TUNING, Answer, Draw, default, draw_from, encode

#: Sets of scikit-learn, by the names of their loaders; of small ones half is drawn.
OWN = ("breast_cancer", "iris", "wine", "digits")
N = 100
SPREADS: tuple[float | None, ...] = (None, 2.0, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
MODELS = ("default", "linear", "forest")


def drawn(name: str, seed: int) -> Draw:
    """Draw a hundred rows of a table, or of a set of scikit-learn."""
    if name not in OWN:
        return draw_from(np.load(Path(os.environ["PNCA_DATA_DIR"]) / "tables30.npz"), name, str(N), seed)
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.RandomState(seed).permutation(len(y))
    train, test = np.split(order, [min(N, len(y) // 2)])
    inputs, tested = encode(X[train], X[test], set())
    return Draw(inputs, y[train], tested, y[test], X[train], X[test], [])


def answers(draw: Draw, seed: int) -> dict[str, Answer]:
    """Log probabilities out of fold and of the tested rows, of the forest before its temperature."""
    n_classes = int(draw.labels.max()) + 1
    given = Examples(
        inputs=draw.inputs,
        labels=draw.labels,
        classes=np.arange(n_classes),
        class_weight=np.ones(n_classes),
        input_shape=draw.inputs.shape[1:],
    )
    examples = scaled(Options.of(PNCAClassifier()).settled(given.input_shape), given)
    assert examples.scaler is not None
    asked = examples.scaler.apply(torch.from_numpy(draw.tested))
    folds = assign_folds(draw.labels, N_FOLDS, np.random.RandomState(seed))
    line = experts.fit_linear(examples, folds, seed)
    with patch.object(experts, "fit_temperature", return_value=1.0):
        forest = experts.fit_forest(examples, folds, seed)
    alone = {"linear": line, "forest": forest}
    return {"default": default(draw, seed)} | {
        name: Answer(fit.log_probabilities.numpy(), fit.expert.log_probabilities(asked).numpy())
        for name, fit in alone.items()
    }


def measure(name: str, seed: int) -> dict[str, Any]:
    """NLL of new examples by each model with each spread, and the temperatures."""
    draw, found = drawn(name, seed), {"data": name, "seed": seed}
    rows = np.arange(len(draw.truth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes, and optimisers at their limit
        given = answers(draw, seed)
    for model, answer in given.items():
        for spread in SPREADS:
            temperature = fit_temperature(answer.out_of_fold, draw.labels, spread=spread)
            logs = apply_temperature(answer.tested, temperature)
            found[f"{model} {spread} nll"] = round(float(-logs[rows, draw.truth].mean()), 5)
            found[f"{model} {spread} temperature"] = round(temperature, 5)
        logs = apply_temperature(answer.tested, 1.0)
        found[f"{model} untouched"] = round(float(-logs[rows, draw.truth].mean()), 5)
    return found


def report(path: Path) -> str:
    """Mean NLL over data sets and draws, and the least and largest temperature, in a table."""
    rows = read(path)
    parts = {"tuning tables": [r for r in rows if r["data"] not in OWN]}
    parts["scikit-learn's"] = [r for r in rows if r["data"] in OWN]
    lines = ["| spread | " + " | ".join(f"{m}, {part}" for m in MODELS for part in parts)]
    lines[0] += " | temperatures of the default |"
    lines.append("|---|" + "--:|" * (len(MODELS) * len(parts) + 1))
    for spread in ("untouched", *SPREADS):
        key = "untouched" if spread == "untouched" else f"{spread} nll"
        cells = ([float(r[f"{model} {key}"]) for r in part] for model in MODELS for part in parts.values())
        means = [f"{np.mean(cell):.4f}" if cell else "-" for cell in cells]
        own = [1.0] if spread == "untouched" else [float(r[f"default {spread} temperature"]) for r in rows]
        name = {"untouched": "no temperature", None: "no prior"}.get(spread, spread)
        lines.append(f"| {name} | {' | '.join(means)} | {min(own):.2f} to {max(own):.2f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/temperatures.csv"))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--data", nargs="*", help="names of data sets; all without it")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args(arguments)
    if not given.report:
        names = given.data or (*TUNING, *OWN)
        tasks = [(name, seed) for seed in range(given.draws) for name in names]
        make_missing(given.out, ("data", "seed"), tasks, measure)
    print(report(given.out))


if __name__ == "__main__":
    main()
