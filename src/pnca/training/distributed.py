"""Fits shared by the processes, or GPUs, that torchrun starts."""

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

#: Environment that torchrun sets for each process.
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
#: Number of the next block; equal on all ranks.
_blocks = itertools.count()


@contextmanager
def distributed(*, timeout: float = 600.0) -> Iterator[Shards]:
    """Share the fits in this block among the processes that ``torchrun`` has started.

    Every process, a *rank*, runs the same script and calls ``fit`` with all examples (they may be
    memory-mapped) and the same parameters. Each rank computes a shard of the rows of every batch. Particles
    and fitted model are the same on all ranks and, up to rounding, those of a single process. With dropout
    or augmentation each rank draws its own, so that results are as good but not equal. Predictions are made
    by the rank that calls for them, alone.

    Ranks communicate through Gloo on CPUs and NCCL on GPUs, where each takes the GPU of its local rank. If
    the script has called ``torch.distributed.init_process_group`` itself, that group is used and left open.

    Parameters
    ----------
    timeout : float
        Seconds after which a rank that waits for another raises an error.

    Yields
    ------
    Shards
        ``rank``, ``size`` (the world size) and ``is_first``: whether this rank should print and save.

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
        dist.barrier()  # no rank leaves while another still communicates
    finally:
        # After an error too: the other ranks then fail instead of waiting for this one.
        dist.destroy_process_group()
        gc.collect()  # Gloo's threads must end before the interpreter does


@contextmanager
def _sharing() -> Iterator[Shards]:
    """Let the fits of a block be shared among the ranks of torch's process group."""
    # A group of one would compute the kernel of a set with itself at twice the cost.
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
    # Gloo beside NCCL: a model of the same script with device="cpu" stays on the CPU.
    backend = "cpu:gloo,cuda:nccl" if has_gpus else "gloo"
    store, rank, size = _rendezvous()
    # A prefix for each block: a second one would find the addresses of the first, and wait there.
    store = PrefixStore(f"pnca/{next(_blocks)}", store)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )


@functools.cache
def _rendezvous() -> tuple[Any, int, int]:
    """Store through which the ranks find each other, this process's rank and the world size."""
    store, rank, size = next(iter(rendezvous("env://")))
    return store, rank, size
