"""Which rows of a batch a rank of a process group computes, and what the ranks send each other.

Every rank embeds its shard of the rows, gathers the embeddings of all, computes the loss of its own rows, and
sums the gradients with the others. A fit in one process knows nothing of this.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch import distributed as dist

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from pnca.training.loop import Run

#: Longest text one rank sends the others, in bytes.
_TEXT_BYTES = 4096


class Shards:
    """One process, which has nobody to talk to; of several, see :class:`ProcessShards`.

    Attributes
    ----------
    rank : int
        Number of this process, from zero.
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
        """All ranks' tensors of one shape (...): (size, ...)."""
        return tensor[None]

    def exchange(self, text: str) -> list[str]:
        """Send every rank a text, at most 4096 bytes of it; their texts in the order of the ranks."""
        return [text]

    def broadcast(self, content: bytes | None) -> bytes | None:
        """Give every rank what the first has."""
        return content

    @contextmanager
    def together(self, describe: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Run the block in all ranks, and let all fail if one does or if they are at different work.

        Parameters
        ----------
        describe : callable
            Returns, after the block, what must be equal everywhere: short values by name.
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
        """Shard of this rank, which may be empty, of the rows of a batch along a dimension."""
        own = self.rows(rows.shape[dim])
        return rows.narrow(dim, own.start, own.stop - own.start)

    def rows(self, n: int) -> slice:
        """Rows of this rank among the n rows of a batch; there may be none."""
        share = self._share(n)
        start = min(self.rank * share, n)
        return slice(start, min(start + share, n))

    def _share(self, n: int) -> int:
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
        """Take the first rank's values, in place."""
        # The source is a number among all processes, whatever the group.
        source = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        place = tensor if tensor.is_cuda else tensor.to(self.device)
        dist.broadcast(place, source, group=self.group)
        return tensor if place is tensor else tensor.copy_(place)

    def stack(self, tensor: Tensor) -> Tensor:
        """All ranks' tensors of one shape (...): (size, ...)."""
        own = tensor if tensor.is_cuda else tensor.to(self.device)
        stacked = own.new_empty(self.size * own.numel())
        dist.all_gather_into_tensor(stacked, own.contiguous().flatten(), group=self.group)
        return stacked.view(self.size, *tensor.shape).to(tensor.device)

    def exchange(self, text: str) -> list[str]:
        """Send every rank a text; see :class:`Shards`."""
        # Bytes, and not torch's exchange of objects, which are pickles.
        room = text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES)
        texts = self.stack(torch.tensor(list(room), dtype=torch.uint8, device=self.device))
        return [bytes(row.tolist()).decode(errors="ignore").rstrip() for row in texts]

    def broadcast(self, content: bytes | None) -> bytes | None:
        """Give every rank what the first has."""
        length = -1 if content is None else len(content)
        length = int(self.follow_(torch.tensor([length], device=self.device)))
        if length < 0:
            return None
        room = torch.empty(length, dtype=torch.uint8)
        if self.is_first and content is not None:
            room = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return self.follow_(room.to(self.device)).cpu().numpy().tobytes()

    def seed(self, common: int) -> int:
        """Seed of this rank's own random stream: far apart, and the first rank's is that of one process."""
        return common + (self.rank << 40)

    @contextmanager
    def together(self, describe: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Run the block in all ranks, and let all fail if one does; see :class:`Shards`."""
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
    def around(self, run: "Run") -> Iterator[Callable[[], None]]:
        """Let Ctrl-C in one rank end the training in all, after the same epoch."""
        # A rank that left its epoch half way would leave the others waiting for its rows.
        signals: list[int] = []

        def remember(number: int, frame: FrameType | None) -> None:
            signals.append(number)

        def check() -> None:
            # A signal that comes from here on is one of the next check: all must see the same sum.
            requested = torch.tensor([float(bool(signals))], device=self.device)
            if self.sum_(requested).item() > 0:
                raise KeyboardInterrupt

        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, remember) if is_main else None
        try:
            yield check
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)


class _Gather(torch.autograd.Function):
    """Every rank gets the rows of all; the gradient of a row is summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, n: int, shards: ProcessShards) -> Tensor:  # noqa: ANN401
        ctx.n_own, ctx.shards = own.shape[1], shards
        m, n_own, d = own.shape
        # Rows first, so that shares lie one after the other and all that is missing is at the end.
        room = own.new_zeros(shards._share(n), m, d)
        room[:n_own] = own.transpose(0, 1)
        return shards.stack(room).flatten(0, 1)[:n].transpose(0, 1).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        shards: ProcessShards = ctx.shards
        m, n, d = grad.shape
        if grad.device.type != "cuda":  # Gloo has no scattered sum
            return shards.own(shards.sum_(grad.contiguous()), dim=1), None, None
        share = shards._share(n)
        room = grad.new_zeros(shards.size * share, m, d)
        room[:n] = grad.transpose(0, 1)
        summed = torch.empty_like(room[:share])
        dist.reduce_scatter_tensor(summed, room, group=shards.group)
        return summed[: ctx.n_own].transpose(0, 1), None, None


#: Where there is no process group.
ONE_PROCESS = Shards()

#: The process group that shares the fits of the caller's block; None in one process.
PROCESSES: ContextVar[ProcessShards | None] = ContextVar("processes", default=None)


def _different(texts: list[str]) -> list[str]:
    """Names whose values are not the same in all texts of lines ``name=value``."""
    told = [dict(line.split("=", maxsplit=1) for line in text.splitlines()) for text in texts]
    names = dict.fromkeys(name for values in told for name in values)
    return [name for name in names if len({values.get(name) for values in told}) > 1]
