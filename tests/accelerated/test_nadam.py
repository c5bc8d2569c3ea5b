"""The kernel of Nadam, on a CUDA device, or in Triton's interpreter."""

import pytest
import torch

from accelerated.interpreter import DEVICE, runs_kernels
from pnca.maths.stein import Mixing
from pnca.training.optimisers import FusedNadam


@runs_kernels
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 1023), (1, 2500), (3, 70), (35, 130)])  # ragged blocks
def test_fused_nadam__steps_are_those_of_torch(m, n):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(m, n, generator=generator).to(DEVICE)
    expected = w.clone().requires_grad_()
    steps, reference = FusedNadam(w, 0.01), torch.optim.NAdam([expected], lr=0.01)
    for _ in range(20):
        direction = torch.randn(m, n, generator=generator).to(DEVICE)
        steps.step(direction)
        expected.grad = direction
        reference.step()
    torch.testing.assert_close(w, expected.detach(), rtol=1e-5, atol=1e-5)
    assert int(steps.n_steps) == 20


@runs_kernels
@pytest.mark.parametrize("mixed", ["gradients", "particles", "both"])
@pytest.mark.parametrize(("m", "p"), [(2, 1), (10, 300), (17, 200), (64, 33), (65, 20)])
def test_fused_nadam__mixes_gradients_and_particles(m, p, mixed):
    generator = torch.Generator().manual_seed(0)
    w, a, b = (torch.randn(m, k, generator=generator).to(DEVICE) for k in (p, m, m))
    mixing = Mixing(None if mixed == "particles" else a, None if mixed == "gradients" else b)
    expected = w.clone()
    steps, reference = FusedNadam(w, 0.01), torch.optim.NAdam([expected], lr=0.01)
    for _ in range(3):
        gradients = torch.randn(m, p, generator=generator).to(DEVICE)
        steps.step(gradients.clone(), mixing)  # a step may use their memory
        expected.grad = mixing.direction(expected, gradients)
        reference.step()
    assert steps.mixes_gradients == (m <= 64)
    torch.testing.assert_close(w, expected, rtol=1e-4, atol=1e-4)
