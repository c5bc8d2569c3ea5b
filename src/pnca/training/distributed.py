"""Fits that are shared among processes or GPUs, which torchrun starts."""

import functools
import gc
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from pnca.exceptions import InvalidInputError
from pnca.training.shards import ONE_PROCESS, PROCESSES, ProcessShards, Shards

#: What torchrun tells the processes it starts.
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


#: Blocks so far; every process counts the same.
_blocks = itertools.count()


@contextmanager
def distributed(*, timeout: float = 600.0) -> Iterator[Shards]:
    """Share the fits in this block among the processes that ``torchrun`` has started.

    Every process runs the same script and calls ``fit`` with all examples (they may be memory-mapped) and
    the same parameters. The rows of each batch are shared out, the particles are the same everywhere, and so
    is the fitted model: that of a single process, up to rounding. With dropout or augmentation each process
    draws its own, so results are then as good but not equal. Predictions are made where they are asked
    for, by that process alone.

    Processes talk through Gloo on CPUs and NCCL on GPUs; each takes the GPU of its number on its machine.
    Where the script has called ``torch.distributed.init_process_group`` itself, its processes are taken as
    they are, and stay so.

    Parameters
    ----------
    timeout : float
        Seconds after which a process that waits for another gives up with an error.

    Yields
    ------
    Shards
        ``rank`` and ``size``, and ``is_first``, by which one process prints and saves for all.

    Examples
    --------
    In ``train.py``, started by ``torchrun --nproc-per-node=2 train.py``::

        with pnca.distributed() as processes:
            model = pnca.PNCAClassifier(random_state=0).fit(X, y)
            if processes.is_first:
                print(model.score(X_test, y_test))
    """
    if not dist.is_available():
        raise InvalidInputError("This build of torch has no torch.distributed: fit in one process.")
    if dist.is_initialized():
        with _sharing() as shards:
            yield shards
        return
    if missing := [name for name in _VARIABLES if name not in os.environ]:
        raise InvalidInputError(
            f"pnca.distributed() is for processes that torchrun starts (not set: {', '.join(missing)}): run  "
            "torchrun --nproc-per-node=2 your_script.py  or leave it out to fit in one process."
        )
    _start(timeout)
    try:
        with _sharing() as shards:
            yield shards
        dist.barrier()  # nobody leaves while another still talks
    finally:
        # After an error too: the others then hear that this process is gone, and do not wait for it.
        dist.destroy_process_group()
        gc.collect()  # Gloo's threads must end before the interpreter does


@contextmanager
def _sharing() -> Iterator[Shards]:
    """Let the fits of a block be shared among the ranks of torch's process group."""
    # One rank has nobody to talk to, and its kernel of a set with itself is half the work.
    shards = ProcessShards() if dist.get_world_size() > 1 else None
    token = PROCESSES.set(shards)
    try:
        yield shards or ONE_PROCESS
    finally:
        PROCESSES.reset(token)


def _start(timeout: float) -> None:
    has_gpus = torch.cuda.is_available()
    if has_gpus:
        local_rank, n_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local_rank >= n_gpus:
            raise InvalidInputError(
                f"This is process {local_rank + 1} of its machine, which has {n_gpus} GPUs: start at most as "
                "many (--nproc-per-node), or hide the GPUs (CUDA_VISIBLE_DEVICES=) to fit on the CPU."
            )
        torch.cuda.set_device(local_rank)
    # Gloo beside NCCL: with device="cpu" a model of one and the same script stays on the CPU.
    backend = "cpu:gloo,cuda:nccl" if has_gpus else "gloo"
    store, rank, size = _meeting_place()
    # Under a name of its own: a second block would else find the addresses of the first, and wait there.
    store = PrefixStore(f"pnca/{next(_blocks)}", store)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )


@functools.cache
def _meeting_place() -> tuple[Any, int, int]:
    """Where processes find each other, as torchrun's environment says; their own number, and how many."""
    store, rank, size = next(iter(rendezvous("env://")))
    return store, rank, size
