import subprocess
import sys

import pytest
import torch

import scenarios
from pnca.maths.stein import Mixing
from pnca.training.optimisers import _TorchNadam, make_optimiser

TORCH = {"nadam": torch.optim.NAdam, "adam": torch.optim.Adam}


@pytest.mark.parametrize("name", ["nadam", "adam"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_make_optimiser__steps_are_those_of_torch(name, device, monkeypatch):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    monkeypatch.setattr("pnca.training.optimisers._N_STEPS", 50)  # it looks further ahead when it must
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(3, 1500, generator=generator).to(device)
    expected = w.clone().requires_grad_()
    steps, reference = make_optimiser(name, w, 0.01), TORCH[name]([expected], lr=0.01)
    for k in range(300):
        direction = (1 + k % 7) * torch.randn(3, 1500, generator=generator).to(device)
        steps.step(direction)
        expected.grad = direction
        reference.step()
    # Three hundred steps of .01 in float32.
    torch.testing.assert_close(w, expected.detach(), rtol=1e-4, atol=2e-5)


def test_make_optimiser__leaves_the_direction_alone():
    w, direction = torch.zeros(2, 3), torch.ones(2, 3)
    make_optimiser("nadam", w, 0.1).step(direction)
    assert (direction == 1).all()
    assert (w < 0).all()


def test_fit__imports_no_compiler():
    """It takes a second, and Ctrl-C meanwhile would leave half of it."""
    code = (
        "import sys, numpy as np, pnca; y = np.arange(20) % 2\n"
        "pnca.PNCAClassifier(max_epochs=2).fit(np.random.normal(size=(20, 2)) + y[:, None], y)\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


def torch_nadam(w):
    """As on a GPU without Triton."""
    return _TorchNadam(w, 0.01)


MAKERS = {
    "adam": lambda w: make_optimiser("adam", w, 0.01),
    "nadam": lambda w: make_optimiser("nadam", w, 0.01),
    "nadam of torch": torch_nadam,
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("mixed", ["gradients", "particles", "both", "none"])
def test_step__moves_along_the_direction_that_gradients_and_particles_are_mixed_into(name, mixed):
    w, a, b = (scenarios.cloud(1, 4, k, seed)[0].float() for k, seed in ((7, 0), (4, 1), (4, 2)))
    mixing = Mixing(
        a if mixed in ("gradients", "both") else None, b if mixed in ("particles", "both") else None
    )
    w.requires_grad_()
    expected = w.detach().clone()
    optimiser, reference = MAKERS[name](w), TORCH[name.split()[0]]([expected], lr=0.01)
    for k in range(5):
        gradients = scenarios.cloud(1, 4, 7, 10 + k)[0].float()
        given = gradients.clone()
        optimiser.step(gradients.clone(), mixing)  # a step may use their memory
        assert torch.equal(gradients, given)
        expected.grad = mixing.direction(expected, gradients)
        reference.step()
    torch.testing.assert_close(w.detach(), expected, rtol=1e-5, atol=1e-6)
    assert w.requires_grad
    assert not optimiser.mixes_gradients


@pytest.mark.parametrize("name", ["adam", "nadam"])
@pytest.mark.parametrize("n_before", [0, 3])
def test_optimiser__goes_on_from_its_state(name, n_before):
    directions = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0))
    whole = torch.zeros(2, 3)
    optimiser = make_optimiser(name, whole, 0.1)
    for direction in directions[:n_before]:
        optimiser.step(direction)
    half = whole.clone()
    other = make_optimiser(name, half, 0.1)
    other.restore({key: value.clone() for key, value in optimiser.state().items()})
    for direction in directions[n_before:]:
        optimiser.step(direction)
        other.step(direction)
    assert torch.equal(whole, half)
    assert not torch.equal(whole, torch.zeros(2, 3))
