import pytest

from robustness.cells import damaged_cell, damaged_run


@pytest.mark.parametrize("seed", range(60))
def test_damaged_cell__is_named_left_out_and_computed_again(seed, tmp_path):
    damaged_cell(seed, tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_run__is_named_or_as_it_was_written(seed, tmp_path):
    damaged_run(seed, tmp_path)
