"""Tables of odd columns: right, or clearly refused."""

import pytest

from robustness.tables import odd_table

pytest.importorskip("pandas")


@pytest.mark.parametrize("first", range(0, 40, 10))
@pytest.mark.filterwarnings("ignore")  # they are examined inside
def test_tables__of_odd_columns_are_right_or_clearly_refused(first, tmp_path):
    for seed in range(first, first + 10):
        (folder := tmp_path / str(seed)).mkdir()
        odd_table(seed, folder)
