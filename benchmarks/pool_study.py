"""Measure what each part of the default's pool adds, what its constants matter, and what caution costs.

On the 15 tuning tables with 100 rows, and on data with a class held out: neighbours, line and forest are
fitted once, and pooled in every way that needs no new fit. So are kinds of particles that were tried and left
out. The constants of the networks, of the kernel and of the forest are halved and doubled in fits of their
own. Every fit is one line of a file, so that a run can be continued; ``benchmarks/pool_report.py`` writes
docs/pool.md from it.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import datasets
from torch import Tensor

from pnca import EnsembleClassifier, PNCAClassifier
from pnca.maths import kernels
from pnca.maths import say as say_module
from pnca.maths.pool import Answers, pool_weights, pooled
from pnca.maths.say import Say
from pnca.models import experts, pooling, selection
from pnca.models.options import Options
from pnca.models.plan import rows_of_spread, scaled
from pnca.training.sampling import Examples
from tables import TUNING, draw_from

#: Constants of the networks and of the kernel, as arguments.
NETWORK: dict[str, Any] = {
    "n_particles": 8,
    "hidden_layer_sizes": (100,),
    "learning_rate": 1e-2,
    "max_epochs": 50,
    "n_components": 10,
    "bandwidth": 3.0,
    "n_folds": 5,
}
#: Constants that decide in a fit, by name, with the module that has them; the trees change together.
INSIDE: dict[str, tuple[Any, tuple[str, ...]]] = {
    "trees": (experts, ("_TREES", "_TREES_IN_FOLDS")),
    "INPUT_DECAY": (kernels, ("INPUT_DECAY",)),
    "_BACKGROUND_SHARE": (selection, ("_BACKGROUND_SHARE",)),
    "shrinkage": (selection, ("_BANDWIDTH_SPREAD", "_BACKGROUND_SPREAD", "_EPOCH_SPREAD")),
}
#: Constants of the pool and of the say, which need no new fit.
POOL = {"_COUNT": pooling, "_NEAR": say_module, "_SLOPE": say_module, "_CURVE": say_module}
PARTS = ("neighbours", "linear", "forest")
#: Kinds that were tried and left out.
LEFT_OUT = (
    "deep softmax",
    "linear neighbours",
    "neighbours without the input factor",
    "the same on piecewise linear columns",
)
#: Bins of a piecewise linear column.
BINS = 8
#: Parts that begin with the trust of an expert; the others begin with none.
TRUSTED = ("linear", "forest", "deep softmax")
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
    """Log answers of k parts out of fold (k, n, c) and tested (k, n', c), and how far inputs lie out."""

    labels: Tensor
    log_prior: Tensor
    out_of_fold: Tensor
    held_out: Tensor  # (n,), deviations
    tested: Tensor
    tested_out: Tensor
    unseen: Tensor | None
    unseen_out: Tensor | None
    apartness: float


def fit_parts(question: Question, seed: int, network: dict[str, Any], *, every_kind: bool = False) -> Parts:
    """Fit the neighbours alone, the experts in their folds, and perhaps the kinds that were left out."""
    model = neighbours(question, seed, network)
    examples = as_examples(question, model)
    assert examples.scaler is not None
    labels, folds = torch.from_numpy(question.labels), torch.from_numpy(model.folds_)
    inputs = torch.from_numpy(examples.inputs)
    found, log_distances = Say.fit(inputs, labels, rows_of_spread(examples), folds)
    kinds = [Kind(torch.from_numpy(model.oof_proba_).log(), model.predict_log_proba)]
    kinds += [expert_kind(fit(examples, model.folds_, seed), examples) for fit in experts.EXPERTS.values()]
    if every_kind:
        kinds += left_out_kinds(question, examples, model.folds_, seed, network)

    def asked(rows: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
        x = examples.scaler.apply(torch.from_numpy(rows)).double()
        distances = say_module.log_class_distances(x, found.shape.to(x))
        answers = torch.stack([torch.as_tensor(kind.answer(rows)) for kind in kinds])
        return answers, (distances - found.typical) / found.spread

    tested, tested_out = asked(question.tested)
    unseen, unseen_out = (None, None) if question.unseen is None else asked(question.unseen)
    return Parts(
        labels=labels,
        log_prior=labels.bincount().double().log().log_softmax(dim=0),
        out_of_fold=torch.stack([kind.out_of_fold for kind in kinds]),
        held_out=(log_distances - found.typical) / found.spread,
        tested=tested,
        tested_out=tested_out,
        unseen=unseen,
        unseen_out=unseen_out,
        apartness=found.apartness,
    )


class Kind(NamedTuple):
    """Log answers out of fold (n, c), and the log answers (n', c) to rows (n', p)."""

    out_of_fold: Tensor
    answer: Callable[[NDArray[np.float64]], Any]


def as_examples(question: Question, model: PNCAClassifier) -> Examples:
    """The scaled rows that a model was fitted to."""
    given = Examples(
        inputs=question.inputs,
        labels=question.labels,
        classes=model.classes_,
        class_weight=np.ones(len(model.classes_)),
        input_shape=question.inputs.shape[1:],
    )
    return scaled(Options.of(model).settled(given.input_shape), given)


def expert_kind(fit: experts.Fit, examples: Examples) -> Kind:
    """An expert, which is asked scaled rows."""
    scaler = examples.scaler
    assert scaler is not None
    return Kind(
        fit.log_probabilities,
        lambda rows: fit.expert.log_probabilities(scaler.apply(torch.from_numpy(rows)).double()),
    )


def left_out_kinds(
    question: Question, examples: Examples, folds: NDArray[np.int64], seed: int, network: dict[str, Any]
) -> list[Kind]:
    """What :data:`LEFT_OUT` names."""
    scaler = examples.scaler
    assert scaler is not None
    held_out, ensemble = make_ensemble(examples, folds, seed)
    found = [Kind(held_out, lambda rows: ensemble.predict_log_proba(scaler.apply(torch.from_numpy(rows))))]
    for changes in ({"hidden_layer_sizes": ()}, {"input_weight": 0.0, "novelty": False}):
        kind = neighbours(question, seed, {**network, **changes})
        found.append(Kind(torch.from_numpy(kind.oof_proba_).log(), kind.predict_log_proba))
    bins = piecewise(question.inputs)
    encoded = question._replace(inputs=bins(question.inputs))
    modern = neighbours(encoded, seed, {**network, "input_weight": 0.0, "novelty": False})
    log_proba = modern.predict_log_proba
    found.append(Kind(torch.from_numpy(modern.oof_proba_).log(), lambda rows: log_proba(bins(rows))))
    return found


def piecewise(inputs: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Encode each column by how far a value lies through each of its bins (Gorishniy et al., 2022)."""
    edges = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1))) for column in inputs.T]

    def encode(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = []
        for column, at in zip(rows.T, edges, strict=True):
            if len(at) < 2:
                continue
            parts.append(((column[:, None] - at[:-1]) / np.diff(at)).clip(0, 1))
        return np.hstack(parts)

    return encode


def neighbours(question: Question, seed: int, arguments: dict[str, Any]) -> PNCAClassifier:
    """Fit particles that answer alone."""
    model = PNCAClassifier(experts=(), random_state=seed, device="cpu", **arguments)
    return model.fit(question.inputs, question.labels)


def make_ensemble(
    examples: Examples, folds: NDArray[np.int64], seed: int
) -> tuple[Tensor, EnsembleClassifier]:
    """Fit networks of the same size that end in a softmax: log answers out of fold (n, c), and the whole."""
    inputs, labels = examples.inputs.astype(np.float64), examples.labels
    arguments = {name: NETWORK[name] for name in ("n_particles", "hidden_layer_sizes", "learning_rate")}
    arguments |= {"max_epochs": NETWORK["max_epochs"], "batch_size": None, "device": "cpu"}
    dropout = Options.of(PNCAClassifier()).dropout_rate(inputs.shape[1:])

    def fit(rows: NDArray[np.bool_]) -> EnsembleClassifier:
        model = EnsembleClassifier(dropout=dropout, random_state=seed, **arguments)
        return model.fit(inputs[rows], labels[rows])

    held_out = np.full((len(labels), len(examples.classes)), -20.0)
    for fold in range(folds.max() + 1):
        model = fit(folds != fold)
        own = np.flatnonzero(folds == fold)
        held_out[np.ix_(own, model.classes_)] = model.predict_log_proba(inputs[own])
    return torch.from_numpy(held_out).log_softmax(dim=1), fit(np.ones(len(labels), dtype=bool))


def pool(parts: Parts, heard: list[int], power: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Learn the weights of some parts out of fold; what comes back pools their answers (k, n, c)."""

    def alone(logs: Tensor, deviations: Tensor) -> Tensor:
        log_say = power * say_module.log_say(deviations, parts.apartness)
        one = torch.ones(1).double()
        return torch.stack([pooled(logs[k][None], one, parts.log_prior, log_say).mean() for k in heard])

    likelihoods = alone(parts.out_of_fold, parts.held_out).exp()
    likelihoods = likelihoods[:, torch.arange(len(parts.labels)), parts.labels]
    ones = torch.ones(len(parts.labels)).double()
    of_expert = pooling.prior_counts(1, len(parts.log_prior), n_columns=1)[1]
    names = (*PARTS, *LEFT_OUT)
    counts = torch.stack([of_expert * (names[k] in TRUSTED) for k in heard])
    weights = pool_weights(likelihoods, ones, counts)

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


def kinds(parts: Parts, truth: NDArray[np.int64]) -> dict[str, dict[str, float]]:
    """Kinds that were left out, each alone, in the place of the neighbours, and beside all three parts."""
    found, three = {}, list(range(len(PARTS)))
    for k, name in enumerate(LEFT_OUT, start=len(PARTS)):
        for way, heard in {"alone": [k], "instead": [k, 1, 2], "added": [*three, k]}.items():
            found[f"{name}, {way}"] = measured(parts, truth, heard, 1.0)
    found["all"] = measured(parts, truth, list(range(len(PARTS) + len(LEFT_OUT))), 1.0)
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
        for setting, network, inside in settings(kind):
            if (kind, name, seed, setting) in done:
                continue
            question = make()
            with warnings.catch_warnings(), ExitStack() as changed:
                warnings.simplefilter("ignore")
                for module, constants in inside:
                    changed.enter_context(patch.multiple(module, **constants))
                parts = fit_parts(question, seed, network, every_kind=setting == "kinds")
            if setting == "default":
                found = ways(parts, question.truth)
            elif setting == "kinds":
                found = kinds(parts, question.truth)
            else:
                found = {setting: measured(parts, question.truth, list(range(len(PARTS))), 1.0)}
            with given.out.open("a", encoding="utf-8") as file:
                cell = {"kind": kind, "name": name, "draw": seed, "setting": setting, "ways": found}
                file.write(json.dumps(cell) + "\n")


def settings(kind: str) -> Iterator[tuple[str, dict[str, Any], list[tuple[Any, dict[str, Any]]]]]:
    """Names of settings, arguments of the networks, and constants of modules."""
    yield "default", NETWORK, []
    yield "kinds", NETWORK, []
    if kind != "table":
        return
    for factor in (0.5, 2.0):
        for name, value in NETWORK.items():
            changed = tuple(int(factor * v) for v in value) if isinstance(value, tuple) else factor * value
            changed = int(changed) if isinstance(value, int) else changed
            yield f"{name} times {factor:g}", {**NETWORK, name: changed}, []
        for name, (module, constants) in INSIDE.items():
            values = {key: factor * getattr(module, key) for key in constants}
            values = {key: int(v) if name == "trees" else v for key, v in values.items()}
            yield f"{name} times {factor:g}", NETWORK, [(module, values)]


if __name__ == "__main__":
    main()
