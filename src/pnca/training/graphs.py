"""Training steps captured as CUDA graphs and replayed."""

import threading
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pnca.training.loop import SideStream, Step

#: Keys and batch sizes of steps that were taken eagerly on a GPU.
_TAKEN: set[Hashable] = set()


class Graph(Protocol):
    """Captured work."""

    def replay(self) -> None:
        """Do the captured work."""
        ...


class Graphs(SideStream, Protocol):
    """Captures work, and has a stream beside the main one."""

    def capture(self, work: Callable[[], None]) -> Graph:
        """Capture what a function does, without doing it."""
        ...


class CapturedStep:
    """A step that is captured the second time that it is taken, and replayed from then on.

    The hundred small operations of a step then start without Python between them. A graph reads the indices
    of its batch from a buffer, into which those of the next batch are copied; each batch size has a graph of
    its own. A batch that is repeated is prepared once, outside of the graph. The key is equal for steps of
    the same operations on the same shapes, and for no others: if this thread has taken such a step in another
    fit, even the first is captured.
    """

    def __init__(self, step: Step, graphs: Graphs, key: Hashable) -> None:
        self.step, self.graphs, self.sums = step, graphs, step.sums
        step.side = graphs
        self._key = key, threading.get_ident()  # libraries initialise themselves in each thread
        self._of_size: dict[int, tuple[Graph, Tensor]] = {}
        self._met: set[int] = set()
        self._last: np.ndarray | None = None
        self._batch: Any = None
        self._of_repeated: Graph | None = None

    def take(self, indices: np.ndarray) -> None:
        """Take one step."""
        n, is_repeated = len(indices), self._last is not None and np.array_equal(self._last, indices)
        self._last = indices
        if not is_repeated:
            self._of_repeated = None
            if n in self._met:
                self._replay_with(indices)
                return
            self._met.add(n)
            self._batch = self.step.objective.prepare(self._on_device(indices))
            if (self._key, n) not in _TAKEN:
                # Eagerly: what torch initialises in a first step must not become a part of the graph.
                self.step.move(self._batch, n)
                _TAKEN.add((self._key, n))
                return
        if self._of_repeated is None:
            self._of_repeated = self.graphs.capture(lambda: self.step.move(self._batch, n))
        self._of_repeated.replay()

    def _replay_with(self, indices: np.ndarray) -> None:
        """Take a step with another batch of a size that was met before."""
        n = len(indices)
        if n not in self._of_size:
            buffer = self._on_device(indices).clone()
            graph = self.graphs.capture(lambda: self.step.move(self.step.objective.prepare(buffer), n))
            self._of_size[n] = graph, buffer
        graph, buffer = self._of_size[n]
        buffer.copy_(self._on_device(indices))
        graph.replay()
        self._last = None  # the prepared batch belongs to the graph; a repetition is prepared anew

    def _on_device(self, indices: np.ndarray) -> Tensor:
        return torch.as_tensor(indices, device=self.step.particles.device)


class CudaGraphs:
    """Captures on a CUDA GPU, with all graphs in one memory pool.

    The captured work may draw from ``generator``, besides torch's global one.
    """

    def __init__(self, device: torch.device, generator: torch.Generator | None) -> None:
        self.device, self.generator = device, generator
        # Graphs are replayed one after the other: they may all work in the same memory.
        self._pool = torch.cuda.graph_pool_handle()
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._latest: torch.cuda.CUDAGraph | None = None

    def capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Capture what a function does on the GPU, without doing it."""
        # Not by torch.cuda.graph, which first gives all free memory back to the driver.
        graph = torch.cuda.CUDAGraph()
        if self.generator is not None:
            graph.register_generator_state(self.generator)  # each replay draws on from where the last ended
        torch.cuda.synchronize(self.device)
        with torch.cuda.stream(torch.cuda.Stream(self.device)):  # type: ignore[no-untyped-call]
            graph.capture_begin(pool=self._pool)
            try:
                work()
            finally:
                graph.capture_end()
        # Kept until the next one exists: the pool is freed together with its last graph.
        self._latest = graph
        return graph

    def beside(self) -> AbstractContextManager[Any]:
        """Issue the work of a block on a second stream."""
        self._side.wait_stream(torch.cuda.current_stream(self.device))
        return torch.cuda.stream(self._side)

    def join(self) -> None:
        """Wait for the second stream."""
        torch.cuda.current_stream(self.device).wait_stream(self._side)
