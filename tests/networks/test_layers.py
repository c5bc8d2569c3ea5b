import pytest
import torch

import scenarios
from pnca.networks.mlp import Layers


@pytest.fixture
def layer():
    """Inputs after ReLU, weights, biases, and gradients of the outputs, of three particles."""
    return (
        scenarios.cloud(3, 5, 4).relu(),
        scenarios.cloud(3, 4, 2, 1),
        scenarios.cloud(1, 3, 2, 2)[0],
        scenarios.cloud(3, 5, 2, 3),
    )


@pytest.mark.parametrize("relu", [False, True])
def test_outputs__equal_a_loop_over_particles(layer, relu):
    inputs, weights, biases, _ = layer
    expected = torch.stack([x @ w + b for x, w, b in zip(inputs, weights, biases, strict=True)])
    if relu:
        expected = expected.clamp_min(0)
    torch.testing.assert_close(Layers.outputs(inputs, weights, biases, relu=relu), expected)


def test_weight_gradients__equal_those_of_autograd(layer):
    inputs, weights, biases, of_outputs = layer
    weights, biases = weights.requires_grad_(), biases.requires_grad_()
    expected = torch.autograd.grad(inputs @ weights + biases[:, None], (weights, biases), of_outputs)
    got = torch.empty_like(weights), torch.empty_like(biases)
    with torch.no_grad():
        Layers.weight_gradients(inputs, of_outputs, *got)
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_input_gradients__equal_those_of_autograd_through_relu(layer):
    _, weights, _, of_outputs = layer
    before = scenarios.cloud(3, 5, 4).requires_grad_()
    (expected,) = torch.autograd.grad(before.relu() @ weights, before, of_outputs)
    torch.testing.assert_close(Layers.input_gradients(of_outputs, weights, before.relu().detach()), expected)
