"""What neighbour classifiers share: they predict by the share of kernel mass each class receives."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from pnca import accelerated
from pnca.estimators._compat import Interval, fit_context
from pnca.estimators.base import (
    PREDICTION_NUMBERS,
    Examples,
    FloatArray,
    ParticleClassifier,
    Snapshot,
    TrainingData,
)
from pnca.estimators.novelty import NoveltyFactor
from pnca.estimators.positive import PositiveFeatures
from pnca.exceptions import InvalidInputError
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.kernels import input_factor_weight, log_input_factor, log_latent_kernel, neighbour_scale
from pnca.maths.likelihood import log_mean
from pnca.maths.neighbours import (
    class_log_masses,
    class_probabilities,
    has_partner,
    is_isolated,
    leave_one_out,
    log_class_probabilities,
    log_neighbour_shares,
    safe_log,
)
from pnca.maths.pnca import (
    log_approximate_kernel,
    log_expected_kernel,
    pnca_loss,
    shares_and_log_correct,
)
from pnca.training.batches import Indices, partnered_batches
from pnca.training.devices import resolve_device
from pnca.training.folds import Teams
from pnca.training.shards import Shards
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
    kinds: Tensor  # (particles,), how each is trained
    frequencies: Tensor | None  # (d, f), of random features
    n_groups: int


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourBatch:
    """Examples of one step, which are each other's neighbours.

    A process that shares the step with others has the loss of its own rows only: n_a of the n, else all n.
    """

    inputs: Tensor  # (n, ...)
    labels: Tensor  # (n,)
    groups: Tensor | None  # (n,)
    shown: Tensor  # (n,) or (answers, n): weight of each example as a neighbour
    log_factor: Tensor | None  # (n_a, n) or (answers, n_a, n): of the kernel, log 0 where it does not count;
    # None if no kernel between examples is to be held in memory
    learns: Tensor  # (n_a,) or (answers, n_a): weight of each example in the loss
    n_answers: Tensor  # (): how many the loss sums, in all processes
    data: NeighbourData


class NeighbourClassifier(NoveltyFactor, PositiveFeatures, ParticleClassifier):
    """Particles that embed; classes compete for kernel mass in the latent space."""

    _parameter_constraints = {  # noqa: RUF012
        **ParticleClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
    }

    n_components: int
    bandwidth: float
    kernel: str = "exact"
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

        A density-like score: with the exact kernel and with positive features it falls as the embedding of
        an input moves away from those of all training examples, which the class probabilities alone do not
        show. With the paper's random features it settles at the level of their error instead. With
        ``novelty`` it also falls as an input moves away from the plane along which training inputs vary.

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
            for outputs, chunk in self._outputs_to_compare(inputs):
                log_kernel = (
                    self._log_kernel_to_support(outputs, chunk) + self._log_familiarity(chunk)[:, None]
                )
                log_shares = log_neighbour_shares(log_kernel, self.background_, self._log_weights(outputs))
                largest = log_mean(log_shares).sort(dim=1, descending=True, stable=True)
                indices.append(largest.indices[:, :k])
                shares.append(largest.values[:, :k].exp())
        return torch.cat(indices).cpu().numpy(), _join(shares)

    @property
    def _n_outputs(self) -> int:
        return self.n_components

    def _prepare(self, examples: Examples, generator: torch.Generator) -> None:
        self._check_kernel(examples)
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
                examples.n_groups,
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
        elif self.kernel == "positive":
            self._draw_directions(self._latent_dimension, generator)

    def _check_kernel(self, examples: Examples) -> None:
        if self.expectation == "shared" and self.kernel == "orthogonal":
            raise InvalidInputError(
                "kernel='orthogonal' approximates expectation='cross'; with 'shared' use kernel='exact'."
            )
        if self.kernel != "positive":
            return
        if self.input_weight not in ("auto", 0):
            raise InvalidInputError(
                "kernel='positive' has no factor for the distance between inputs, which cannot be summed up "
                f"class by class: use input_weight=0 or 'auto' (then 0) instead of {self.input_weight!r}, or "
                "kernel='exact'."
            )
        if examples.groups is not None:
            raise InvalidInputError(
                "kernel='positive' sums up whole classes and cannot leave out a group: use kernel='exact'."
            )

    def _set_input_weight(self, examples: Examples) -> None:
        self.input_weight_ = 0.0
        if self.input_weight == 0 or self.kernel == "positive":
            return
        points = torch.from_numpy(examples.inputs).flatten(start_dim=1).double()
        groups = None if examples.groups is None else torch.from_numpy(examples.groups)
        step = -(-len(points) // _MANY_ROWS)
        scale = neighbour_scale(points, groups, every=step)
        self.input_scale_ = float(scale)
        if self.input_weight == "auto":
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
        if self.kernel == "positive":
            self._keep_class_features()
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
            kinds=teams.kinds().to(device),
            log_prior=torch.from_numpy(self.class_prior_).to(data.inputs).log(),
            frequencies=self._frequencies(data.inputs),
            n_groups=examples.n_groups,
        )

    def _batch(self, data: TrainingData, indices: Tensor) -> NeighbourBatch:
        assert isinstance(data, NeighbourData)
        inputs, labels, weights = data.inputs[indices], data.labels[indices], data.weights[indices]
        groups = None if data.groups is None else data.groups[indices]
        sees = None if data.sees is None else data.sees[:, indices]
        learns = weights * has_partner(labels, len(self.classes_), groups, data.n_groups, sees)
        shown, n_answers = weights, len(labels) * torch.ones((), device=labels.device)
        if sees is not None and data.team_of_answer is not None:
            sees = sees[data.team_of_answer]  # (answers, n)
            shown, learns, n_answers = weights * sees, learns[data.team_of_answer] * sees, sees.sum()
        elif self.expectation == "shared":
            n_answers = n_answers * data.teams.n_particles
        by_class = self.kernel == "positive" or self._has_many(
            self._n_answers(data.teams), len(labels), labels.device
        )
        return NeighbourBatch(
            inputs=inputs,
            labels=labels,
            groups=groups,
            shown=shown,
            log_factor=None if by_class else self._log_factor(inputs, shown, groups, data.shards),
            learns=data.shards.own(learns, dim=-1),
            n_answers=n_answers,
            data=data,
        )

    def _log_factor(self, inputs: Tensor, shown: Tensor, groups: Tensor | None, shards: Shards) -> Tensor:
        """Log of what the kernel of each two examples is multiplied by, whatever the particles."""
        rows = shards.own(torch.arange(len(inputs), device=inputs.device))
        log_factor = safe_log(shown)[..., None, :].expand(*shown.shape[:-1], len(rows), -1)
        if not self._augmentation:
            log_factor = log_factor + self._log_input_factor(shards.own(inputs), inputs)
        return leave_one_out(log_factor, groups, rows)

    def _evaluate(self, particles: Tensor, batch: NeighbourBatch, mixing: Tensor | None = None) -> Evaluation:
        inputs, labels, shards = batch.inputs, batch.labels, batch.data.shards
        own_inputs = shards.own(inputs)
        kinds = batch.data.kinds
        queries = self._augmented(own_inputs)  # (n, ...) or (kinds, n, ...)
        is_one = queries.dim() == inputs.dim()
        queries_of_particles = queries if is_one else queries[kinds]
        outputs = self.network_(particles, queries_of_particles, training=True, mixing=mixing)
        # Only the example itself is disturbed: it is compared with others as predictions are.
        is_disturbed = self._dropout or self._augmentation
        support = self.network_(particles, own_inputs, mixing=mixing) if is_disturbed else outputs
        support = shards.gather(support, len(labels))
        if self._has_fused_loss(outputs, support, batch):
            return self._evaluate_fused(outputs, batch)
        if batch.log_factor is None:
            # The examples of all processes: who is left out is told by the place.
            outputs = shards.gather(outputs, len(labels)) if is_disturbed else support
            if self._augmentation and self.input_weight_:
                moved = (queries[None] if is_one else queries).flatten(start_dim=2)
                moved = shards.gather(moved, len(labels)).reshape(len(moved), *inputs.shape)
                queries = moved[0] if is_one else moved
            else:
                queries = inputs
            log_masses = shards.own(self._left_out_log_masses(outputs, support, queries, batch), dim=1)
            log_correct, probabilities = self._compare_with_classes(log_masses, batch)
        else:
            log_kernel = self._log_latent_kernel(
                outputs, support, batch.data.teams.slices, batch.data.frequencies
            )
            log_kernel = log_kernel + batch.log_factor
            if self._augmentation and self.input_weight_:
                log_input = self._log_input_factor(queries, inputs)
                assert isinstance(log_input, Tensor)
                log_kernel = log_kernel + (log_input if is_one else log_input[kinds])
            log_correct, probabilities = self._compare_pairs(log_kernel, batch)
        loss = pnca_loss(log_correct, batch.learns)
        n_correct = (probabilities.mean(dim=0).argmax(dim=1) == shards.own(labels)).sum()
        return Evaluation(loss, loss.detach() / batch.n_answers, n_correct)

    def _has_fused_loss(self, outputs: Tensor, support: Tensor, batch: NeighbourBatch) -> bool:
        """Whether all that follows the embeddings can be had in a few kernels."""
        frequencies = batch.data.frequencies
        return (
            self.kernel == "orthogonal"
            and support is outputs
            and batch.data.teams.folds is None
            and frequencies is not None
            and accelerated.features.can_be_fused(outputs, frequencies, len(self.classes_))
        )

    def _evaluate_fused(self, outputs: Tensor, batch: NeighbourBatch) -> Evaluation:
        frequencies, log_factor = batch.data.frequencies, batch.log_factor
        assert frequencies is not None
        assert log_factor is not None
        background = self._background_among(len(batch.labels))
        loss, n_correct = accelerated.feature_loss(
            outputs, frequencies, batch.labels, log_factor, batch.learns, background, batch.data.log_prior
        )
        return Evaluation(loss, loss.detach() / batch.n_answers, n_correct)

    def _compare_pairs(self, log_kernel: Tensor, batch: NeighbourBatch) -> tuple[Tensor, Tensor]:
        """Log-probability of its class for each example (answers, n), and of all (some answers, n, c).

        Those are of the particles that see all examples: their accuracy is shown while they train.
        """
        labels, log_prior = batch.labels, batch.data.log_prior
        background = self._background_among(len(labels))
        own_labels = batch.data.shards.own(labels)
        shares, log_correct = shares_and_log_correct(log_kernel, labels, background, log_prior, own_labels)
        return log_correct, class_probabilities(shares[self._answers_of_all(batch.data)], labels, log_prior)

    def _compare_with_classes(self, log_masses: Tensor, batch: NeighbourBatch) -> tuple[Tensor, Tensor]:
        """The same from the masses of classes (answers, n, c); gradients of the first result alone count."""
        data, background = batch.data, self._background_among(len(batch.labels))
        log_probabilities = log_class_probabilities(log_masses, background, data.log_prior)
        chosen = data.shards.own(batch.labels)[:, None].expand(*log_probabilities.shape[:-1], 1)
        of_all = log_probabilities.detach()[self._answers_of_all(data)]
        return log_probabilities.gather(-1, chosen).squeeze(-1), of_all.exp()

    def _can_be_recorded(self, data: TrainingData) -> bool:
        n = self.n_samples_fit_ if self._batch_size is None else 2 * self._batch_size  # or somewhat less
        return super()._can_be_recorded(data) and not self._has_many(
            self._n_answers(data.teams), n, data.labels.device
        )

    def _n_answers(self, teams: Teams) -> int:
        return len(self._particles_of_answers(teams.n_total, teams.slices))

    def _left_out_log_masses(
        self, outputs: Tensor, support: Tensor, queries: Tensor, batch: NeighbourBatch
    ) -> Tensor:
        """Log mass (answers, n, c) of each class without the example itself, and without n x n kernels."""
        if self.kernel == "positive":
            assert batch.data.frequencies is not None
            return self._positive_log_masses(
                outputs, support, batch.labels, batch.shown, batch.data.frequencies, batch.data.teams.slices
            )
        log_weights = safe_log(batch.shown)

        def masses(rows: slice, answers: list[slice], factor: accelerated.InputFactor | None) -> Tensor:
            of_queries = outputs[rows]
            return accelerated.class_log_masses(
                of_queries,
                of_queries if support is outputs else support[rows],
                batch.labels,
                len(self.classes_),
                self.bandwidth_,
                answers,
                background=self._background_among(len(batch.labels)),
                log_weights=log_weights if log_weights.dim() == 1 else log_weights[rows],
                leave_one_out=True,
                groups=batch.groups,
                input_factor=factor,
            )

        if queries.dim() == batch.inputs.dim():
            answers = self._particles_of_answers(len(outputs), batch.data.teams.slices)
            return masses(slice(None), answers, self._input_factor(queries, batch.inputs))
        # Kinds of particles take turns, and each particle answers on its own.
        log_masses = outputs.new_empty(len(outputs), len(batch.labels), len(self.classes_))
        for kind, of_kind in enumerate(queries):
            rows = slice(kind, None, len(queries))
            answers = self._particles_of_answers(len(outputs[rows]), [])
            log_masses[rows] = masses(rows, answers, self._input_factor(of_kind, batch.inputs))
        return log_masses

    def _answers_of_all(self, data: NeighbourData) -> slice:
        """Answers of the particles that see all examples."""
        return data.teams.full if self.expectation == "shared" else slice(0, 1)

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
        """Log of what the distance between inputs (..., n_a, *) and (n_b, *) does to their kernel."""
        if not self.input_weight_:
            return 0.0
        n_before = a.dim() - b.dim()
        a, b = a.flatten(start_dim=n_before + 1), b.flatten(start_dim=1)
        return log_input_factor(a, b, self.input_scale_, self.input_weight_)

    def _frequencies(self, like: Tensor) -> Tensor | None:
        """Random directions, where the kernel has them."""
        name = {"orthogonal": "frequencies_", "positive": "directions_"}.get(self.kernel)
        if name is None:
            return None
        if not hasattr(self, name):
            raise InvalidInputError(f"kernel was set to {self.kernel!r} after the fit; fit again.")
        return torch.from_numpy(getattr(self, name)).to(like)

    def _log_latent_kernel(
        self, a: Tensor, b: Tensor, teams: list[slice], frequencies: Tensor | None
    ) -> Tensor:
        """Log kernel of the embeddings alone: one for each team of particles, or for each particle."""
        if self.kernel == "positive":
            return self._support(a).log_kernel(self._clouds(a, teams), self._clouds(b, teams))
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
        return safe_log(torch.from_numpy(self.class_weight_[self.support_labels_]).to(like))

    def _particles_of_answers(self, n_particles: int, teams: list[slice]) -> list[slice]:
        """Rows of the particles of each answer."""
        if self.expectation == "shared":
            return [slice(row, row + 1) for row in range(n_particles)]
        return teams

    def _has_many(self, n_answers: int, n_points: int, device: torch.device) -> bool:
        """Whether there are so many points that the kernel between them is not to be held in memory."""
        return self.kernel == "exact" and accelerated.is_worth_while(n_answers, n_points, device)

    def _input_factor(self, a: Tensor, b: Tensor) -> accelerated.InputFactor | None:
        """Inputs (n_a, ...) and (n_b, ...) whose distance shrinks their kernel, if it does."""
        if not self.input_weight_:
            return None
        of_a = a.flatten(start_dim=1)
        of_b = of_a if b is a else b.flatten(start_dim=1)
        return accelerated.InputFactor(of_a, of_b, self.input_scale_, self.input_weight_)

    def _log_masses(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Log kernel mass of each class: (answers, n, c)."""
        return self._log_masses_of_examples(outputs, inputs) + self._log_familiarity(inputs)[:, None]

    def _log_masses_of_examples(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        if self.kernel == "positive":
            return self._support(outputs).log_masses(self._clouds(outputs, [slice(None)]))
        labels = torch.from_numpy(self.support_labels_).to(outputs.device)
        answers = self._particles_of_answers(len(outputs), [slice(0, len(outputs))])
        if self._has_many(len(answers), len(labels), outputs.device):
            # Fused for float32 only, where it is exact to about a millionth.
            single = outputs.device.type == "cuda" and self.background_ > 0
            queries, inputs = (z.float() if single else z for z in (outputs, inputs))
            support = torch.from_numpy(self.support_inputs_).to(inputs) if self.input_weight_ else inputs
            return accelerated.class_log_masses(
                queries,
                torch.from_numpy(self.support_embeddings_).to(queries),
                labels,
                len(self.classes_),
                self.bandwidth_,
                answers,
                background=self.background_,
                log_weights=self._log_weights(queries),
                input_factor=self._input_factor(inputs, support),
            ).to(outputs)
        log_kernel = self._log_kernel_to_support(outputs, inputs)
        return class_log_masses(log_kernel, labels, len(self.classes_), self._log_weights(outputs))

    @property
    def _numbers_per_row(self) -> int:
        if self.kernel == "positive" and hasattr(self, "directions_"):
            return max(super()._numbers_per_row, len(self.particles_) * int(self.directions_.shape[1]))
        # With shared particles, a kernel to every example in each, unless that is never held in memory.
        m, n = len(self.particles_), self.n_samples_fit_
        is_held = self.expectation == "shared" and not self._has_many(m, n, resolve_device(self.device))
        return max(super()._numbers_per_row, m * n if is_held else 0)

    def _outputs_to_compare(self, inputs: NDArray[np.float32]) -> Iterator[tuple[Tensor, Tensor]]:
        """Like ``_outputs``, in chunks that can be compared with every example."""
        n_rows = max(1, PREDICTION_NUMBERS // (len(self.particles_) * self.n_samples_fit_))
        for outputs, chunk in self._outputs(inputs):
            yield from zip(torch.split(outputs, n_rows, dim=1), torch.split(chunk, n_rows), strict=True)

    def _check_k(self, k: int | None) -> int:
        n = len(self.support_labels_)
        if k is not None and not (isinstance(k, Integral) and 1 <= k <= n):
            raise InvalidInputError(
                f"k must be a whole number from 1 to {n}, the training examples; got {k!r}."
            )
        return n if k is None else int(k)


def _join(chunks: list[Tensor], dim: int = 0) -> FloatArray:
    return torch.cat(chunks, dim=dim).cpu().double().numpy()
