import pytest
import torch

from pnca.exceptions import InvalidInputError
from pnca.models.fitted import resolve_device


def test_resolve_device__auto_takes_a_gpu_only_if_there_is_one():
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["nonsense", "cuda:99"])
def test_resolve_device__unusable_device_is_one_clear_sentence(name):
    with pytest.raises(InvalidInputError, match="use 'auto' or 'cpu'"):
        resolve_device(name)
