"""The kernels between embedded examples behind one interface: class masses.

A *member* of the model predicts on its own, and the members' probabilities are averaged. With shared
particles each particle is a member; otherwise all particles of a model are one, compared by the expected
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from pnca import accelerated
from pnca.maths.inputs import InputFactor
from pnca.maths.kernels import log_latent_kernel
from pnca.maths.neighbours import class_log_masses, safe_log
from pnca.maths.pnca import (
    Loss,
    Target,
    leave_one_out_loss,
    log_approximate_kernel,
    log_expected_kernel,
    loss_of_masses,
)
from pnca.models.features import ClassFeatures, Clouds, place_around_classes, summarise, training_log_masses

#: Pairs of points, over all members, from which tiles are faster than the whole kernel, and in less memory.
#: Measured with benchmarks/cpu_masses.py: equal at 2 ** 18 or before, two to four times faster here. On a GPU
#: a step with the whole kernel can be captured as a graph, which pays until it takes gigabytes.
TILED, TILED_ON_GPU = 2**20, 2**26


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Examples of one step, which are each other's neighbours.

    A rank of a process group has the loss of its own rows only: n_a of the n; otherwise all n.
    """

    inputs: Tensor  # (n, ...)
    groups: Tensor | None  # (n,)
    shown: Tensor  # (n,) or (members, n): weight of each example as a neighbour
    target: Target  # classes, and weights in the loss
    n_terms: Tensor  # (): how many the loss sums, in all ranks
    log_factor: Tensor | None  # (n_a, n) or (members, n_a, n): of the kernel, log 0 where it does not count;
    # None if no kernel between examples is to be held in memory
    models: list[slice]  # rows of the particles of the full model and of each fold model
    kinds: Tensor  # (particles,), kind of each
    rows: slice  # the n_a rows
    input_factor: InputFactor | None
    is_augmented: bool  # then the factor of the inputs is not in log_factor


@dataclass(frozen=True, eq=False)
class Support:
    """Training examples as predictions are compared with them."""

    embeddings: Tensor  # (m, n, d)
    labels: Tensor  # (n,)
    weights: Tensor  # (n,), float64
    n_classes: int
    background: float  # mass that belongs to no example
    input_factor: InputFactor | None
    inputs: Tensor | None  # (n, ...), scaled; None without that factor
    features: ClassFeatures | None = None  # of the classes, if the kernel is linear

    def log_weights(self, like: Tensor) -> Tensor:
        """Log weights (n,)."""
        return safe_log(self.weights.to(like))


class Kernel(Protocol):
    """A kernel between embeddings, and the class masses that it leads to."""

    @property
    def bandwidth(self) -> float:
        """Of the latent kernel."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether each particle is a member of its own."""
        ...

    @property
    def is_linear(self) -> bool:
        """Whether a class is summed up in one vector, so that cost is linear in the examples."""
        ...

    @property
    def is_tunable(self) -> bool:
        """Whether it can be had at another bandwidth than that of the training."""
        ...

    def at(self, bandwidth: float) -> Kernel:
        """The same kernel at another bandwidth."""
        ...

    def on(self, like: Tensor) -> Kernel:
        """The same kernel with its constants on a tensor's device and in its precision."""
        ...

    def holds_pairs(self, n_members: int, n: int, device: torch.device) -> bool:
        """Whether the kernel between n points and themselves is held in memory."""
        ...

    def log_pairs(self, a: Tensor, b: Tensor, models: list[slice], support: Support | None = None) -> Tensor:
        """Log kernel (members, n_a, n_b) of embeddings (m, n_a, d) and (m, n_b, d)."""
        ...

    def loss(self, queries: Tensor, neighbours: Tensor, moved: Tensor, batch: Batch) -> Loss:
        """Leave-one-out loss of a batch.

        Its embeddings are (m, n, d) as neighbours and (m, n_a, d) as queries, where they may be perturbed;
        ``moved`` (n_a, ...) or (kinds, n_a, ...) are the queries' inputs as they were embedded.
        """
        ...

    def log_masses(self, queries: Tensor, inputs: Tensor, support: Support) -> Tensor:
        """Log mass (members, n_a, c) that each class gives queries (m, n_a, d) of these inputs (n_a, ...)."""
        ...


def members(kernel: Kernel, n_particles: int, models: list[slice]) -> list[slice]:
    """Rows of the particles of each member."""
    return [slice(row, row + 1) for row in range(n_particles)] if kernel.is_shared else models


@dataclass(frozen=True)
class ExactKernel:
    """The Gaussian kernel itself; in tiles where all pairs would take too much memory."""

    bandwidth: float
    is_shared: bool

    is_linear = False
    is_tunable = True

    def at(self, bandwidth: float) -> ExactKernel:
        """The same kernel at another bandwidth."""
        return replace(self, bandwidth=bandwidth)

    def on(self, like: Tensor) -> ExactKernel:
        """The same kernel: it has no constants."""
        return self

    def holds_pairs(self, n_members: int, n: int, device: torch.device) -> bool:
        """Whether the kernel between n points and themselves is held in memory.

        In prediction the number of queries must not decide, lest an answer depend on who else asks.
        """
        return n_members * n**2 <= (TILED_ON_GPU if device.type == "cuda" else TILED)

    def log_pairs(self, a: Tensor, b: Tensor, models: list[slice], support: Support | None = None) -> Tensor:
        """Log kernel (members, n_a, n_b) of embeddings (m, n_a, d) and (m, n_b, d)."""
        if self.is_shared:
            return log_latent_kernel(a, b, self.bandwidth)
        parts = ((a[model], b[model]) for model in models)
        return torch.stack([log_expected_kernel(x, x if b is a else y, self.bandwidth) for x, y in parts])

    def loss(self, queries: Tensor, neighbours: Tensor, moved: Tensor, batch: Batch) -> Loss:
        """Leave-one-out loss; see :class:`Kernel`."""
        if batch.log_factor is None:
            log_masses = self._tiled(queries, neighbours, moved, batch)
            return loss_of_masses(log_masses[:, batch.rows], batch.target)
        log_latent = self.log_pairs(queries, neighbours, batch.models)
        return leave_one_out_loss(_with_factors(log_latent, moved, batch), batch.target)

    def _tiled(self, queries: Tensor, neighbours: Tensor, moved: Tensor, batch: Batch) -> Tensor:
        """Log masses (members, n, c), each example left out, without n x n kernels."""
        log_weights = safe_log(batch.shown)

        def masses(rows: slice, models: list[slice], moved: Tensor) -> Tensor:
            of_rows = queries[rows]
            return accelerated.class_log_masses(
                of_rows,
                of_rows if neighbours is queries else neighbours[rows],
                batch.target.labels,
                len(batch.target.log_prior),
                self.bandwidth,
                members(self, len(of_rows), models),
                background=batch.target.background,
                log_weights=log_weights if log_weights.dim() == 1 else log_weights[rows],
                leave_one_out=True,
                groups=batch.groups,
                input_factor=_pairs_of_inputs(batch.input_factor, moved, batch.inputs),
            )

        if moved.dim() == batch.inputs.dim():
            return masses(slice(None), batch.models, moved)
        # Kinds of particles alternate, and each particle is a member of its own.
        log_masses = queries.new_empty(len(queries), len(batch.target.labels), len(batch.target.log_prior))
        for kind, of_kind in enumerate(moved):
            rows = slice(kind, None, len(moved))
            log_masses[rows] = masses(rows, [], of_kind)
        return log_masses

    def log_masses(self, queries: Tensor, inputs: Tensor, support: Support) -> Tensor:
        """Log mass (members, n_a, c) of each class; see :class:`Kernel`."""
        of_members = members(self, len(queries), [slice(0, len(queries))])
        if self.holds_pairs(len(of_members), len(support.labels), queries.device):
            return _masses_of_pairs(self, queries, inputs, support)
        # Fused for float32 only, where it is exact to about a millionth.
        single = queries.is_cuda and support.background > 0
        a, x = (z.float() if single else z for z in (queries, inputs))
        return accelerated.class_log_masses(
            a,
            support.embeddings.to(a),
            support.labels.to(a.device),
            support.n_classes,
            self.bandwidth,
            of_members,
            background=support.background,
            log_weights=support.log_weights(a),
            input_factor=_pairs_of_inputs(support.input_factor, x, support.inputs),
        ).to(queries)


@dataclass(frozen=True, eq=False)
class OrthogonalKernel:
    """The paper's approximation of the expected kernel: orthogonal random features with ReLU."""

    bandwidth: float
    frequencies: Tensor  # (d, f), drawn for the bandwidth

    is_shared = False
    is_linear = False
    is_tunable = False

    def at(self, bandwidth: float) -> OrthogonalKernel:
        """The kernel as it is: its frequencies were drawn for one bandwidth."""
        return replace(self, bandwidth=bandwidth)

    def on(self, like: Tensor) -> OrthogonalKernel:
        """The same kernel with its frequencies on a tensor's device and in its precision."""
        return replace(self, frequencies=self.frequencies.to(like))

    def holds_pairs(self, n_members: int, n: int, device: torch.device) -> bool:
        """All pairs are held."""
        return True

    def log_pairs(self, a: Tensor, b: Tensor, models: list[slice], support: Support | None = None) -> Tensor:
        """Log kernel (members, n_a, n_b) of embeddings (m, n_a, d) and (m, n_b, d)."""
        parts, frequencies = ((a[model], b[model]) for model in models), self.frequencies.to(a)
        return torch.stack([log_approximate_kernel(x, x if b is a else y, frequencies) for x, y in parts])

    def loss(self, queries: Tensor, neighbours: Tensor, moved: Tensor, batch: Batch) -> Loss:
        """Leave-one-out loss; in a few fused kernels on a GPU where that can be had."""
        is_plain = neighbours is queries and len(batch.models) == 1
        if is_plain and accelerated.features.can_be_fused(
            queries, self.frequencies, len(batch.target.log_prior)
        ):
            assert batch.log_factor is not None
            target = batch.target
            total, n_correct = accelerated.feature_loss(
                queries,
                self.frequencies,
                target.labels,
                batch.log_factor,
                target.weights,
                target.background,
                target.log_prior,
            )
            return Loss(total, n_correct)
        log_latent = self.log_pairs(queries, neighbours, batch.models)
        return leave_one_out_loss(_with_factors(log_latent, moved, batch), batch.target)

    def log_masses(self, queries: Tensor, inputs: Tensor, support: Support) -> Tensor:
        """Log mass (members, n_a, c) of each class; see :class:`Kernel`."""
        return _masses_of_pairs(self, queries, inputs, support)


@dataclass(frozen=True, eq=False)
class PositiveKernel:
    """Positive random features of the kernel: a class is one vector, and cost is linear in the examples."""

    bandwidth: float
    is_shared: bool
    directions: Tensor  # (d, f), in which features lie around the classes

    is_linear = True
    is_tunable = True

    def at(self, bandwidth: float) -> PositiveKernel:
        """The same kernel at another bandwidth."""
        return replace(self, bandwidth=bandwidth)

    def on(self, like: Tensor) -> PositiveKernel:
        """The same kernel with its directions on a tensor's device and in its precision."""
        return replace(self, directions=self.directions.to(like))

    def holds_pairs(self, n_members: int, n: int, device: torch.device) -> bool:
        """No pairs are held."""
        return False

    def log_pairs(self, a: Tensor, b: Tensor, models: list[slice], support: Support | None = None) -> Tensor:
        """Log kernel (members, n_a, n_b) whose sums the masses of the support are."""
        assert support is not None
        assert support.features is not None
        features = support.features.to(a)
        return features.log_kernel(self._clouds(a, models), self._clouds(b, models))

    def loss(self, queries: Tensor, neighbours: Tensor, moved: Tensor, batch: Batch) -> Loss:
        """Leave-one-out loss; see :class:`Kernel`."""
        of_neighbours = self._clouds(neighbours, batch.models)
        of_queries = of_neighbours if neighbours is queries else self._clouds(queries, batch.models)
        labels, c = batch.target.labels, len(batch.target.log_prior)
        places = place_around_classes(of_neighbours, labels, c, batch.shown, self.directions, self.bandwidth)
        log_weights = safe_log(batch.shown)
        log_masses = training_log_masses(of_queries, of_neighbours, labels, c, log_weights, places)
        return loss_of_masses(log_masses[:, batch.rows], batch.target)

    def summarised(self, support: Support) -> Support:
        """The same examples with the features of each class summed up."""
        features = self.summarise(support.embeddings, support.labels, support.weights, support.n_classes)
        return replace(support, features=features)

    def recounted(self, support: Support) -> Support:
        """The same places with the features of the examples summed up anew, by their labels and weights."""
        assert support.features is not None
        clouds, log_weights = self._clouds(support.embeddings, [slice(None)]), safe_log(support.weights)
        places, labels = support.features.places, support.labels
        return replace(support, features=summarise(clouds, labels, support.n_classes, log_weights, places))

    def summarise(self, embeddings: Tensor, labels: Tensor, weights: Tensor, n_classes: int) -> ClassFeatures:
        """Sum up the features of each class, of examples with these weights (n,)."""
        clouds, directions = self._clouds(embeddings, [slice(None)]), self.directions.to(weights)
        places = place_around_classes(clouds, labels, n_classes, weights, directions, self.bandwidth)
        return summarise(clouds, labels, n_classes, safe_log(weights), places)

    def log_masses_of(self, features: ClassFeatures, queries: Tensor) -> Tensor:
        """Log mass (members, n_a, c) of each class for queries (m, n_a, d)."""
        return features.log_masses(self._clouds(queries, [slice(None)]))

    def log_masses(self, queries: Tensor, inputs: Tensor, support: Support) -> Tensor:
        """Log mass (members, n_a, c) of each class; see :class:`Kernel`."""
        assert support.features is not None
        return self.log_masses_of(support.features.to(queries), queries)

    def _clouds(self, embeddings: Tensor, models: list[slice]) -> Clouds:
        return Clouds.of(embeddings, None if self.is_shared else models)


def log_pairs_to_support(kernel: Kernel, queries: Tensor, inputs: Tensor, support: Support) -> Tensor:
    """Log kernel (members, n_a, n) to every training example, with the factor of the inputs."""
    log_kernel = kernel.log_pairs(queries, support.embeddings.to(queries), [slice(None)], support)
    if support.input_factor is None or support.inputs is None:
        return log_kernel
    return log_kernel + support.input_factor.log(inputs, support.inputs.to(inputs))


def _masses_of_pairs(kernel: Kernel, queries: Tensor, inputs: Tensor, support: Support) -> Tensor:
    log_kernel = log_pairs_to_support(kernel, queries, inputs, support)
    labels = support.labels.to(queries.device)
    return class_log_masses(log_kernel, labels, support.n_classes, support.log_weights(queries))


def _pairs_of_inputs(
    factor: InputFactor | None, a: Tensor, b: Tensor | None
) -> accelerated.InputFactor | None:
    """Inputs (n_a, ...) and (n_b, ...) whose distance shrinks their kernel, if it does."""
    if factor is None or b is None:
        return None
    of_a = a.flatten(start_dim=1)
    of_b = of_a if b is a else b.to(a).flatten(start_dim=1)
    return accelerated.InputFactor(of_a, of_b, factor.scale, factor.weight)


def _with_factors(log_latent: Tensor, moved: Tensor, batch: Batch) -> Tensor:
    """Log kernel (members, n_a, n) with all that the latent kernel is multiplied by."""
    assert batch.log_factor is not None
    log_kernel = log_latent + batch.log_factor
    if batch.input_factor is None or not batch.is_augmented:
        return log_kernel
    log_input = batch.input_factor.log(moved, batch.inputs)
    # Each kind of particles has inputs of its own, and each particle is then a member.
    return log_kernel + (log_input if moved.dim() == batch.inputs.dim() else log_input[batch.kinds])
