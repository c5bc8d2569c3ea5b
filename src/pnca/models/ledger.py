"""The ledger of an answer: what each training example, each expert and nobody has in it; and what-if."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.explanations.ledger import Ledger
from pnca.maths.inputs import UNIT
from pnca.maths.ledger import (
    background_share,
    carried_by_examples,
    carried_by_nobody,
    column_squares,
    standard_distances,
)
from pnca.maths.neighbours import log_class_probabilities
from pnca.models.experts import ForestExpert, LinearExpert
from pnca.models.fitted import Fitted, FloatArray, NeighbourReader
from pnca.models.kernels import PositiveKernel


def ledger_of(
    fitted: Fitted,
    inputs: NDArray[np.floating[Any]],
    device: str,
    k: int,
    training: Tensor | None,
) -> Ledger:
    """The ledger of inputs (n, ...); ``training`` are the scaled training inputs (N, ...), if known."""
    unit = UNIT if fitted.scaler is not None or training is None else _spread(training)
    pieces = [
        _ledger_of_piece(fitted, *piece, k=k, training=training, unit=unit)
        for piece in fitted.pieces(inputs, device)
    ]
    whole: dict[str, Any] = {}
    for name, first in pieces[0].items():
        parts = [piece[name] for piece in pieces]
        if isinstance(first, dict):
            whole[name] = {key: _joined([part[key] for part in parts]) for key in first}
        else:
            whole[name] = None if first is None else _joined(parts, side=int(name == "members"))
    return Ledger(**whole, unit=unit)


def answers_with(
    fitted: Fitted,
    inputs: NDArray[np.floating[Any]],
    device: str,
    labels: NDArray[np.int64],
    weights: FloatArray,
) -> FloatArray:
    """Probabilities (n, c) with other labels (N,) and weights (N,) of the training examples."""
    return np.exp(with_support(fitted, labels, weights).log_probabilities(inputs, device))


def with_support(fitted: Fitted, labels: NDArray[np.int64], weights: FloatArray) -> Fitted:
    """The same with other labels (N,) and weights (N,) of the training examples; zero removes one.

    Everything else is held fixed: networks, trees, line, bandwidth, weights of the pool, class shares,
    novelty and say.
    """
    reader: NeighbourReader = fitted.reader
    own = torch.from_numpy(labels), torch.from_numpy(weights)
    support = replace(reader.support, labels=own[0], weights=own[1])
    if isinstance(reader.kernel, PositiveKernel):
        support = reader.kernel.recounted(support)
    pool = reader.pool
    if pool is not None:
        experts = {
            name: expert.counting(*own) if isinstance(expert, ForestExpert) else expert
            for name, expert in pool.experts.items()
        }
        pool = replace(pool, experts=experts)
    return replace(fitted, reader=replace(reader, support=support, pool=pool))


def _ledger_of_piece(
    fitted: Fitted,
    outputs: Tensor,
    inputs: Tensor,
    unseen: Tensor | None,
    *,
    k: int,
    training: Tensor | None,
    unit: float,
) -> dict[str, Any]:
    reader: NeighbourReader = fitted.reader
    labels, prior = reader.support.labels.to(outputs.device), reader.prior.to(outputs)
    log_masses = reader.log_masses(outputs, inputs)
    carried = carried_by_examples(reader.log_shares(outputs, inputs, unseen), labels, len(prior), k)
    say, weights, experts = _pool_of(reader, inputs)
    log_say_of_seen = reader.log_say(unseen)
    seen = torch.ones_like(say) if log_say_of_seen is None else log_say_of_seen.exp()
    background = background_share(log_masses, reader.support.background)
    of_line = {
        name: weights[name] * answer
        for name, answer in experts.items()
        if isinstance(reader.pool.experts[name], LinearExpert)  # type: ignore[union-attr]
    }
    line = sum(of_line.values(), torch.zeros_like(carried.named)) * (say * seen)[:, None]
    residuals, deviations = (None, None) if reader.novelty is None else reader.novelty.parts(inputs)
    others = None if training is None else training.flatten(start_dim=1)[carried.rows.cpu()].to(inputs)
    points = inputs.flatten(start_dim=1)
    say_of_pool = None if reader.pool is None else reader.pool.say
    return {
        "named": carried.named,
        "others": carried.others,
        "line": line,
        "nobody": carried_by_nobody(background, weights["neighbours"], say, seen, prior),
        "rows": carried.rows,
        "shares": carried.shares,
        "members": log_class_probabilities(log_masses, reader.support.background, prior.log()).exp(),
        "experts": experts,
        "residuals": residuals,
        "deviations": deviations,
        "distances": None if others is None else standard_distances(points, others, unit),
        "squares": None if others is None else column_squares(points, others),
        "class_parts": None if say_of_pool is None else say_of_pool.parts(inputs),
    }


def _pool_of(reader: NeighbourReader, inputs: Tensor) -> tuple[Tensor, dict[str, float], dict[str, Tensor]]:
    """Say (n,) of the pool, what each of its answers counts for, and what each expert says (n, c)."""
    everything = torch.ones_like(inputs.flatten(start_dim=1)[:, 0])
    if reader.pool is None:
        return everything, {"neighbours": 1.0}, {}
    names = ("neighbours", *reader.pool.experts)
    weights = dict(zip(names, reader.pool.weights.tolist(), strict=True))
    log_say = reader.pool.log_say(inputs)
    said = {name: expert.log_probabilities(inputs).exp() for name, expert in reader.pool.experts.items()}
    return everything if log_say is None else log_say.exp().to(everything), weights, said


def _spread(training: Tensor) -> float:
    """Root mean square of all centred numbers: the standard deviation where nothing is scaled."""
    points = training.flatten(start_dim=1).double()
    return float((points - points.mean(dim=0)).square().mean().sqrt()) or 1.0


def _joined(parts: list[Tensor], side: int = 0) -> NDArray[Any]:
    whole = torch.cat(parts, dim=side).cpu()
    joined: NDArray[Any] = (whole.double() if whole.is_floating_point() else whole).numpy()
    return joined
