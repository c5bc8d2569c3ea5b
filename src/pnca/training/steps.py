"""One step of the training: evaluate a batch, and move the particles."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pnca.maths.stein import Mixing
from pnca.training.optimisers import Optimiser
from pnca.training.shards import ONE_PROCESS, Shards


class Evaluation(NamedTuple):
    """What a model says of one batch, or of this process's share of it: shares add up to the whole."""

    total_loss: Tensor  # (), descended
    mean_loss: Tensor  # (), per example, for the history
    n_correct: Tensor  # (), examples classified correctly


#: From the indices of a batch to what its evaluation needs besides the particles.
Prepare = Callable[[Tensor], Any]
#: From particles (m, p), a prepared batch and a matrix (m, m) that mixes gradients to the batch's evaluation.
Evaluate = Callable[[Tensor, Any, Tensor | None], Evaluation]
#: From particles (m, p) to how they and the gradients of the loss are mixed into the direction to descend.
Mix = Callable[[Tensor], Mixing]


class Step:
    """Evaluates batches and moves the particles.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        They are changed at every step.
    prepare, evaluate, mix : callable
        See :func:`pnca.training.loop.train`.
    optimiser : Optimiser
        Of these particles.
    shards : Shards
        Processes that share each batch.
    """

    def __init__(
        self,
        particles: Tensor,
        prepare: Prepare,
        evaluate: Evaluate,
        mix: Mix,
        optimiser: Optimiser,
        shards: Shards = ONE_PROCESS,
    ) -> None:
        self.particles, self.optimiser, self.shards = particles, optimiser, shards
        self.prepare, self.evaluate, self.mix = prepare, evaluate, mix
        # Summed on the device: reading a number out would make a GPU wait at every step.
        self.sums = torch.zeros(2, device=particles.device)  # loss, correct examples
        self._last: np.ndarray | None = None
        self._batch: Any = None

    def epoch(self, batches: Iterable[np.ndarray]) -> Tensor:
        """Pass over the data once.

        Parameters
        ----------
        batches : iterable of arrays of indices
            Each example once.

        Returns
        -------
        Tensor of shape (2,)
            Mean loss and share of correct examples seen on the way.
        """
        self.sums.zero_()
        n_seen = 0
        for indices in batches:
            self.take(indices)
            n_seen += len(indices)
        return self.shards.sum_(self.sums) / n_seen

    def take(self, indices: np.ndarray) -> None:
        """Take one step."""
        if not self._is_repeated(indices):
            self._batch = self.prepare(self._on_device(indices))
        self._move(self._batch, len(indices))

    def _is_repeated(self, indices: np.ndarray) -> bool:
        is_repeated = self._last is not None and np.array_equal(self._last, indices)
        self._last = indices
        return is_repeated

    def _on_device(self, indices: np.ndarray) -> Tensor:
        return torch.as_tensor(indices, device=self.particles.device)

    def _move(self, batch: Any, n: int) -> None:  # noqa: ANN401
        with torch.no_grad():
            mixing = self.mix(self.particles)
        total_loss, mean_loss, n_correct = self.evaluate(self.particles, batch, mixing.of_gradients)
        (direction,) = torch.autograd.grad(total_loss, self.particles)
        direction = self.shards.sum_(direction.contiguous())
        with torch.no_grad():
            if mixing.of_particles is not None:
                direction.addmm_(mixing.of_particles, self.particles)
            self.optimiser.step(direction)
            self.sums += torch.stack([mean_loss.detach() * n, n_correct.to(mean_loss)])


class RecordedStep(Step):
    """A step on a CUDA GPU that is recorded at its second time, and played from then on.

    The hundred small operations of a step then start without Python between them. Batches that differ
    are copied into one place, from which the recording reads; each size has a recording of its own.
    """

    def __init__(
        self,
        particles: Tensor,
        prepare: Prepare,
        evaluate: Evaluate,
        mix: Mix,
        optimiser: Optimiser,
    ) -> None:
        super().__init__(particles, prepare, evaluate, mix, optimiser)
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._of_repeated: torch.cuda.CUDAGraph | None = None
        self._seen: set[int] = set()
        # Recordings are played one after the other: they may all work in the same memory.
        self._memory = torch.cuda.graph_pool_handle()

    def take(self, indices: np.ndarray) -> None:
        """Take one step."""
        if self._is_repeated(indices):
            if self._of_repeated is None:
                batch, n = self._batch, len(indices)
                self._of_repeated = _record(lambda: self._move(batch, n), self._memory)
            self._of_repeated.replay()
            return
        self._of_repeated = None
        n = len(indices)
        if n not in self._seen:
            # Not recorded: what torch sets up at a first time must not become a part of it.
            self._seen.add(n)
            self._batch = self.prepare(self._on_device(indices))
            self._move(self._batch, n)
            return
        if n not in self._graphs:
            place = self._on_device(indices).clone()
            self._graphs[n] = _record(lambda: self._move(self.prepare(place), n), self._memory), place
        graph, place = self._graphs[n]
        place.copy_(self._on_device(indices))
        graph.replay()
        self._last = None  # the batch is the recording's; a repetition is prepared anew


def _record(work: Callable[[], None], memory: Any) -> torch.cuda.CUDAGraph:  # noqa: ANN401
    """Record what a function does on the GPU, without doing it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=memory):
        work()
    return graph
