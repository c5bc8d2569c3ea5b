"""What all five classifiers share: checking data, building particles, training, predicting in chunks."""

from __future__ import annotations

import math
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from pnca.estimators._compat import Interval, StrOptions, fit_context
from pnca.exceptions import InvalidInputError
from pnca.networks import MLP, ParticleNetwork, StackedModule, seeded
from pnca.training.batches import Indices
from pnca.training.devices import resolve_device
from pnca.training.loop import Evaluation, History, train

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]

#: Rows that pass through the networks at once in prediction, and numbers in their inputs times particles,
#: whichever is less. They bound memory; results do not depend on them.
PREDICTION_ROWS, PREDICTION_NUMBERS = 1024, 2**24


class ParticleClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the classifiers: m networks ("particles") trained as one stacked program.

    A subclass says what the particles learn (``_evaluate``), in which direction they move
    (``_descent``), and how their outputs become probabilities (``_log_probabilities``).
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  (scikit-learn's protocol)
        "hidden_layer_sizes": ["array-like"],
        "module": [callable, None],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    hidden_layer_sizes: tuple[int, ...]
    module: Any
    max_epochs: int
    learning_rate: float
    dropout: float
    batch_size: int | None
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
        self._forget()
        inputs, labels = self._check_training_data(X, y)
        rng = check_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(rng.randint(2**31)))
        device = resolve_device(self.device)
        self.network_ = self._build_network(inputs, seed=int(rng.randint(2**31)))
        particles = self.network_.draw(self._n_particles, generator)
        self._prepare(inputs, labels, generator)

        x, t = torch.from_numpy(inputs).to(device), torch.from_numpy(labels).to(device)
        weights = torch.from_numpy(self.class_weight_[labels]).to(x)
        # Autocast, where the caller has it on, would round kernels and updates to bfloat16.
        with seeded(int(rng.randint(2**31)), device), torch.autocast(device.type, enabled=False):
            trained, history = train(
                particles.to(device),
                lambda w, i: self._evaluate(self.network_(w, x[i], training=True), x[i], t[i], weights[i]),
                self._descent,
                lambda: self._batches(labels, rng),
                max_epochs=self.max_epochs,
                learning_rate=self.learning_rate,
                verbose=bool(self.verbose),
                description=type(self).__name__,
            )
        self.particles_ = trained.cpu().numpy()
        self.history_ = history.as_dict()
        self._warn_unless_learnt(history)
        self._remember(inputs, labels)
        self.n_iter_ = len(history.loss)  # set last: the mark of a complete fit
        return self

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
            chunks = [self._log_probabilities(*chunk).cpu() for chunk in self._outputs(inputs)]
        # Normalised once more in float64, so that rows sum to one whatever the network's precision.
        return torch.cat(chunks).double().log_softmax(dim=1).numpy()

    @property
    def _n_particles(self) -> int:
        return getattr(self, "n_particles", 1)

    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """Width of the network's last layer."""

    @abstractmethod
    def _evaluate(self, outputs: Tensor, inputs: Tensor, labels: Tensor, weights: Tensor) -> Evaluation:
        """Evaluate the outputs (m, n, n_outputs) for inputs (n, ...), with labels (n,) and weights (n,)."""

    @abstractmethod
    def _log_probabilities(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Log class probabilities (n, c) from the outputs (m, n, n_outputs) for inputs (n, ...)."""

    @abstractmethod
    def _batches(self, labels: NDArray[np.int64], rng: np.random.RandomState) -> list[Indices]:
        """Batches of one epoch."""

    def _descent(self, particles: Tensor, gradients: Tensor) -> Tensor:
        """Direction (m, p) that is descended; plain gradients unless a model says otherwise."""
        return gradients

    def _prepare(
        self, inputs: NDArray[np.float32], labels: NDArray[np.int64], generator: torch.Generator
    ) -> None:
        """Set what the loss needs besides the particles."""

    def _remember(self, inputs: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Keep what prediction needs besides the particles."""

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

    def _check_training_data(
        self, X: ArrayLike, y: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
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
        return _owned(inputs), labels.astype(np.int64)

    def _check_inputs(self, X: ArrayLike) -> NDArray[np.float32]:
        """Validate X for prediction; float32 like the training data, whatever it was stored as."""
        check_is_fitted(self)
        shape = tuple(getattr(X, "shape", ()))[1:]
        if len(shape) > 1 and shape != self.input_shape_:
            raise InvalidInputError(
                f"X has inputs of shape {shape}, but {type(self).__name__} was fitted on inputs of shape "
                f"{self.input_shape_}."
            )
        return _owned(self._validate(X, reset=False))

    def _validate(self, *arrays: ArrayLike, reset: bool) -> Any:  # noqa: ANN401
        """Let scikit-learn check X (and y) and convert X to float32."""
        arrays = tuple(_off_device(array) for array in arrays)
        n_dimensions = len(getattr(arrays[0], "shape", ()))
        if self.module is None and n_dimensions > 2:
            raise InvalidInputError(
                f"X has {n_dimensions} dimensions: pass module=..., a function that builds a network for "
                "such inputs, or reshape X to (n, features)."
            )
        with np.errstate(over="ignore"):  # too large for float32: the check that follows says so
            return validate_data(
                self, *arrays, reset=reset, dtype=np.float32, allow_nd=self.module is not None
            )

    def _build_network(self, inputs: NDArray[np.float32], seed: int) -> ParticleNetwork:
        if self.module is not None:
            if self.dropout:
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
        return MLP([inputs.shape[1], *sizes, self._n_outputs], dropout=self.dropout)

    @property
    def _module_head(self) -> int | None:
        """Width of the linear layer that follows a user's module, if one does."""
        return None

    def _outputs(self, inputs: NDArray[np.float32]) -> Iterator[tuple[Tensor, Tensor]]:
        """Outputs (m, chunk, n_outputs) of all particles and their inputs, a chunk of rows at a time."""
        device = resolve_device(self.device)
        dtype = self.network_.prediction_dtype if device.type != "mps" else torch.float32
        particles = torch.from_numpy(self.particles_).to(device, dtype)
        n_numbers = len(particles) * math.prod(self.input_shape_)
        n_rows = max(1, min(PREDICTION_ROWS, PREDICTION_NUMBERS // n_numbers))
        for start in range(0, len(inputs), n_rows):
            chunk = torch.from_numpy(inputs[start : start + n_rows]).to(device, dtype)
            with torch.autocast(device.type, enabled=False):
                outputs = self.network_(particles, chunk)
            yield outputs, chunk


def _off_device(array: ArrayLike) -> ArrayLike:
    """Let a torch tensor in from any device."""
    return array.detach().cpu().numpy() if isinstance(array, Tensor) else array


def _owned(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Copy read-only memory, of which torch warns."""
    return np.require(inputs, requirements=["C", "W"])
