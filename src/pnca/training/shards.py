"""A fit shared by the ranks of a process group: the rows that a rank computes, and what the ranks exchange.

Every rank embeds its shard of a batch, gathers the embeddings of all ranks, computes the loss of its own
rows, and sums the gradients over the ranks. A fit in one process uses none of this.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from pnca.exceptions import InvalidInputError

#: Longest text one rank sends the others, in bytes.
_TEXT_BYTES = 4096


class Shards:
    """A group of one process, in which nothing is exchanged; see :class:`ProcessShards` for more.

    Attributes
    ----------
    rank : int
        Rank of this process, from zero.
    size : int
        World size.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this rank prints and writes files for all."""
        return self.rank == 0

    def stack(self, tensor: Tensor) -> Tensor:
        """Gather tensors (...) of all ranks: (size, ...)."""
        return tensor[None]

    def exchange(self, text: str) -> list[str]:
        """Gather a text of each rank, at most 4096 bytes of it, in the order of the ranks."""
        return [text]

    def broadcast(self, content: bytes | None) -> bytes | None:
        """Send rank 0's bytes to every rank."""
        return content

    @contextmanager
    def together(self, describe: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Run the block on all ranks; all fail if one does, or if they differ in what they do.

        Parameters
        ----------
        describe : callable
            Called after the block; returns short values by name, which must be equal on all ranks.
        """
        yield


class ProcessShards(Shards):
    """The ranks of a process group of ``torch.distributed``.

    Shards are of ceil(n / size) consecutive rows; the last may be smaller, or empty.

    Parameters
    ----------
    group : ProcessGroup, optional
        All processes by default.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        # A group of NCCL alone, which a user may have made, carries nothing that lies on the CPU.
        is_nccl = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda" if is_nccl else "cpu")

    def own(self, rows: Tensor, dim: int = 0) -> Tensor:
        """Shard of this rank, which may be empty, of the rows along a dimension."""
        own = self.rows(rows.shape[dim])
        return rows.narrow(dim, own.start, own.stop - own.start)

    def rows(self, n: int) -> slice:
        """Rows of this rank's shard, which may be empty, among n."""
        length = self._shard_length(n)
        start = min(self.rank * length, n)
        return slice(start, min(start + length, n))

    def _shard_length(self, n: int) -> int:
        return -(-n // self.size)

    def gather(self, own: Tensor, n: int) -> Tensor:
        """Gather shards (m, n_own, d) of embeddings: (m, n, d); gradients are summed over the ranks."""
        gathered: Tensor = _Gather.apply(own, n, self)  # type: ignore[no-untyped-call]
        return gathered

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over the ranks, in place."""
        dist.all_reduce(tensor, group=self.group)
        return tensor

    def follow_(self, tensor: Tensor) -> Tensor:
        """Overwrite a tensor with rank 0's values, in place."""
        # The source is a global rank, whatever the group.
        source = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        place = tensor if tensor.is_cuda else tensor.to(self.device)
        dist.broadcast(place, source, group=self.group)
        return tensor if place is tensor else tensor.copy_(place)

    def stack(self, tensor: Tensor) -> Tensor:
        """Gather tensors (...) of all ranks: (size, ...)."""
        own = tensor if tensor.is_cuda else tensor.to(self.device)
        stacked = own.new_empty(self.size * own.numel())
        dist.all_gather_into_tensor(stacked, own.contiguous().flatten(), group=self.group)
        return stacked.view(self.size, *tensor.shape).to(tensor.device)

    def exchange(self, text: str) -> list[str]:
        """Gather a text of each rank; see :class:`Shards`."""
        # Bytes, and not torch's exchange of objects, which are pickles.
        padded = text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES)
        texts = self.stack(torch.tensor(list(padded), dtype=torch.uint8, device=self.device))
        return [bytes(row.tolist()).decode(errors="ignore").rstrip() for row in texts]

    def broadcast(self, content: bytes | None) -> bytes | None:
        """Send rank 0's bytes to every rank."""
        length = -1 if content is None else len(content)
        length = int(self.follow_(torch.tensor([length], device=self.device)))
        if length < 0:
            return None
        received = torch.empty(length, dtype=torch.uint8)
        if self.is_first and content is not None:
            received = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return self.follow_(received.to(self.device)).cpu().numpy().tobytes()

    def seed(self, common: int) -> int:
        """Seed of this rank's generator: the common one on rank 0, far from any fit's on the others."""
        return common + (self.rank << 40)

    @contextmanager
    def together(self, describe: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Run the block on all ranks, and let all fail if one does; see :class:`Shards`."""
        try:
            yield
            told = "\n".join(f"{name}={value}" for name, value in describe().items())
        except Exception as error:
            self.exchange(f"!{type(error).__name__}: {error}")
            raise
        texts = self.exchange(told)
        for rank, text in enumerate(texts):
            if text.startswith("!"):
                raise InvalidInputError(f"Process {rank} could not begin this fit: {text[1:]}")
        if different := _different(texts):
            raise InvalidInputError(
                f"The {self.size} processes are not at the same fit; they differ in {', '.join(different)}. "
                "Each must call fit with all examples, in the same order, and with the same parameters: the "
                "rows are shared out inside."
            )

    @contextmanager
    def interruptible(self, particles: Tensor) -> Iterator[Callable[[], None]]:
        """Let Ctrl-C in one rank end the training of particles (m, p) in all, after the same epoch.

        The block calls what is yielded after every epoch; afterwards the particles are those of rank 0.
        """
        # The other ranks would wait forever for the rows of one that left its epoch half way.
        signals: list[int] = []

        def remember(number: int, frame: FrameType | None) -> None:
            signals.append(number)

        def check() -> None:
            # A signal that arrives from here on counts in the next check: all ranks must see the same sum.
            requested = torch.tensor([float(bool(signals))], device=self.device)
            if self.sum_(requested).item() > 0:
                raise KeyboardInterrupt

        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, remember) if is_main else None
        was_interrupted = False
        try:
            try:
                yield check
            except KeyboardInterrupt:
                was_interrupted = True
            self.follow_(particles.detach())
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)
        if was_interrupted or signals:  # after the last check one ends this rank alone
            raise KeyboardInterrupt


class _Gather(torch.autograd.Function):
    """All-gather of shards, whose gradient is a reduce-scatter."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, n: int, shards: ProcessShards) -> Tensor:  # noqa: ANN401
        ctx.n_own, ctx.shards = own.shape[1], shards
        m, n_own, d = own.shape
        # Rows first, so that shards are contiguous and all padding is at the end.
        padded = own.new_zeros(shards._shard_length(n), m, d)
        padded[:n_own] = own.transpose(0, 1)
        return shards.stack(padded).flatten(0, 1)[:n].transpose(0, 1).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        shards: ProcessShards = ctx.shards
        m, n, d = grad.shape
        if grad.device.type != "cuda":  # Gloo has no reduce-scatter
            return shards.own(shards.sum_(grad.contiguous()), dim=1), None, None
        length = shards._shard_length(n)
        padded = grad.new_zeros(shards.size * length, m, d)
        padded[:n] = grad.transpose(0, 1)
        summed = torch.empty_like(padded[:length])
        dist.reduce_scatter_tensor(summed, padded, group=shards.group)
        return summed[: ctx.n_own].transpose(0, 1), None, None


#: Stands for a process group where there is none.
ONE_PROCESS = Shards()

#: The process group that shares the fits of the caller's block; None in one process.
PROCESSES: ContextVar[ProcessShards | None] = ContextVar("processes", default=None)


def _different(texts: list[str]) -> list[str]:
    """Names whose values are not the same in all texts of lines ``name=value``."""
    told = [dict(line.split("=", maxsplit=1) for line in text.splitlines()) for text in texts]
    names = dict.fromkeys(name for values in told for name in values)
    return [name for name in names if len({values.get(name) for values in told}) > 1]
