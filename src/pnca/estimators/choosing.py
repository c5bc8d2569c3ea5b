"""What is not given is chosen by examples that a part of the particles was not trained on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pnca.estimators.base import Examples, Snapshot, TrainingData
from pnca.estimators.neighbour import BACKGROUND, NeighbourClassifier
from pnca.maths.likelihood import log_mean
from pnca.maths.neighbours import LOG_ZERO, class_log_masses, log_class_probabilities, safe_log
from pnca.maths.out_of_fold import out_of_fold_losses, posterior_mean, shrinkage, typical_log_mass
from pnca.training.batches import spread_rows
from pnca.training.folds import Teams, assign_folds

#: Candidates out of fold, as multiples of the reference: the bandwidth, and the background mass.
_BANDWIDTHS = tuple(2 ** (k / 2) for k in range(-4, 11))
_BACKGROUNDS = tuple(2 ** (k / 2) for k in range(-8, 9))
#: The background's reference: this part of the mass that an example typically gets from those of other
#: folds. As a part of that it does not depend on the bandwidth.
_BACKGROUND_SHARE = math.exp(-5)
#: The least log mass that counts as typical: where most examples get none, there is nothing to go by.
_LEAST_TYPICAL = -50.0
#: When the particles are looked at, as shares of the epochs.
_CHECKPOINTS = (1 / 30, 1 / 10, 1 / 3, 1.0)
#: How far the likelihood of few examples may move a choice; see pnca.maths.out_of_fold.shrinkage.
_BANDWIDTH_SPREAD, _BACKGROUND_SPREAD, _EPOCH_SPREAD = 0.35, 1.0, 2.0
#: Particles that stand for all m in a fold: enough to choose by, at half the cost.
_SHARE_IN_FOLDS = 0.5
#: How much more images are moved for every other particle; out of fold these, the others or all are chosen.
MORE_AUGMENTATION = 1.5
#: Rows that are enough to choose by.
MANY_ROWS = 1000
#: Up to so many examples a processor has chosen before a GPU has started its many small operations.
_FEW_FOR_A_GPU = 2000
#: Rows embedded at once for a look at the particles, and rows that stand for all as neighbours when class
#: sums are made anew for every candidate.
_SNAPSHOT_ROWS, _MANY_NEIGHBOURS = 4096, 4000


class _Candidates(NamedTuple):
    """What may be chosen out of fold, at one bandwidth."""

    snapshot: Snapshot
    kinds: tuple[int, ...]  # of particles
    bandwidth: float
    backgrounds: Tensor  # (b,)
    costs: Tensor  # (b,): penalised negative log-likelihoods


class _Known(NamedTuple):
    """What is known of the training examples when choices are made."""

    labels: Tensor  # (n,)
    folds: Tensor  # (n,)
    weights: Tensor  # (n,), float64
    inputs: Tensor | None  # (n, p), float64, if they count
    log_prior: Tensor  # (c,), float64
    teams: Teams


class ChoosingClassifier(NeighbourClassifier):
    """A neighbour classifier with folds, by which its bandwidth, background and epoch are chosen."""

    n_particles: int
    n_folds: int | None

    def _make_teams(self, examples: Examples, generator: torch.Generator) -> Teams:
        if self.n_folds is None:
            return Teams(folds=None, n_particles=self.n_particles)
        rng = np.random.RandomState(int(torch.randint(2**31, (), generator=generator)))
        n_kinds = len(self._strengths)
        return Teams(
            folds=assign_folds(examples.labels, self.n_folds, rng, examples.groups),
            n_particles=self.n_particles,
            n_per_fold=n_kinds * math.ceil(_SHARE_IN_FOLDS * self.n_particles / n_kinds),
            n_kinds=n_kinds,
        )

    @property
    def _has_kinds(self) -> bool:
        """Whether there can be kinds of particles: each must answer on its own, and folds tell them apart.

        One of the kinds alone must still be particles that can disagree.
        """
        can_be_halved = self.n_particles >= 4 and self.n_particles % 2 == 0
        return self.expectation == "shared" and self.n_folds is not None and can_be_halved

    def _snapshots(
        self, epoch: int, particles: Tensor, data: TrainingData, *, is_last: bool = False
    ) -> list[Snapshot]:
        checkpoints = {math.ceil(share * self._max_epochs) for share in _CHECKPOINTS}
        if data.sees is None or not (is_last or epoch in checkpoints):
            return []
        embeddings = [self.network_(particles, rows) for rows in torch.split(data.inputs, _SNAPSHOT_ROWS)]
        return [Snapshot(epoch, particles[data.teams.full].clone(), torch.cat(embeddings, dim=1))]

    def _keep(self, trained: Tensor, snapshots: list[Snapshot], examples: Examples, teams: Teams) -> None:
        self.best_epoch_, self.augmentation_ = len(self.history_["loss"]), self._strengths
        residuals = self._set_plane(examples, teams.folds) if self.novelty else None
        if snapshots and teams.folds is not None:
            trained = self._choose(snapshots, examples, teams, residuals)
        elif self.novelty:
            # No mass is known that held-out examples get; as near as their neighbours all would give this.
            self._set_depth(len(examples.labels), self.background_ or BACKGROUND)
        super()._keep(trained, snapshots, examples, teams)

    def _choose(
        self, snapshots: list[Snapshot], examples: Examples, teams: Teams, residuals: Tensor | None
    ) -> Tensor:
        """Choose epoch, particles, bandwidth and background out of fold; return the particles."""
        if len(examples.labels) <= _FEW_FOR_A_GPU:
            snapshots = [s._replace(embeddings=s.embeddings.cpu()) for s in snapshots]
        known = self._known(examples, teams, _precise(snapshots[0].embeddings[:0]).device)
        weights = known.weights * _has_support(examples, teams).to(known.weights.device)
        found = list(self._candidates(snapshots, weights, known))
        best = min(found, key=lambda candidates: float(candidates.costs.min()))
        # The likelihood of few examples has a wide top, of which the very best is a matter of luck.
        alike = [c for c in found if c.snapshot is best.snapshot and c.kinds == best.kinds]
        costs = torch.stack([c.costs for c in alike])  # (bandwidths, backgrounds)
        bandwidths = costs.new_tensor([c.bandwidth for c in alike])[:, None].expand(costs.shape)
        self.bandwidth_ = posterior_mean(bandwidths, costs)
        if self.background == "auto":
            self.background_ = posterior_mean(torch.stack([c.backgrounds for c in alike]), costs)
        self.best_epoch_, self.folds_ = best.snapshot.epoch, teams.folds
        self.augmentation_ = tuple(self._strengths[kind] for kind in best.kinds)
        self._set_out_of_fold(best, known, residuals)
        return best.snapshot.particles[_are_of(best.kinds, best.snapshot.particles, teams)]

    def _candidates(self, snapshots: list[Snapshot], weights: Tensor, known: _Known) -> Iterator[_Candidates]:
        """All that is tried, and what it costs with these weights (n,) of the examples."""
        # Some thousand examples choose as well as all.
        rows = spread_rows(len(known.labels), MANY_ROWS).to(known.labels.device)
        # Random features were drawn for one bandwidth.
        factors = (1.0,) if self.kernel == "orthogonal" else _BANDWIDTHS
        log_input = self._out_of_fold_log_input(rows, known)
        for snapshot, factor in product(snapshots, factors):
            self.bandwidth_ = self.bandwidth * factor
            share = torch.tensor(snapshot.epoch / self._max_epochs)
            penalty = float(shrinkage(torch.tensor(factor), 1.0, _BANDWIDTH_SPREAD))
            penalty += float(shrinkage(share, 1.0, _EPOCH_SPREAD))
            of_all = self._out_of_fold_masses(snapshot, rows, log_input, known)
            for kinds in _mixtures(known.teams.n_kinds):
                log_masses = of_all[_are_of(kinds, of_all, known.teams)]
                reference = _BACKGROUND_SHARE * _typical_mass(log_masses)
                backgrounds = self._candidate_backgrounds(reference).to(rows.device)
                costs = penalty + out_of_fold_losses(
                    log_masses, known.labels[rows], weights[rows], backgrounds, known.log_prior
                )
                if self.background == "auto":
                    costs = costs + shrinkage(backgrounds, reference, _BACKGROUND_SPREAD)
                yield _Candidates(snapshot, kinds, self.bandwidth_, backgrounds, costs)

    def _known(self, examples: Examples, teams: Teams, device: torch.device) -> _Known:
        labels, folds = (torch.from_numpy(a).to(device) for a in (examples.labels, teams.folds))
        return _Known(
            labels=labels,
            folds=folds,
            weights=torch.from_numpy(self.class_weight_).to(device)[labels],
            inputs=torch.from_numpy(examples.inputs).to(device).double() if self.input_weight_ else None,
            log_prior=torch.from_numpy(self.class_prior_).to(device).log(),
            teams=teams,
        )

    def _set_out_of_fold(self, best: _Candidates, known: _Known, residuals: Tensor | None) -> None:
        """Keep what the chosen settings say of each example out of fold."""
        chunks = []
        n_rows = MANY_ROWS if self.kernel != "positive" else len(known.labels)
        for rows in torch.arange(len(known.labels)).tensor_split(-(-len(known.labels) // n_rows)):
            rows = rows.to(known.labels.device)
            log_input = self._out_of_fold_log_input(rows, known)
            masses = self._out_of_fold_masses(best.snapshot, rows, log_input, known)
            chunks.append(masses[_are_of(best.kinds, masses, known.teams)])
        log_masses = torch.cat(chunks, dim=1)
        if residuals is not None:
            self._set_depth(_typical_mass(log_masses), self.background_ or BACKGROUND)
            log_masses = log_masses + self._log_familiarity_of(residuals).to(log_masses)[:, None]
        log_probabilities = log_mean(log_class_probabilities(log_masses, self.background_, known.log_prior))
        self.oof_proba_ = log_probabilities.exp().cpu().numpy()
        self.oof_evidence_ = log_mean(log_masses.logsumexp(dim=2)).cpu().numpy()
        self.oof_loss_ = -float(log_probabilities.gather(1, known.labels[:, None]).mean())

    def _candidate_backgrounds(self, reference: float) -> Tensor:
        if self.background != "auto":
            return torch.tensor([float(self.background)], dtype=torch.float64)
        return reference * torch.tensor(_BACKGROUNDS, dtype=torch.float64)

    def _out_of_fold_log_input(self, rows: Tensor, known: _Known) -> Tensor | None:
        """Log input factor (rows, n) to the examples of other folds; those of the row's own have no mass.

        None if examples are not compared one by one.
        """
        if self.kernel == "positive":
            return None
        same_fold = known.folds[rows, None] == known.folds
        # As many examples as the model itself will have give as much mass.
        log_input = math.log(len(known.folds)) - (~same_fold).sum(dim=1, keepdim=True).double().log()
        if known.inputs is not None:
            log_input = log_input + self._log_input_factor(known.inputs[rows], known.inputs)
        return log_input.expand(same_fold.shape).masked_fill(same_fold, LOG_ZERO)

    def _out_of_fold_masses(
        self, snapshot: Snapshot, rows: Tensor, log_input: Tensor | None, known: _Known
    ) -> Tensor:
        """Log class masses (answers, rows, c) by particles that do not see the row's example."""
        if log_input is None:
            return self._out_of_fold_sums(snapshot, rows, known)
        log_weights = safe_log(known.weights)
        log_masses = self._room_for_masses(rows, known)
        for fold in range(known.teams.n_folds):
            z = _precise(snapshot.embeddings[known.teams.without(fold)])
            held_out = known.folds[rows] == fold
            log_latent = self._log_latent_kernel(z[:, rows[held_out]], z, [slice(None)], self._frequencies(z))
            log_masses[:, held_out] = class_log_masses(
                log_latent + log_input[held_out], known.labels, len(self.classes_), log_weights
            )
        return log_masses

    def _out_of_fold_sums(self, snapshot: Snapshot, rows: Tensor, known: _Known) -> Tensor:
        """The same from one sum of features for each class and fold: linear in the examples."""
        labels, weights, n = known.labels, known.weights, len(known.labels)
        neighbours = spread_rows(n, max(len(rows), _MANY_NEIGHBOURS)).to(labels.device)
        log_masses = self._room_for_masses(rows, known)
        for fold in range(known.teams.n_folds):
            z = _precise(snapshot.embeddings[known.teams.without(fold)])
            shown, held_out = neighbours[known.folds[neighbours] != fold], known.folds[rows] == fold
            support = self._summary(self._clouds(z[:, shown], [slice(None)]), labels[shown], weights[shown])
            queries = self._clouds(z[:, rows[held_out]], [slice(None)])
            # As many examples as the model itself will have give as much mass.
            log_masses[:, held_out] = support.log_masses(queries) + math.log(n / len(shown))
        return log_masses

    def _room_for_masses(self, rows: Tensor, known: _Known) -> Tensor:
        n_answers = known.teams.n_per_fold if self.expectation == "shared" else 1
        return known.weights.new_empty(n_answers, len(rows), len(self.classes_))


def _precise(tensor: Tensor) -> Tensor:
    """In float64, where the tensor is if that has it."""
    return tensor.double() if tensor.device.type in ("cpu", "cuda") else tensor.cpu().double()


def _mixtures(n_kinds: int) -> list[tuple[int, ...]]:
    """Kinds of particles that may answer together: all of them, or one alone."""
    every = tuple(range(n_kinds))
    return [every] if n_kinds == 1 else [every, *((kind,) for kind in every)]


def _are_of(kinds: tuple[int, ...], of_team: Tensor, teams: Teams) -> Tensor:
    """Which rows of what the particles of a team have are of these kinds."""
    of_rows = teams.kinds()[: len(of_team)]  # alike in every team
    return torch.isin(of_rows, torch.tensor(kinds)).to(of_team.device)


def _typical_mass(log_masses: Tensor) -> float:
    """Mass (answers, n, c) that an example typically gets from others."""
    return math.exp(max(float(typical_log_mass(log_masses)), _LEAST_TYPICAL))


def _has_support(examples: Examples, teams: Teams) -> Tensor:
    """Whether an example has another of its class in another fold; else nothing can be chosen by it: (n,)."""
    labels, folds = examples.labels, teams.folds
    counts = np.zeros((int(labels.max()) + 1, teams.n_folds), dtype=np.int64)
    np.add.at(counts, (labels, folds), 1)  # type: ignore[arg-type]
    return torch.from_numpy(counts.sum(axis=1)[labels] > counts[labels, folds])
