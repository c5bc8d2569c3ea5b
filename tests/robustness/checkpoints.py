"""Checkpoints that are damaged or forged: each is refused by name, or resumed to the same model."""

import functools
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from safetensors.torch import load, save

import pnca
from models import make
from pnca.exceptions import PncaError
from pnca.training.checkpoints import _digest
from pnca.training.loop import Run
from robustness.fits import assert_same, fitted, outcome
from robustness.mutators import flips, truncations, zeroed_tails

FILE = "fit-001.safetensors"
X = np.random.RandomState(0).normal(size=(24, 3)).astype(np.float32)
Y = np.arange(24) % 2
MODEL = make("PNCA", n_particles=2, hidden_layer_sizes=(3,), max_epochs=12, n_folds=2, dropout=0.2)


class KilledError(Exception):
    pass


@functools.cache
def written():
    """The checkpoint of a fit that was killed after eight of twelve epochs, with snapshots in it."""
    original = Run.advance

    def dying(run):
        if run.n_epochs == 8:
            raise KilledError
        original(run)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(Run, "advance", dying):
        with suppress(KilledError), pnca.checkpoints(folder, every=4):
            fitted(MODEL, X, Y)
        return (Path(folder) / FILE).read_bytes()


@functools.cache
def whole():
    """What the fit that was not killed led to."""
    return outcome(fitted(MODEL, X, Y), X)


def resumed(content, folder):
    """The outcome of the fit that goes on from this file; None if it is refused in our own words."""
    (folder / FILE).write_bytes(content)
    try:
        with pnca.checkpoints(folder, every=4):
            return outcome(fitted(MODEL, X, Y), X)
    except PncaError as error:
        refusal = str(error)
    for word in (FILE, "delete"):
        assert word in refusal, f"a refusal without {word!r}: {refusal}"
    return None


def assert_same_or_refused(content, folder, case):
    """A damaged file becomes no other model."""
    found = resumed(content, folder)
    if found is not None:
        assert_same(found, whole(), case)


def forged(change):
    """The file with its metadata and tensors changed, and a digest that fits them."""
    content = written()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    metadata, tensors = json.loads(header["__metadata__"]["pnca"]), load(content)
    del metadata["digest"]
    change(metadata, tensors)
    metadata["digest"] = _digest(metadata, tensors)
    return save(tensors, metadata={"pnca": json.dumps(metadata)})


def _reshaped(tensor, rng):
    """The tensor with another shape or type."""
    shape = list(tensor.shape) or [1]
    side = rng.randint(len(shape))
    shape[side] = max(0, shape[side] + int(rng.choice([-1, 1, 2])))
    kinds = [torch.float64, torch.float16, torch.int64, torch.bool]
    return [torch.zeros(shape, dtype=tensor.dtype), tensor.to(kinds[rng.randint(4)]).clone()][rng.randint(2)]


def _change(rng):
    """A change of what a checkpoint holds that cannot go on from there, and its name."""

    def epoch(metadata, tensors):
        metadata["epoch"] = [-1, 0, 7, 9, 12, 13, 10**9, "8", None, [8], 8.5][rng.randint(11)]

    def identity(metadata, tensors):
        metadata["fingerprints"] = [{}, [], None, {"X": 1}][rng.randint(4)]

    def seed(metadata, tensors):
        metadata["seed"] = [-1, 2**32, "1", None, []][rng.randint(5)]

    def lost(metadata, tensors):
        del tensors[sorted(tensors)[rng.randint(len(tensors))]]

    def other(metadata, tensors):
        name = sorted(tensors)[rng.randint(len(tensors))]
        tensors[name] = _reshaped(tensors[name], rng)

    def renamed(metadata, tensors):
        name = sorted(tensors)[rng.randint(len(tensors))]
        tensors[f"{name}.more"] = tensors.pop(name)

    def moved(metadata, tensors):
        """A snapshot of another epoch."""
        of, to = ["1", "2", "4"][rng.randint(3)], ["0", "3", "7", "12", "99", "-1", "x"][rng.randint(7)]
        for part in ("particles", "embeddings"):
            tensors[f"snapshots.{to}.{part}"] = tensors.pop(f"snapshots.{of}.{part}")

    def unlike(metadata, tensors):
        """Snapshots of other particles, or of other examples."""
        for name in [name for name in tensors if name.startswith("snapshots.")]:
            if name.endswith(part):
                tensors[name] = torch.cat([tensors[name], tensors[name]], dim=dim)

    part, dim = str(rng.choice(["particles", "embeddings"])), int(rng.randint(2))
    changes = [epoch, identity, seed, lost, other, renamed, moved, unlike]
    change = changes[rng.randint(len(changes))]
    return change, change.__name__


def damaged_checkpoint(seed, folder):
    """A checkpoint with random damage, or forged with a digest that fits."""
    rng = np.random.RandomState(seed)
    kind = rng.randint(5)
    if kind < 2:
        change, name = _change(rng)
        found = resumed(forged(change), folder)
        assert found is None, f"seed {seed}: a forged checkpoint ({name}) is taken"
        return
    damages = [
        lambda: flips(written(), rng, 1),
        lambda: truncations(written()),
        lambda: zeroed_tails(written()),
    ]
    of_kind = list(damages[kind - 2]())
    name, content = of_kind[rng.randint(len(of_kind))]
    assert_same_or_refused(content, folder, f"seed {seed}, {name}")
