"""All tests of kernels, run in Triton's interpreter where there is no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelerated.interpreter import IS_INTERPRETED
from pnca.accelerated.compiler import is_available

FOLDER = Path(__file__).parent
FILES = sorted(path.name for path in FOLDER.glob("test_*.py") if "@runs_kernels" in path.read_text())
SLOW = "test_masses.py"  # as long as all others together: they can run beside it


@pytest.mark.skipif(IS_INTERPRETED, reason="this is the interpreter")
@pytest.mark.skipif(not is_available(), reason="Triton is not installed")
@pytest.mark.parametrize(
    "files", [[SLOW], [name for name in FILES if name != SLOW]], ids=["masses", "others"]
)
def test_kernels__in_the_interpreter(files):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    paths = [str(FOLDER / name) for name in files]
    outcome = subprocess.run(
        [*command, *paths], env=environment, cwd=FOLDER.parents[1], capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert " passed" in outcome.stdout
