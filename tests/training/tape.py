"""CUDA graphs without a GPU: the operations of a captured step, done again on the same memory."""

from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: What the host would have to wait for. CUDA refuses it in a capture, and so does the tape.
_WAITS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class Tape(TorchDispatchMode):
    """Captures operations in their order; Python values and addresses of tensors are constants of it.

    Unlike a CUDA graph it does the operations while it captures them; :meth:`undo` takes that back.
    """

    def __init__(self):
        super().__init__()
        self.operations, self.overwritten = [], []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operation.namespace != "aten":  # the profiler's
            return operation(*args, **kwargs)
        if _WAITS & {*operation.tags} and not _is_indexing_by_integers(operation, args):
            raise RuntimeError(f"{operation} is not permitted when the stream is capturing")
        self.overwritten += [(tensor, tensor.clone()) for tensor in _written(operation, args, kwargs)]
        result = operation(*args, **kwargs)
        self.operations.append((operation, args, kwargs, result))
        return result

    @torch.no_grad()
    def undo(self):
        for tensor, before in reversed(self.overwritten):
            tensor.copy_(before)
        self.overwritten.clear()

    @torch.no_grad()
    def replay(self):
        for operation, args, kwargs, result in self.operations:
            if _is_view(operation):  # of memory that is what it was
                continue
            again = operation(*args, **kwargs)
            if not operation._schema.is_mutable:
                for place, value in zip(tree_leaves(result), tree_leaves(again), strict=True):
                    if isinstance(place, torch.Tensor):
                        place.copy_(value)


class TapeGraphs:
    """Stands in for ``CudaGraphs``."""

    def __init__(self, generator):
        self.generator, self.captured = generator, []

    def capture(self, work):
        before = None if self.generator is None else self.generator.get_state()
        tape = Tape()
        with tape:
            work()
        tape.undo()
        if before is not None:
            self.generator.set_state(before)
        self.captured.append(tape)
        return tape

    def beside(self):
        return nullcontext()

    def join(self):
        pass


def _written(operation, args, kwargs):
    """Tensors that an operation writes to."""
    for position, argument in enumerate(operation._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from (leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor))


def _is_view(operation):
    returns = operation._schema.returns
    return any(each.alias_info is not None and not each.alias_info.is_write for each in returns)


def _is_indexing_by_integers(operation, args):
    return operation.overloadpacket is torch.ops.aten.index and not any(
        index is not None and index.dtype == torch.bool for index in args[1]
    )
