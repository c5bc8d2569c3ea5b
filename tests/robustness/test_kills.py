"""Fits that are killed or interrupted: a few of those that full.py runs by the hundred."""

import gc
import sys

import pytest

from robustness.interrupts import interrupted_fit, losses_allowed
from robustness.kills import killed_fit


@pytest.mark.parametrize("seed", range(4))
def test_kill__costs_nothing_but_time(seed, tmp_path):
    killed_fit(seed, tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_ctrl_c__ends_a_fit_and_keeps_what_it_learnt(seed, tmp_path):
    interrupted_fit(seed, tmp_path, limit=10.0)  # other tests may run beside


class Dying:
    """Its finaliser raises, which Python tells and forgets."""

    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error


def test_ctrl_c__that_python_loses_is_no_failure_of_the_fit(monkeypatch):
    told, callbacks = [], (*gc.callbacks, lambda *of_collection: None)
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))
    monkeypatch.setattr(gc, "callbacks", list(callbacks))
    with losses_allowed():
        for error in (KeyboardInterrupt, ValueError):
            Dying(error)
        assert not gc.callbacks
    assert told == [ValueError]
    assert gc.callbacks == [*callbacks]
    Dying(KeyboardInterrupt)
    assert told == [ValueError, KeyboardInterrupt]
