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
