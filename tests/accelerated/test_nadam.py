"""The kernel of Nadam, on a CUDA device, or in Triton's interpreter: see test_masses.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pnca.accelerated.masses import is_available
from pnca.accelerated.nadam import FusedNadam

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"


@pytest.mark.skipif(not is_available(), reason="Triton is not installed")
@pytest.mark.skipif(IS_INTERPRETED, reason="this is the interpreter")
def test_kernel__in_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    root = Path(__file__).parents[2]
    outcome = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert " passed" in outcome.stdout


@pytest.mark.skipif(
    not is_available() or not (IS_INTERPRETED or torch.cuda.is_available()),
    reason="no Triton, or no CUDA device and not in its interpreter",
)
@pytest.mark.parametrize("n", [1, 1023, 2500])  # less than a block, and not a whole number of them
def test_fused_nadam__steps_are_those_of_torch(n):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(1, n, generator=generator).to(DEVICE)
    expected = w.clone().requires_grad_()
    steps, reference = FusedNadam(w, 0.01), torch.optim.NAdam([expected], lr=0.01)
    for _ in range(20):
        direction = torch.randn(1, n, generator=generator).to(DEVICE)
        steps.step(direction)
        expected.grad = direction
        reference.step()
    torch.testing.assert_close(w, expected.detach(), rtol=1e-5, atol=1e-5)
    assert int(steps.n_steps) == 20
