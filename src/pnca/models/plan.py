"""What every fit is planned from: parameters, examples, a network. Only here are option strings read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

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
from pnca.models.fitted import Fitted
from pnca.models.kernels import ExactKernel, Kernel, OrthogonalKernel, PositiveKernel
from pnca.models.selection import BACKGROUND, MANY_ROWS, Choice
from pnca.networks import MLP, ParticleNetwork, StackedModule
from pnca.training.augmentation import Augmentation, ImageShape
from pnca.training.loop import Schedule, Trained, Wrapper
from pnca.training.objective import Objective
from pnca.training.sampling import Examples, FoldModels, assign_folds, spread_rows

#: Epochs, up to as many examples as make a full batch.
_EPOCHS, _FULL_BATCH = 300, 500
#: Beyond, batches of about this size, and one and a half times as many steps, but not too few epochs.
_MINIBATCH, _LEAST_EPOCHS = 250, 20
#: The same with positive features, which are for tens of thousands of examples: 1,200 steps for 60,000.
_LEAST_EPOCHS_OF_MANY = 5
#: When one way of scaling is clearly better than another.
_CLEARLY_LESS = 0.95
#: Particles of a fold model, as a share of the full model's: enough to choose by, at half the cost.
_SHARE_IN_FOLDS = 0.5
#: How much more images are changed for every other particle; out of fold these, the others or all are chosen.
MORE_AUGMENTATION = 1.5
#: Rows that are enough to measure the width of the data.
_MANY_POINTS = 2000
#: Rows, and numbers in them, that are enough to find the plane of novelty; but not so few that none can be
#: held out.
_PLANE_ROWS, _PLANE_NUMBERS, _FEWEST_ROWS = 1000, 2**24, 20
#: Folds of novelty where the model has none.
_NOVELTY_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of any of the classifiers; one that a classifier lacks has the value here."""

    n_particles: int = 1
    n_components: int = 10
    bandwidth: float = 1.0
    kernel: str = "exact"
    expectation: str = "cross"
    input_weight: float | str = 0.0
    novelty: bool = False
    background: float | str = 0.0
    n_feature_blocks: int = 10
    update: str = "independent"
    prior_precision: float = 1.0
    n_folds: int | None = None
    scaling: str | None = None
    hidden_layer_sizes: Any = ()
    module: Any = None
    max_epochs: int | str = 100
    learning_rate: float = 1e-3
    solver: str = "nadam"
    dropout: float | str = 0.0
    augmentation: float | str = 0.0
    image_shape: Any = None
    batch_size: int | str | None = None
    class_weight: Any = None
    device: str = "auto"
    random_state: Any = field(default=None, repr=False)  # it does not decide which operations a step has
    verbose: bool | int = False

    @classmethod
    def of(cls, estimator: object) -> Options:
        """Read an estimator's attributes: a subclass may have more parameters, or fewer, than its base."""
        known = (field for field in fields(cls) if hasattr(estimator, field.name))
        return cls(**{f.name: _own_number(f.name, getattr(estimator, f.name), str(f.type)) for f in known})

    @property
    def has_positive_features(self) -> bool:
        """Whether the kernel is approximated class by class."""
        return self.kernel == "positive"

    @property
    def is_shared(self) -> bool:
        """Whether each particle is a member that predicts on its own."""
        return self.expectation == "shared"

    @property
    def given_background(self) -> float | None:
        """The background mass; None if it is to be chosen."""
        return None if self.background == "auto" else float(self.background)

    @property
    def given_input_weight(self) -> float | None:
        """Weight of the distance between inputs; None if it follows from them."""
        if self.has_positive_features:
            return 0.0
        return None if self.input_weight == "auto" else float(self.input_weight)

    def n_epochs(self, n: int) -> int:
        """Passes over n training examples."""
        if self.max_epochs != "auto":
            return int(self.max_epochs)
        least = _LEAST_EPOCHS_OF_MANY if self.has_positive_features else _LEAST_EPOCHS
        return _EPOCHS if n <= _FULL_BATCH else max(3 * _EPOCHS * _MINIBATCH // (2 * n), least)

    def n_per_batch(self, n: int, n_classes: int) -> int | None:
        """Examples per step; None takes all n."""
        if self.batch_size != "auto":
            return None if self.batch_size is None else int(self.batch_size)
        return None if n <= _FULL_BATCH else max(_MINIBATCH, 10 * n_classes)

    def takes_images(self, input_shape: tuple[int, ...]) -> bool:
        """Whether the built-in layers are given images."""
        return self.module is None and (self.image_shape is not None or len(input_shape) > 1)

    def dropout_rate(self, input_shape: tuple[int, ...]) -> float:
        """Share of the inputs that are set to zero."""
        if self.dropout != "auto":
            return float(self.dropout)
        if self.module is not None:
            return 0.0
        # Many columns repeat each other, and few can be missed.
        n_columns = math.prod(input_shape)
        return 0.2 if self.takes_images(input_shape) else 0.5 * n_columns / (n_columns + 50)

    def strengths(self, input_shape: tuple[int, ...]) -> tuple[float, ...]:
        """Strength of the augmentation for each kind of particles; one if all have the same."""
        if self.augmentation != "auto":
            return (float(self.augmentation),)
        strength = float(self.takes_images(input_shape))
        # Each particle must predict on its own, folds tell the kinds apart, and one kind alone must still be
        # particles that can disagree.
        can_be_halved = self.n_particles >= 4 and self.n_particles % 2 == 0
        has_kinds = self.is_shared and self.n_folds is not None and can_be_halved and strength
        return (strength, MORE_AUGMENTATION * strength) if has_kinds else (strength,)

    def image(self, input_shape: tuple[int, ...]) -> ImageShape:
        """How inputs form images; an error if they do not."""
        if self.image_shape is not None:
            return ImageShape.of(tuple(_whole_numbers("image_shape", self.image_shape)))
        if len(input_shape) > 1:
            return ImageShape.of(input_shape)
        raise InvalidInputError(
            "augmentation is for images, and X has rows of numbers: pass image_shape=(height, width), or X "
            "of shape (n, height, width)."
        )

    def augmenter(self, input_shape: tuple[int, ...]) -> Augmentation | None:
        """What changes training images at random, if anything does."""
        strengths = self.strengths(input_shape)
        return Augmentation(image=self.image(input_shape), strengths=strengths) if any(strengths) else None


def _own_number(name: str, value: Any, kind: str) -> Any:  # noqa: ANN401
    """A number as Python's own int or float: numpy's overflow, and torch takes no True for a one."""
    own: Any = int if kind.startswith("int") else float if kind.startswith("float") else None
    try:
        return value if own is None or not isinstance(value, Real) else own(value)
    except OverflowError as error:
        raise InvalidInputError(f"{name} is too large for a float.") from error


def _whole_numbers(name: str, values: Any) -> list[int]:  # noqa: ANN401
    """Positive whole numbers from a sequence of them; of a set or a dict the order would mean nothing."""
    is_sequence = isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1
    if not is_sequence or not all(isinstance(value, Integral) and int(value) >= 1 for value in values):
        raise InvalidInputError(f"{name} must hold positive whole numbers; got {values!r}.")
    return [int(value) for value in values]


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
    sizes = _whole_numbers("hidden_layer_sizes", options.hidden_layer_sizes)
    return MLP([examples.inputs.shape[1], *sizes, n_outputs], dropout=rate)


def make_schedule(
    options: Options, examples: Examples, network: ParticleNetwork, n_particles: int, device: torch.device
) -> Schedule:
    """Epochs, learning rate and optimiser; a step of the built-in layers can be captured as a CUDA graph."""
    shapes = examples.inputs.shape, device, examples.groups is None, n_particles
    key = (repr(options), examples.input_shape, len(examples.classes), *shapes)
    return Schedule(
        max_epochs=options.n_epochs(len(examples.labels)),
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
    """Put inputs on a scale; by columns only if neighbours then share a class clearly more often."""
    if options.scaling is None or options.module is not None:
        return None
    inputs, is_image = torch.from_numpy(examples.inputs).double(), options.takes_images(examples.input_shape)
    if options.scaling == "columns":
        return Scaler(*column_scale(inputs))
    common = Scaler(*common_scale(inputs, same_centre=is_image))
    if options.scaling == "common" or is_image:
        return common
    columns = Scaler(*column_scale(inputs))
    rows = spread_rows(len(inputs), MANY_ROWS)
    labels, n_classes = torch.from_numpy(examples.labels)[rows], len(examples.classes)
    groups = None if examples.groups is None else torch.from_numpy(examples.groups)[rows]

    def loss(scaler: Scaler) -> float:
        return neighbour_loss(scaler.apply(inputs[rows]).double(), labels, n_classes, BACKGROUND, groups)

    # One scale keeps the distances as they are; it is given up for a clear gain only.
    return columns if loss(columns) < _CLEARLY_LESS * loss(common) else common


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
    inputs = torch.from_numpy(examples.inputs)
    n_rows = min(_PLANE_ROWS, max(_FEWEST_ROWS, _PLANE_NUMBERS // math.prod(inputs.shape[1:])))
    rows = spread_rows(len(inputs), n_rows)
    if folds is None:
        folds = assign_folds(examples.labels, _NOVELTY_FOLDS, np.random.RandomState(0), examples.groups)
    of_rows = torch.from_numpy(folds)[rows]
    if len(set(of_rows.tolist())) < 2:  # one group may have almost all
        of_rows = torch.arange(len(rows)) % _NOVELTY_FOLDS
    return Novelty.fit(inputs, rows, of_rows)


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
