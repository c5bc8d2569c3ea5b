"""The kernels of the loss with random features, on a CUDA device, or in Triton's interpreter."""

import pytest
import torch

from accelerated.interpreter import DEVICE, random, runs_kernels
from pnca.accelerated import features
from pnca.maths.features import log_approximate_kernel, orthogonal_frequencies
from pnca.maths.neighbours import leave_one_out
from pnca.maths.pnca import pnca_loss, shares_and_log_correct


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
