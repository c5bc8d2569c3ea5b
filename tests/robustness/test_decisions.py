"""Questions to ``decide`` and the like: answered as a slow count says, or refused by name."""

import pytest

from robustness.decisions import decision

pytest.importorskip("pandas")


@pytest.mark.parametrize("first", range(0, 300, 100))
@pytest.mark.filterwarnings("ignore")  # they are examined inside
def test_decisions__are_right_or_clearly_refused(first, tmp_path):
    for seed in range(first, first + 100):
        decision(seed, tmp_path)
