"""What Triton, the compiler of the kernels, and the GPU require.

Triton comes with PyTorch: 3.2 with 2.6, the least that is declared. The tests pass in the interpreters of
3.2, 3.6 and 3.7, and compiled on a GPU by 3.6.
"""

import functools
from importlib.util import find_spec

import torch
from torch import Tensor


def is_available() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def takes_kernels(tensor: Tensor) -> bool:
    """Whether kernels can be compiled for a tensor: float32 on a CUDA device."""
    return tensor.is_cuda and tensor.dtype == torch.float32 and is_available()


@functools.lru_cache
def multiplies_in_parts(device: torch.device) -> bool:
    """Whether the tensor cores of a GPU multiply float32 in three parts: NVIDIA's since Ampere."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def power_of_two(n: int, least: int = 1) -> int:
    """Least power of two that is at least n and ``least``, as every side of a tile must be.

    Tensor cores take sides from 16.

    >>> power_of_two(10), power_of_two(16), power_of_two(3, least=16)
    (16, 16, 16)
    """
    return max(least, 1 << (n - 1).bit_length())
