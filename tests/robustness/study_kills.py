"""A study that is killed at any moment and resumed is the study that nobody killed, and leaves no worker."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from uuid import uuid4

from robustness.verdicts import need_commands

OPTIONS = ["--trials", "1", "--data-sets", "iris", "--models", "k-NN;DNN;nearest distance"]
#: Seconds in which workers notice that their parent is gone, on a machine with other work to do.
PATIENCE = 5.0
#: The environment variable by which the processes of one study are found.
MARK = "PNCA_TEST_FAMILY"


def killed_study(seed: int, folder: Path) -> None:
    """Kill or end a study at some moment, continue it as it says, and compare it with an undisturbed one."""
    need_commands()
    rng, name = random.Random(seed), f"study {seed}"
    jobs = rng.choice([1, 2])
    number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    duration, undisturbed = _undisturbed()
    out, family = folder / "run", uuid4().hex
    process = _start(family, folder, *OPTIONS, "--jobs", str(jobs), "--out", str(out))
    # Half of them once there is a folder: all that comes before is the start of Python.
    if rng.random() < 0.5:
        while process.poll() is None and not out.exists():
            time.sleep(0.01)
        duration *= 0.5
    try:
        process.wait(rng.random() * duration)
    except subprocess.TimeoutExpired:
        # Ctrl-C goes to every process of a terminal.
        (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
    said, _ = process.communicate()
    assert_gone(family, name)
    assert "Traceback" not in said or not out.exists(), f"{name}: {said}"
    if "Stopped" in said:
        assert process.returncode == 128 + number, f"{name}: it ended with {process.returncode}"
    again = _start(family, folder, *OPTIONS, "--jobs", "1", "--out", str(out))
    said, _ = again.communicate()
    assert again.returncode == 0, f"{name}, {number!r}: {said}"
    assert _cells(out) == undisturbed, f"{name}, {number!r}: other results"
    assert not list(out.rglob("*.tmp")), f"{name}: a half-written file was left"
    assert_gone(family, name)


def _cells(folder: Path) -> dict[str, object]:
    """What every cell of a folder has measured, by its key; each must be there once."""
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    found = {line["key"]: line["measures"] for line in lines}
    assert len(found) == len(lines)
    return found


@cache
def _undisturbed() -> tuple[float, dict[str, object]]:
    """Seconds and results of a study that is left alone."""
    folder = Path(tempfile.mkdtemp())
    try:
        start = time.monotonic()
        process = _start(uuid4().hex, folder, *OPTIONS, "--jobs", "1", "--out", str(folder / "run"))
        said, _ = process.communicate()
        assert process.returncode == 0, said
        return time.monotonic() - start, _cells(folder / "run")
    finally:
        shutil.rmtree(folder)


def _start(family: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the benchmark of a family of processes, on data that come with scikit-learn."""
    environment = {**os.environ, "PNCA_DATA_DIR": "", "PNCA_CACHE_DIR": str(folder / "cache"), MARK: family}
    return subprocess.Popen(
        [sys.executable, "-m", "pnca.interfaces.cli", "benchmark", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**environment, "COLUMNS": "1000"},
    )


def family_of(mark: str) -> list[int]:
    """Processes that were started with this mark in their environment, and their descendants."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_dead = " Z " in (entry / "stat").read_text()
            if not is_dead and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def assert_gone(family: str, name: str) -> None:
    """Wait a little for the last process of a family to end."""
    deadline = time.monotonic() + PATIENCE
    while left := family_of(family):
        assert time.monotonic() < deadline, f"{name}: the processes {left} were left"
        time.sleep(0.05)
