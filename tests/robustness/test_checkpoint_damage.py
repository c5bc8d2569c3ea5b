"""A checkpoint that is damaged or forged is refused by name; it never becomes another model."""

import pytest
import torch

from robustness.checkpoints import (
    assert_same_or_refused,
    damaged_checkpoint,
    forged,
    resumed,
    whole,
    written,
)
from robustness.fits import assert_same


def test_checkpoint__as_it_was_written_is_resumed(tmp_path):
    assert_same(resumed(written(), tmp_path), whole(), "as it was")


def test_checkpoint__bits_that_flip_are_found(tmp_path):
    rng = torch.Generator().manual_seed(0)
    content = written()
    n_header = 8 + int.from_bytes(content[:8], "little")
    for begin, end in [(0, 8), (8, n_header), (n_header, len(content))]:
        for place in torch.randint(begin, end, (6,), generator=rng).tolist():
            damaged = bytearray(content)
            damaged[place] ^= 1 << place % 8
            assert_same_or_refused(bytes(damaged), tmp_path, f"bit {place % 8} of byte {place}")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_checkpoint__truncated_or_with_a_zeroed_tail_is_refused(share, tmp_path):
    content = written()
    n = int(share * len(content))
    assert resumed(content[:n], tmp_path) is None
    assert resumed(content[:n] + bytes(len(content) - n), tmp_path) is None


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
        set_tensor("optimiser.mean", torch.zeros(1)),
        set_tensor("snapshots.1.embeddings", torch.zeros(1, 1, 1)),
        set_tensor("snapshots.1.particles", torch.zeros(1, 1)),
        set_tensor("snapshots.one.particles", torch.zeros(1, 1)),
        set_tensor("another.part", torch.zeros(1)),
        set_tensor("rng.json", torch.zeros(5, dtype=torch.uint8)),
        lambda metadata, tensors: tensors.pop("particles.values"),
        lambda metadata, tensors: tensors.pop("rng.json"),
        lambda metadata, tensors: [
            tensors.pop(f"snapshots.2.{part}") for part in ("particles", "embeddings")
        ],
    ],
)
def test_checkpoint__forged_with_a_digest_that_fits_is_refused(change, tmp_path):
    assert resumed(forged(change), tmp_path) is None


def test_checkpoint__forged_without_a_change_is_taken(tmp_path):
    assert_same(resumed(forged(lambda metadata, tensors: None), tmp_path), whole(), "forged as it was")


@pytest.mark.parametrize("seed", range(20))
def test_checkpoint__with_random_damage_is_refused_or_resumed(seed, tmp_path):
    damaged_checkpoint(seed, tmp_path)
