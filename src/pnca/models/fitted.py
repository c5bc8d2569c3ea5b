"""A fitted model: frozen arrays, all that a prediction needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.columns import Columns
from pnca.exceptions import InvalidInputError
from pnca.maths.inputs import Novelty, Scaler
from pnca.maths.neighbours import is_isolated, log_class_probabilities, log_mean, log_neighbour_shares
from pnca.maths.pool import Answers, heard
from pnca.maths.uncertainty import split_entropy
from pnca.models.kernels import Kernel, Support, log_pairs_to_support
from pnca.models.pool import Pool
from pnca.networks import ParticleNetwork

FloatArray = NDArray[np.float64]

#: Rows that pass through the networks at once in prediction, and numbers these take, whichever is less.
#: They bound memory; results do not depend on them.
PREDICTION_ROWS, PREDICTION_NUMBERS = 1024, 2**24
#: Examples that are enough to see whether most are isolated.
_SOME = 300


def resolve_device(name: str) -> torch.device:
    """Turn a user's ``device`` into a torch device that works on this machine.

    Parameters
    ----------
    name : str
        ``"auto"`` (a CUDA GPU if there is one, else the CPU) or any torch device name.

    Returns
    -------
    torch.device

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # not all that torch knows can hold a number
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).split("\n", maxsplit=1)[0].rstrip(".")
        raise InvalidInputError(
            f"device={name!r} cannot be used here ({reason}); use 'auto' or 'cpu'."
        ) from error
    return device


class Reader(Protocol):
    """How network outputs become probabilities."""

    def answers(self, outputs: Tensor, inputs: Tensor, unseen: Tensor | None = None) -> Answers:
        """What each member says, whose mean is predicted.

        ``outputs`` (m, n, d) are those of all particles for scaled inputs (n, ...), and ``unseen`` (n,) the
        values in each that no training example had, if that is known.
        """
        ...

    def numbers_per_row(self, device: torch.device) -> int:
        """Numbers that one query takes beside its inputs and outputs."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """What a fit leads to: all that a prediction needs."""

    classes: NDArray[Any]  # (c,), in the order of the probabilities
    input_shape: tuple[int, ...]  # of one input as it was given
    network: ParticleNetwork  # the architecture
    particles: Tensor  # (m, p), float32, its trained parameters
    scaler: Scaler | None  # what is done to inputs first
    reader: Any  # how outputs become probabilities: a Reader
    columns: Columns | None = None  # how rows of a table become rows of numbers; None for images and modules

    def log_probabilities(self, inputs: NDArray[np.floating[Any]], device: str) -> FloatArray:
        """Log class probabilities (n, c) of inputs (n, ...), averaged over the members."""
        answers = self.reader.answers
        mean = self.over(inputs, device, lambda z, x, unseen: answers(z, x, unseen).mean().cpu())
        # Normalised once more in float64, so that rows sum to one whatever the network's precision.
        return mean.double().log_softmax(dim=1).numpy()

    def entropy(self, inputs: NDArray[np.floating[Any]], device: str) -> tuple[FloatArray, ...]:
        """Total, aleatoric and epistemic entropy (n,) of the predictions."""
        answers = self.reader.answers

        def split(outputs: Tensor, chunk: Tensor, unseen: Tensor | None) -> Tensor:
            return torch.stack(split_entropy(answers(outputs, chunk, unseen)), dim=1)

        return tuple(part.numpy() for part in self.over(inputs, device, split).cpu().unbind(dim=1))

    def log_evidence(self, inputs: NDArray[np.floating[Any]], device: str) -> FloatArray:
        """Log kernel mass (n,) of inputs, averaged over the members; of neighbour models."""
        log_masses = self.reader.log_masses

        def of_all(outputs: Tensor, chunk: Tensor, unseen: Tensor | None) -> Tensor:
            return log_mean(log_masses(outputs, chunk, unseen).logsumexp(dim=-1))

        return self.over(inputs, device, of_all).cpu().double().numpy()

    def embed(self, inputs: NDArray[np.floating[Any]], device: str) -> FloatArray:
        """Outputs (m, n, d) of all particles."""
        chunks = [outputs for outputs, *_ in self._outputs(inputs, device)]
        return torch.cat(chunks, dim=1).cpu().double().numpy()

    def neighbours(
        self, inputs: NDArray[np.floating[Any]], device: str, k: int
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Training examples (n, k) with the largest shares in the mass of each input, and those shares."""
        indices, shares = [], []
        for outputs, chunk, unseen in self.pieces(inputs, device):
            log_shares = self.reader.log_shares(outputs, chunk, unseen)
            largest = log_shares.sort(dim=1, descending=True, stable=True)
            indices.append(largest.indices[:, :k])
            shares.append(largest.values[:, :k].exp())
        return torch.cat(indices).cpu().numpy(), torch.cat(shares).cpu().double().numpy()

    def pieces(
        self, inputs: NDArray[np.floating[Any]], device: str
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Outputs, scaled inputs and unseen values, of so few rows that all pairs can be held."""
        m, n_train = self.reader.support.embeddings.shape[:2]
        n_rows = max(1, PREDICTION_NUMBERS // (m * n_train))
        for outputs, chunk, unseen in self._outputs(inputs, device):
            for start in range(0, len(chunk), n_rows):
                rows = slice(start, start + n_rows)
                yield outputs[:, rows], chunk[rows], None if unseen is None else unseen[rows]

    def comparable_columns(
        self, inputs: NDArray[np.floating[Any]]
    ) -> tuple[FloatArray, FloatArray, list[Any]] | str:
        """Scaled training inputs (n, q), these likewise, and the names of columns; or why there are none."""
        kept = getattr(getattr(self.reader, "support", None), "inputs", None)
        if kept is None:
            return "Columns are not compared: the model keeps no training inputs (input_weight is zero)."
        if self.columns is None:
            return "Columns are not compared: inputs are images, or a module takes them."
        names = [column.name for column in self.columns.parts for _ in range(column.n_places)]
        rows = torch.from_numpy(np.ascontiguousarray(inputs[:, : len(names)]))
        scaled = rows.float() if self.scaler is None else self.scaler.apply(rows)
        return kept.double().numpy(), scaled.float().double().numpy(), names

    def over(
        self,
        inputs: NDArray[np.floating[Any]],
        device: str,
        function: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    ) -> Tensor:
        """Apply a function of outputs, scaled inputs and unseen values to all inputs, a chunk at a time."""
        return torch.cat([function(*chunk) for chunk in self._outputs(inputs, device)])

    def _outputs(
        self, inputs: NDArray[np.floating[Any]], device: str
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        where, unseen, start = resolve_device(device), None, 0
        if inputs.ndim == 2 and inputs.shape[1] > math.prod(self.input_shape):  # the last column counts them
            unseen, inputs = torch.from_numpy(inputs[:, -1].copy()), np.ascontiguousarray(inputs[:, :-1])
        numbers = self.reader.numbers_per_row(where)
        for outputs, chunk in run_network(self.network, self.particles, inputs, where, self.scaler, numbers):
            own = slice(start, start + len(chunk))
            yield outputs, chunk, None if unseen is None else unseen[own].to(chunk)
            start = own.stop


@torch.no_grad()
def run_network(
    network: ParticleNetwork,
    particles: Tensor,
    inputs: NDArray[np.floating[Any]],
    device: torch.device,
    scaler: Scaler | None = None,
    numbers_per_row: int = 0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs (m, chunk, d) of particles (m, p) and their scaled inputs, in chunks that fit into memory."""
    has_float64 = device.type != "mps"
    precise, where = (torch.float64, device) if has_float64 else (torch.float32, torch.device("cpu"))
    dtype = network.prediction_dtype if has_float64 else torch.float32
    # There first, and then to the precision: fewer bytes travel.
    particles = particles.to(device).to(dtype)
    numbers = max(len(particles) * math.prod(inputs.shape[1:]), numbers_per_row)
    n_rows = max(1, min(PREDICTION_ROWS, PREDICTION_NUMBERS // numbers))
    for start in range(0, len(inputs), n_rows):
        chunk = torch.from_numpy(inputs[start : start + n_rows]).to(where)
        # In float32, as the training examples are: an input that is one of them has no distance to it.
        chunk = (chunk.float() if scaler is None else scaler.apply(chunk)).to(device, dtype)
        with torch.autocast(device.type, enabled=False):
            outputs = network(particles, chunk)
        if not (finite := outputs.isfinite().all(dim=2).all(dim=0)).all():
            raise InvalidInputError(
                f"The network's outputs for the input in row {start + int(finite.int().argmin())} are not "
                "finite: its numbers are too large for the network."
            )
        # Distances are squared, which what a module gives in float32 may not survive.
        yield outputs.to(precise), chunk.to(precise)


@dataclass(frozen=True)
class SoftmaxReader:
    """Predicts the softmax of each particle's outputs."""

    def answers(self, outputs: Tensor, inputs: Tensor, unseen: Tensor | None = None) -> Answers:
        """Log class probabilities (m, n, c) from outputs (m, n, c)."""
        return Answers(outputs.log_softmax(dim=2))

    def numbers_per_row(self, device: torch.device) -> int:
        """Numbers that one query takes beside its outputs."""
        return 0


@dataclass(frozen=True, eq=False)
class NeighbourReader:
    """Predicts by the share of kernel mass that each class gives an embedded input; a pool adds experts."""

    kernel: Kernel  # at the bandwidth of predictions
    support: Support  # the training examples, the background mass, the factor of the inputs
    prior: Tensor  # (c,), weighted class shares, by which the background is split
    novelty: Novelty | None  # factor of the mass by the novelty of an input
    pool: Pool | None = None  # experts that are heard beside the neighbours

    def log_masses(self, outputs: Tensor, inputs: Tensor, unseen: Tensor | None = None) -> Tensor:
        """Log mass (members, n, c) that each class gives embeddings (m, n, d) of scaled inputs (n, ...)."""
        log_masses = self.kernel.log_masses(outputs, inputs, self.support)
        if self.novelty is not None:
            log_masses = log_masses + self.novelty.log(inputs)[:, None]
        log_say = self.log_say(unseen)
        return log_masses if log_say is None else log_masses + log_say[:, None]

    def answers(self, outputs: Tensor, inputs: Tensor, unseen: Tensor | None = None) -> Answers:
        """Log class probabilities of the particles (members, n, c), and of the experts."""
        log_prior = self.prior.to(outputs).log()
        log_masses = self.log_masses(outputs, inputs)
        answers = Answers(log_class_probabilities(log_masses, self.support.background, log_prior))
        if self.pool is not None:
            answers = self.pool.answers(answers, inputs, log_prior)
        log_say = self.log_say(unseen)
        return answers if log_say is None else heard(answers, log_say, log_prior)

    def log_shares(self, outputs: Tensor, inputs: Tensor, unseen: Tensor | None = None) -> Tensor:
        """Log share (n, n_train) of each training example in the probability of its class."""
        log_kernel = log_pairs_to_support(self.kernel, outputs, inputs, self.support)
        if self.novelty is not None:
            log_kernel = log_kernel + self.novelty.log(inputs)[:, None]
        log_weights = self.support.log_weights(outputs)
        log_shares = log_mean(log_neighbour_shares(log_kernel, self.support.background, log_weights))
        if self.pool is not None:
            log_shares = self.pool.log_shares(log_shares, inputs)
        log_say = self.log_say(unseen)
        return log_shares if log_say is None else log_shares + log_say[:, None]

    def log_say(self, unseen: Tensor | None) -> Tensor | None:
        """With novelty, each value that was never seen takes half of the say, and of the evidence."""
        return None if unseen is None or self.novelty is None else -math.log(2) * unseen

    def numbers_per_row(self, device: torch.device) -> int:
        """Numbers that one query takes beside those of its embedding."""
        of_pool = 0 if self.pool is None else self.pool.numbers_per_row
        return max(of_pool, self._numbers_per_row(device))

    def _numbers_per_row(self, device: torch.device) -> int:
        m, n, _ = self.support.embeddings.shape
        if self.support.features is not None:
            return m * self.support.features.log_sums.shape[-1]
        # With shared particles, a kernel to every example in each, unless that is never held in memory.
        return m * n if self.kernel.is_shared and self.kernel.holds_pairs(m, n, device) else 0

    def isolated_share(self) -> float:
        """Share of some training examples that get less mass from the others than the background has.

        Where kernel mass underflows there is no gradient, and the background alone decides.
        """
        support, n = self.support, len(self.support.labels)
        step = -(-n // _SOME)
        some = support.embeddings[:, ::step]
        log_kernel = self.kernel.log_pairs(some, some, [slice(None)], support)
        if support.input_factor is not None and support.inputs is not None:
            x = support.inputs[::step].double()
            log_kernel = log_kernel + support.input_factor.log(x, x)
        isolated = is_isolated(log_kernel, support.background * some.shape[1] / n)
        return float(isolated.double().mean())


def attributes_of(fitted: Fitted) -> dict[str, Any]:
    """Views of a fitted model as plain numbers and arrays, by the names that estimators give them."""
    found: dict[str, Any] = {
        "classes_": fitted.classes,
        "input_shape_": fitted.input_shape,
        "network_": fitted.network,
        "particles_": fitted.particles.numpy(),
    }
    if fitted.columns is not None:
        found["columns_"] = fitted.columns.parts
    if (scaler := fitted.scaler) is not None:
        found |= {"input_centre_": scaler.centre.numpy(), "input_spread_": scaler.spread.numpy()}
    return found | (_of_neighbours(fitted.reader) if isinstance(fitted.reader, NeighbourReader) else {})


def _of_neighbours(reader: NeighbourReader) -> dict[str, Any]:
    """Attributes of neighbour models."""
    kernel, support, factor, novelty = (
        reader.kernel,
        reader.support,
        reader.support.input_factor,
        reader.novelty,
    )
    tensors = {
        "class_prior_": reader.prior,
        "support_labels_": support.labels,
        "support_embeddings_": support.embeddings,
        "support_inputs_": support.inputs,
        "frequencies_": getattr(kernel, "frequencies", None),
        "directions_": getattr(kernel, "directions", None),
    }
    numbers = {"bandwidth_": kernel.bandwidth, "background_": support.background, "input_weight_": 0.0}
    if factor is not None:
        numbers |= {"input_weight_": factor.weight, "input_scale_": factor.scale}
    if support.features is not None:
        places, tensors["class_features_"] = support.features
        tensors |= {"places_": places.points, "place_scales_": places.log_scales}
    if novelty is not None:
        tensors["input_mean_"], tensors["input_directions_"], numbers["input_noise_"] = novelty.plane
        numbers |= {"typical_log_residual_": novelty.typical, "log_residual_spread_": novelty.spread}
        numbers["novelty_depth_"] = novelty.depth
    of_pool = {} if reader.pool is None else reader.pool.attributes()
    return numbers | of_pool | {name: t.numpy() for name, t in tensors.items() if t is not None}
