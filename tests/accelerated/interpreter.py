"""Triton's interpreter, in which kernels run without a GPU. It is switched on before Triton is imported."""

import os
import subprocess
import sys
from pathlib import Path

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


def starts_interpreter(test):
    """Skip a test that runs a file in the interpreter where there is none, or this is it."""
    test = pytest.mark.skipif(IS_INTERPRETED, reason="this is the interpreter")(test)
    return pytest.mark.skipif(not is_available(), reason="Triton is not installed")(test)


def assert_passes_interpreted(file):
    """Run the tests of a file in another process with the interpreter on."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    root = Path(__file__).parents[2]
    outcome = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert " passed" in outcome.stdout
