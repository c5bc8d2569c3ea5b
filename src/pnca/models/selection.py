"""Choosing what is not given by the likelihood of examples that fold models were not trained on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.maths.inputs import InputFactor, Novelty
from pnca.maths.neighbours import LOG_ZERO, class_log_masses, log_class_probabilities, log_mean, safe_log
from pnca.models.kernels import Kernel, PositiveKernel
from pnca.training.loop import Phase, silent
from pnca.training.sampling import FoldModels, spread_rows

if TYPE_CHECKING:
    from pnca.models.pool import Pool

#: The background mass where none is given.
BACKGROUND = 0.03
#: Candidates, as multiples of the reference: the bandwidth, and the background mass.
_BANDWIDTHS = tuple(2 ** (k / 2) for k in range(-4, 11))
_BACKGROUNDS = tuple(2 ** (k / 2) for k in range(-8, 9))
#: The background's reference: this part of the mass that an example typically gets out of fold. As a part of
#: that it does not depend on the bandwidth.
_BACKGROUND_SHARE = math.exp(-5)
#: The least log mass that counts as typical: where most examples get none, there is nothing to go by.
_LEAST_TYPICAL = -50.0
#: How far the likelihood of few examples may move a choice; see shrinkage.
_BANDWIDTH_SPREAD, _BACKGROUND_SPREAD, _EPOCH_SPREAD = 0.35, 1.0, 2.0
#: Rows that are enough to choose by; of many examples fewer, so that each choice compares no more pairs.
MANY_ROWS, _ENOUGH_ROWS, _ENOUGH_PAIRS = 1000, 500, 2_500_000
#: Up to so many examples the CPU has chosen before a GPU has launched its many small kernels.
_FEW_FOR_A_GPU = 2000
#: Rows that stand for all as neighbours when class sums are made anew for every candidate.
_MANY_NEIGHBOURS = 4000


class Snapshot(NamedTuple):
    """Particles after an epoch, and their embeddings of the training examples."""

    epoch: int
    particles: Tensor  # (m, p), of the full model
    embeddings: Tensor  # (particles of all models, n, d)


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is known when choices are made, and what is to be chosen."""

    kernel: Kernel  # at the bandwidth of the training, the reference
    models: FoldModels
    labels: Tensor  # (n,)
    weights: Tensor  # (n,), float64
    log_prior: Tensor  # (c,), float64
    inputs: Tensor | None  # (n, ...), where their distance counts
    input_factor: InputFactor | None
    background: float | None  # None: to be chosen
    max_epochs: int
    novelty: Novelty | None  # of which the depth is to be found
    residuals: Tensor | None  # (n,), log residuals of the inputs from the plane of novelty, held out

    def on(self, device: torch.device) -> Question:
        """The same on a device, inputs in float64."""
        inputs = None if self.inputs is None or self.input_factor is None else self.inputs.to(device).double()
        moved = {name: getattr(self, name).to(device) for name in ("labels", "weights", "log_prior")}
        return Question(**{**vars(self), **moved, "inputs": inputs})

    @property
    def folds(self) -> Tensor:
        """Fold of each example: (n,)."""
        assert self.models.folds is not None
        return torch.from_numpy(self.models.folds).to(self.labels.device)

    @property
    def n_members(self) -> int:
        """Members of a fold model."""
        return self.models.n_per_fold if self.kernel.is_shared else 1


class OutOfFold(NamedTuple):
    """What fold models predict of the examples that they were not trained on."""

    proba: NDArray[np.float64]  # (n, c)
    evidence: NDArray[np.float64]  # (n,), log mass from the examples of other folds
    loss: float  # mean negative log-likelihood


class Choice(NamedTuple):
    """What was chosen, and what it says of the training examples out of fold."""

    particles: Tensor  # (m, p), of the full model
    epoch: int
    kinds: tuple[int, ...]  # of the particles that are kept
    bandwidth: float
    background: float
    novelty: Novelty | None
    out_of_fold: OutOfFold | None  # None without folds
    folds: NDArray[np.int64] | None = None  # (n,)
    pool: Pool | None = None  # None: the neighbours alone

    def at(self, rows: NDArray[np.intp]) -> Choice:
        """The same with what is said of the examples in another order (n,)."""
        if self.out_of_fold is None or self.folds is None:
            return self
        proba, evidence, loss = self.out_of_fold
        return self._replace(
            out_of_fold=OutOfFold(proba[rows], evidence[rows], loss),
            folds=self.folds[rows],
            pool=None if self.pool is None else self.pool.at(rows),
        )

    def attributes(self) -> dict[str, Any]:
        """What was chosen, and what fold models say of the training examples, by the names of estimators."""
        found: dict[str, Any] = {"best_epoch_": self.epoch}
        if self.out_of_fold is None:
            return found
        proba, evidence, loss = self.out_of_fold
        return found | {
            "oof_proba_": proba,
            "oof_evidence_": evidence,
            "oof_loss_": loss,
            "folds_": self.folds,
        }


class _Candidates(NamedTuple):
    """What may be chosen, at one bandwidth."""

    snapshot: Snapshot
    kinds: tuple[int, ...]  # of particles
    bandwidth: float
    backgrounds: Tensor  # (b,)
    costs: Tensor  # (b,), penalised negative log-likelihoods


def choose(snapshots: list[Snapshot], question: Question, phase: Phase = silent) -> Choice:
    """Choose epoch, kinds of particles, bandwidth and background by the likelihood out of fold."""
    if len(question.labels) <= _FEW_FOR_A_GPU:
        snapshots = [s._replace(embeddings=s.embeddings.cpu()) for s in snapshots]
    question = question.on(_precise(snapshots[0].embeddings[:0]).device)
    weights = question.weights * _has_support(question)
    found = []
    with phase(
        "choosing", len(snapshots) * len(_factors(question)) * len(_mixtures(question.models.n_kinds))
    ) as advance:
        for candidates in _candidates(snapshots, weights, question):
            found.append(candidates)
            advance()
    best = min(found, key=lambda candidates: float(candidates.costs.min()))
    # The likelihood of few examples has a wide top, whose very best candidate is a matter of luck.
    alike = [c for c in found if c.snapshot is best.snapshot and c.kinds == best.kinds]
    costs = torch.stack([c.costs for c in alike])  # (bandwidths, backgrounds)
    bandwidths = costs.new_tensor([c.bandwidth for c in alike])[:, None].expand(costs.shape)
    bandwidth, background = posterior_mean(bandwidths, costs), question.background
    if background is None:
        background = posterior_mean(torch.stack([c.backgrounds for c in alike]), costs)
    log_masses = _all_log_masses(best, question.kernel.at(bandwidth), question, phase)
    novelty = question.novelty
    if novelty is not None and question.residuals is not None:
        novelty = novelty.with_depth(_typical_mass(log_masses), background or BACKGROUND)
        log_masses = log_masses + novelty.log_of(question.residuals).to(log_masses)[:, None]
    return Choice(
        particles=best.snapshot.particles[_are_of(best.kinds, best.snapshot.particles, question.models)],
        epoch=best.snapshot.epoch,
        kinds=best.kinds,
        bandwidth=bandwidth,
        background=background,
        novelty=novelty,
        out_of_fold=_out_of_fold(log_masses, background, question),
        folds=question.models.folds,
    )


def _candidates(snapshots: list[Snapshot], weights: Tensor, question: Question) -> Iterator[_Candidates]:
    """All that is tried, and what it costs with these weights (n,) of the examples."""
    labels, models = question.labels, question.models
    # Some hundred examples choose as well as all.
    n_rows = min(MANY_ROWS, max(_ENOUGH_ROWS, _ENOUGH_PAIRS // len(labels)))
    rows = spread_rows(len(labels), n_rows).to(labels.device)
    log_input = _log_input(rows, question)
    for snapshot, factor in product(snapshots, _factors(question)):
        kernel = question.kernel.at(question.kernel.bandwidth * factor)
        share = torch.tensor(snapshot.epoch / question.max_epochs)
        penalty = float(shrinkage(torch.tensor(factor), 1.0, _BANDWIDTH_SPREAD))
        penalty += float(shrinkage(share, 1.0, _EPOCH_SPREAD))
        of_all = _log_masses(snapshot, rows, log_input, kernel, question)
        for kinds in _mixtures(models.n_kinds):
            log_masses = of_all[_are_of(kinds, of_all, models)]
            reference = _BACKGROUND_SHARE * _typical_mass(log_masses)
            backgrounds = _backgrounds(question.background, reference).to(rows.device)
            costs = penalty + out_of_fold_losses(
                log_masses, labels[rows], weights[rows], backgrounds, question.log_prior
            )
            if question.background is None:
                costs = costs + shrinkage(backgrounds, reference, _BACKGROUND_SPREAD)
            yield _Candidates(snapshot, kinds, kernel.bandwidth, backgrounds, costs)


def _factors(question: Question) -> tuple[float, ...]:
    """Bandwidths that are tried, as multiples of the reference."""
    return _BANDWIDTHS if question.kernel.is_tunable else (1.0,)


def _backgrounds(given: float | None, reference: float) -> Tensor:
    if given is not None:
        return torch.tensor([given], dtype=torch.float64)
    return reference * torch.tensor(_BACKGROUNDS, dtype=torch.float64)


def _all_log_masses(best: _Candidates, kernel: Kernel, question: Question, phase: Phase) -> Tensor:
    """Log masses (members, n, c) of all examples out of fold, by the particles that were chosen."""
    n, chunks = len(question.labels), []
    n_rows = n if kernel.is_linear else MANY_ROWS
    with phase("out of fold", n) as advance:
        for rows in torch.arange(n).tensor_split(-(-n // n_rows)):
            rows = rows.to(question.labels.device)
            masses = _log_masses(best.snapshot, rows, _log_input(rows, question), kernel, question)
            chunks.append(masses[_are_of(best.kinds, masses, question.models)])
            advance(len(rows))
    return torch.cat(chunks, dim=1)


def _out_of_fold(log_masses: Tensor, background: float, question: Question) -> OutOfFold:
    log_probabilities = log_mean(log_class_probabilities(log_masses, background, question.log_prior))
    return OutOfFold(
        proba=log_probabilities.exp().cpu().numpy(),
        evidence=log_mean(log_masses.logsumexp(dim=2)).cpu().numpy(),
        loss=-float(log_probabilities.gather(1, question.labels[:, None]).mean()),
    )


def _log_input(rows: Tensor, question: Question) -> Tensor | None:
    """Log factor (rows, n) to the examples of other folds; those of the row's own have no mass.

    None if examples are not compared one by one.
    """
    if question.kernel.is_linear:
        return None
    folds = question.folds
    same_fold = folds[rows, None] == folds
    # As many examples as the model itself will have give as much mass.
    log_input = math.log(len(folds)) - (~same_fold).sum(dim=1, keepdim=True).double().log()
    if question.inputs is not None and question.input_factor is not None:
        log_input = log_input + question.input_factor.log(question.inputs[rows], question.inputs)
    return log_input.expand(same_fold.shape).masked_fill(same_fold, LOG_ZERO)


def _log_masses(
    snapshot: Snapshot, rows: Tensor, log_input: Tensor | None, kernel: Kernel, question: Question
) -> Tensor:
    """Log class masses (members, rows, c) by the fold models that were not trained on the row's example."""
    labels, n_classes = question.labels, len(question.log_prior)
    log_masses = question.weights.new_empty(question.n_members, len(rows), n_classes)
    for fold in range(question.models.n_folds):
        z = _precise(snapshot.embeddings[question.models.without(fold)])
        held_out = question.folds[rows] == fold
        queries = z[:, rows[held_out]]
        if log_input is None:
            assert isinstance(kernel, PositiveKernel)
            log_masses[:, held_out] = _masses_of_others(kernel, queries, z, fold, len(rows), question)
        else:
            log_latent = kernel.log_pairs(queries, z, [slice(None)])
            log_masses[:, held_out] = class_log_masses(
                log_latent + log_input[held_out], labels, n_classes, safe_log(question.weights)
            )
    return log_masses


def _masses_of_others(
    kernel: PositiveKernel, queries: Tensor, z: Tensor, fold: int, n_rows: int, question: Question
) -> Tensor:
    """The same from one sum of features for each class of the other folds: linear in the examples."""
    n = len(question.labels)
    some = spread_rows(n, max(n_rows, _MANY_NEIGHBOURS)).to(question.labels.device)
    shown = some[question.folds[some] != fold]
    labels, weights = question.labels[shown], question.weights[shown]
    features = kernel.summarise(z[:, shown], labels, weights, len(question.log_prior))
    # As many examples as the model itself will have give as much mass.
    return kernel.log_masses_of(features, queries) + math.log(n / len(shown))


def _precise(tensor: Tensor) -> Tensor:
    """In float64, where the tensor is if that has it."""
    return tensor.double() if tensor.device.type in ("cpu", "cuda") else tensor.cpu().double()


def _mixtures(n_kinds: int) -> list[tuple[int, ...]]:
    """Kinds of particles that may predict together: all of them, or one alone."""
    every = tuple(range(n_kinds))
    return [every] if n_kinds == 1 else [every, *((kind,) for kind in every)]


def _are_of(kinds: tuple[int, ...], of_model: Tensor, models: FoldModels) -> Tensor:
    """Mask of a model's particles (or members) whose kind is in ``kinds``."""
    of_rows = models.kinds()[: len(of_model)]  # alike in every model
    return torch.isin(of_rows, torch.tensor(kinds)).to(of_model.device)


def _typical_mass(log_masses: Tensor) -> float:
    """Mass (members, n, c) that an example typically gets from others."""
    return math.exp(max(float(typical_log_mass(log_masses)), _LEAST_TYPICAL))


def _has_support(question: Question) -> Tensor:
    """Whether an example has another of its class in another fold; else nothing can be chosen by it: (n,)."""
    labels, folds = question.labels.cpu().numpy(), question.models.folds
    counts = np.zeros((int(labels.max()) + 1, question.models.n_folds), dtype=np.int64)
    np.add.at(counts, (labels, folds), 1)  # type: ignore[arg-type]
    return torch.from_numpy(counts.sum(axis=1)[labels] > counts[labels, folds]).to(question.labels.device)


def out_of_fold_losses(
    log_masses: Tensor, labels: Tensor, weights: Tensor, backgrounds: Tensor, log_prior: Tensor
) -> Tensor:
    r"""Negative log-likelihood (b,) of held-out examples for each of several background masses (b,).

    .. math:: L(\alpha) = -\sum_i \omega_i \log \frac{1}{m} \sum_l
              \frac{S_{l i y_i} + \alpha \pi_{y_i}}{\sum_c S_{l i c} + \alpha}

    from log masses (m, n, c), given by examples of other folds only, ``labels`` and ``weights`` (n,), and the
    log prior (c,).

    >>> log_masses, log_prior = torch.zeros(1, 1, 2), torch.tensor([0.5, 0.5]).log()
    >>> out_of_fold_losses(log_masses, torch.tensor([0]), torch.ones(1), torch.tensor([0.1]), log_prior)
    tensor([0.6931])
    """
    losses = []
    for background in backgrounds:
        log_probabilities = log_mean(log_class_probabilities(log_masses, float(background), log_prior))
        log_correct = log_probabilities.gather(1, labels[:, None]).squeeze(1)
        # Examples of weight zero may hold log 0, and 0 * log 0 would swamp the sum.
        losses.append(-(weights * log_correct.where(weights > 0, 0)).sum())
    return torch.stack(losses)


def shrinkage(value: Tensor, reference: float, spread: float) -> Tensor:
    r"""Cost of leaving a reference value: the negative log density of a prior, up to a constant.

    .. math:: \sqrt{1 + u^2} - 1, \quad u = \frac{\log v - \log v_0}{\sigma}

    It keeps a choice near the reference :math:`v_0` where few held-out examples say little, and hardly
    matters with many. Near the reference the prior is log-normal; its tails are heavier, for data unlike any
    other: far away, each further factor of :math:`e^\sigma` costs a nat. The candidates :math:`v > 0` are of
    any shape.

    >>> shrinkage(torch.tensor([1.0, math.e]), reference=1.0, spread=1.0)
    tensor([0.0000, 0.4142])
    """
    return (1 + ((value.log() - math.log(reference)) / spread).square()).sqrt() - 1


def posterior_mean(values: Tensor, costs: Tensor) -> float:
    r"""Geometric mean of positive candidates :math:`v_k` under their posterior.

    .. math:: \exp \frac{\sum_k e^{-C_k} \log v_k}{\sum_k e^{-C_k}}

    with :math:`C_k` the negative log posteriors, up to a constant; both tensors have the same shape.

    >>> posterior_mean(torch.tensor([1.0, 4.0, 9.0]), torch.tensor([0.0, 0.0, 99.0]))
    2.0
    """
    weights = torch.softmax(-costs.flatten().double(), dim=0)
    return math.exp(float(weights @ values.flatten().double().log()))


def typical_log_mass(log_masses: Tensor) -> Tensor:
    """Median over examples of the log mass of all classes, averaged over particles: (m, n, c) -> ().

    >>> typical_log_mass(torch.zeros(1, 3, 2))
    tensor(0.6931)
    """
    of_examples = log_mean(log_masses.logsumexp(dim=2))
    ordered = of_examples.sort().values  # quantile() takes so many elements and no more
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
