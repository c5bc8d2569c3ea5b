"""Small fits of odd parameters on odd data, and what they say of odd queries: right, or clearly refused."""

import pytest

from robustness.small_fits import default_fit, small_fit


@pytest.mark.parametrize("first", range(0, 200, 10))
@pytest.mark.filterwarnings("ignore")  # they are examined inside
def test_small_fits__are_right_or_clearly_refused(first, tmp_path):
    for seed in range(first, first + 10):
        small_fit(seed, tmp_path)


@pytest.mark.parametrize("seed", [0])
@pytest.mark.filterwarnings("ignore")
def test_default_fits__are_right(seed, tmp_path):
    default_fit(seed, tmp_path)
