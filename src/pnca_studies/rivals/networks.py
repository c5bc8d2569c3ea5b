"""Shared by the baselines that are neural networks: training, prediction, and the average of a softmax.

Each trains one network with Adam on minibatches of 20 examples, in float32 on the CPU, and predicts in
float64, so that the prediction of a row does not depend on the other rows.
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional

from pnca.estimators._compat import Interval, fit_context
from pnca.exceptions import InvalidInputError, TrainingDivergedError
from pnca.networks import seeded
from pnca.training.sampling import shuffled_batches

if TYPE_CHECKING:
    from typing_extensions import Self

FloatArray = NDArray[np.float64]
#: Maps a minibatch of inputs (b, p) to the one that is trained on; may draw from torch's global generator,
#: which is seeded for it and restored after the fit.
Augment = Callable[[Tensor], Tensor]

BATCH_SIZE = 20


class NetworkBaseline(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base class: validation, training, prediction in chunks.

    A subclass builds the network (``_build``), may add to it after training (``_finish``), and maps inputs to
    log-probabilities and evidence (``_answer``).
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  (scikit-learn's protocol)
        "hidden_layer_sizes": ["array-like"],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "augment": [callable, None],
        "random_state": ["random_state"],
    }

    #: Rows predicted at once, to bound memory.
    _prediction_rows = 1024

    hidden_layer_sizes: tuple[int, ...]
    max_epochs: int
    learning_rate: float
    weight_decay: float
    augment: Augment | None
    random_state: Any
    network_: nn.Module

    @fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on labelled examples."""
        inputs, targets = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(targets)
        self.classes_, codes = np.unique(targets, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"fit needs at least 2 classes; all examples are of {self.classes_[0]!r}."
            )
        rng = check_random_state(self.random_state)
        x, labels = torch.tensor(inputs), torch.tensor(codes)
        with seeded(int(rng.randint(2**31))):
            network = self._build(x, n_classes=len(self.classes_))
            train_network(
                network,
                x,
                labels,
                # fused: all parameters in one pass, a fifth faster on a CPU.
                torch.optim.Adam(self._parameter_groups(network, len(x)), lr=self.learning_rate, fused=True),
                max_epochs=self.max_epochs,
                rng=rng,
                augment=self.augment,
            )
            self.network_ = network.double().eval()
            self._finish(x.double(), labels, rng)
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probability of each class, in the order of ``classes_``."""
        return np.exp(self._answers(X)[0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class."""
        labels: NDArray[Any] = self.classes_[self._answers(X)[0].argmax(axis=1)]
        return labels

    def evidence(self, X: ArrayLike) -> FloatArray:
        """Return the out-of-distribution score (n,), larger for inputs more like the training data."""
        return self._answers(X)[1]

    @abstractmethod
    def _build(self, inputs: Tensor, *, n_classes: int) -> nn.Module:
        """Initialise a network that maps inputs (n, p) to logits (n, c)."""

    @abstractmethod
    def _answer(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (n, c) and evidence (n,) for inputs (n, p) in float64."""

    def _parameter_groups(self, network: nn.Module, n_samples: int) -> list[dict[str, Any]]:
        """Return Adam's parameter groups; weight decay is the gradient of a Gaussian log prior."""
        return [{"params": list(network.parameters()), "weight_decay": self.weight_decay}]

    def _finish(self, inputs: Tensor, labels: Tensor, rng: np.random.RandomState) -> None:
        """Compute what prediction needs besides the network from inputs (n, p) and labels (n,)."""

    def _answers(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        inputs = torch.tensor(validate_data(self, X, reset=False, dtype=np.float32)).double()
        with torch.no_grad():
            parts = [self._answer(chunk) for chunk in torch.split(inputs, self._prediction_rows)]
        log_probabilities, evidence = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
        return log_probabilities, evidence

    def _checked_sizes(self) -> list[int]:
        sizes = list(self.hidden_layer_sizes)
        if not sizes or not all(isinstance(size, Integral) and size >= 1 for size in sizes):
            raise InvalidInputError(
                f"hidden_layer_sizes must hold positive whole numbers, at least one; got {sizes!r}."
            )
        return sizes


def train_network(
    network: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    optimiser: torch.optim.Optimizer,
    *,
    max_epochs: int,
    rng: np.random.RandomState,
    augment: Augment | None = None,
) -> None:
    """Minimise the mean cross-entropy of minibatches, in place, for so many epochs."""
    network.train()
    for _ in range(max_epochs):
        for batch in shuffled_batches(len(labels), BATCH_SIZE, rng):
            rows = torch.as_tensor(batch)
            x = inputs[rows] if augment is None else augment(inputs[rows])
            loss = functional.cross_entropy(network(x), labels[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    if not all(parameter.isfinite().all() for parameter in network.parameters()):
        raise TrainingDivergedError("The parameters became infinite or NaN: lower learning_rate.")


def mean_field_log_probabilities(logits: Tensor, variances: Tensor) -> Tensor:
    r"""Approximate the log of the softmax (n, c) averaged over independent Gaussian logits.

    .. math:: \log \mathbb{E}[\mathrm{softmax}_k(f)] \approx
              \log \mathrm{softmax}_k\!\left(\mu / \sqrt{1 + \pi v / 8}\right),
              \qquad f_k \sim N(\mu_k, v_k)

    This is MacKay's probit approximation, for several classes also called the mean-field one.
    """
    return (logits / (1 + math.pi / 8 * variances).sqrt()).log_softmax(dim=1)


def multilayer(sizes: list[int], dropout: list[float] | None = None) -> nn.Sequential:
    """Stack linear layers with ReLU between them, and dropout before each if its rates are given."""
    layers: list[nn.Module] = []
    for k, (n_in, n_out) in enumerate(pairwise(sizes)):
        layers += [nn.ReLU()] if k else []
        layers += [nn.Dropout(dropout[k])] if dropout else []
        layers.append(nn.Linear(n_in, n_out))
    return nn.Sequential(*layers)
