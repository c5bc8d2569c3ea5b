import pytest
import torch
from torch import nn

from pnca.exceptions import InvalidInputError
from pnca.networks import seeded
from pnca_studies.experiments.modules import ResidualEmbedding, SpectralLinear, constructor_arguments


@pytest.mark.parametrize(("factor", "stretch"), [(10.0, 0.95), (0.1, None)])
def test_spectral_linear__bounds_the_largest_singular_value_and_leaves_smaller_ones(factor, stretch):
    with seeded(0):
        layer = SpectralLinear(12, 12)
    with torch.no_grad():
        # Well separated singular values: five steps of power iteration then find the largest.
        layer.weight.copy_(factor * torch.diag(torch.tensor([1.0] + [0.3] * 11)))
        effective = (layer(torch.eye(12)) - layer(torch.zeros(1, 12))).T
    found = float(torch.linalg.matrix_norm(effective, 2))
    assert found == pytest.approx(stretch or factor, rel=1e-3)


def test_spectral_linear__has_no_state():
    with seeded(0):
        layer, x = SpectralLinear(5, 4), torch.randn(3, 5)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    assert torch.equal(layer(x), layer(x))
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_residual_embedding__adds_blocks_between_two_linear_layers():
    with seeded(0):
        network = ResidualEmbedding(6, 3, width=8, dropout=0.5, spectral=False).eval()
        x = torch.randn(4, 6)
    hidden = network.first(x)
    for block in network.blocks:
        hidden = hidden + nn.functional.relu(block(hidden))
    torch.testing.assert_close(network(x), network.last(hidden))
    spectral = ResidualEmbedding(6, 3, width=8, dropout=0.5, spectral=True)
    assert all(isinstance(block, SpectralLinear) for block in spectral.blocks)
    assert not isinstance(spectral.first, SpectralLinear)


def test_constructor_arguments__names_of_modules_and_none():
    assert constructor_arguments({"background": "none", "bandwidth": 2.0}) == {
        "background": None,
        "bandwidth": 2.0,
    }
    for name, kind in (("residual", nn.Linear), ("spectral residual", SpectralLinear)):
        network = constructor_arguments({"module": name})["module"]()
        assert type(network.blocks[0]) is kind
        assert network(torch.zeros(2, 784)).shape == (2, 10)
    with pytest.raises(
        InvalidInputError, match="Unknown module 'conv'; known are residual, spectral residual"
    ):
        constructor_arguments({"module": "conv"})
