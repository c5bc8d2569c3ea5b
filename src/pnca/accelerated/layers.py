"""Fully connected layers of many particles on a GPU: one kernel per layer instead of torch's three or four.

The functions are those of ``pnca.networks.mlp.Layers``, for small steps, in which launching a kernel takes as
long as its work.
"""

import torch
from torch import Tensor

from pnca.accelerated.compiler import multiplies_in_parts, takes_kernels

#: Rows, over all particles, beyond which cuBLAS is as fast.
_MANY_ROWS = 2**12


def can_be_fused(particles: Tensor, inputs: Tensor) -> bool:
    """Whether the kernels take these particles (m, p) and inputs (m, n, n_in)."""
    return (
        takes_kernels(particles)
        and inputs.dtype == torch.float32
        and inputs.shape[0] * inputs.shape[1] <= _MANY_ROWS
        and max(particles.shape[1], inputs.shape[1] * inputs.shape[2]) < 2**31  # addresses in one particle
        and multiplies_in_parts(particles.device)
    )


def outputs(inputs: Tensor, weights: Tensor, biases: Tensor, *, relu: bool) -> Tensor:
    """Outputs of a layer; see ``pnca.networks.mlp.Layers.outputs``."""
    out = inputs.new_empty(*inputs.shape[:2], weights.shape[2])
    _product(inputs, weights, out, biases=biases, relu=relu)
    return out


def weight_gradients(inputs: Tensor, of_outputs: Tensor, out: Tensor, out_of_biases: Tensor) -> None:
    """Gradients of a layer's parameters; see ``pnca.networks.mlp.Layers.weight_gradients``."""
    _product(inputs.mT, of_outputs, out, sums=out_of_biases)


def input_gradients(of_outputs: Tensor, weights: Tensor, inputs: Tensor) -> Tensor:
    """Gradients of a layer's inputs; see ``pnca.networks.mlp.Layers.input_gradients``."""
    out = torch.empty_like(inputs)
    _product(of_outputs, weights.mT, out, gate=inputs)
    return out


def _product(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    *,
    biases: Tensor | None = None,
    relu: bool = False,
    gate: Tensor | None = None,
    sums: Tensor | None = None,
) -> None:
    """Write a (m, i, k) times b (m, k, j) to out (m, i, j), and sums over k of b to sums (m, j)."""
    from pnca.accelerated import _step_kernels

    (m, n_rows, n_inner), n_columns = a.shape, b.shape[2]
    if not out.numel():
        return
    rows, columns, inner, n_warps, n_stages = _tile(n_columns, sums_up_examples=sums is not None)
    n_programs = -(-n_rows // rows) * -(-n_columns // columns)
    bias_l, sums_l = (0 if t is None else t.stride(0) for t in (biases, sums))
    gate_strides = (0, 0) if gate is None else gate.stride()[:2]
    _step_kernels.product[(n_programs, m)](
        a, b, out, *(out if t is None else t for t in (biases, gate, sums)), n_rows, n_columns, n_inner,
        *a.stride(), *b.stride(), *out.stride()[:2], bias_l, *gate_strides, sums_l,
        HAS_BIAS=biases is not None, RELU=relu, HAS_GATE=gate is not None, HAS_SUMS=sums is not None,
        BM=rows, BN=columns, BK=inner, num_warps=n_warps, num_stages=n_stages,
    )  # fmt: skip


def _tile(n_columns: int, *, sums_up_examples: bool) -> tuple[int, int, int, int, int]:
    """Rows, columns and inner numbers of a tile, warps and stages: the fastest of those tried on an H200."""
    if n_columns <= 16:
        return (32, 16, 16, 2, 3) if sums_up_examples else (16, 16, 16, 4, 3)
    return (64, 64, 16, 2, 1) if sums_up_examples else (32, 64, 32, 4, 4)
