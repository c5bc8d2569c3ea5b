"""Workers end with the process that started them."""

import os
import subprocess
import sys
from uuid import uuid4

import pytest

from robustness.study_kills import MARK, assert_gone, family_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

BUSY = """
import time
from pnca_studies.experiments.grid import Engine, run_cells

def work(cell, data):
    print("begun", flush=True)
    time.sleep(100)

if __name__ == "__main__":
    list(run_cells([1, 2], work, None, Engine(name=%r, jobs=2)))
"""


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_workers__end_when_their_parent_is_killed(engine, tmp_path):
    (script := tmp_path / "busy.py").write_text(BUSY % engine)
    family = uuid4().hex
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, env={**os.environ, MARK: family}
    )
    for _ in range(2):
        assert process.stdout.readline() == b"begun\n"
    assert len(family_of(family)) >= 3
    process.kill()
    process.communicate()
    assert_gone(family, engine)


def test_workers__that_are_begun_leave_ctrl_c_to_their_parent():
    code = """
import os, signal
from pnca_studies.experiments.workers import begin_worker
begin_worker(os.getppid())
os.kill(os.getpid(), signal.SIGINT)
print("alive", "torch" in __import__("sys").modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "alive False\n"
