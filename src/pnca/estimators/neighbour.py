"""Neighbour classifiers: NCA and PNCA predict by the share of kernel mass each class receives."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from pnca.estimators._compat import Interval, StrOptions
from pnca.estimators.base import FloatArray, ParticleClassifier
from pnca.exceptions import InvalidInputError
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.kernels import log_input_factor, log_latent_kernel, neighbour_scale
from pnca.maths.likelihood import log_mean
from pnca.maths.neighbours import (
    LOG_ZERO,
    class_log_masses,
    is_isolated,
    log_class_probabilities,
    log_neighbour_shares,
)
from pnca.maths.pnca import (
    functional_gradient,
    log_approximate_kernel,
    log_expected_kernel,
    log_leave_one_out_probabilities,
    pnca_loss,
)
from pnca.training.batches import Indices, partnered_batches
from pnca.training.loop import Evaluation


class _NeighbourClassifier(ParticleClassifier):
    """Particles that embed; classes compete for kernel mass in the latent space."""

    _parameter_constraints = {  # noqa: RUF012
        **ParticleClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
    }

    n_components: int
    bandwidth: float
    kernel: str = "exact"
    n_feature_blocks: int
    expectation: str = "cross"
    input_weight: float = 0.0
    background: float = 0.0

    def embed(self, X: ArrayLike) -> FloatArray:
        """Embed inputs with every particle.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (m, n, d)
            For input i, the m points ``[:, i]`` are its distribution in the latent space.
        """
        return self._embed(self._check_inputs(X))

    def evidence(self, X: ArrayLike) -> FloatArray:
        """Log of the total kernel mass an input receives: larger means more familiar.

        A density-like score: with the exact kernel it falls as the embedding of an input moves
        away from those of all training examples, which the class probabilities alone do not show.
        With random features it settles at the level of their error instead.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        inputs = self._check_inputs(X)
        with torch.no_grad():
            chunks = [self._log_masses(*chunk).logsumexp(dim=-1) for chunk in self._outputs(inputs)]
        return _join([self._over_particles(chunk) for chunk in chunks])

    def neighbors(self, X: ArrayLike, k: int | None = None) -> tuple[NDArray[np.int64], FloatArray]:
        """Find the training examples behind each prediction, largest share first.

        The shares of the examples of a class sum to its predicted probability, less what the
        background mass adds. With no background and ``k=None`` they sum to one.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs.
        k : int or None
            Number of neighbours; None returns all training examples.

        Returns
        -------
        indices : ndarray of shape (n, k)
            Rows of the training data.
        shares : ndarray of shape (n, k)
            The shares q_ij of those examples, each at most one.
        """
        inputs = self._check_inputs(X)
        k = self._check_k(k)
        indices, shares = [], []
        with torch.no_grad():
            for outputs, chunk in self._outputs(inputs):
                log_kernel = self._log_kernel_to_support(outputs, chunk)
                log_shares = log_neighbour_shares(log_kernel, self.background, self._log_weights(outputs))
                largest = self._over_particles(log_shares).sort(dim=1, descending=True, stable=True)
                indices.append(largest.indices[:, :k])
                shares.append(largest.values[:, :k].exp())
        return torch.cat(indices).cpu().numpy(), _join(shares)

    @property
    def _n_outputs(self) -> int:
        return self.n_components

    def _over_particles(self, logs: Tensor) -> Tensor:
        """Log of the mean over particles, where each particle has an answer of its own: (m, ...) -> (...)."""
        return log_mean(logs) if self.expectation == "shared" else logs

    def _prepare(
        self, inputs: NDArray[np.float32], labels: NDArray[np.int64], generator: torch.Generator
    ) -> None:
        if self.expectation == "shared" and self.kernel == "orthogonal":
            raise InvalidInputError(
                "kernel='orthogonal' approximates expectation='cross'; with 'shared' use kernel='exact'."
            )
        if self.input_weight:
            self.input_scale_ = float(neighbour_scale(torch.from_numpy(_flat(inputs)).double()))
        counts = np.bincount(labels)
        if counts.max() < 2:
            raise InvalidInputError("Every class has a single example; at least one class needs two.")
        if counts.min() < 2:
            names = ", ".join(repr(name) for name in self.classes_[counts < 2].tolist())
            warnings.warn(
                f"Only one example of class {names}: it can be predicted, but nothing is learnt from it.",
                stacklevel=4,
            )
        weights = self.class_weight_ * counts
        self.class_prior_ = weights / weights.sum()
        if self.kernel == "orthogonal":
            frequencies = orthogonal_frequencies(
                self._latent_dimension, self.n_feature_blocks, self.bandwidth, generator
            )
            self.frequencies_ = frequencies.numpy()

    @property
    def _latent_dimension(self) -> int:
        return getattr(self.network_, "n_features", self.n_components)

    def _remember(self, inputs: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        self.support_labels_ = labels
        self.support_embeddings_ = self._embed(inputs)
        if self.input_weight:
            self.support_inputs_ = inputs
        if self.background > 0:
            self._warn_if_isolated(inputs)

    def _warn_if_isolated(self, inputs: NDArray[np.float32]) -> None:
        """Where kernel mass underflows there is no gradient, and the background alone decides."""
        step = -(-self.n_samples_fit_ // 300)  # a few hundred examples tell
        some = torch.from_numpy(self.support_embeddings_[:, ::step])  # (m, at most 300, d)
        x = torch.from_numpy(inputs[::step]).double()
        background = self._background_among(some.shape[1])
        log_kernel = self._log_kernel(some, some, x, x)
        isolated = is_isolated(log_kernel, background).double().mean().item()
        if isolated > 0.5:
            warnings.warn(
                f"{isolated:.0%} of the training examples get less kernel mass from all others than the "
                f"background has ({self.background}), so the class shares decide. Scale the inputs (for "
                "example with sklearn.preprocessing.StandardScaler), raise bandwidth, or lower background.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _embed(self, inputs: NDArray[np.float32]) -> FloatArray:
        with torch.no_grad():
            return _join([outputs for outputs, _ in self._outputs(inputs)], dim=1)

    def _evaluate(self, outputs: Tensor, inputs: Tensor, labels: Tensor, weights: Tensor) -> Evaluation:
        log_probabilities = log_leave_one_out_probabilities(
            self._log_kernel(outputs, outputs, inputs, inputs),
            labels,
            torch.from_numpy(self.class_prior_).to(outputs).log(),
            self._background_among(len(labels)),
            _safe_log(weights),
        )
        # An example without a partner of its class in the batch has nothing to learn from.
        has_partner = labels.bincount(minlength=len(self.classes_))[labels] > 1
        loss = pnca_loss(log_probabilities, labels, weights * has_partner)
        n_answers = log_probabilities.shape[:-1].numel()  # one for each example, or for each of its particles
        n_correct = (self._over_particles(log_probabilities.detach()).argmax(dim=1) == labels).sum()
        return Evaluation(loss, loss.detach() / n_answers, n_correct)

    def _background_among(self, n_points: int) -> float:
        """Part of the examples has part of the mass: that part of the background keeps the balance."""
        return self.background * n_points / self.n_samples_fit_

    def _log_probabilities(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        log_prior = torch.from_numpy(self.class_prior_).to(outputs).log()
        log_masses = self._log_masses(outputs, inputs)
        return self._over_particles(log_class_probabilities(log_masses, self.background, log_prior))

    def _batches(self, labels: NDArray[np.int64], rng: np.random.RandomState) -> list[Indices]:
        return partnered_batches(labels, self.batch_size, rng)

    def _log_kernel(self, a: Tensor, b: Tensor, inputs_a: Tensor, inputs_b: Tensor) -> Tensor:
        """Log kernel (n_a, n_b) between embeddings (m, n_a, d) and (m, n_b, d) of these inputs.

        With shared particles (m, n_a, n_b): a kernel for each.
        """
        log_kernel = self._log_latent_kernel(a, b)
        if not self.input_weight:
            return log_kernel
        x_a, x_b = inputs_a.flatten(start_dim=1), inputs_b.flatten(start_dim=1)
        return log_kernel + log_input_factor(x_a, x_b, self.input_scale_, self.input_weight)

    def _log_latent_kernel(self, a: Tensor, b: Tensor) -> Tensor:
        if self.expectation == "shared":
            return log_latent_kernel(a, b, self.bandwidth)
        if self.kernel == "orthogonal":
            if not hasattr(self, "frequencies_"):
                raise InvalidInputError("kernel was set to 'orthogonal' after the fit; fit again.")
            return log_approximate_kernel(a, b, torch.from_numpy(self.frequencies_).to(a))
        return log_expected_kernel(a, b, self.bandwidth)

    def _log_kernel_to_support(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        embeddings = torch.from_numpy(self.support_embeddings_).to(outputs)
        if not self.input_weight:
            return self._log_latent_kernel(outputs, embeddings)
        if not hasattr(self, "support_inputs_"):
            raise InvalidInputError("input_weight was set after the fit; fit again.")
        return self._log_kernel(
            outputs, embeddings, inputs, torch.from_numpy(self.support_inputs_).to(inputs)
        )

    def _log_weights(self, like: Tensor) -> Tensor:
        return _safe_log(torch.from_numpy(self.class_weight_[self.support_labels_]).to(like))

    def _log_masses(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Log kernel mass of each class: (n, c), or (m, n, c) with shared particles."""
        labels = torch.from_numpy(self.support_labels_).to(outputs.device)
        log_kernel = self._log_kernel_to_support(outputs, inputs)
        return class_log_masses(log_kernel, labels, len(self.classes_), self._log_weights(outputs))

    def _check_k(self, k: int | None) -> int:
        n = len(self.support_labels_)
        if k is not None and not (isinstance(k, Integral) and 1 <= k <= n):
            raise InvalidInputError(
                f"k must be a whole number from 1 to {n}, the training examples; got {k!r}."
            )
        return n if k is None else int(k)


class NCAClassifier(_NeighbourClassifier):
    """Neighbourhood component analysis with a network: one particle, the exact kernel.

    Parameters
    ----------
    n_components : int
        Dimension d of the latent space; ignored if ``module`` is given.
    bandwidth : float
        h in the latent kernel exp(-||z - z'||^2 / h).
    hidden_layer_sizes : sequence of int
        Widths of the hidden layers (ReLU).
    module : nn.Module, callable or None
        Replaces the layers: a callable that builds a module, or an instance whose trainable
        layers are drawn anew. It maps (n, ...) to the latent space (n, d).
    max_epochs : int
        Passes over the training data.
    learning_rate : float
        Step size of Nadam.
    dropout : float
        Share of the inputs set to zero at random in training, anew for each particle and example.
    batch_size : int or None
        Examples per step, which are then each other's neighbours; None takes all, as the paper does.
    class_weight : dict, "balanced" or None
        Weights of the classes, in the loss and in the kernel mass: like repeating examples.
    device : str
        ``"auto"`` (a CUDA GPU if there is one), ``"cpu"``, ``"cuda"``, ...
    random_state : int, RandomState or None
        Seed of everything random.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        The labels, in the order of the columns of :meth:`predict_proba`.
    particles_ : ndarray of shape (m, p)
        The trained parameters; m is one here.
    support_embeddings_ : ndarray of shape (m, n, d)
        The training examples in the latent space.
    support_labels_ : ndarray of shape (n,)
        Their classes, as positions in ``classes_``.
    class_prior_ : ndarray of shape (c,)
        Weighted share of each class in the training data.
    history_ : dict
        ``loss`` and ``accuracy`` (both leave-one-out) in each epoch.
    n_iter_ : int
        Epochs run.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NCAClassifier(random_state=0).fit(X, y)
    >>> bool(model.evidence(X).min() > model.evidence(X + 100).max())
    True
    """

    def __init__(
        self,
        *,
        n_components: int = 10,
        bandwidth: float = 1.0,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        module: Any = None,  # noqa: ANN401
        max_epochs: int = 100,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        batch_size: int | None = None,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose


class PNCAClassifier(_NeighbourClassifier):
    """Probabilistic neighbourhood component analysis.

    Every input becomes a cloud of m points in a latent space, one from each particle. Inputs
    are compared by the expected kernel between their clouds, and a class is as probable as
    the share of kernel mass its training examples receive. ``pnca.paper_settings("PNCA")``
    gives the arguments of the paper.

    Parameters
    ----------
    n_particles : int
        Number of networks m.
    kernel : "exact" or "orthogonal"
        The expected kernel itself, or the paper's orthogonal random features of it with ReLU.
    expectation : "cross" or "shared"
        ``"cross"``, the paper's, compares every particle of an input with every particle of the other.
        ``"shared"`` compares within each particle, lets each learn and answer on its own, and averages
        their probabilities.
    input_weight : float
        Weight of the distance between the inputs themselves, as a factor of the kernel. A network may
        map an input unlike any other onto a familiar point; with a positive weight such an input still
        gets little mass. Scale the inputs so that their distances mean something.
    n_feature_blocks : int
        With ``kernel="orthogonal"``, the number of frequencies per latent dimension: the more, the
        nearer to the exact kernel. The paper uses ten.
    update : "functional" or "independent"
        The paper's functional gradient, which smooths the gradients over the particles, or the plain
        gradient of each particle.
    background : float
        Kernel mass that belongs to no example and is split among the classes as in the training
        data. Far from all examples it decides, so the prediction tends to the class shares
        instead of the least distant class. Zero is the paper.
    n_components, bandwidth, hidden_layer_sizes, module, max_epochs, learning_rate, dropout
        See :class:`NCAClassifier`.
    batch_size, class_weight, device, random_state, verbose
        See :class:`NCAClassifier`.

    Attributes
    ----------
    classes_, particles_, support_embeddings_, support_labels_, class_prior_, history_, n_iter_
        See :class:`NCAClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PNCAClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X[:1] + 1000).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    _parameter_constraints = {  # noqa: RUF012
        **_NeighbourClassifier._parameter_constraints,
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions({"exact", "orthogonal"})],
        "expectation": [StrOptions({"cross", "shared"})],
        "input_weight": [Interval(Real, 0, None, closed="left")],
        "n_feature_blocks": [Interval(Integral, 1, None, closed="left")],
        "update": [StrOptions({"functional", "independent"})],
        "background": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        n_particles: int = 10,
        n_components: int = 10,
        bandwidth: float = 1.0,
        kernel: str = "exact",
        expectation: str = "cross",
        input_weight: float = 0.0,
        n_feature_blocks: int = 10,
        update: str = "functional",
        background: float = 0.1,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        module: Any = None,  # noqa: ANN401
        max_epochs: int = 100,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        batch_size: int | None = None,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        self.n_particles = n_particles
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.expectation = expectation
        self.input_weight = input_weight
        self.n_feature_blocks = n_feature_blocks
        self.update = update
        self.background = background
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _descent(self, particles: Tensor, gradients: Tensor) -> Tensor:
        return functional_gradient(particles, gradients) if self.update == "functional" else gradients


def _safe_log(weights: Tensor) -> Tensor:
    """Logarithm of class weights, of which a user may set some to zero."""
    return weights.log().clamp_min(LOG_ZERO)


def _flat(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    return inputs.reshape(len(inputs), -1)


def _join(chunks: list[Tensor], dim: int = 0) -> FloatArray:
    return torch.cat(chunks, dim=dim).cpu().double().numpy()
