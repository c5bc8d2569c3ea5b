"""The kernels of fully connected layers, on a CUDA device, or in Triton's interpreter."""

import pytest
import torch

from accelerated.interpreter import DEVICE, random, runs_kernels
from pnca.accelerated import layers
from pnca.networks.mlp import Layers


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
        expected = Layers.outputs(inputs, weights, biases, relu=relu)
        torch.testing.assert_close(layers.outputs(inputs, weights, biases, relu=relu), expected, **close)
    of_outputs = random(m, n, b, seed=4)
    hidden = random(m, n, a, seed=5).relu()
    torch.testing.assert_close(
        layers.input_gradients(of_outputs, weights, hidden),
        Layers.input_gradients(of_outputs, weights, hidden),
        **close,
    )
    expected = torch.empty(m, a, b, device=DEVICE), torch.empty(m, b, device=DEVICE)
    got = tuple(as_part_of_particles(torch.zeros_like(t)) for t in expected)
    Layers.weight_gradients(inputs, of_outputs, *expected)
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
