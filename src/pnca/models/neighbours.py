"""Neighbour models: classes compete for kernel mass in the latent space."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from pnca.maths.inputs import InputFactor
from pnca.maths.neighbours import has_partner, leave_one_out, safe_log
from pnca.maths.pnca import Target
from pnca.maths.stein import Mixing
from pnca.models.fitted import Fitted, NeighbourReader, resolve_device, run_network
from pnca.models.kernels import Batch, Kernel, PositiveKernel, Support
from pnca.models.options import Options
from pnca.models.plan import (
    Plan,
    check_kernel,
    class_prior,
    make_fold_models,
    make_input_factor,
    make_kernel,
    make_network,
    make_novelty,
    make_schedule,
    neighbour_mixing,
    random_sources,
)
from pnca.models.pooling import with_pool
from pnca.models.selection import BACKGROUND, Choice, Question, Snapshot, choose
from pnca.networks import ParticleNetwork
from pnca.training.augmentation import Augmentation
from pnca.training.loop import Phase, Run, Trained, announced, silent
from pnca.training.objective import Evaluation
from pnca.training.sampling import Examples, FoldModels, Indices, partnered_batches
from pnca.training.shards import ProcessShards

#: Rows embedded at once for a snapshot of the particles.
_SNAPSHOT_ROWS = 4096
#: When snapshots are taken, as shares of the epochs.
_SNAPSHOTS = (1 / 30, 1 / 10, 1 / 3, 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourObjective:
    """Leave-one-out loss of the full model and of all fold models, each on its own examples."""

    network: ParticleNetwork  # embeds
    kernel: Kernel  # compares embeddings
    models: FoldModels  # which particles are trained on which examples
    inputs: Tensor  # (n, ...), scaled
    labels: Tensor  # (n,)
    weights: Tensor  # (n,), mean one
    groups: Tensor | None  # (n,)
    n_groups: int
    log_prior: Tensor  # (c,), weighted log class shares
    background: float  # mass among all n examples that belongs to none
    input_factor: InputFactor | None  # of the kernel, by the distance between inputs
    augmentation: Augmentation | None  # random changes of the queries
    is_perturbed: bool  # whether dropout or augmentation act on the queries
    mix: Callable[[Tensor], Mixing]  # of particles (m, p)
    batch_size: int | None  # None takes all examples
    shards: ProcessShards | None = None  # process group whose ranks share each batch
    _kinds: Tensor = field(init=False)  # (particles,)
    _label_array: NDArray[np.int64] = field(init=False)  # (n,)
    _model_of_member: Tensor = field(init=False)  # (members,)
    _trained_on: Tensor | None = field(init=False)  # (models, n), bool

    def __post_init__(self) -> None:
        # Once, and not in a step, which may be captured as a CUDA graph.
        device, models = self.inputs.device, self.models
        n_models = len(models.slices)
        of_members = models.of_particles() if self.kernel.is_shared else torch.arange(n_models)
        constants = {
            "_kinds": models.kinds().to(device),
            "_label_array": self.labels.cpu().numpy(),
            "_model_of_member": of_members.to(device),
            "_trained_on": None if models.folds is None else models.trained_on().to(device),
        }
        self.__dict__.update(constants)

    @property
    def uses_global_generator(self) -> bool:
        """Whether the network draws from torch's global generator."""
        return self.network.uses_global_generator

    def batches(self, rng: np.random.RandomState) -> list[Indices]:
        """Batches in which each example has another one of its class."""
        return partnered_batches(self._label_array, self.batch_size, rng)

    def mixing(self, particles: Tensor) -> Mixing:
        """How gradients and particles make the direction that is descended."""
        return self.mix(particles)

    def prepare(self, indices: Tensor) -> Batch:
        """Masks, weights and the distance between inputs for these examples (n,)."""
        inputs, labels, weights = self.inputs[indices], self.labels[indices], self.weights[indices]
        groups = None if self.groups is None else self.groups[indices]
        trained_on = None if self._trained_on is None else self._trained_on[:, indices]
        learns = weights * has_partner(labels, len(self.log_prior), groups, self.n_groups, trained_on)
        shown, n_terms = weights, len(labels) * torch.ones((), device=labels.device)
        if trained_on is not None:
            trained_on = trained_on[self._model_of_member]  # (members, n)
            shown, n_terms = weights * trained_on, trained_on.sum()
            learns = learns[self._model_of_member] * trained_on
        elif self.kernel.is_shared:
            n_terms = n_terms * self.models.n_particles
        n = len(labels)
        rows = slice(None) if self.shards is None else self.shards.rows(n)
        return Batch(
            inputs=inputs,
            groups=groups,
            shown=shown,
            target=Target(
                labels=labels,
                of_rows=labels[rows],
                weights=learns[..., rows],
                # A part of the examples has a part of the mass; the same part of the background.
                background=self.background * n / len(self.labels),
                log_prior=self.log_prior,
                full=self.models.full if self.kernel.is_shared else slice(0, 1),
            ),
            n_terms=n_terms,
            log_factor=self._log_factor(inputs, shown, groups, rows) if self._holds_pairs(n) else None,
            models=self.models.slices,
            kinds=self._kinds,
            rows=rows,
            input_factor=self.input_factor,
            is_augmented=self.augmentation is not None,
        )

    def evaluate(
        self, particles: Tensor, batch: Batch, mixing: Tensor | None, generator: torch.Generator | None
    ) -> Evaluation:
        """Leave-one-out loss of a batch; see :class:`~pnca.training.objective.Objective`."""
        own = batch.inputs if self.shards is None else batch.inputs[batch.rows]
        moved = own if self.augmentation is None else self.augmentation(own, generator)
        of_particles = moved if moved.dim() == own.dim() else moved[self._kinds]
        queries = self.network(particles, of_particles, training=True, mixing=mixing, generator=generator)
        # Only the query is perturbed: its neighbours are as predictions will find them.
        neighbours = self.network(particles, own, mixing=mixing) if self.is_perturbed else queries
        if self.shards is not None:
            queries, neighbours, moved = self._gathered(queries, neighbours, moved, batch)
        loss = self.kernel.loss(queries, neighbours, moved, batch)
        return Evaluation(loss.total, loss.total.detach() / batch.n_terms, loss.n_correct)

    def embed(self, particles: Tensor) -> Tensor:
        """Embed the training examples with particles (m, p): (m, n, d)."""
        parts = torch.split(self.inputs, _SNAPSHOT_ROWS)
        return torch.cat([self.network(particles, part) for part in parts], dim=1)

    def can_be_captured(self) -> bool:
        """Whether no step waits for a value on a GPU: not where pairs are visited in tiles."""
        n = len(self.labels) if self.batch_size is None else 2 * self.batch_size  # or somewhat less
        return self.kernel.is_linear or self._holds_pairs(n)

    def _holds_pairs(self, n: int) -> bool:
        """Whether the kernel between n examples is held in memory."""
        return self.kernel.holds_pairs(len(self._model_of_member), n, self.labels.device)

    def _log_factor(self, inputs: Tensor, shown: Tensor, groups: Tensor | None, rows: slice) -> Tensor:
        """Log of what the kernel of each two examples is multiplied by, whatever the particles."""
        indices = torch.arange(len(inputs), device=inputs.device)[rows]
        log_factor = safe_log(shown)[..., None, :].expand(*shown.shape[:-1], len(indices), -1)
        if self.input_factor is not None and self.augmentation is None:
            own = inputs if self.shards is None else inputs[rows]  # a set and itself
            log_factor = log_factor + self.input_factor.log(own, inputs)
        return leave_one_out(log_factor, groups, indices)

    def _gathered(
        self, queries: Tensor, neighbours: Tensor, moved: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings of all ranks' rows, as the kernel needs them."""
        shards, n = self.shards, len(batch.inputs)
        assert shards is not None
        neighbours = shards.gather(neighbours, n)
        if batch.log_factor is not None:
            return queries, neighbours, moved
        # Class masses are of all rows: leave-one-out goes by the row index.
        queries = shards.gather(queries, n) if self.is_perturbed else neighbours
        if not batch.is_augmented or self.input_factor is None:
            return queries, neighbours, batch.inputs
        kinds = moved[None] if moved.dim() == batch.inputs.dim() else moved
        gathered = shards.gather(kinds.flatten(start_dim=2), n).reshape(len(kinds), *batch.inputs.shape)
        return queries, neighbours, gathered[0] if moved.dim() == batch.inputs.dim() else gathered


class Snapshots:
    """Takes snapshots of a training, which a checkpoint can keep.

    ``embed`` maps the particles of all models to embeddings; ``full`` are the rows of the full model's.
    ``shapes`` are those of a snapshot's tensors.
    """

    def __init__(
        self,
        embed: Callable[[Tensor], Tensor],
        full: slice,
        shapes: dict[str, tuple[int, ...]],
        max_epochs: int,
    ) -> None:
        self.embed, self.full, self._shapes = embed, full, shapes
        self.max_epochs = max_epochs
        self.epochs = sorted({math.ceil(share * max_epochs) for share in _SNAPSHOTS})
        self.taken: list[Snapshot] = []
        self._run: Run | None = None

    @contextmanager
    def around(self, run: Run) -> Iterator[Callable[[], None]]:
        """Take snapshots of a run."""
        run.kept["snapshots"], self._run = self, run
        yield lambda: self._take(run) if run.n_epochs in self.epochs else None
        if run.shards is not None:  # the choice must not depend on a rank's rounding
            for _, particles, embeddings in self.taken:
                run.shards.follow_(particles), run.shards.follow_(embeddings)

    def _take(self, run: Run) -> None:
        particles = run.particles.detach()
        self.taken.append(Snapshot(run.n_epochs, particles[self.full].clone(), self.embed(particles)))

    def state(self) -> dict[str, Tensor]:
        """Their tensors, named by the epoch."""
        return {f"{s.epoch}.{name}": getattr(s, name) for s in self.taken for name in self._shapes}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state; a ValueError if it is not of these particles, or not of the epochs so far."""
        epochs = [e for e in self.epochs if self._run is None or e <= self._run.n_epochs]
        expected = {f"{e}.{name}": shape for e in epochs for name, shape in self._shapes.items()}
        if {name: tuple(tensor.shape) for name, tensor in state.items()} != expected:
            raise ValueError("these are not the snapshots of this training")
        self.taken = [Snapshot(e, state[f"{e}.particles"], state[f"{e}.embeddings"]) for e in epochs]


def plan_neighbours(
    options: Options, examples: Examples, rng: np.random.RandomState, shards: ProcessShards | None
) -> Plan:
    """Plan a fit of NCA or PNCA."""
    generator, seed = random_sources(rng)
    network = make_network(options, examples, n_outputs=options.n_components, head=None, seed=seed)
    models = make_fold_models(options, examples, generator)
    particles = network.draw(models.n_total, generator)
    check_kernel(options, examples)
    prior, n_components = class_prior(examples), getattr(network, "n_features", options.n_components)
    kernel = make_kernel(options, n_components, len(examples.classes), generator)
    objective = _objective(options, examples, network, models, kernel, prior, shards)
    device = objective.inputs.device
    schedule = make_schedule(options, examples, network, models.n_total, device)
    if not objective.can_be_captured():
        schedule = replace(schedule, graph_key=None)
    shapes = {
        "particles": (models.n_particles, particles.shape[1]),
        "embeddings": (models.n_total, len(examples.labels), n_components),
    }
    snapshots = Snapshots(objective.embed, models.full, shapes, schedule.max_epochs)
    ending = _Ending(options, examples, kernel, prior, objective, snapshots, seed)
    return Plan(
        objective=objective,
        particles=particles.to(device),
        schedule=schedule,
        examples=examples,
        network=network,
        choose=ending.choose,
        finish=ending.finish,
        wrappers=() if models.folds is None else (snapshots.around,),
    )


def _objective(
    options: Options,
    examples: Examples,
    network: ParticleNetwork,
    models: FoldModels,
    kernel: Kernel,
    prior: Tensor,
    shards: ProcessShards | None,
) -> NeighbourObjective:
    device, shape, background = resolve_device(options.device), examples.input_shape, options.given_background
    data, augmentation = examples.on(device), options.augmenter(shape)
    return NeighbourObjective(
        network=network,
        kernel=kernel.on(data["inputs"]),
        models=models,
        **data,
        groups=None if examples.groups is None else torch.from_numpy(examples.groups).to(device),
        n_groups=examples.n_groups,
        log_prior=prior.to(data["inputs"]).log(),
        background=BACKGROUND if background is None else background,
        input_factor=make_input_factor(options, examples),
        augmentation=augmentation,
        is_perturbed=bool(options.dropout_rate(shape)) or augmentation is not None,
        mix=neighbour_mixing(options, models),
        batch_size=options.n_per_batch(len(examples.labels), len(examples.classes)),
        shards=shards,
    )


class _Ending(NamedTuple):
    """What follows the training of a neighbour model."""

    options: Options
    examples: Examples
    kernel: Kernel
    prior: Tensor  # (c,)
    objective: NeighbourObjective
    snapshots: Snapshots
    seed: int  # of the experts

    def choose(self, trained: Trained) -> Choice:
        """Choose out of fold what is not given; without folds or time for it, take what there is."""
        objective, background = self.objective, self.objective.background
        novelty, residuals = make_novelty(self.options, self.examples, objective.models.folds)
        if trained.was_interrupted or not self.snapshots.taken:
            if novelty is not None:
                # No mass is known that held-out examples get; as near as neighbours all would give this.
                novelty = novelty.with_depth(len(self.examples.labels), background or BACKGROUND)
            kinds = tuple(range(objective.models.n_kinds))
            particles = trained.particles[objective.models.full]
            n_epochs = len(trained.history.loss)
            return Choice(particles, n_epochs, kinds, self.kernel.bandwidth, background, novelty, None)
        question = Question(
            kernel=self.kernel,
            models=objective.models,
            labels=torch.from_numpy(self.examples.labels),
            weights=torch.from_numpy(self.examples.weights),
            log_prior=self.prior.log(),
            inputs=torch.from_numpy(self.examples.inputs),
            input_factor=objective.input_factor,
            background=self.options.given_background,
            max_epochs=self.snapshots.max_epochs,
            novelty=novelty,
            residuals=residuals,
        )
        choice = choose(self.snapshots.taken, question, self._phase)
        if experts := self.options.experts:
            choice = with_pool(choice, experts, self.examples, self.seed, self._phase, objective.shards)
        return choice.at(self.examples.place)

    def finish(self, trained: Trained, choice: Choice | None) -> Fitted:
        """Embed the training examples with the chosen particles."""
        assert choice is not None
        examples, network, factor = (
            self.examples.as_given(),
            self.objective.network,
            self.objective.input_factor,
        )
        device = resolve_device(self.options.device)
        chunks = []
        with self._phase("embedding", len(examples.labels)) as advance:
            for z, inputs in run_network(network, choice.particles, examples.inputs, device):
                chunks.append(z)
                advance(len(inputs))
        kernel = self.kernel.at(choice.bandwidth)
        support = Support(
            embeddings=torch.cat(chunks, dim=1).cpu().double(),
            labels=torch.from_numpy(examples.labels),
            weights=torch.from_numpy(examples.weights),
            n_classes=len(examples.classes),
            background=choice.background,
            input_factor=factor,
            inputs=None if factor is None else torch.from_numpy(examples.inputs),
        )
        if isinstance(kernel, PositiveKernel):
            support = kernel.summarised(support)
        reader = NeighbourReader(kernel, support, self.prior, choice.novelty, choice.pool)
        _warn_if_isolated(reader)
        return Fitted(
            classes=examples.classes,
            input_shape=examples.input_shape,
            network=network,
            particles=choice.particles.cpu(),
            scaler=examples.scaler,
            reader=reader,
        )

    @property
    def _phase(self) -> Phase:
        return announced(self.objective.shards) if self.options.verbose else silent


def _warn_if_isolated(reader: NeighbourReader) -> None:
    if reader.support.background > 0 and (isolated := reader.isolated_share()) > 0.5:
        warnings.warn(
            f"{isolated:.0%} of the training examples get less kernel mass from all others than the "
            f"background has ({reader.support.background:.3g}), so the class shares decide. Scale the inputs "
            "(for example with sklearn.preprocessing.StandardScaler), raise bandwidth, or lower background.",
            ConvergenceWarning,
            stacklevel=7,
        )
