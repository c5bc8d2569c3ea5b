"""The parameter kernel on a GPU: three launches instead of torch's thirty."""

import math

import torch
from torch import Tensor

from pnca.accelerated.compiler import multiplies_in_parts, power_of_two, takes_kernels

#: Most particles: one program sorts their distances.
_MOST = 32
#: Columns per iteration, and most programs: about two for each multiprocessor of a large GPU.
_BLOCK, _N_PARTS = 128, 264


def can_be_fused(particles: Tensor) -> bool:
    """Whether the kernels take these particles (m, p)."""
    m, p = particles.shape
    return (
        takes_kernels(particles)
        and 1 < m <= _MOST
        and p < 2**31 - _BLOCK * _N_PARTS
        and multiplies_in_parts(particles.device)
    )


def parameter_kernel(particles: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`pnca.maths.stein.parameter_kernel` of at least two particles (m, p), contiguous."""
    from pnca.accelerated import _step_kernels

    m, p = particles.shape
    width = power_of_two(m, least=16)
    n_blocks = -(-p // _BLOCK)
    n_columns = -(-n_blocks // _N_PARTS) * _BLOCK
    n_parts = -(-p // n_columns)
    parts = particles.new_empty(n_parts, width, width)
    _step_kernels.gram[(n_parts,)](particles, parts, m, p, n_columns, M=width, BLOCK=_BLOCK, num_warps=2)
    kernel, bandwidth = particles.new_empty(m, m), particles.new_empty(())
    noise = 64 * torch.finfo(particles.dtype).eps
    _step_kernels.parameter_kernel[(1,)](parts.sum(dim=0), kernel, bandwidth, m, noise, math.log(m), M=width)
    return kernel, bandwidth
