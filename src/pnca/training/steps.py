"""One step of the training: evaluate a batch, and move the particles."""

import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pnca.maths.stein import Mixing
from pnca.training.optimisers import Optimiser
from pnca.training.shards import ONE_PROCESS, Shards

#: Kinds and sizes of steps on a GPU that have been taken.
_TAKEN: set[Hashable] = set()


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

    def epoch(self, batches: Iterable[np.ndarray], means: Tensor) -> None:
        """Pass over the data once.

        Parameters
        ----------
        batches : iterable of arrays of indices
            Each example once.
        means : Tensor of shape (2,)
            Where the mean loss and the share of correct examples go that were seen on the way.
        """
        self.sums.zero_()
        n_seen = 0
        for indices in batches:
            self.take(indices)
            n_seen += len(indices)
        torch.div(self.shards.sum_(self.sums), n_seen, out=means)

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
        with torch.no_grad(), self._beside():
            mixing = self.mix(self.particles)
        # Gradients are mixed in the backward pass, or by the optimiser.
        in_backward, in_step = mixing.split(self.optimiser.mixes_gradients)
        total_loss, mean_loss, n_correct = self.evaluate(self.particles, batch, in_backward)
        self._join()
        (gradients,) = torch.autograd.grad(total_loss, self.particles)
        gradients = self.shards.sum_(gradients.contiguous())
        with torch.no_grad():
            self.optimiser.step(gradients, in_step)
            of_loss, of_correct = self.sums.unbind()
            of_loss.add_(mean_loss, alpha=n)
            of_correct.add_(n_correct)

    def _beside(self) -> AbstractContextManager[Any]:
        """Where work is done that nothing needs before the gradients."""
        return nullcontext()

    def _join(self) -> None:
        """Wait for that work."""


class RecordedStep(Step):
    """A step on a CUDA GPU that is recorded at its second time, and played from then on.

    The hundred small operations of a step then start without Python between them. Batches that differ
    are copied into one place, from which the recording reads; each size has a recording of its own.

    Parameters
    ----------
    particles, prepare, evaluate, mix, optimiser
        See :class:`Step`.
    kind : hashable
        What decides which operations the step has. A step of a kind that this thread has taken before, in
        another fit, is recorded at its first time.
    """

    def __init__(
        self,
        particles: Tensor,
        prepare: Prepare,
        evaluate: Evaluate,
        mix: Mix,
        optimiser: Optimiser,
        kind: Hashable,
    ) -> None:
        super().__init__(particles, prepare, evaluate, mix, optimiser)
        self._kind = kind, threading.get_ident()  # libraries set themselves up in each thread
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._of_repeated: torch.cuda.CUDAGraph | None = None
        self._met: set[int] = set()
        self._latest: torch.cuda.CUDAGraph | None = None
        # Recordings are played one after the other: they may all work in the same memory.
        self._memory = torch.cuda.graph_pool_handle()
        self._side = torch.cuda.Stream(particles.device)  # type: ignore[no-untyped-call]

    def take(self, indices: np.ndarray) -> None:
        """Take one step."""
        n = len(indices)
        if not self._is_repeated(indices):
            self._of_repeated = None
            if n in self._met:
                self._take_another(indices)
                return
            self._met.add(n)
            self._batch = self.prepare(self._on_device(indices))
            if (self._kind, n) not in _TAKEN:
                # Not recorded: what torch sets up at a first time must not become a part of it.
                self._move(self._batch, n)
                _TAKEN.add((self._kind, n))
                return
        if self._of_repeated is None:
            self._of_repeated = self._record(lambda: self._move(self._batch, n))
        self._of_repeated.replay()

    def _take_another(self, indices: np.ndarray) -> None:
        """Take a step with a batch of a size that has been met."""
        n = len(indices)
        if n not in self._graphs:
            place = self._on_device(indices).clone()
            self._graphs[n] = self._record(lambda: self._move(self.prepare(place), n)), place
        graph, place = self._graphs[n]
        place.copy_(self._on_device(indices))
        graph.replay()
        self._last = None  # the batch is the recording's; a repetition is prepared anew

    def _record(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        # Held until the next one is there: with its last recording, the memory they share would go.
        self._latest = _record(work, self._memory, self.particles.device)
        return self._latest

    def _beside(self) -> AbstractContextManager[Any]:
        self._side.wait_stream(torch.cuda.current_stream(self.particles.device))
        return torch.cuda.stream(self._side)

    def _join(self) -> None:
        torch.cuda.current_stream(self.particles.device).wait_stream(self._side)


def _record(work: Callable[[], None], memory: Any, device: torch.device) -> torch.cuda.CUDAGraph:  # noqa: ANN401
    """Record what a function does on the GPU, without doing it."""
    # Not by torch.cuda.graph, which first gives all free memory back to the driver.
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize(device)
    with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
        graph.capture_begin(pool=memory)
        try:
            work()
        finally:
            graph.capture_end()
    return graph
