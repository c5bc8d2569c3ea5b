"""Taking times: the machine, interleaved repetitions, medians, and inputs to run on."""

import argparse
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from records import Record, Results

#: Columns of an MNIST image.
COLUMNS = 784

_PACKAGES = ("torch", "numpy", "scikit-learn", "scipy", "triton", "distributed", "pykeops")


def parser(description: str | None, *, repeats: int = 5) -> argparse.ArgumentParser:
    """The options that every benchmark has.

    Parameters
    ----------
    description : str or None
        The script's docstring.
    repeats : int
        Repetitions by default.

    Returns
    -------
    argparse.ArgumentParser
    """
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--out", type=Path, required=True, help="Results file (JSON) to write.")
    made.add_argument("--repeats", type=int, default=repeats, help="Repetitions; medians are reported.")
    made.add_argument("--device", default="cpu", help="cpu or cuda.")
    made.add_argument("--threads", type=int, help="Torch threads; by default as torch is set up.")
    made.add_argument("--tiny", action="store_true", help="Toy sizes: to see that the script works.")
    return made


def command_line(arguments: argparse.Namespace) -> str:
    """Options that repeat a run, those by default included; all but where its results go.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of :func:`parser`.

    Returns
    -------
    str
    """
    words = []
    for name, value in vars(arguments).items():
        if name == "out" or value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, tuple):
            words.append(",".join(map(str, value)))
        elif value is not True:
            words += [str(item) for item in (value if isinstance(value, list) else [value])]
    return " ".join(words)


def environment(device: str = "cpu") -> dict[str, Any]:
    """Describe the machine, the versions and the moment.

    Parameters
    ----------
    device : str
        Where the benchmark runs.

    Returns
    -------
    dict
    """
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    gpu = torch.cuda.get_device_name() if device.startswith("cuda") and torch.cuda.is_available() else None
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 2),
        "gpu": gpu,
        "versions": found,
        "commit": _commit(),
    }


def interleaved(
    tasks: Mapping[str, Callable[[], object]], repeats: int, *, warm_up: int = 1, device: str = "cpu"
) -> dict[str, list[float]]:
    """Time tasks in turn, so that what disturbs the machine disturbs all of them alike.

    Parameters
    ----------
    tasks : mapping of str to callable
        What to time; a task that returns a float has timed itself.
    repeats : int
        Rounds that count.
    warm_up : int
        Rounds before, which do not.
    device : str
        On ``"cuda"`` the clock stops when the GPU has finished.

    Returns
    -------
    dict of str to list of float
        Seconds of each round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for round_ in range(warm_up + repeats):
        for name, task in tasks.items():
            taken = timed(task, device)
            if round_ >= warm_up:
                seconds[name].append(taken)
    return seconds


def timed(task: Callable[[], object], device: str = "cpu") -> float:
    """Seconds that a task takes, or says that it took."""
    synchronise(device)
    start = time.perf_counter()
    own = task()
    synchronise(device)
    taken = time.perf_counter() - start
    return own if isinstance(own, float) else taken


def synchronise(device: str) -> None:
    """Wait for the GPU, where there is one."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


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


def spread(seconds: Sequence[float]) -> dict[str, Any]:
    """Median, quartiles and number of repetitions, as fields of a record.

    Parameters
    ----------
    seconds : sequence of float
        At least one.

    Returns
    -------
    dict

    Examples
    --------
    >>> spread([1.0, 2.0, 4.0])
    {'seconds': 2.0, 'low': 1.5, 'high': 3.0, 'repeats': 3}
    """
    low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
    return {"seconds": middle, "low": low, "high": high, "repeats": len(seconds)}


def median(seconds: Sequence[float]) -> float:
    """Median of times."""
    return statistics.median(seconds)


def make_inputs(
    n: int, n_classes: int = 10, columns: int = COLUMNS, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Make inputs in [0, 1] that can be told apart with effort: times do not need real images.

    Parameters
    ----------
    n : int
        Rows.
    n_classes : int
        Classes, in turn.
    columns : int
        Numbers in a row.
    seed : int
        Of the draw; the classes look the same with every seed.

    Returns
    -------
    inputs : ndarray of shape (n, columns)
    labels : ndarray of shape (n,)
    """
    centres = np.random.RandomState(0).uniform(size=(n_classes, columns))
    labels = np.arange(n) % n_classes
    noise = np.random.RandomState(seed).uniform(size=(n, columns))
    return (0.3 * centres[labels] + 0.7 * noise).astype(np.float32), labels


def finish(
    arguments: argparse.Namespace,
    name: str,
    measurements: Iterable[Sequence[Record]],
    skipped: Sequence[Mapping[str, str]] = (),
) -> None:
    """Write the results, anew after each measurement: a run that is stopped keeps what it has.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of :func:`parser`.
    name : str
        The benchmark.
    measurements : iterable of sequences of Record
        Perhaps a generator, which measures while it is read.
    skipped : sequence of mapping
        ``name`` and ``reason`` of what was not measured.
    """
    about = {
        **environment(arguments.device),
        "is_tiny": arguments.tiny,
        "options": command_line(arguments),
    }
    done: list[Record] = []
    for records in measurements:
        done += records
        Results(benchmark=name, environment=about, records=tuple(done)).write(arguments.out)
        for record in records:
            number = (
                f"{record.seconds:.4g} s" if record.seconds is not None else f"{record.value} {record.unit}"
            )
            print(f"{record.name}, n = {record.n}: {number}", flush=True)
    for left_out in skipped:
        print(f"{left_out['name']}: skipped, {left_out['reason']}")
    results = Results(benchmark=name, environment=about, records=tuple(done), skipped=tuple(skipped))
    print(f"written to {results.write(arguments.out)}")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str | None:
    """The commit that is measured, if this is a repository; with a plus sign if files differ from it."""
    folder = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()
