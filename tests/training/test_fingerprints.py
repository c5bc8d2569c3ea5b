import numpy as np
import pytest
import torch
from torch import nn

from pnca.training.fingerprints import fingerprint, fit_fingerprints, parameter_fingerprints

VALUES = [
    np.arange(6, dtype=np.float32),
    np.arange(6, dtype=np.int32),
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.float32)[::-1],
    np.array(["ash", "birch"]),
    np.array(["ash", None], dtype=object),
    np.empty((0, 3)),
    None,
    (200, 200),
    0.1,
]


def test_fingerprint__differs_for_different_things():
    assert len({fingerprint(value) for value in VALUES}) == len(VALUES)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_fingerprint__is_the_same_for_a_copy(value):
    copy = value.copy() if isinstance(value, np.ndarray) else value
    assert fingerprint(copy) == fingerprint(value)
    assert len(fingerprint(value)) == 16


def test_fingerprint__does_not_hang_on_memory_order_or_container():
    array = np.arange(6.0).reshape(2, 3)
    assert fingerprint(np.asfortranarray(array)) == fingerprint(array) == fingerprint(torch.from_numpy(array))


def test_fingerprint__of_a_module_is_of_its_weights():
    layer = nn.Linear(2, 2)
    before = fingerprint(layer)
    assert fingerprint(layer) == before
    with torch.no_grad():
        layer.bias += 1
    assert fingerprint(layer) != before


def test_parameter_fingerprints__leave_out_what_does_not_decide():
    found = parameter_fingerprints({"bandwidth": 1.0, "device": "cpu", "verbose": 1, "random_state": 0})
    assert found == {"bandwidth": fingerprint(1.0)}


def test_fit_fingerprints__each_part_has_a_name_of_its_own():
    def of(**changes):
        parts = {"model": "NCA", "parameters": {"bandwidth": 1.0, "verbose": 0}}
        return fit_fingerprints(**{**parts, "X": np.arange(3.0), "y": [np.arange(3), None], **changes})

    assert list(of()) == ["model", "version of pnca", "X", "y", "bandwidth"]
    for name, change in {
        "model": {"model": "DNN"},
        "X": {"X": np.arange(1, 4.0)},
        "y": {"y": [np.arange(3), np.arange(3)]},
        "bandwidth": {"parameters": {"bandwidth": 2.0, "verbose": 1}},
    }.items():
        assert [key for key, value in of(**change).items() if value != of()[key]] == [name]
