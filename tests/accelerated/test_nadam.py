"""The kernel of Nadam, on a CUDA device, or in Triton's interpreter."""

import pytest
import torch

from accelerated.interpreter import DEVICE, assert_passes_interpreted, runs_kernels, starts_interpreter
from pnca.accelerated.nadam import FusedNadam


@starts_interpreter
def test_kernel__in_the_interpreter():
    assert_passes_interpreted(__file__)


@runs_kernels
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
