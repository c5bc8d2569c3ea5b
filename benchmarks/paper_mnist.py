"""Measure the five models on MNIST as in the paper's Table 1, and write docs/paper-mnist.md.

    PNCA_DATA_DIR=/path/to/data python benchmarks/paper_mnist.py

The folder holds mnist.npz (x_train, y_train, x_test, y_test) and notmnist.npz (x). Use an idle
machine: fit times are part of the table. About five minutes on two cores.
"""

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.progress import track

import pnca
from pnca.data import rotate
from pnca.evaluation import (
    accuracy,
    expected_calibration_error,
    negative_log_likelihood,
    ood_auroc,
    share_above,
)
from pnca.files import write_atomically

N_TRAIN, DRAWS = 100, range(10)
REPORT = Path(__file__).parents[1] / "docs" / "paper-mnist.md"


class Published(NamedTuple):
    """The paper's accuracies (Table 1), and seconds of the authors' code on two cores of another machine."""

    test: float
    rotated: float
    seconds: float


PAPER = {
    "DNN": Published(0.75, 0.17, 9.4),
    "BNN": Published(0.74, 0.20, 136.0),
    "Ensemble": Published(0.76, 0.17, 79.0),
    "NCA": Published(0.69, 0.18, 2.2),
    "PNCA": Published(0.67, 0.18, 42.0),
}

# Name in the table, model, and what differs from the paper's settings.
VARIANTS = [
    ("DNN", "DNN", {}),
    ("BNN", "BNN", {}),
    ("BNN, update as published", "BNN", {"update": "as_published"}),
    ("Ensemble", "Ensemble", {}),
    ("NCA", "NCA", {}),
    ("NCA, h = 1 as in the text", "NCA", {"bandwidth": 1.0}),
    ("PNCA", "PNCA", {}),
    ("PNCA, h = 1 as in the text", "PNCA", {"bandwidth": 1.0}),
    ("PNCA, exact kernel", "PNCA", {"kernel": "exact"}),
    ("`PNCAClassifier()`, our default", "PNCA", None),
]


def load(folder: Path) -> dict[str, np.ndarray]:
    """Images as rows of 784 values from 0 to 1."""
    with np.load(folder / "mnist.npz") as mnist, np.load(folder / "notmnist.npz") as letters:
        test = (mnist["x_test"] / 255).astype(np.float32)
        return {
            "x_train": (mnist["x_train"] / 255).astype(np.float32).reshape(-1, 784),
            "y_train": mnist["y_train"].astype(int),
            "test": test.reshape(-1, 784),
            "y_test": mnist["y_test"].astype(int),
            "rotated": rotate(test, 60).reshape(-1, 784),
            "letters": (letters["x"] / 255).astype(np.float32).reshape(-1, 784),
        }


def one_fit(model: str, changes: dict | None, draw: int, data: dict[str, np.ndarray]) -> dict[str, float]:
    """Fit on one draw of the training images and measure on all test images."""
    settings = {} if changes is None else {**pnca.paper_settings(model), **changes}
    rows = np.random.RandomState(draw).choice(60_000, N_TRAIN, replace=False)
    estimator = getattr(pnca, f"{model}Classifier")(**settings, random_state=draw, device="cpu")
    start = time.perf_counter()
    estimator.fit(data["x_train"][rows], data["y_train"][rows])
    fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    estimator.predict_proba(data["test"][:1000])  # the authors' times include this
    seconds = fit_seconds + time.perf_counter() - start
    test, rotated, letters = (estimator.predict_proba(data[name]) for name in ("test", "rotated", "letters"))
    labels = data["y_test"]
    return {
        "accuracy": accuracy(labels, test),
        "rotated": accuracy(labels, rotated),
        "nll": negative_log_likelihood(labels, test),
        "ece": expected_calibration_error(labels, test),
        "letters": share_above(letters, 0.9),
        "auroc": ood_auroc(-test.max(axis=1), -letters.max(axis=1)),
        "seconds": seconds,
    }


def cell(values: np.ndarray, digits: int = 3) -> str:
    """Mean and standard deviation over draws."""
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def main() -> None:
    """Run the grid and write the report."""
    data = load(Path(os.environ["PNCA_DATA_DIR"]))
    one_fit("PNCA", {"max_epochs": 3}, 0, data)  # warm-up
    results: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in VARIANTS}
    cells = [(variant, draw) for variant in VARIANTS for draw in DRAWS]
    for (name, model, changes), draw in track(cells, description="fits"):
        results[name].append(one_fit(model, changes, draw, data))

    lines = [
        "# The paper's models on MNIST, 100 training images",
        "",
        "Made by `PNCA_DATA_DIR=... python benchmarks/paper_mnist.py`. Mean ± standard deviation over draws",
        "0 to 9 of 100 training images; all 10,000 test images, the same rotated by 60 degrees, and 10,000",
        "notMNIST letters. Settings are `pnca.paper_settings(...)` unless the row says otherwise. The",
        "paper's numbers are those of its Table 1.",
        "",
        "| model | accuracy | paper | difference | rotated | paper | NLL | ECE "
        "| notMNIST above confidence .9 | AUROC by confidence |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, model, changes in VARIANTS:
        column = {key: np.array([row[key] for row in results[name]]) for key in results[name][0]}
        paper = PAPER[model]
        difference = f"{column['accuracy'].mean() - paper.test:+.3f}"
        beside = (paper.test, difference, paper.rotated) if changes == {} else ("-", "-", "-")
        lines.append(
            f"| {name} | {cell(column['accuracy'])} | {beside[0]} | {beside[1]} "
            f"| {cell(column['rotated'])} | {beside[2]} "
            f"| {cell(column['nll'], 2)} | {cell(column['ece'])} | {100 * column['letters'].mean():.2f} % "
            f"| {cell(column['auroc'])} |"
        )
    lines += [
        "",
        "## Time",
        "",
        "Fit (100 epochs) and prediction of 1,000 images, median over draws, on "
        f"{os.cpu_count()} cores ({platform.processor() or platform.machine()}), torch {torch.__version__}.",
        "The authors' times are for their TensorFlow code on a two-core machine; they were measured",
        "separately, not in this run, so the ratio is a guide.",
        "",
        "| model | ours, s | authors' code, s | ratio |",
        "|---|---|---|---|",
    ]
    for name, model, changes in VARIANTS:
        if changes == {}:
            seconds = float(np.median([row["seconds"] for row in results[name]]))
            theirs = PAPER[model].seconds
            lines.append(f"| {name} | {seconds:.2f} | {theirs} | {theirs / seconds:.0f} |")
    write_atomically(
        REPORT, lambda temporary: temporary.write_text("\n".join(lines) + "\n", encoding="utf-8") and None
    )
    print(f"wrote {REPORT}")


if __name__ == "__main__":
    main()
