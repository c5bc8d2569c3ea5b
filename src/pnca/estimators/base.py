"""What all five classifiers share: checking data, building particles, training, predicting in chunks."""

from __future__ import annotations

import functools
import math
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from pnca import __version__
from pnca.estimators._compat import Interval, StrOptions, fit_context
from pnca.exceptions import InvalidInputError
from pnca.maths.likelihood import log_mean
from pnca.maths.stein import UNMIXED, Mixing
from pnca.maths.uncertainty import split_entropy
from pnca.networks import MLP, ParticleNetwork, StackedModule, seeded
from pnca.training.augmentation import ImageShape, augment
from pnca.training.batches import Indices
from pnca.training.checkpoints import NO_CHECKPOINT, Checkpoint, NumpyStream, TorchStreams, open_checkpoint
from pnca.training.devices import resolve_device
from pnca.training.fingerprints import fingerprint, parameter_fingerprints
from pnca.training.folds import Teams
from pnca.training.loop import History, train
from pnca.training.shards import ONE_PROCESS, Shards, current_shards
from pnca.training.steps import Evaluation

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]

#: Rows that pass through the networks at once in prediction, and numbers these take, whichever is less.
#: They bound memory; results do not depend on them.
PREDICTION_ROWS, PREDICTION_NUMBERS = 1024, 2**24


class Examples(NamedTuple):
    """Training examples, checked."""

    inputs: NDArray[np.float32]  # (n, ...)
    labels: NDArray[np.int64]  # (n,), positions in classes_
    groups: NDArray[np.int64] | None = None  # (n,), equal for examples that belong together

    @property
    def n_groups(self) -> int:
        """Number of groups; zero without any."""
        return 0 if self.groups is None else int(self.groups.max()) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData:
    """What the loss is made from, on the device."""

    inputs: Tensor  # (n, ...)
    labels: Tensor  # (n,)
    weights: Tensor  # (n,), mean one
    groups: Tensor | None  # (n,)
    sees: Tensor | None  # (teams, n), bool: examples shown to each team of particles; None: all to all
    teams: Teams
    shards: Shards = ONE_PROCESS  # processes that share each batch


class Snapshot(NamedTuple):
    """Particles after an epoch, and where they put the training examples."""

    epoch: int
    particles: Tensor  # (m, p), those that see all examples
    embeddings: Tensor  # (particles of all teams, n, d)


class SnapshotList(list[Snapshot]):
    """Snapshots, which a checkpoint can keep."""

    def state(self) -> dict[str, Tensor]:
        """Their tensors, named by the epoch."""
        return {f"{s.epoch}.{name}": getattr(s, name) for s in self for name in ("particles", "embeddings")}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state."""
        epochs = sorted({int(name.split(".")[0]) for name in state})
        self[:] = [Snapshot(e, state[f"{e}.particles"], state[f"{e}.embeddings"]) for e in epochs]


class Uncertainty(NamedTuple):
    """Uncertainty of predictions in nats; see :meth:`ParticleClassifier.uncertainty`."""

    total: FloatArray  # (n,)
    aleatoric: FloatArray  # (n,)
    epistemic: FloatArray  # (n,)


class ParticleClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the classifiers: m networks ("particles") trained as one stacked program.

    A subclass says what the particles learn (``_evaluate``), in which direction they move
    (``_mix``), and how their outputs become probabilities (``_log_probabilities``).
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  (scikit-learn's protocol)
        "hidden_layer_sizes": ["array-like"],
        "module": [callable, None],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "augmentation": [Interval(Real, 0, None, closed="left")],
        "image_shape": ["array-like", None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    hidden_layer_sizes: tuple[int, ...]
    module: Any
    max_epochs: int | str
    learning_rate: float
    dropout: float | str
    augmentation: float | str
    image_shape: tuple[int, ...] | None
    batch_size: int | str | None
    class_weight: dict[Any, float] | str | None
    device: str
    random_state: Any
    verbose: bool | int

    @fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...) if ``module`` is given
            Inputs, finite.
        y : array-like of shape (n,)
            Labels of any type scikit-learn accepts; at least two classes.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        self._forget()
        shards = current_shards()
        checkpoint = open_checkpoint(shards)
        rng = self._random_source(shards, checkpoint)
        identity = functools.cache(lambda: self._fingerprints(examples, particles))
        with shards.together(identity):
            examples = self._check_training_data(X, y, groups)
            generator = torch.Generator().manual_seed(int(rng.randint(2**31)))
            network_seed = int(rng.randint(2**31))
            examples = examples._replace(inputs=self._set_scale(examples))
            self.network_ = self._build_network(examples.inputs, seed=network_seed)
            teams = self._make_teams(examples, generator)
            particles = self.network_.draw(teams.n_total, generator)
            self._prepare(examples, generator)
            device = resolve_device(self.device)
            data = replace(self._on_device(examples, teams, device), shards=shards)
        checkpoint.identify(identity)

        snapshots = SnapshotList()
        checkpoint.keep(snapshots=snapshots, rng=NumpyStream(rng), torch=TorchStreams(device, shards))
        seed = shards.seed(int(rng.randint(2**31)))
        # Autocast, where the caller has it on, would round kernels and updates to bfloat16.
        with seeded(seed, device), torch.autocast(device.type, enabled=False):
            trained, history = train(
                particles.to(device),
                lambda indices: self._batch(data, indices),
                self._evaluate,
                lambda w: self._mix(w, teams),
                lambda: self._batches(examples.labels, rng),
                max_epochs=self._max_epochs,
                learning_rate=self.learning_rate,
                optimiser=self._optimiser,
                recorded_as=self._kind_of_step(data) if self._can_be_recorded(data) else None,
                after_epoch=lambda epoch, w: snapshots.extend(self._snapshots(epoch, w, data)),
                verbose=bool(self.verbose),
                description=type(self).__name__,
                shards=shards,
                checkpoint=checkpoint,
            )
        self.history_ = history.as_dict()
        self.was_interrupted_ = len(history.loss) < self._max_epochs
        if self.was_interrupted_ and history.loss:
            with torch.no_grad():
                snapshots += self._snapshots(len(history.loss), trained, data, is_last=True)
        for snapshot in snapshots:  # what is chosen from them must not hang on a process's rounding
            shards.follow_(snapshot.particles), shards.follow_(snapshot.embeddings)
        self._warn_unless_learnt(history)
        self._keep(trained, snapshots, examples, teams)
        self.n_iter_ = len(history.loss)  # set last: the mark of a complete fit
        return self

    def _random_source(self, shards: Shards, checkpoint: Checkpoint) -> np.random.RandomState:
        """Source of everything random: the same in all processes, and in a fit that is resumed."""
        rng: np.random.RandomState = check_random_state(self.random_state)
        if shards is ONE_PROCESS and checkpoint is NO_CHECKPOINT:
            return rng
        # Exchanged whatever random_state is: it may be None in one process only, which is found out later.
        fresh = int(shards.exchange(str(rng.randint(2**31) if self.random_state is None else 0))[0])
        seed = checkpoint.seed(fresh)
        return np.random.RandomState(seed) if self.random_state is None else rng

    def _fingerprints(self, examples: Examples, particles: Tensor) -> dict[str, str]:
        """What makes this fit this one, by name: data, parameters and where the particles begin."""
        scale = [getattr(self, name, None) for name in ("input_centre_", "input_spread_")]
        return {
            "model": type(self).__name__,
            "version of pnca": __version__,
            "X": fingerprint(examples.inputs),
            "scale of X": fingerprint([fingerprint(part) for part in scale]),
            "y": fingerprint([fingerprint(examples.labels), fingerprint(self.classes_)]),
            "groups": fingerprint(examples.groups),
            **parameter_fingerprints(self.get_params(deep=False)),
            "module": fingerprint(getattr(self.network_, "template", None)),
            "random_state": fingerprint(particles),
        }

    def _on_device(self, examples: Examples, teams: Teams, device: torch.device) -> TrainingData:
        inputs, labels = (torch.from_numpy(part).to(device) for part in (examples.inputs, examples.labels))
        groups = None if examples.groups is None else torch.from_numpy(examples.groups).to(device)
        weights = torch.from_numpy(self.class_weight_[examples.labels]).to(inputs)
        sees = None if teams.folds is None else teams.sees().to(device)
        return TrainingData(
            inputs=inputs, labels=labels, weights=weights, groups=groups, sees=sees, teams=teams
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_iter_")

    def _forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave half of each."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        log_probabilities = self.predict_log_proba(X)
        labels: NDArray[Any] = self.classes_[log_probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n, c)
            Rows sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the logarithm of the probability of each class.

        Exact where :meth:`predict_proba` underflows to zero.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n, c)
        """
        inputs = self._check_inputs(X)
        with torch.no_grad():
            chunks = [log_mean(self._answers(*chunk)).cpu() for chunk in self._outputs(inputs)]
        # Normalised once more in float64, so that rows sum to one whatever the network's precision.
        return torch.cat(chunks).double().log_softmax(dim=1).numpy()

    def uncertainty(self, X: ArrayLike) -> Uncertainty:
        """Split the uncertainty of each prediction into parts that mean different things.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        Uncertainty
            Three arrays of shape (n,), in nats; the first is the sum of the others.

            ``total`` is the entropy of the predicted probabilities: zero if one class is certain, log c
            if all are equally probable. ``aleatoric`` is the mean entropy of the particles' own
            predictions: what each of them finds ambiguous, such as a digit between 4 and 9.
            ``epistemic`` is what they disagree about (the mutual information of class and particle);
            more training data would settle it. It needs several answers, so it is zero with one
            particle and with ``expectation="cross"``. None of the three says that an input is unlike
            the training data: particles may agree there. ``evidence`` does, where a model has it.
        """
        inputs = self._check_inputs(X)
        with torch.no_grad():
            parts = [split_entropy(self._answers(*chunk).double()) for chunk in self._outputs(inputs)]
        total, aleatoric, epistemic = (torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True))
        return Uncertainty(total, aleatoric, epistemic)

    @property
    def _n_particles(self) -> int:
        return getattr(self, "n_particles", 1)

    @property
    def _max_epochs(self) -> int:
        return int(self.max_epochs)

    @property
    def _batch_size(self) -> int | None:
        return None if self.batch_size is None else int(self.batch_size)

    @property
    def _optimiser(self) -> str:
        return "nadam"

    def _kind_of_step(self, data: TrainingData) -> tuple[Any, ...]:
        """What decides which operations a step of the training has, and on which shapes."""
        parameters = self.get_params(deep=False)
        parameters.pop("random_state")
        shapes = data.inputs.shape, data.inputs.device, data.groups is None, data.teams.n_total
        return (type(self), repr(sorted(parameters.items())), self.input_shape_, len(self.classes_), *shapes)

    def _can_be_recorded(self, data: TrainingData) -> bool:
        """Whether no step waits for a value on the GPU; a user's module may."""
        return isinstance(self.network_, MLP)

    def _make_teams(self, examples: Examples, generator: torch.Generator) -> Teams:
        """Which particles are trained on which examples: all on all, unless a model says otherwise."""
        return Teams(folds=None, n_particles=self._n_particles)

    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """Width of the network's last layer."""

    @abstractmethod
    def _batch(self, data: TrainingData, indices: Tensor) -> Any:  # noqa: ANN401
        """What the evaluation of these examples needs, whatever the particles are."""

    @abstractmethod
    def _evaluate(self, particles: Tensor, batch: Any, mixing: Tensor | None = None) -> Evaluation:  # noqa: ANN401
        """Evaluate the particles (m, p) on a batch; gradients reach them mixed by a matrix (m, m), if any."""

    @abstractmethod
    def _answers(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Log class probabilities (answers, n, c), whose mean is predicted, from outputs (m, n, d)."""

    @abstractmethod
    def _batches(self, labels: NDArray[np.int64], rng: np.random.RandomState) -> list[Indices]:
        """Batches of one epoch."""

    def _mix(self, particles: Tensor, teams: Teams) -> Mixing:
        """How gradients and particles (m, p) make the direction to descend; plain gradients by default."""
        return UNMIXED

    def _prepare(self, examples: Examples, generator: torch.Generator) -> None:
        """Set what the loss needs besides the particles."""

    def _snapshots(
        self, epoch: int, particles: Tensor, data: TrainingData, *, is_last: bool = False
    ) -> list[Snapshot]:
        """Keep what an epoch has led to, if the model may come back to it."""
        return []

    def _keep(self, trained: Tensor, snapshots: list[Snapshot], examples: Examples, teams: Teams) -> None:
        """Keep the trained particles, and what else prediction needs."""
        self.particles_ = trained.cpu().numpy()

    def _set_scale(self, examples: Examples) -> NDArray[np.float32]:
        """Decide how inputs are scaled, and scale them; as they are unless a model says otherwise."""
        return examples.inputs

    def _scaled(self, inputs: Tensor) -> Tensor:
        """Scale inputs (n, ...) like those of the training."""
        return inputs

    def _augmented(self, inputs: Tensor) -> Tensor:
        """Training inputs (n, ...) as this step sees them; (kinds, n, ...) if kinds of particles differ."""
        if not self._augmentation:
            return inputs
        moved = [
            # A process's share of a batch may be empty.
            augment(inputs, self._image, strength) if len(inputs) else inputs
            for strength in self._strengths
        ]
        return moved[0] if len(moved) == 1 else torch.stack(moved)

    @property
    def _strengths(self) -> tuple[float, ...]:
        """Strength of the augmentation for each kind of particles; one if all have the same."""
        return (self._augmentation,)

    @property
    def _dropout(self) -> float:
        return float(self.dropout)

    @property
    def _augmentation(self) -> float:
        return float(self.augmentation)

    @property
    def _image(self) -> ImageShape:
        """How inputs form images; an error if they do not."""
        if self.image_shape is not None:
            return ImageShape.of(tuple(self.image_shape))
        if len(self.input_shape_) > 1:
            return ImageShape.of(self.input_shape_)
        raise InvalidInputError(
            "augmentation is for images, and X has rows of numbers: pass image_shape=(height, width), or X "
            "of shape (n, height, width)."
        )

    def _warn_unless_learnt(self, history: History) -> None:
        # A few epochs prove nothing; after that, a loss that has not fallen is a matter of scale.
        first, *others = history.loss or (0.0,)
        if len(others) >= 10 and min(others) >= first > 1e-6:
            warnings.warn(
                f"The loss did not fall in {len(history.loss)} epochs (it began at {first:.4g} and ended at "
                f"{others[-1]:.4g}): scale the inputs (for example with "
                "sklearn.preprocessing.StandardScaler), or change learning_rate.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _check_training_data(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Examples:
        """Validate X and y; set ``classes_``, ``class_weight_``, ``n_samples_fit_`` and ``input_shape_``."""
        inputs, targets = self._validate(X, y, reset=True)
        check_classification_targets(targets)
        n = len(inputs)
        if n < 3:
            raise InvalidInputError(f"fit needs at least 3 examples; got n_samples={n}.")
        self.classes_, labels = np.unique(targets, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"fit needs examples of at least 2 classes; all {n} belong to one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        self.n_samples_fit_, self.input_shape_ = n, inputs.shape[1:]
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=targets)
        # Weights are relative: with a mean of one, learning_rate and background keep their meaning.
        self.class_weight_ = weights * n / weights[labels].sum()
        if self.image_shape is not None and self._image.n_numbers != math.prod(self.input_shape_):
            raise InvalidInputError(
                f"image_shape={tuple(self.image_shape)} has {self._image.n_numbers} numbers, but the inputs "
                f"have {math.prod(self.input_shape_)}."
            )
        if self._augmentation or (len(self.input_shape_) > 1 and self.module is None):
            self._image  # noqa: B018  (an input that is no image is refused here)
        return Examples(
            self._rows(inputs), labels.astype(np.int64), None if groups is None else _numbered(groups, n)
        )

    def _check_inputs(self, X: ArrayLike) -> NDArray[np.float32]:
        """Validate X for prediction; float32 like the training data, whatever it was stored as."""
        check_is_fitted(self)
        shape = tuple(getattr(X, "shape", ()))[1:]
        if shape and max(len(shape), len(self.input_shape_)) > 1 and shape != self.input_shape_:
            raise InvalidInputError(
                f"X has inputs of shape {shape}, but {type(self).__name__} was fitted on inputs of shape "
                f"{self.input_shape_}."
            )
        return self._rows(self._validate(X, reset=False))

    def _rows(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Images as rows of numbers, unless a module of the user's takes them as they are."""
        return _owned(inputs if self.module is not None else inputs.reshape(len(inputs), -1))

    def _validate(self, *arrays: ArrayLike, reset: bool) -> Any:  # noqa: ANN401
        """Let scikit-learn check X (and y) and convert X to float32."""
        arrays = tuple(_off_device(array) for array in arrays)
        with np.errstate(over="ignore"):  # too large for float32: the check that follows says so
            return validate_data(self, *arrays, reset=reset, dtype=np.float32, allow_nd=True)

    def _build_network(self, inputs: NDArray[np.float32], seed: int) -> ParticleNetwork:
        if self.module is not None:
            if self._dropout:
                raise InvalidInputError(
                    "dropout is for the built-in layers; put nn.Dropout into your module."
                )
            sample = torch.from_numpy(inputs[:2])
            return StackedModule(self.module, sample=sample, n_outputs=self._module_head, seed=seed)
        sizes = list(self.hidden_layer_sizes)
        if not all(isinstance(size, Integral) and size >= 1 for size in sizes):
            raise InvalidInputError(
                f"hidden_layer_sizes must hold positive whole numbers; got {self.hidden_layer_sizes!r}."
            )
        return MLP([inputs.shape[1], *sizes, self._n_outputs], dropout=self._dropout)

    @property
    def _module_head(self) -> int | None:
        """Width of the linear layer that follows a user's module, if one does."""
        return None

    @property
    def _numbers_per_row(self) -> int:
        """Numbers that one input takes in prediction, at most."""
        return len(self.particles_) * int(math.prod(self.input_shape_))

    def _outputs(
        self, inputs: NDArray[np.float32], *, scaled: bool = False
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Outputs (m, chunk, n_outputs) of all particles and their scaled inputs, a chunk at a time."""
        device = resolve_device(self.device)
        dtype = self.network_.prediction_dtype if device.type != "mps" else torch.float32
        # There first, and then to the precision: fewer bytes travel.
        particles = torch.from_numpy(self.particles_).to(device).to(dtype)
        n_rows = max(1, min(PREDICTION_ROWS, PREDICTION_NUMBERS // self._numbers_per_row))
        for start in range(0, len(inputs), n_rows):
            chunk = torch.from_numpy(inputs[start : start + n_rows]).to(device, dtype)
            chunk = chunk if scaled else self._scaled(chunk)
            with torch.autocast(device.type, enabled=False):
                outputs = self.network_(particles, chunk)
            yield outputs, chunk


def _numbered(groups: ArrayLike, n: int) -> NDArray[np.int64]:
    """Number the groups, whatever they are called."""
    names = np.asarray(groups)
    if names.ndim != 1:
        raise InvalidInputError(f"groups must have one entry an example; its shape is {names.shape}.")
    if len(names) != n:
        raise InvalidInputError(f"groups has {len(names)} entries, but there are {n} examples.")
    numbers: NDArray[np.int64] = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return numbers


def _off_device(array: ArrayLike) -> ArrayLike:
    """Let a torch tensor in from any device."""
    return array.detach().cpu().numpy() if isinstance(array, Tensor) else array


def _owned(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Copy read-only memory, of which torch warns."""
    return np.require(inputs, requirements=["C", "W"])
