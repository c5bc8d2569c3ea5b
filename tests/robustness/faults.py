"""Cases that go wrong in every way, for the tests of the pool that runs them."""

import os
import time

import numpy as np

from robustness.verdicts import Skipped


def right(seed, folder):
    """Nothing is wrong, and the folder is the case's own."""
    (folder / "mine").mkdir()


def wrong(seed, folder):
    """A failure."""
    raise AssertionError(f"wrong {seed}: one is two")


def raw(seed, folder):
    """An error of another kind."""
    raise KeyError(seed)


def skipped(seed, folder):
    """A case that needs what is not here."""
    raise Skipped("no such package")


def crashing(seed, folder):
    """The process ends at once."""
    os._exit(7)


def hanging(seed, folder):
    """It never ends."""
    time.sleep(1000)


def greedy(seed, folder):
    """It takes more memory than there should be."""
    kept = np.ones(3 * 2**27)
    time.sleep(1000 + kept[0])
