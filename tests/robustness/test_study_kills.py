import sys

import pytest

from robustness.study_kills import killed_study

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.mark.parametrize("seed", range(2))
def test_killed_study__resumed_is_as_if_undisturbed_and_no_worker_is_left(seed, tmp_path):
    killed_study(seed, tmp_path)
