"""Measure what the default costs on rows of pixels: networks, what neighbours begin with, say, temperature.

100 digits of MNIST in ten draws. Neighbours, line and forest are fitted once for each kind of networks, and
pooled in every way that needs no new fit. Every fit is one line of a file, so that a run can be continued;
the table is written from it.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.metrics import roc_auc_score
from torch import Tensor

from measuring import clocked
from pnca.evaluation import augrc, expected_calibration_error
from pnca.maths.pool import Answers, pool_weights, pooled, tempered
from pnca.maths.say import log_say
from pnca.models.pooling import prior_counts
from pnca_studies.data import load_mnist, load_notmnist, rotate
from pnca_studies.experiments.mnist import draw_rows
from pool_study import SURE, Parts, Question, fit_parts

RESULTS = Path(__file__).parent / "results"
N_ROWS, N_DRAWS, PIXELS = 100, 10, 784
#: Every fifth turned digit and letter: they tell little more when all are asked.
STEP, ANGLE = 5, 60
#: Networks and steps; the last are those of the default.
NETWORKS: dict[str, dict[str, Any]] = {
    "8 of 100-100": {
        "n_particles": 8,
        "hidden_layer_sizes": (100, 100),
        "learning_rate": 5e-3,
        "max_epochs": 200,
    },
    "12 of 100-100": {
        "n_particles": 12,
        "hidden_layer_sizes": (100, 100),
        "learning_rate": 5e-3,
        "max_epochs": 200,
    },
}
#: What neighbours begin with, which part is heard, the power of the say, the spread of a temperature.
WAYS: dict[str, tuple[float, bool, float, float]] = {
    "neighbours alone, no say": (0, False, 0, 0),
    "neighbours alone": (0, False, 1, 0),
    "begin with 0": (0, True, 1, 0),
    "begin with 2": (2, True, 1, 0),
    "begin with 5": (5, True, 1, 0),
    "begin with 10": (10, True, 1, 0),
    "begin with 20": (20, True, 1, 0),
    "begin with 5, no say": (5, True, 0, 0),
    "begin with 5, half of the say's log": (5, True, 0.5, 0),
    "begin with 5, a temperature for all": (5, True, 1, 0.1),
}


class Digits:
    """The data, read once."""

    def __init__(self, data_dir: Path) -> None:
        self.mnist = load_mnist(data_dir)
        test = (self.mnist.test_images / 255).astype(np.float32)
        self.truth, self.turned_truth = self.mnist.test_labels, self.mnist.test_labels[::STEP]
        self.tested = np.concatenate([test, rotate(test[::STEP], ANGLE)]).reshape(-1, PIXELS)
        self.letters = (load_notmnist(data_dir).images[::STEP] / 255).astype(np.float32).reshape(-1, PIXELS)

    def question(self, seed: int) -> Question:
        """One draw; the rows that are tested are the digits, and then the turned ones."""
        rows = draw_rows(len(self.mnist.train_images), N_ROWS, seed)
        inputs = (self.mnist.train_images[rows] / 255).astype(np.float32).reshape(N_ROWS, -1)
        truth = np.concatenate([self.truth, self.turned_truth]).astype(np.int64)
        labels = self.mnist.train_labels[rows].astype(np.int64)
        return Question(inputs, labels, self.tested, truth, self.letters)


def pool(parts: Parts, way: tuple[float, bool, float, float]) -> tuple[Tensor, Tensor, float]:
    """Pooled log answers to the tested (n, c) and to letters (n', c), and the weight of the neighbours."""
    count, hears_experts, power, spread = way
    heard = slice(None) if hears_experts else slice(0, 1)

    def alone(logs: Tensor, deviations: Tensor) -> Tensor:
        say, one = power * log_say(deviations, parts.apartness), torch.ones(1).double()
        return torch.stack([pooled(part[None], one, parts.log_prior, say).mean() for part in logs[heard]])

    held_out, rows = alone(parts.out_of_fold, parts.held_out), torch.arange(len(parts.labels))
    counts = prior_counts(len(held_out) - 1, len(parts.log_prior), PIXELS)
    counts[0] = count
    weights = pool_weights(held_out[:, rows, parts.labels].exp(), torch.ones(len(rows)).double(), counts)

    def mean(answers: Tensor) -> Tensor:
        return Answers(answers, weights.log()[:, None].expand(answers.shape[:2])).mean()

    temperature = shrunken_temperature(mean(held_out), parts.labels, spread) if spread else 1.0
    assert parts.unseen is not None
    assert parts.unseen_out is not None
    tested, unseen = alone(parts.tested, parts.tested_out), alone(parts.unseen, parts.unseen_out)
    return tempered(mean(tested), temperature), tempered(mean(unseen), temperature), float(weights[0])


def shrunken_temperature(logs: Tensor, labels: Tensor, spread: float) -> float:
    """Temperature of held-out answers (n, c) whose logarithm is normal beforehand, about zero."""

    def cost(log_temperature: float) -> float:
        of_labels = tempered(logs, float(np.exp(log_temperature))).gather(1, labels[:, None])
        return float(-of_labels.sum()) + (log_temperature / spread) ** 2 / 2

    return float(np.exp(minimize_scalar(cost, bounds=(-1, 1), method="bounded").x))


def measured(
    parts: Parts, truth: NDArray[np.int64], way: tuple[float, bool, float, float]
) -> dict[str, float]:
    """Measures of one way to pool; rows beyond the digits are turned ones."""
    answers, letters, weight = pool(parts, way)
    n, probabilities = len(truth) - len(truth) // (STEP + 1), answers.exp().numpy()
    own, turned = probabilities[:n], probabilities[n:]
    surest, of_letters = own.max(axis=1), letters.exp().amax(dim=1).numpy()
    return {
        "nll": -float(answers[torch.arange(n), torch.from_numpy(truth[:n])].mean()),
        "accuracy": float((own.argmax(axis=1) == truth[:n]).mean()),
        "ece": expected_calibration_error(truth[:n], own),
        "turned": augrc(turned.argmax(axis=1) == truth[n:], turned.max(axis=1)),
        "letters": float(roc_auc_score(np.arange(n + len(letters)) < n, np.r_[surest, of_letters])),
        "sure": float((of_letters > SURE).mean()),
        "weight": weight,
    }


def table(cells: list[dict[str, Any]]) -> str:
    """Means over the draws, as a table."""
    names = ["NLL", "accuracy", "ECE", "turned: AUGRC", "letters: AUROC", "above .9", "weight", "draws", "s"]
    lines = ["| networks | pool | " + " | ".join(names) + " |", "| --- | --- |" + len(names) * " --: |"]
    for networks in NETWORKS:
        own = [cell for cell in cells if cell["networks"] == networks]
        for name in WAYS if own else ():
            ways = [cell["ways"][name] for cell in own]
            m = {key: float(np.mean([way[key] for way in ways])) for key in ways[0]}
            seconds = np.median([cell["seconds"] for cell in own])
            values = [f"{m[key]:.4f}" for key in ("nll", "accuracy", "ece", "turned", "letters")]
            values += [f"{m['sure']:.3%}", f"{m['weight']:.2f}", str(len(own)), f"{seconds:.1f}"]
            lines.append(f"| {networks} | {name} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is not in the file yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PNCA_DATA_DIR"))
    parser.add_argument("--out", type=Path, default=RESULTS / "pixels.jsonl")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    given = parser.parse_args()
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    done = {(c["networks"], c["draw"]) for c in map(json.loads, lines)}
    todo = [(name, s) for name in given.networks for s in range(given.draws) if (name, s) not in done]
    digits = Digits(given.data_dir) if todo else None
    for name, seed in todo:
        assert digits is not None
        question = digits.question(seed)
        with clocked("training") as clock:
            parts = fit_parts(question, seed, NETWORKS[name])
        cell = {
            "networks": name,
            "draw": seed,
            "seconds": sum(clock["processor"]),
            "ways": {way: measured(parts, question.truth, what) for way, what in WAYS.items()},
        }
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(cell) + "\n")
    cells = [json.loads(line) for line in given.out.read_text(encoding="utf-8").splitlines()]
    given.out.with_suffix(".md").write_text(table(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
