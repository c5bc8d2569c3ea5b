"""Predictions of small fits are those in the repository: a change of these numbers is a change of a model.

``tests/manifest.py`` says how the file is renewed, and compares many more fits bit for bit.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

import manifest

FILE = Path(__file__).with_name("manifest.npz")


@pytest.fixture(scope="module")
def stored():
    """Predictions by the name of the fit and of the array."""
    with np.load(FILE) as arrays:
        return dict(arrays)


@pytest.fixture
def one_thread():
    """Sums do not depend on the number of cores."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@pytest.mark.all_trees
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", manifest.STORED)
def test_predictions__are_those_in_the_repository(name, stored):
    found = manifest.named(name, manifest.results(manifest.cases()[name]), manifest.PREDICTIONS)
    assert set(found) == {array for array in stored if array.startswith(f"{name}|")}
    for array, values in found.items():
        # Another instruction set of the processor moves them by less than a tenth of this.
        np.testing.assert_allclose(values, stored[array], rtol=1e-6, atol=1e-6, err_msg=array)


def test_file__is_small_and_has_these_fits_in_float64(stored):
    assert {array.split("|")[0] for array in stored} == set(manifest.STORED)
    assert {values.dtype for values in stored.values()} == {np.dtype(np.float64)}
    assert FILE.stat().st_size < 60_000
