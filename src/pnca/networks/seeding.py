"""The randomness modules draw from by themselves: initial weights, dropout."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_CPU = torch.device("cpu")
#: Held while torch's global generators are borrowed, of which a process has one for each device.
_BORROWED = threading.RLock()


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed torch's global generators for a block, and leave the user's as they were.

    One thread at a time: another that enters such a block waits until this one has ended. Two fits of
    modules with ``nn.Dropout`` would otherwise draw from each other's stream. A thread may nest blocks.

    Parameters
    ----------
    seed : int
        Seed of the CPU's generator, and of the GPU's if ``device`` is one.
    device : torch.device
        Where the modules run.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     assert torch.equal(torch.rand(1), first)
    """
    is_cuda = device.type == "cuda"
    with _BORROWED, torch.random.fork_rng(devices=[device] if is_cuda else []):
        # Not torch.manual_seed, which would seed every other GPU too.
        torch.default_generator.manual_seed(seed)
        if is_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
