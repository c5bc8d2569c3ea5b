"""Measure what each part of the default's pool adds, what its constants matter, and what caution costs.

On the 15 tuning tables with 100 rows, and on data with a class held out: neighbours, line and forest are
fitted once, and pooled in every way that needs no new fit. The constants of the networks and of the forest
are halved and doubled in fits of their own. Every fit is one line of a file, so that a run can be continued;
``benchmarks/pool_report.py`` writes docs/pool.md from it.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import datasets
from torch import Tensor

from pnca import PNCAClassifier
from pnca.maths import familiarity
from pnca.maths.familiarity import Familiarity
from pnca.maths.pool import Answers, pool_weights, pooled
from pnca.models import experts, pooling
from pnca.models.options import Options
from pnca.models.plan import rows_of_spread, scaled
from pnca.training.sampling import Examples
from tables import TUNING, draw_from

#: Constants of the networks, as arguments, and of the experts, as names in their module.
NETWORK = {"n_particles": 8, "hidden_layer_sizes": (100,), "learning_rate": 1e-2, "max_epochs": 50}
FOREST = {"_TREES": 300, "_TREES_IN_FOLDS": 100}
#: Constants of the pool and of the say, which need no new fit.
POOL = {"_CONCENTRATION": pooling, "_NEAR": familiarity, "_SLOPE": familiarity, "_CURVE": familiarity}
PARTS = ("neighbours", "linear", "forest")
#: Powers of the say in the curve of caution.
POWERS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
SURE = 0.9


class Question(NamedTuple):
    """Rows to train on, rows to test on, and rows of a class that was never seen, if there are any."""

    inputs: NDArray[np.float64]
    labels: NDArray[np.int64]
    tested: NDArray[np.float64]
    truth: NDArray[np.int64]
    unseen: NDArray[np.float64] | None = None


class Parts(NamedTuple):
    """Log answers of the parts out of fold (3, n, c) and tested (3, n', c), and how far inputs lie out."""

    labels: Tensor
    log_prior: Tensor
    out_of_fold: Tensor
    held_out: Tensor  # (n,), deviations
    tested: Tensor
    tested_out: Tensor
    unseen: Tensor | None
    unseen_out: Tensor | None
    apartness: float


def fit_parts(question: Question, seed: int, network: dict[str, Any]) -> Parts:
    """Fit the neighbours alone, and the experts in their folds."""
    model = PNCAClassifier(experts=(), random_state=seed, device="cpu", **network)
    model.fit(question.inputs, question.labels)
    n_classes = len(model.classes_)
    given = Examples(
        inputs=question.inputs,
        labels=question.labels,
        classes=model.classes_,
        class_weight=np.ones(n_classes),
        input_shape=question.inputs.shape[1:],
    )
    examples = scaled(Options.of(model).settled(given.input_shape), given)
    fits = [fit(examples, model.folds_, seed) for fit in experts.EXPERTS.values()]
    labels, inputs = torch.from_numpy(question.labels), torch.from_numpy(examples.inputs)
    folds = torch.from_numpy(model.folds_)
    found, log_distances = Familiarity.fit(inputs, labels, rows_of_spread(examples), folds)

    def asked(rows: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
        assert examples.scaler is not None
        x = examples.scaler.apply(torch.from_numpy(rows)).double()
        answers = [torch.from_numpy(model.predict_log_proba(rows))]
        answers += [fit.expert.log_probabilities(x) for fit in fits]
        distances = familiarity.log_class_distances(x, found.shape.to(x))
        return torch.stack(answers), (distances - found.typical) / found.spread

    tested, tested_out = asked(question.tested)
    unseen, unseen_out = (None, None) if question.unseen is None else asked(question.unseen)
    return Parts(
        labels=labels,
        log_prior=labels.bincount().double().log().log_softmax(dim=0),
        out_of_fold=torch.stack(
            [torch.from_numpy(model.oof_proba_).log(), *(fit.log_probabilities for fit in fits)]
        ),
        held_out=(log_distances - found.typical) / found.spread,
        tested=tested,
        tested_out=tested_out,
        unseen=unseen,
        unseen_out=unseen_out,
        apartness=found.apartness,
    )


def pool(parts: Parts, heard: list[int], power: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Learn the weights of some parts out of fold; what comes back pools their answers (3, n, c)."""

    def alone(logs: Tensor, deviations: Tensor) -> Tensor:
        log_say = power * familiarity.log_say(deviations, parts.apartness)
        one = torch.ones(1).double()
        return torch.stack([pooled(logs[k][None], one, parts.log_prior, log_say).mean() for k in heard])

    likelihoods = alone(parts.out_of_fold, parts.held_out).exp()
    likelihoods = likelihoods[:, torch.arange(len(parts.labels)), parts.labels]
    ones = torch.ones(len(parts.labels)).double()
    weights = pool_weights(likelihoods, ones, pooling._CONCENTRATION)

    def answer(logs: Tensor, deviations: Tensor) -> Tensor:
        each = alone(logs, deviations)
        return Answers(each, weights.log()[:, None].expand(each.shape[:2])).mean()

    return answer


def measured(parts: Parts, truth: NDArray[np.int64], heard: list[int], power: float) -> dict[str, float]:
    """NLL and accuracy on the tested rows, and the share of unseen ones that are answered surely."""
    answer = pool(parts, heard, power)
    logs, rows = answer(parts.tested, parts.tested_out), torch.arange(len(truth))
    labels = torch.from_numpy(truth)
    found = {
        "nll": -float(logs[rows, labels].clamp_min(np.log(1e-9)).mean()),
        "accuracy": float((logs.argmax(dim=1) == labels).double().mean()),
    }
    if parts.unseen is not None and parts.unseen_out is not None:
        surest = answer(parts.unseen, parts.unseen_out).exp().amax(dim=1)
        found["sure"] = float((surest > SURE).double().mean())
    return found


def ways(parts: Parts, truth: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    """Every way to pool the parts that needs no new fit, by name."""
    everything = list(range(len(PARTS)))
    found = {}
    for code in range(1, 2 ** len(PARTS)):
        heard = [k for k in everything if code >> k & 1]
        found[" + ".join(PARTS[k] for k in heard)] = measured(parts, truth, heard, 1.0)
    for power in POWERS:
        found[f"say to the power of {power:g}"] = measured(parts, truth, everything, power)
    for name, module in POOL.items():
        for factor in (0.5, 2.0):
            with patch.object(module, name, factor * getattr(module, name)):
                found[f"{name} times {factor:g}"] = measured(parts, truth, everything, 1.0)
    return found


def questions(data: Any, n_draws: int) -> Iterator[tuple[str, str, int, Callable[[], Question]]]:
    """Kind, name, draw, and how it is made."""
    for seed in range(n_draws):
        for name in TUNING:
            yield "table", name, seed, lambda name=name, seed=seed: table(data, name, seed)
        for name in ("iris", "wine", "digits"):
            yield "unseen", name, seed, lambda name=name, seed=seed: held_out_class(name, seed)


def table(data: Any, name: str, seed: int) -> Question:
    """100 rows of a table."""
    draw = draw_from(data, name, "100", seed)
    return Question(draw.inputs, draw.labels, draw.tested, draw.truth)


def held_out_class(name: str, seed: int) -> Question:
    """Rows of all classes of a data set but one, another in each draw: 50, and of digits 100."""
    load = {"iris": datasets.load_iris, "wine": datasets.load_wine, "digits": datasets.load_digits}[name]
    inputs, labels = load(return_X_y=True)
    own = labels == seed % (labels.max() + 1)
    rows = np.random.RandomState(seed).permutation(np.flatnonzero(~own))
    _, known = np.unique(labels, return_inverse=True)
    known = known - (known > seed % (labels.max() + 1))
    n = 100 if name == "digits" else 50
    train, test = rows[:n], rows[n:]
    return Question(inputs[train], known[train], inputs[test], known[test], inputs[own])


def main() -> None:
    """Measure what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PNCA_DATA_DIR"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "pool.jsonl")
    parser.add_argument("--kinds", nargs="+", choices=["table", "unseen"], default=["table", "unseen"])
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    data = np.load(given.data_dir / "tables30.npz")
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    done = {(c["kind"], c["name"], c["draw"], c["setting"]) for c in map(json.loads, lines)}
    for kind, name, seed, make in questions(data, given.draws):
        if kind not in given.kinds:
            continue
        for setting, network, forest in settings(kind):
            if (kind, name, seed, setting) in done:
                continue
            question = make()
            with warnings.catch_warnings(), patch.multiple(experts, **forest):
                warnings.simplefilter("ignore")
                parts = fit_parts(question, seed, network)
            if setting == "default":
                found = ways(parts, question.truth)
            else:
                found = {setting: measured(parts, question.truth, list(range(len(PARTS))), 1.0)}
            with given.out.open("a", encoding="utf-8") as file:
                cell = {"kind": kind, "name": name, "draw": seed, "setting": setting, "ways": found}
                file.write(json.dumps(cell) + "\n")


def settings(kind: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Names of settings, arguments of the networks and constants of the forest."""
    yield "default", NETWORK, FOREST
    if kind != "table":
        return
    for factor in (0.5, 2.0):
        for name, value in NETWORK.items():
            changed = tuple(int(factor * v) for v in value) if isinstance(value, tuple) else factor * value
            changed = int(changed) if isinstance(value, int) else changed
            yield f"{name} times {factor:g}", {**NETWORK, name: changed}, FOREST
        yield f"trees times {factor:g}", NETWORK, {key: int(factor * value) for key, value in FOREST.items()}


if __name__ == "__main__":
    main()
