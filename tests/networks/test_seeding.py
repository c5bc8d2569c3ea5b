import pytest
import torch

from pnca.networks import seeded


def test_seeded__draws_depend_on_the_seed_alone():
    def draw(seed):
        with seeded(seed):
            return torch.rand(5)

    first = draw(0)
    torch.rand(3)
    assert torch.equal(draw(0), first)
    assert not torch.equal(draw(1), first)


def test_seeded__restores_the_global_generator_also_after_an_error():
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeded(0):
        torch.rand(2) @ torch.rand(3)
    assert torch.equal(torch.get_rng_state(), state)
