"""Fits that are killed at any moment and started again."""

import multiprocessing
import time
from contextlib import nullcontext

import numpy as np
import torch

import pnca
from pnca.files import LOCK
from robustness.fits import assert_same, fitted, outcome, random_fit

#: A process from which others are forked: torch is imported once, and has no threads yet.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["pytest", "torch._dynamo", "pnca.models.neighbours", "sklearn.datasets", "safetensors.torch", "filelock"]
)
#: Kills after which the fit is left alone.
_MOST_KILLS = 5


def _fit(seed, folder, every, begins, result):
    """What each process does: tell when it begins to fit, and keep the outcome and the seconds."""
    torch.set_num_threads(1)
    model, X, y = random_fit(np.random.RandomState(seed))
    begins.send(None)
    start = time.perf_counter()
    with nullcontext() if folder is None else pnca.checkpoints(folder, every=every):
        model = fitted(model, X, y)
    np.savez(result, seconds=time.perf_counter() - start, **outcome(model, X))


def _begin(*arguments, result):
    """Start the fit in a process of its own, and wait until it begins."""
    begun, begins = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_fit, args=(*arguments, begins, result))
    process.start()
    begins.close()
    begun.recv()
    return process


def _loaded(path):
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def killed_fit(seed, folder):
    """A fit that is killed at random moments, and started again until it ends, is as one that was not."""
    rng = np.random.RandomState(seed)
    every, kept = int(rng.randint(1, 5)), folder / "checkpoints"
    whole, resumed = folder / "whole.npz", folder / "resumed.npz"
    process = _begin(seed, None, every, result=whole)
    process.join()
    assert process.exitcode == 0, f"seed {seed}: a fit that nobody kills fails"
    expected = _loaded(whole)
    seconds, n_kills = float(expected.pop("seconds")), 0
    while True:
        process = _begin(seed, kept, every, result=resumed)
        process.join(1.3 * rng.rand() * seconds if n_kills < _MOST_KILLS else None)
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        n_kills += 1
    # A kill may come after the last moment of the fit.
    case = f"seed {seed}, every {every}, {n_kills} kills"
    assert process.exitcode == 0, f"{case}: a resumed fit fails"
    found = _loaded(resumed)
    del found["seconds"]
    assert_same(found, expected, case)
    left = {path.name for path in kept.iterdir()} - {LOCK}
    assert not left, f"{case}: left {left}"
