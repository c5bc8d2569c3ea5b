"""A few of the failing folders that full.py tries by the hundred."""

import pytest

from robustness.checkpoint_folders import failing_folder


@pytest.mark.parametrize("seed", range(16))
def test_checkpoint_folder__that_fails_is_refused_or_costs_no_fit(seed, tmp_path):
    failing_folder(seed, tmp_path)
