"""Seeds of torch's global generators, from which modules draw initial weights and dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed torch's global generators, of the CPU and of ``device``, and restore their states afterwards.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     assert torch.equal(torch.rand(1), first)
    """
    is_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if is_cuda else []):
        # Not torch.manual_seed, which would seed every other GPU too.
        torch.default_generator.manual_seed(seed)
        if is_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
