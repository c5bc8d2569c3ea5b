import pytest
import torch

from pnca.accelerated import compiler


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_power_of_two__is_the_least_that_has_room(n, expected):
    assert compiler.power_of_two(n) == expected
    assert compiler.power_of_two(n, least=16) == max(expected, 16)


def test_takes_kernels__not_on_a_cpu_nor_without_triton(monkeypatch):
    class OnGPU:
        is_cuda, dtype = True, torch.float32

    assert not compiler.takes_kernels(torch.zeros(1))
    monkeypatch.setattr(compiler, "find_spec", lambda name: name)
    assert compiler.takes_kernels(OnGPU())
    monkeypatch.setattr(OnGPU, "dtype", torch.float64)
    assert not compiler.takes_kernels(OnGPU())
    monkeypatch.setattr(OnGPU, "dtype", torch.float32)
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    assert not compiler.takes_kernels(OnGPU())


@pytest.mark.parametrize(
    ("capability", "hip", "expected"), [((8, 0), None, True), ((7, 5), None, False), ((9, 0), "6", False)]
)
def test_multiplies_in_parts__from_ampere_on(capability, hip, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    compiler.multiplies_in_parts.cache_clear()
    assert compiler.multiplies_in_parts(torch.device("cuda")) == expected
    compiler.multiplies_in_parts.cache_clear()
