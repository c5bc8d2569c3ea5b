"""Data shared by the tests of this folder."""

import numpy as np
import pytest
from sklearn.datasets import load_iris


@pytest.fixture(scope="session")
def iris():
    """Irises, standardised and shuffled, in float32; read-only."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)[order]
    y = y[order]
    X.setflags(write=False)
    y.setflags(write=False)
    return X, y
