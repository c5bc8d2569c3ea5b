"""What every fit is planned from: parameters, examples, a network. Only here are option strings read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca import accelerated
from pnca.exceptions import InvalidInputError
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.inputs import (
    InputFactor,
    Novelty,
    Scaler,
    column_scale,
    common_scale,
    merged_columns,
    neighbour_loss,
)
from pnca.maths.neighbours import has_partner
from pnca.maths.stein import (
    UNMIXED,
    Mixing,
    functional_mixing,
    svgd_posterior_mixing,
    svgd_posterior_mixing_as_published,
)
from pnca.models.experts import linear_loss
from pnca.models.fitted import Fitted
from pnca.models.kernels import ExactKernel, Kernel, OrthogonalKernel, PositiveKernel
from pnca.models.options import Options, has_few_columns, whole_numbers
from pnca.models.selection import BACKGROUND, MANY_ROWS, Choice
from pnca.networks import MLP, ParticleNetwork, StackedModule
from pnca.training.loop import Schedule, Trained, Wrapper
from pnca.training.objective import Objective
from pnca.training.sampling import Examples, FoldModels, assign_folds, spread_rows

#: When one way of scaling is clearly better than another.
_CLEARLY_LESS = 0.95
#: Particles of a fold model, as a share of the full model's: enough to choose by, at half the cost.
_SHARE_IN_FOLDS = 0.5
#: Rows that are enough to measure the width of the data.
_MANY_POINTS = 2000
#: Rows, and numbers in them, that are enough to find the plane of novelty; but not so few that none can be
#: held out.
_PLANE_ROWS, _PLANE_NUMBERS, _FEWEST_ROWS = 1000, 2**24, 20
#: Folds of novelty where the model has none, and of the line that scales are compared by.
_NOVELTY_FOLDS = _FOLDS_OF_LINE = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """All that a fit needs after its examples are checked."""

    objective: Objective  # what is minimised
    particles: Tensor  # (m, p), initial parameters, on the device
    schedule: Schedule  # epochs, learning rate, optimiser
    examples: Examples  # scaled
    network: ParticleNetwork  # of which the particles are parameters
    finish: Callable[[Trained, Choice | None], Fitted]  # from training and choice to the fitted model
    choose: Callable[[Trained], Choice | None] = lambda trained: None  # out of fold, if anything is chosen
    wrappers: tuple[Wrapper, ...] = ()  # of the training, besides the caller's process group and checkpoint


def random_sources(rng: np.random.RandomState) -> tuple[torch.Generator, int]:
    """Generator of initial particles and random features, and a seed of what a module draws for itself."""
    return torch.Generator().manual_seed(int(rng.randint(2**31))), int(rng.randint(2**31))


def make_network(
    options: Options, examples: Examples, *, n_outputs: int, head: int | None, seed: int
) -> ParticleNetwork:
    """The user's module, with a linear layer of width ``head`` after it if given, or built-in layers."""
    rate = options.dropout_rate(examples.input_shape)
    if options.module is not None:
        if rate:
            raise InvalidInputError("dropout is for the built-in layers; put nn.Dropout into your module.")
        sample = torch.from_numpy(examples.inputs[:2])
        return StackedModule(options.module, sample=sample, n_outputs=head, seed=seed)
    sizes = whole_numbers("hidden_layer_sizes", options.hidden_layer_sizes)
    return MLP([examples.inputs.shape[1], *sizes, n_outputs], dropout=rate)


def make_schedule(
    options: Options, examples: Examples, network: ParticleNetwork, n_particles: int, device: torch.device
) -> Schedule:
    """Epochs, learning rate and optimiser; a step of the built-in layers can be captured as a CUDA graph."""
    shapes = examples.inputs.shape, device, examples.groups is None, n_particles
    key = (repr(options), examples.input_shape, len(examples.classes), *shapes)
    return Schedule(
        max_epochs=options.n_epochs(len(examples.labels), math.prod(examples.input_shape)),
        learning_rate=options.learning_rate,
        solver=options.solver,
        graph_key=key if isinstance(network, MLP) else None,  # a user's module may wait for a value
    )


def scaled(options: Options, examples: Examples) -> Examples:
    """Put inputs on their scale and round them to float32; a warning names columns whose values merge."""
    scaler, inputs = make_scaler(options, examples), torch.from_numpy(examples.inputs)
    rounded = inputs.float() if scaler is None else scaler.apply(inputs)
    rows = spread_rows(len(inputs), MANY_ROWS)
    of_columns = (part[rows].flatten(start_dim=1) for part in (inputs, rounded))
    if rounded is not inputs and (merged := merged_columns(*of_columns)):
        names = ", ".join(map(str, merged[:5])) + (", ..." if len(merged) > 5 else "")
        warnings.warn(
            f"X has columns of which distinct values become equal in single precision ({names}; the first is "
            "column 0), so their differences cannot be learnt: subtract large offsets, or tame outliers, for "
            "example by taking logarithms.",
            stacklevel=6,
        )
    return examples._replace(inputs=rounded.numpy(), scaler=scaler)


def make_scaler(options: Options, examples: Examples) -> Scaler | None:
    """Put inputs on a scale; by columns only if simple classifiers are then clearly better."""
    if options.scaling is None or options.module is not None:
        return None
    inputs, is_image = torch.from_numpy(examples.inputs).double(), options.takes_images(examples.input_shape)
    is_mixed = examples.columns is not None and not examples.columns.is_plain
    if options.scaling == "columns" or (options.scaling == "auto" and is_mixed):
        return Scaler(*column_scale(inputs))
    common = Scaler(*common_scale(inputs, same_centre=is_image))
    if options.scaling == "common" or is_image:
        return common
    columns = Scaler(*column_scale(inputs))
    # One scale keeps the distances as they are; it is given up for a clear gain only.
    of_columns, of_common = (_loss_of_scale(options, examples, scaler) for scaler in (columns, common))
    return columns if of_columns < _CLEARLY_LESS * of_common else common


def _loss_of_scale(options: Options, examples: Examples, scaler: Scaler) -> float:
    """What simple classifiers lose on inputs of this scale: neighbours, and a line where one is heard.

    Where neighbours see no difference between the scales, a line may see a great one.
    """
    rows = spread_rows(len(examples.labels), MANY_ROWS)
    inputs = scaler.apply(torch.from_numpy(examples.inputs)[rows])
    labels, n_classes = torch.from_numpy(examples.labels)[rows], len(examples.classes)
    groups = None if examples.groups is None else examples.groups[rows.numpy()]
    own = None if groups is None else torch.from_numpy(groups)
    loss = neighbour_loss(inputs.double(), labels, n_classes, BACKGROUND, own)
    one_group = groups is not None and len(set(groups.tolist())) < 2
    if "linear" not in options.experts or not has_few_columns(inputs.shape[1]) or one_group:
        return loss
    folds = assign_folds(labels.numpy(), _FOLDS_OF_LINE, np.random.RandomState(0), groups)
    return loss + linear_loss(inputs, labels, n_classes, folds)


def make_input_factor(options: Options, examples: Examples) -> InputFactor | None:
    """The factor of the kernel by the distance between scaled inputs, if it has any weight."""
    if (weight := options.given_input_weight) == 0:
        return None
    groups = None if examples.groups is None else torch.from_numpy(examples.groups)
    every = -(-len(examples.inputs) // _MANY_POINTS)
    return InputFactor.fit(torch.from_numpy(examples.inputs), groups, weight, every)


def make_novelty(
    options: Options, examples: Examples, folds: NDArray[np.int64] | None
) -> tuple[Novelty | None, Tensor | None]:
    """Novelty, measured on these or other folds, and the log residual (n,) of each scaled input, held out."""
    if not options.novelty:
        return None, None
    inputs, rows = torch.from_numpy(examples.inputs), rows_of_spread(examples)
    if folds is None:
        folds = assign_folds(examples.labels, _NOVELTY_FOLDS, np.random.RandomState(0), examples.groups)
    of_rows = torch.from_numpy(folds)[rows]
    if len(set(of_rows.tolist())) < 2:  # one group may have almost all
        of_rows = torch.arange(len(rows)) % _NOVELTY_FOLDS
    return Novelty.fit(inputs, rows, of_rows)


def rows_of_spread(examples: Examples) -> Tensor:
    """Rows that are enough to see in which directions inputs spread."""
    n_columns = math.prod(examples.inputs.shape[1:])
    return spread_rows(len(examples.labels), min(_PLANE_ROWS, max(_FEWEST_ROWS, _PLANE_NUMBERS // n_columns)))


def make_fold_models(options: Options, examples: Examples, generator: torch.Generator) -> FoldModels:
    """The full model and, with folds, a model of fewer particles for each."""
    if options.n_folds is None:
        return FoldModels(folds=None, n_particles=options.n_particles)
    rng = np.random.RandomState(int(torch.randint(2**31, (), generator=generator)))
    n_kinds = len(options.strengths(examples.input_shape))
    return FoldModels(
        folds=assign_folds(examples.labels, options.n_folds, rng, examples.groups),
        n_particles=options.n_particles,
        n_per_fold=n_kinds * math.ceil(_SHARE_IN_FOLDS * options.n_particles / n_kinds),
        n_kinds=n_kinds,
    )


def check_kernel(options: Options, examples: Examples) -> None:
    """Refuse what a kernel cannot do."""
    if options.is_shared and options.kernel == "orthogonal":
        raise InvalidInputError(
            "kernel='orthogonal' approximates expectation='cross'; with 'shared' use kernel='exact'."
        )
    if not options.has_positive_features:
        return
    if options.input_weight not in ("auto", 0):
        raise InvalidInputError(
            "kernel='positive' has no factor for the distance between inputs, which cannot be summed up "
            f"class by class: use input_weight=0 or 'auto' (then 0) instead of {options.input_weight!r}, or "
            "kernel='exact'."
        )
    if examples.groups is not None:
        raise InvalidInputError(
            "kernel='positive' sums up whole classes and cannot leave out a group: use kernel='exact'."
        )


def class_prior(examples: Examples) -> Tensor:
    """Weighted share of each class (c,); an error if no example has a partner to learn from."""
    labels, counts = torch.from_numpy(examples.labels), np.bincount(examples.labels)
    if counts.max() < 2:
        raise InvalidInputError("Every class has a single example; at least one class needs two.")
    if counts.min() < 2:
        names = ", ".join(repr(name) for name in examples.classes[counts < 2].tolist())
        warnings.warn(
            f"Only one example of class {names}: it can be predicted, but nothing is learnt from it.",
            stacklevel=6,
        )
    if examples.groups is not None:
        groups = torch.from_numpy(examples.groups)
        if not has_partner(labels, len(counts), groups, examples.n_groups).any():
            raise InvalidInputError(
                "No example has another of its class outside its group, so nothing can be learnt."
            )
    weights = examples.class_weight * counts
    if examples.sample_weight is not None:
        weights = np.bincount(examples.labels, examples.weights).astype(np.float64)
    return torch.from_numpy(weights / weights.sum())


def make_kernel(options: Options, n_components: int, n_classes: int, generator: torch.Generator) -> Kernel:
    """The kernel between embeddings of n_components dimensions."""
    bandwidth, n_blocks = float(options.bandwidth), options.n_feature_blocks
    if options.kernel == "exact":
        return ExactKernel(bandwidth, options.is_shared)
    if options.kernel == "orthogonal":
        frequencies = orthogonal_frequencies(n_components, n_blocks, options.bandwidth, generator)
        return OrthogonalKernel(bandwidth, frequencies)
    # At least one block for each class; for bandwidth 2, because the places are scaled with it.
    directions = orthogonal_frequencies(n_components, max(n_blocks, n_classes), 2.0, generator)
    return PositiveKernel(bandwidth, options.is_shared, directions)


def neighbour_mixing(options: Options, models: FoldModels) -> Callable[[Tensor], Mixing]:
    """Plain gradients, or the paper's functional gradient within each model."""
    if options.update == "independent":
        return lambda particles: UNMIXED
    slices = models.slices
    return lambda particles: functional_mixing(particles, slices, accelerated.parameter_kernel)


def softmax_mixing(options: Options, n_samples: int) -> Callable[[Tensor], Mixing]:
    """Plain gradients, or Stein variational gradient descent."""
    if options.update == "independent":
        return lambda particles: UNMIXED
    mixing = svgd_posterior_mixing_as_published if options.update == "as_published" else svgd_posterior_mixing
    return lambda particles: mixing(
        particles,
        n_samples=n_samples,
        prior_precision=options.prior_precision,
        kernel=accelerated.parameter_kernel,
    )
