"""The kernels of a small training step, on a CUDA device, or in Triton's interpreter."""

import pytest
import torch

from accelerated.interpreter import DEVICE, assert_passes_interpreted, runs_kernels, starts_interpreter
from pnca.accelerated import features, layers, stein
from pnca.maths import layers as plain_layers
from pnca.maths.features import log_approximate_kernel, orthogonal_frequencies
from pnca.maths.neighbours import leave_one_out
from pnca.maths.pnca import pnca_loss, shares_and_log_correct
from pnca.maths.stein import parameter_kernel


@starts_interpreter
def test_kernels__in_the_interpreter():
    assert_passes_interpreted(__file__)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def as_part_of_particles(tensor):
    """The same values inside rows that have more, as the weights of one layer lie."""
    row = torch.nn.functional.pad(tensor.flatten(1), (3, 5), value=7.0)
    return row[:, 3:-5].view_as(tensor)


# Ragged in all sizes, one of each, more than one tile, and the narrow output.
SHAPES = [(3, 7, 5, 4), (1, 1, 1, 1), (2, 70, 40, 33), (2, 65, 17, 10), (2, 33, 130, 66)]


@runs_kernels
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize(("m", "n", "a", "b"), SHAPES)
def test_layers__equal_those_of_torch(m, n, a, b, is_shared):
    inputs = random(n, a, seed=1).expand(m, -1, -1) if is_shared else random(m, n, a, seed=1)
    weights, biases = (as_part_of_particles(t) for t in (random(m, a, b, seed=2), random(m, b, seed=3)))
    close = {"rtol": 1e-4, "atol": 1e-4}
    for relu in (False, True):
        expected = plain_layers.outputs(inputs, weights, biases, relu=relu)
        torch.testing.assert_close(layers.outputs(inputs, weights, biases, relu=relu), expected, **close)
    of_outputs = random(m, n, b, seed=4)
    hidden = random(m, n, a, seed=5).relu()
    torch.testing.assert_close(
        layers.input_gradients(of_outputs, weights, hidden),
        plain_layers.input_gradients(of_outputs, weights, hidden),
        **close,
    )
    expected = torch.empty(m, a, b, device=DEVICE), torch.empty(m, b, device=DEVICE)
    got = tuple(as_part_of_particles(torch.zeros_like(t)) for t in expected)
    plain_layers.weight_gradients(inputs, of_outputs, *expected)
    layers.weight_gradients(inputs, of_outputs, *got)
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs, **close)


@runs_kernels
def test_layers__of_no_examples_have_gradients_of_zero():
    m, a, b = 2, 5, 4
    out, of_biases = random(m, a, b), random(m, b)
    layers.weight_gradients(random(m, 0, a), random(m, 0, b), out, of_biases)
    assert not out.any()
    assert not of_biases.any()
    assert layers.outputs(random(m, 0, a), random(m, a, b), random(m, b), relu=True).shape == (m, 0, b)


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


def plain_loss(z, omega, labels, log_factor, learns, background, log_prior):
    """The same by the functions of ``maths``, in float64."""
    log_kernel = log_approximate_kernel(z, z, omega) + log_factor
    shares, log_correct = shares_and_log_correct(log_kernel, labels, background, log_prior)
    masses = torch.stack([shares[:, labels == c].sum(dim=1) for c in range(len(log_prior))], dim=1)
    left = 1 - shares.sum(dim=1, keepdim=True)
    predicted = (masses + left * log_prior.exp()).argmax(dim=1)
    return pnca_loss(log_correct, learns), (predicted == labels).sum()


@runs_kernels
@pytest.mark.parametrize(
    ("m", "n", "d", "blocks", "c", "background"),
    [(3, 12, 2, 3, 3, 0.0), (10, 40, 10, 10, 10, 0.03), (1, 9, 1, 1, 2, 0.5), (2, 70, 3, 50, 1, 0.0)],
)
def test_feature_loss__and_its_gradient_equal_the_plain_ones(m, n, d, blocks, c, background):
    z = 0.5 * random(m, n, d)
    omega = orthogonal_frequencies(d, blocks, 4.0, torch.Generator().manual_seed(0)).to(DEVICE)
    labels = (torch.arange(n) % c).to(DEVICE)
    labels[-1] = c - 1
    log_factor = leave_one_out(0.1 * random(n, n, seed=1))
    learns = random(n, seed=2).abs()
    learns[0] = 0
    log_prior = random(c, seed=3).log_softmax(dim=0)
    z, exact = z.requires_grad_(), z.detach().double().requires_grad_()
    loss, n_correct = features.feature_loss(
        z, omega.float(), labels, log_factor, learns, background, log_prior
    )
    expected, expected_correct = plain_loss(
        exact, omega, labels, log_factor.double(), learns.double(), background, log_prior.double()
    )
    torch.testing.assert_close(loss.double(), expected, rtol=1e-4, atol=1e-4)
    assert n_correct == expected_correct
    (3 * loss).backward()
    (3 * expected).backward()
    scale = exact.grad.abs().max().item()
    torch.testing.assert_close(z.grad.double(), exact.grad, rtol=1e-3, atol=1e-4 * scale + 1e-6)


@runs_kernels
def test_feature_loss__a_class_of_one_example_teaches_nothing_and_breaks_nothing():
    z, labels = random(2, 5, 2).requires_grad_(), torch.tensor([0, 0, 0, 0, 1], device=DEVICE)
    omega = orthogonal_frequencies(2, 2, 4.0, torch.Generator().manual_seed(0)).float().to(DEVICE)
    learns = torch.tensor([1.0, 1, 1, 1, 0], device=DEVICE)
    prior = torch.tensor([0.8, 0.2], device=DEVICE).log()
    log_factor = leave_one_out(torch.zeros(5, 5, device=DEVICE))
    loss, _ = features.feature_loss(z, omega, labels, log_factor, learns, 0.0, prior)
    loss.backward()
    assert loss.isfinite()
    assert z.grad.isfinite().all()
    assert z.grad.any()
