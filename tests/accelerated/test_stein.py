"""The kernels of the parameter kernel, on a CUDA device, or in Triton's interpreter."""

import pytest
import torch

from accelerated.interpreter import random, runs_kernels
from pnca import accelerated
from pnca.accelerated import stein
from pnca.maths.stein import parameter_kernel


@runs_kernels
@pytest.mark.parametrize(("m", "p"), [(2, 1), (10, 300), (3, 20_000), (17, 700), (32, 130)])
def test_parameter_kernel__equals_the_plain_one(m, p):
    particles = random(m, p)
    kernel, bandwidth = stein.parameter_kernel(particles)
    expected, expected_bandwidth = parameter_kernel(particles.double())
    torch.testing.assert_close(kernel.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(bandwidth.double(), expected_bandwidth, rtol=1e-4, atol=0)


@runs_kernels
def test_parameter_kernel__is_one_between_particles_that_coincide():
    particles = random(1, 900).expand(4, -1).contiguous()
    kernel, bandwidth = stein.parameter_kernel(particles)
    assert (kernel == 1).all()
    assert bandwidth == torch.inf


def test_parameter_kernel__is_the_plain_one_without_a_device():
    particles = torch.randn(4, 9, requires_grad=True)
    kernel, bandwidth = accelerated.parameter_kernel(particles)
    expected, expected_bandwidth = parameter_kernel(particles.detach())
    assert torch.equal(kernel, expected)
    assert torch.equal(bandwidth, expected_bandwidth)
    assert not kernel.requires_grad
