"""Random predictions shared by the tests of this folder."""

import numpy as np
import pytest


def _read_only_predictions(seed, n=60, c=4):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(c, 0.6), size=n)
    labels = rng.integers(0, c, size=n)
    # Read-only, so that a metric which writes into its input fails loudly.
    probabilities.setflags(write=False)
    labels.setflags(write=False)
    return labels, probabilities


@pytest.fixture
def make_predictions():
    return _read_only_predictions
