"""Parameters of a fit: what a user gave, and what follows from the inputs where nothing is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca.training.augmentation import Augmentation, ImageShape

#: Epochs, up to as many examples as make a full batch.
_EPOCHS, _FULL_BATCH = 300, 500
#: Beyond, batches of about this size, and one and a half times as many steps, but not too few epochs.
_MINIBATCH, _LEAST_EPOCHS = 250, 20
#: The same with positive features, which are for tens of thousands of examples: 1,200 steps for 60,000.
_LEAST_EPOCHS_OF_MANY = 5
#: How much more images are changed for every other particle; out of fold these, the others or all are chosen.
MORE_AUGMENTATION = 1.5
#: Experts of a pool, and the neighbours beside them: few small networks, trained in fewer and larger steps.
#: With many columns, such as pixels, deeper networks that learn for longer are better; with very many they
#: take too long.
POOLED = ("linear", "forest")
_SMALL = {"n_particles": 8, "hidden_layer_sizes": (100,), "learning_rate": 1e-2}
_WIDE = {"n_particles": 12, "hidden_layer_sizes": (100, 100), "learning_rate": 5e-3}
_MANY_COLUMNS, _VERY_MANY_COLUMNS = 100, 1000
_EPOCHS_IN_POOL, _EPOCHS_OF_MANY, _EPOCHS_OF_VERY_MANY = 50, 140, 60
#: The same where particles answer alone.
_LARGE = {"n_particles": 10, "hidden_layer_sizes": (200, 200), "learning_rate": 3e-3}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of any of the classifiers; one that a classifier lacks has the value here."""

    n_particles: int = 1  # like the other sizes of the networks a number once the options are settled
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
    experts: Any = ()
    categorical_features: Any = None
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

    def settled(self, input_shape: tuple[int, ...]) -> Options:
        """The same with the experts, networks and steps that inputs of this shape get if none are given."""
        experts = self._expert_names(input_shape)
        of_rows = _WIDE if has_many_columns(math.prod(input_shape)) else _SMALL
        networks: dict[str, Any] = of_rows if experts else _LARGE
        found = {name: value for name, value in networks.items() if _is_auto(getattr(self, name))}
        return replace(self, experts=experts, **found)

    def _expert_names(self, input_shape: tuple[int, ...]) -> tuple[str, ...]:
        """Experts that are heard: "auto" hears them where inputs are rows of numbers, compared one by one."""
        if isinstance(self.experts, str) and self.experts == "auto":
            is_rows = self.module is None and not self.takes_images(input_shape)
            return POOLED if is_rows and self.n_folds is not None and not self.has_positive_features else ()
        names = list(self.experts)
        if wrong := [name for name in names if name not in POOLED]:
            raise InvalidInputError(f"experts names {wrong[0]!r}: the experts are {', '.join(POOLED)}.")
        if names and self.n_folds is None:
            raise InvalidInputError(
                "What experts count for is learnt out of fold: give n_folds, or experts=() for none."
            )
        return tuple(name for name in POOLED if name in names)

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

    def n_epochs(self, n: int, n_columns: int = 1) -> int:
        """Passes over n training examples of so many numbers each."""
        if self.max_epochs != "auto":
            return int(self.max_epochs)
        least = _LEAST_EPOCHS_OF_MANY if self.has_positive_features else _LEAST_EPOCHS
        most = _EPOCHS if n <= _FULL_BATCH else max(3 * _EPOCHS * _MINIBATCH // (2 * n), least)
        if not self.experts:
            return most
        if n_columns > _VERY_MANY_COLUMNS:
            return min(most, _EPOCHS_OF_VERY_MANY)
        return min(most, _EPOCHS_OF_MANY if n_columns > _MANY_COLUMNS else _EPOCHS_IN_POOL)

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
            return ImageShape.of(tuple(whole_numbers("image_shape", self.image_shape)))
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


def has_few_columns(n_columns: int) -> bool:
    """Whether rows are those of a table rather than pixels: a line has fewer coefficients than examples."""
    return n_columns <= _MANY_COLUMNS


def has_many_columns(n_columns: int) -> bool:
    """Whether rows have as many columns as small pictures have pixels, and not more by far."""
    return _MANY_COLUMNS < n_columns <= _VERY_MANY_COLUMNS


def _is_auto(value: Any) -> bool:  # noqa: ANN401
    """Whether nothing is given; an array is never equal to a text, but in each place."""
    return isinstance(value, str) and value == "auto"


def _own_number(name: str, value: Any, kind: str) -> Any:  # noqa: ANN401
    """A number as Python's own int or float: numpy's overflow, and torch takes no True for a one."""
    own: Any = int if kind.startswith("int") else float if kind.startswith("float") else None
    try:
        return value if own is None or not isinstance(value, Real) else own(value)
    except OverflowError as error:
        raise InvalidInputError(f"{name} is too large for a float.") from error


def whole_numbers(name: str, values: Any) -> list[int]:  # noqa: ANN401
    """Positive whole numbers from a sequence of them; of a set or a dict the order would mean nothing."""
    is_sequence = isinstance(values, Sequence) or getattr(values, "ndim", 0) == 1
    if not is_sequence or not all(isinstance(value, Integral) and int(value) >= 1 for value in values):
        raise InvalidInputError(f"{name} must hold positive whole numbers; got {values!r}.")
    return [int(value) for value in values]
