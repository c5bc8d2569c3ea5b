"""Metrics of odd arrays: right, or refused by the name of the argument."""

import pytest

from robustness.metrics import metric_call


@pytest.mark.parametrize("first", range(0, 300, 100))
@pytest.mark.filterwarnings("ignore")  # they are examined inside
def test_metrics__are_right_or_clearly_refused(first, tmp_path):
    for seed in range(first, first + 100):
        metric_call(seed, tmp_path)
