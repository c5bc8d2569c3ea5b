"""Softmax models: one network, an ensemble, or a Bayesian network by SVGD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pnca.maths.likelihood import cross_entropy_and_probabilities
from pnca.maths.stein import Mixing
from pnca.models.fitted import Fitted, SoftmaxReader, resolve_device
from pnca.models.options import Options
from pnca.models.plan import (
    Plan,
    make_network,
    make_schedule,
    random_sources,
    softmax_mixing,
)
from pnca.models.selection import Choice
from pnca.networks import ParticleNetwork
from pnca.training.augmentation import Augmentation
from pnca.training.loop import Trained
from pnca.training.objective import Evaluation
from pnca.training.sampling import Examples, Indices, shuffled_batches
from pnca.training.shards import ProcessShards


class SoftmaxBatch(NamedTuple):
    """Examples of one step, this rank's rows of them."""

    inputs: Tensor  # (n, ...)
    labels: Tensor  # (n,)
    weights: Tensor  # (n,)
    n_samples: int  # in all ranks


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftmaxObjective:
    """Cross-entropy of each particle."""

    network: ParticleNetwork  # its outputs are logits
    inputs: Tensor  # (n, ...)
    labels: Tensor  # (n,)
    weights: Tensor  # (n,), mean one
    augmentation: Augmentation | None  # random changes of the inputs
    mix: Callable[[Tensor], Mixing]  # of particles (m, p)
    batch_size: int | None  # None takes all examples
    shards: ProcessShards | None = None  # process group whose ranks share each batch

    @property
    def uses_global_generator(self) -> bool:
        """Whether the network draws from torch's global generator."""
        return self.network.uses_global_generator

    def batches(self, rng: np.random.RandomState) -> list[Indices]:
        """Shuffled batches."""
        return shuffled_batches(len(self.labels), self.batch_size, rng)

    def mixing(self, particles: Tensor) -> Mixing:
        """How gradients and particles make the direction that is descended."""
        return self.mix(particles)

    def prepare(self, indices: Tensor) -> SoftmaxBatch:
        """Rows of this rank among the examples (n,)."""
        own = indices if self.shards is None else indices[self.shards.rows(len(indices))]
        return SoftmaxBatch(self.inputs[own], self.labels[own], self.weights[own], len(indices))

    def evaluate(
        self, particles: Tensor, batch: SoftmaxBatch, mixing: Tensor | None, generator: torch.Generator | None
    ) -> Evaluation:
        """Cross-entropy of a batch; see :class:`~pnca.training.objective.Objective`."""
        inputs, labels, weights, n_samples = batch
        moved = inputs if self.augmentation is None else self.augmentation(inputs, generator)
        logits = self.network(particles, moved, training=True, mixing=mixing, generator=generator)
        losses, probabilities = cross_entropy_and_probabilities(logits, labels, weights, n_samples)
        predicted = probabilities.mean(dim=0).argmax(dim=1)
        return Evaluation(losses.sum(), losses.detach().mean(), (predicted == labels).sum())


def plan_softmax(
    options: Options, examples: Examples, rng: np.random.RandomState, shards: ProcessShards | None
) -> Plan:
    """Plan a fit of a softmax model."""
    generator, seed = random_sources(rng)
    n, c = len(examples.labels), len(examples.classes)
    network = make_network(options, examples, n_outputs=c, head=c, seed=seed)
    particles = network.draw(options.n_particles, generator)
    device = resolve_device(options.device)

    def finish(trained: Trained, choice: Choice | None) -> Fitted:
        return Fitted(
            classes=examples.classes,
            input_shape=examples.input_shape,
            network=network,
            particles=trained.particles.cpu(),
            scaler=examples.scaler,
            reader=SoftmaxReader(),
        )

    return Plan(
        objective=SoftmaxObjective(
            network=network,
            **examples.on(device),
            augmentation=options.augmenter(examples.input_shape),
            mix=softmax_mixing(options, n),
            batch_size=options.n_per_batch(n, c),
            shards=shards,
        ),
        particles=particles.to(device),
        schedule=make_schedule(options, examples, network, options.n_particles, device),
        examples=examples,
        network=network,
        finish=finish,
    )
