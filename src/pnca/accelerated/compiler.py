"""What Triton, the compiler of the kernels, and the GPU ask for."""

import functools
from importlib.util import find_spec

import torch


def is_available() -> bool:
    """Whether the compiler of the kernels is installed."""
    return find_spec("triton") is not None


@functools.lru_cache
def multiplies_in_parts(device: torch.device) -> bool:
    """Whether the tensor cores of a GPU take products in three parts: NVIDIA's since Ampere."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def power_of_two(n: int, least: int = 1) -> int:
    """Least power of two that has room for n, as every side of a tile must be.

    Parameters
    ----------
    n : int
        Numbers to find room for, at least one.
    least : int
        A power of two; 16 is the least side that tensor cores take.

    Returns
    -------
    int

    Examples
    --------
    >>> power_of_two(10), power_of_two(16), power_of_two(3, least=16)
    (16, 16, 16)
    """
    return max(least, 1 << (n - 1).bit_length())
