"""Neighbour classifiers predict by the share of kernel mass each class receives; NCA is one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from pnca.estimators._compat import Interval, fit_context
from pnca.estimators.base import Examples, FloatArray, ParticleClassifier, Snapshot, TrainingData
from pnca.exceptions import InvalidInputError
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.kernels import input_factor_weight, log_input_factor, log_latent_kernel, neighbour_scale
from pnca.maths.likelihood import log_mean
from pnca.maths.neighbours import (
    LOG_ZERO,
    class_log_masses,
    class_probabilities,
    has_partner,
    is_isolated,
    leave_one_out,
    log_class_probabilities,
    log_neighbour_shares,
)
from pnca.maths.pnca import (
    log_approximate_kernel,
    log_correct_shares,
    log_expected_kernel,
    pnca_loss,
)
from pnca.training.batches import Indices, partnered_batches
from pnca.training.folds import Teams
from pnca.training.steps import Evaluation

if TYPE_CHECKING:
    from typing_extensions import Self

#: The background mass where none is given.
BACKGROUND = 0.03
#: Rows that are enough to measure the width of the data.
_MANY_ROWS = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourData(TrainingData):
    """Training data and the constants of the kernel, on the device."""

    log_prior: Tensor  # (c,)
    team_of_answer: Tensor | None  # (answers,); None: one team
    frequencies: Tensor | None  # (d, f), of random features
    n_groups: int


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourBatch:
    """Examples of one step, which are each other's neighbours.

    A process that shares the step with others has the loss of its own rows only: n_a of the n, else all n.
    """

    inputs: Tensor  # (n, ...)
    labels: Tensor  # (n,)
    log_factor: Tensor  # (n_a, n) or (answers, n_a, n): of the kernel, log 0 where it does not count
    learns: Tensor  # (n_a,) or (answers, n_a): weight of each example in the loss
    n_answers: Tensor  # (): how many the loss sums, in all processes
    data: NeighbourData


class NeighbourClassifier(ParticleClassifier):
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
    input_weight: float | str = 0.0
    background: float | str = 0.0

    @fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, ...)
            Inputs, finite. Images are (n, h, w), (n, h, w, channels) or (n, channels, h, w); other
            shapes need ``module``.
        y : array-like of shape (n,)
            Labels of any type scikit-learn accepts; at least two classes.
        groups : array-like of shape (n,), optional
            Examples that belong together, such as images of one patient. They are never each other's
            neighbours in training and never split between folds, so that the model does not learn to
            recognise the patient.

        Returns
        -------
        self
        """
        return self._fit(X, y, groups)

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
        inputs = self._check_inputs(X)
        with torch.no_grad():
            return _join([outputs for outputs, _ in self._outputs(inputs)], dim=1)

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
        return _join([log_mean(chunk) for chunk in chunks])

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
                log_shares = log_neighbour_shares(log_kernel, self.background_, self._log_weights(outputs))
                largest = log_mean(log_shares).sort(dim=1, descending=True, stable=True)
                indices.append(largest.indices[:, :k])
                shares.append(largest.values[:, :k].exp())
        return torch.cat(indices).cpu().numpy(), _join(shares)

    @property
    def _n_outputs(self) -> int:
        return self.n_components

    def _prepare(self, examples: Examples, generator: torch.Generator) -> None:
        if self.expectation == "shared" and self.kernel == "orthogonal":
            raise InvalidInputError(
                "kernel='orthogonal' approximates expectation='cross'; with 'shared' use kernel='exact'."
            )
        self.bandwidth_ = float(self.bandwidth)
        self.background_ = BACKGROUND if self.background == "auto" else float(self.background)
        self._set_input_weight(examples)
        counts = np.bincount(examples.labels)
        if counts.max() < 2:
            raise InvalidInputError("Every class has a single example; at least one class needs two.")
        if counts.min() < 2:
            names = ", ".join(repr(name) for name in self.classes_[counts < 2].tolist())
            warnings.warn(
                f"Only one example of class {names}: it can be predicted, but nothing is learnt from it.",
                stacklevel=5,
            )
        if (
            examples.groups is not None
            and not has_partner(
                torch.from_numpy(examples.labels),
                len(counts),
                torch.from_numpy(examples.groups),
                int(examples.groups.max()) + 1,
            ).any()
        ):
            raise InvalidInputError(
                "No example has another of its class outside its group, so nothing can be learnt."
            )
        weights = self.class_weight_ * counts
        self.class_prior_ = weights / weights.sum()
        if self.kernel == "orthogonal":
            frequencies = orthogonal_frequencies(
                self._latent_dimension, self.n_feature_blocks, self.bandwidth, generator
            )
            self.frequencies_ = frequencies.numpy()

    def _set_input_weight(self, examples: Examples) -> None:
        self.input_weight_ = 0.0
        if self.input_weight == 0:
            return
        points = torch.from_numpy(examples.inputs).flatten(start_dim=1).double()
        groups = None if examples.groups is None else torch.from_numpy(examples.groups)
        scale = neighbour_scale(points, groups)
        self.input_scale_ = float(scale)
        if self.input_weight == "auto":
            step = -(-len(points) // _MANY_ROWS)
            self.input_weight_ = float(input_factor_weight(points[::step], scale))
        else:
            self.input_weight_ = float(self.input_weight)

    @property
    def _latent_dimension(self) -> int:
        return getattr(self.network_, "n_features", self.n_components)

    def _keep(self, trained: Tensor, snapshots: list[Snapshot], examples: Examples, teams: Teams) -> None:
        self.particles_ = trained[teams.full].cpu().numpy()
        self.support_labels_ = examples.labels
        self.support_embeddings_ = self._embed_scaled(examples.inputs)
        if self.input_weight_:
            self.support_inputs_ = examples.inputs
        if self.background_ > 0:
            self._warn_if_isolated(examples.inputs)

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
                f"background has ({self.background_:.3g}), so the class shares decide. Scale the inputs (for "
                "example with sklearn.preprocessing.StandardScaler), raise bandwidth, or lower background.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _embed_scaled(self, inputs: NDArray[np.float32]) -> FloatArray:
        """Embed inputs (n, ...) that are scaled already: (m, n, d)."""
        with torch.no_grad():
            return _join([outputs for outputs, _ in self._outputs(inputs, scaled=True)], dim=1)

    def _on_device(self, examples: Examples, teams: Teams, device: torch.device) -> NeighbourData:
        data = super()._on_device(examples, teams, device)
        team_of_answer = None
        if teams.folds is not None:
            n_teams = len(teams.slices)
            of_answers = teams.of_particles() if self.expectation == "shared" else torch.arange(n_teams)
            team_of_answer = of_answers.to(device)
        return NeighbourData(
            **vars(data),
            team_of_answer=team_of_answer,
            log_prior=torch.from_numpy(self.class_prior_).to(data.inputs).log(),
            frequencies=self._frequencies(data.inputs),
            n_groups=0 if examples.groups is None else int(examples.groups.max()) + 1,
        )

    def _batch(self, data: TrainingData, indices: Tensor) -> NeighbourBatch:
        assert isinstance(data, NeighbourData)
        inputs, labels, weights = data.inputs[indices], data.labels[indices], data.weights[indices]
        groups = None if data.groups is None else data.groups[indices]
        sees = None if data.sees is None else data.sees[:, indices]
        learns = weights * has_partner(labels, len(self.classes_), groups, data.n_groups, sees)
        own = data.shards.own
        rows = own(torch.arange(len(labels), device=labels.device))
        log_factor = _safe_log(weights).expand(len(rows), -1)  # (n_a, n)
        if not self._augmentation:
            log_factor = log_factor + self._log_input_factor(own(inputs), inputs)
        n_answers = len(labels) * torch.ones((), device=labels.device)
        if sees is not None and data.team_of_answer is not None:
            sees = sees[data.team_of_answer]
            learns = learns[data.team_of_answer] * sees
            log_factor = log_factor.masked_fill(~sees[:, None, :], LOG_ZERO)  # (answers, n_a, n)
            n_answers = sees.sum()
        elif self.expectation == "shared":
            n_answers = n_answers * data.teams.n_particles
        return NeighbourBatch(
            inputs=inputs,
            labels=labels,
            log_factor=leave_one_out(log_factor, groups, rows),
            learns=own(learns, dim=-1),
            n_answers=n_answers,
            data=data,
        )

    def _evaluate(self, particles: Tensor, batch: NeighbourBatch) -> Evaluation:
        inputs, labels, data = batch.inputs, batch.labels, batch.data
        own_inputs, own_labels = data.shards.own(inputs), data.shards.own(labels)
        queries = self._augmented(own_inputs)
        outputs = self.network_(particles, queries, training=True)
        # Only the example itself is disturbed: it is compared with others as predictions are.
        is_disturbed = self._dropout or self._augmentation
        support = self.network_(particles, own_inputs) if is_disturbed else outputs
        support = data.shards.gather(support, len(labels))
        log_kernel = self._log_latent_kernel(outputs, support, data.teams.slices, data.frequencies)
        log_kernel = log_kernel + batch.log_factor
        if self._augmentation:
            log_kernel = log_kernel + self._log_input_factor(queries, inputs)
        background = self._background_among(len(labels))
        log_correct = log_correct_shares(log_kernel, labels, background, data.log_prior, own_labels)
        loss = pnca_loss(log_correct, batch.learns)
        # What is shown while it trains is the accuracy of the particles that see all examples.
        of_all = data.teams.full if self.expectation == "shared" else slice(0, 1)
        log_shares = log_neighbour_shares(log_kernel.detach()[of_all], background)
        probabilities = class_probabilities(log_shares, labels, data.log_prior).mean(dim=0)
        n_correct = (probabilities.argmax(dim=1) == own_labels).sum()
        return Evaluation(loss, loss.detach() / batch.n_answers, n_correct)

    def _background_among(self, n_points: int) -> float:
        """Part of the examples has part of the mass: that part of the background keeps the balance."""
        return self.background_ * n_points / self.n_samples_fit_

    def _answers(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        log_prior = torch.from_numpy(self.class_prior_).to(outputs).log()
        return log_class_probabilities(self._log_masses(outputs, inputs), self.background_, log_prior)

    def _batches(self, labels: NDArray[np.int64], rng: np.random.RandomState) -> list[Indices]:
        return partnered_batches(labels, self._batch_size, rng)

    def _log_kernel(self, a: Tensor, b: Tensor, inputs_a: Tensor, inputs_b: Tensor) -> Tensor:
        """Log kernel (answers, n_a, n_b) between embeddings (m, n_a, d) and (m, n_b, d) of these inputs.

        With shared particles each has a kernel of its own; otherwise there is one.
        """
        log_kernel = self._log_latent_kernel(a, b, [slice(None)], self._frequencies(a))
        return log_kernel + self._log_input_factor(inputs_a, inputs_b)

    def _log_input_factor(self, a: Tensor, b: Tensor) -> Tensor | float:
        """Log of what the distance between inputs (n_a, ...) and (n_b, ...) does to their kernel."""
        if not self.input_weight_:
            return 0.0
        a, b = a.flatten(start_dim=1), b.flatten(start_dim=1)
        return log_input_factor(a, b, self.input_scale_, self.input_weight_)

    def _frequencies(self, like: Tensor) -> Tensor | None:
        """Random frequencies, where the kernel has them."""
        if self.kernel != "orthogonal":
            return None
        if not hasattr(self, "frequencies_"):
            raise InvalidInputError("kernel was set to 'orthogonal' after the fit; fit again.")
        return torch.from_numpy(self.frequencies_).to(like)

    def _log_latent_kernel(
        self, a: Tensor, b: Tensor, teams: list[slice], frequencies: Tensor | None
    ) -> Tensor:
        """Log kernel of the embeddings alone: one for each team of particles, or for each particle."""
        if self.expectation == "shared":
            return log_latent_kernel(a, b, self.bandwidth_)
        kernels = []
        for team in teams:
            of_a = a[team]
            of_b = of_a if b is a else b[team]
            if frequencies is None:
                kernels.append(log_expected_kernel(of_a, of_b, self.bandwidth_))
            else:
                kernels.append(log_approximate_kernel(of_a, of_b, frequencies))
        return torch.stack(kernels)

    def _log_kernel_to_support(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        embeddings = torch.from_numpy(self.support_embeddings_).to(outputs)
        support = torch.from_numpy(self.support_inputs_).to(inputs) if self.input_weight_ else inputs[:0]
        return self._log_kernel(outputs, embeddings, inputs, support)

    def _log_weights(self, like: Tensor) -> Tensor:
        return _safe_log(torch.from_numpy(self.class_weight_[self.support_labels_]).to(like))

    def _log_masses(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Log kernel mass of each class: (answers, n, c)."""
        labels = torch.from_numpy(self.support_labels_).to(outputs.device)
        log_kernel = self._log_kernel_to_support(outputs, inputs)
        return class_log_masses(log_kernel, labels, len(self.classes_), self._log_weights(outputs))

    @property
    def _numbers_per_row(self) -> int:
        # With shared particles, a kernel to every example in each.
        n_compared = len(self.particles_) * self.n_samples_fit_ if self.expectation == "shared" else 0
        return max(super()._numbers_per_row, n_compared)

    def _check_k(self, k: int | None) -> int:
        n = len(self.support_labels_)
        if k is not None and not (isinstance(k, Integral) and 1 <= k <= n):
            raise InvalidInputError(
                f"k must be a whole number from 1 to {n}, the training examples; got {k!r}."
            )
        return n if k is None else int(k)


class NCAClassifier(NeighbourClassifier):
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
        Share of the inputs set to zero at random in training, anew for each particle and example. Those an
        example is compared with are whole.
    augmentation : float
        For images: how far they are moved, turned and resized at random in training. Strength one means
        at most a fourteenth of the side, fifteen degrees and a tenth of the size; zero leaves them alone.
    image_shape : tuple of int or None
        (height, width) or with channels, if X has images as rows of numbers; None reads it off X.
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
        augmentation: float = 0.0,
        image_shape: tuple[int, ...] | None = None,
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
        self.augmentation = augmentation
        self.image_shape = image_shape
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose


def _safe_log(weights: Tensor) -> Tensor:
    """Logarithm of class weights, of which a user may set some to zero."""
    return weights.log().clamp_min(LOG_ZERO)


def _join(chunks: list[Tensor], dim: int = 0) -> FloatArray:
    return torch.cat(chunks, dim=dim).cpu().double().numpy()
