"""A checkpoint that is damaged or forged is refused by name; it never becomes another model."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.base import clone

import pnca
from models import make
from pnca.exceptions import PncaError
from pnca.training.checkpoints import _digest
from pnca.training.loop import Run

X = np.random.RandomState(0).normal(size=(24, 3)).astype(np.float32)
Y = np.arange(24) % 2


class KilledError(Exception):
    pass


@pytest.fixture(scope="module")
def model():
    return make("PNCA", n_particles=2, hidden_layer_sizes=(3,), max_epochs=12, n_folds=2, dropout=0.2)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """The checkpoint of a fit that was killed after eight of twelve epochs, with a snapshot in it."""
    folder, original = tmp_path_factory.mktemp("killed"), Run.advance

    def dying(run):
        if run.n_epochs == 8:
            raise KilledError
        original(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "advance", dying)
        with pytest.raises(KilledError), pnca.checkpoints(folder, every=4):
            clone(model).fit(X, Y)
    return (folder / "fit-001.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(model):
    return clone(model).fit(X, Y)


def resumed(model, content, folder):
    """The fit that goes on from this file; None if the file is refused in our own words."""
    (folder / "fit-001.safetensors").write_bytes(content)
    refusal: PncaError
    try:
        with pnca.checkpoints(folder, every=4):
            return clone(model).fit(X, Y)
    except PncaError as error:
        refusal = error
    assert "fit-001.safetensors" in str(refusal)
    assert "delete" in str(refusal)
    return None


def assert_same_or_refused(model, content, folder, whole):
    found = resumed(model, content, folder)
    if found is not None:
        np.testing.assert_array_equal(found.particles_, whole.particles_)
        assert found.history_ == whole.history_


def forged(content, change):
    """The file with its metadata and tensors changed, and a digest that fits them."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    metadata, tensors = json.loads(header["__metadata__"]["pnca"]), load(content)
    del metadata["digest"]
    change(metadata, tensors)
    metadata["digest"] = _digest(metadata, tensors)
    return save(tensors, metadata={"pnca": json.dumps(metadata)})


def test_checkpoint__as_it_was_written_is_resumed(model, content, whole, tmp_path):
    found = resumed(model, content, tmp_path)
    np.testing.assert_array_equal(found.particles_, whole.particles_)


@pytest.mark.parametrize("seed", range(5))
def test_checkpoint__bits_that_flip_are_found(model, content, whole, tmp_path, seed):
    rng = np.random.RandomState(seed)
    n_header = 8 + int.from_bytes(content[:8], "little")
    for place in [*rng.randint(0, n_header, size=6), *rng.randint(n_header, len(content), size=6)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randint(8)
        assert_same_or_refused(model, bytes(damaged), tmp_path, whole)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_checkpoint__truncated_or_with_a_zeroed_tail_is_refused(model, content, tmp_path, share):
    n = int(share * len(content))
    assert resumed(model, content[:n], tmp_path) is None
    assert resumed(model, content[:n] + bytes(len(content) - n), tmp_path) is None


def set_epoch(value):
    return lambda metadata, tensors: metadata.update(epoch=value)


def set_tensor(name, value):
    return lambda metadata, tensors: tensors.update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        set_epoch(10**9),
        set_epoch(-1),
        set_epoch(12),
        set_epoch("8"),
        set_tensor("log.means", torch.zeros(13, 2)),
        set_tensor("log.means", torch.zeros(8, 3)),
        set_tensor("particles.values", torch.zeros(1, 1)),
        set_tensor("particles.values", torch.zeros(4, 17, dtype=torch.float64)),
        set_tensor("optimiser.exp_avg", torch.zeros(1)),
        set_tensor("snapshots.1.embeddings", torch.zeros(1, 1, 1)),
        set_tensor("snapshots.1.particles", torch.zeros(1, 1)),
        set_tensor("snapshots.one.particles", torch.zeros(1, 1)),
        set_tensor("another.part", torch.zeros(1)),
        set_tensor("rng.json", torch.zeros(5, dtype=torch.uint8)),
        lambda metadata, tensors: tensors.pop("particles.values"),
        lambda metadata, tensors: tensors.pop("rng.json"),
    ],
)
def test_checkpoint__forged_with_a_digest_that_fits_is_refused(model, content, tmp_path, change):
    assert resumed(model, forged(content, change), tmp_path) is None


def test_checkpoint__forged_without_a_change_is_taken(model, content, whole, tmp_path):
    found = resumed(model, forged(content, lambda metadata, tensors: None), tmp_path)
    np.testing.assert_array_equal(found.particles_, whole.particles_)
