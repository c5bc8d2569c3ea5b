"""What the benchmarks share: options, the machine, clocks, peak memory, and how results are written."""

import argparse
import ctypes
import gc
import json
import os
import pkgutil
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from records import Record, Results

#: What is timed or replaced inside the library: the one place to change when a name there moves.
INSIDE = {
    "training": "pnca.training.loop.Run.train",
    "epoch": "pnca.training.loop.Run.advance",
    "step": "pnca.training.loop.Step.take",
    "capture": "pnca.training.graphs.CudaGraphs.capture",
    "captured step": "pnca.training.graphs.CapturedStep",
    "selection": "pnca.models.neighbours.choose",
    "experts": "pnca.models.neighbours.with_pool",
    "gather": "pnca.training.shards.ProcessShards.stack",
    "sum": "pnca.training.shards.ProcessShards.sum_",
}
NO_GPU = "no CUDA device here"

_PACKAGES = ("torch", "numpy", "scikit-learn", "scipy", "triton", "distributed", "pykeops")
_GIB = 2**30

median = statistics.median


def parser(description: str | None, *, repeats: int = 5, device: str = "cpu") -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--out", type=Path, required=True, help="Results file (JSON) to write.")
    made.add_argument("--repeats", type=int, default=repeats, help="Repetitions; medians are reported.")
    made.add_argument("--device", default=device, help="cpu or cuda.")
    made.add_argument("--threads", type=int, help="Torch threads; by default as torch is set up.")
    made.add_argument("--tiny", action="store_true", help="Toy sizes: to see that the script works.")
    return made


def command_line(arguments: argparse.Namespace) -> str:
    """Options that repeat a run, defaults included; all but where its results go."""
    words = []
    for name, value in vars(arguments).items():
        if name == "out" or value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, tuple):
            words.append(",".join(map(str, value)))
        elif value is not True:
            words += map(str, value if isinstance(value, list) else [value])
    return shlex.join(words)


def environment(device: str = "cpu") -> dict[str, Any]:
    """Describe the machine, the versions and the moment."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 2),
        "gpu": torch.cuda.get_device_name() if is_cuda(device) and torch.cuda.is_available() else None,
        "versions": versions,
        "commit": _commit(),
    }


def is_cuda(device: str) -> bool:
    """Whether a device is a GPU."""
    return device.startswith("cuda")


def interleaved(
    tasks: Mapping[str, Callable[[], object]], repeats: int, *, warm_up: int = 1, device: str = "cpu"
) -> dict[str, list[float]]:
    """Seconds of each task, in turn, so that what disturbs the machine disturbs all of them alike."""
    rounds = [{name: timed(task, device) for name, task in tasks.items()} for _ in range(warm_up + repeats)]
    return {name: [taken[name] for taken in rounds[warm_up:]] for name in tasks}


def timed(task: Callable[[], object], device: str = "cpu") -> float:
    """Seconds that a task takes, or says that it took by returning a float."""
    synchronise(device)
    start = time.perf_counter()
    own = task()
    synchronise(device)
    taken = time.perf_counter() - start
    return own if isinstance(own, float) else taken


def synchronise(device: str) -> None:
    """Wait for the GPU, where there is one."""
    if is_cuda(device):
        torch.cuda.synchronize()


def replaced(name: str, wrap: Callable[[Any], Callable[..., Any]]) -> Any:
    """Replace a part of the library by ``wrap(part)`` within a ``with`` block."""
    return mock.patch(INSIDE[name], wrap(pkgutil.resolve_name(INSIDE[name])))


@contextmanager
def clocked(name: str, device: str = "cpu") -> Iterator[dict[str, list[float]]]:
    """Time every call of a part of the library: ``wall`` seconds and those of the ``processor``."""
    seconds: dict[str, list[float]] = {"wall": [], "processor": []}

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            synchronise(device)
            wall, processor = time.perf_counter(), time.process_time()
            result = function(*arguments, **options)
            synchronise(device)
            seconds["wall"].append(time.perf_counter() - wall)
            seconds["processor"].append(time.process_time() - processor)
            return result

        return call

    with replaced(name, wrap):
        yield seconds


@contextmanager
def limited_threads(n_threads: int) -> Iterator[None]:
    """Use this many threads in torch, and in the libraries below scikit-learn that are loaded already.

    Finding these takes milliseconds: a shorter task is to be timed inside.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        with threadpool_limits(n_threads):
            yield
    finally:
        torch.set_num_threads(before)


class PeakMemory:
    """Peak memory from now on, beyond what is held now: of the GPU, or of this process (Linux)."""

    def __init__(self, device: str = "cpu") -> None:
        self.is_cuda = is_cuda(device)
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()
            return
        # Freed memory that the process still holds would hide what is needed next.
        gc.collect()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        # Where that is not allowed, only a higher peak than before can be seen.
        is_reset = process_memory("VmHWM") < 1.05 * process_memory("VmRSS")
        self.before = process_memory("VmRSS" if is_reset else "VmHWM")

    def gib(self) -> float | None:
        """Peak beyond the beginning; None if an earlier peak of the process hides it."""
        peak = torch.cuda.max_memory_allocated() if self.is_cuda else process_memory("VmHWM")
        beyond = (peak - self.before) / _GIB
        return beyond if beyond > 0 or self.is_cuda else None


def process_memory(name: str) -> int:
    """A line of /proc/self/status in bytes, or 0; getrusage would count the peak of the parent process."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0


def in_fresh_process(script: str, *arguments: object) -> Any:
    """Run a script and return what it prints last, as JSON: its peak memory is then its own."""
    command = [sys.executable, script, *map(str, arguments)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(said.stdout.splitlines()[-1])


def spread(seconds: Sequence[float]) -> dict[str, Any]:
    """Median, quartiles and number of repetitions, as fields of a record.

    Examples
    --------
    >>> spread([1.0, 2.0, 4.0])
    {'seconds': 2.0, 'low': 1.5, 'high': 3.0, 'repeats': 3}
    """
    low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
    return {"seconds": middle, "low": low, "high": high, "repeats": len(seconds)}


def finish(
    arguments: argparse.Namespace,
    name: str,
    measurements: Iterable[Sequence[Record]],
    skipped: Mapping[str, str] | None = None,
) -> None:
    """Write the results, anew after each measurement: a run that is stopped keeps what it has.

    ``skipped`` (what was not measured: why) may be filled while ``measurements`` is read.
    """
    options = {"is_tiny": arguments.tiny, "options": command_line(arguments)}
    results = Results(benchmark=name, environment={**environment(arguments.device), **options}, records=())
    for records in measurements:
        results = replace(results, records=(*results.records, *records))
        results.write(arguments.out)
        for record in records:
            is_time = record.seconds is not None
            number = f"{record.seconds:.4g} s" if is_time else f"{record.value} {record.unit}"
            print(f"{record.name}, n = {record.n}: {number}", flush=True)
    for left_out, reason in (skipped or {}).items():
        print(f"{left_out}: skipped, {reason}")
    reasons = tuple({"name": left_out, "reason": reason} for left_out, reason in (skipped or {}).items())
    print(f"written to {replace(results, skipped=reasons).write(arguments.out)}")


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def _commit() -> str | None:
    """The commit that is measured, if this is a repository; with a plus sign if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    with suppress(OSError, subprocess.CalledProcessError):
        said = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
        return said.stdout.strip()
    return None
