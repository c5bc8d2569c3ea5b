"""Triton's interpreter, in which kernels run without a GPU. It is switched on before Triton is imported."""

import os

import pytest
import torch

from pnca.accelerated.compiler import is_available

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"

runs_kernels = pytest.mark.skipif(
    not is_available() or not (IS_INTERPRETED or torch.cuda.is_available()),
    reason="no Triton, or no CUDA device and not in its interpreter",
)


def _mend_loop_bounds():
    """Let ``range`` take the interpreter's numbers, which are arrays of shape (1,), as in Triton 3.7.

    Triton before 3.7 calls ``int`` on such an array, which NumPy has deprecated since 1.25 and refuses since
    2.4. Compiled kernels are not concerned.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: self.handle.data.item()

    interpreter._patch_lang_tensor = patched


if IS_INTERPRETED and is_available():
    _mend_loop_bounds()


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
