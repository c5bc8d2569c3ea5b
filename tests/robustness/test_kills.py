"""Fits that are killed or interrupted: a few of those that full.py runs by the hundred."""

import pytest

from robustness.interrupts import interrupted_fit
from robustness.kills import killed_fit


@pytest.mark.parametrize("seed", range(4))
def test_kill__costs_nothing_but_time(seed, tmp_path):
    killed_fit(seed, tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_ctrl_c__ends_a_fit_and_keeps_what_it_learnt(seed, tmp_path):
    interrupted_fit(seed, tmp_path, limit=10.0)  # other tests may run beside
