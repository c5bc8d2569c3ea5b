"""Growth: time and peak memory of fit and predict against n, m, d and the number of classes."""

import argparse
import ctypes
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from exponents import growth_law
from measuring import finish, make_inputs, median, parser, synchronise, timed
from pnca import PNCAClassifier
from records import Record

#: What stays as it is while one letter varies.
BASE = {"n": 1000, "m": 5, "d": 10, "c": 10}
SWEEPS = {"n": (250, 500, 1000, 2000, 4000), "m": (2, 4, 8, 16), "d": (2, 8, 32, 128), "c": (2, 10, 50, 250)}
#: The kernels compared. One that this version does not know is skipped.
KERNELS: dict[str, dict[str, Any]] = {
    "exact, cross": {"kernel": "exact", "expectation": "cross"},
    "exact, shared": {"kernel": "exact", "expectation": "shared"},
    "positive": {"kernel": "positive", "expectation": "cross"},
}
#: Rows of a prediction.
N_PREDICTED = 1000
_GIB = 2**30


class _Clocked(PNCAClassifier):
    """Notes the time at the end of every epoch."""

    def _snapshots(self, *arguments: Any, **options: Any) -> list[Any]:
        synchronise(self.device)
        self.clock.append(time.perf_counter())
        return super()._snapshots(*arguments, **options)

    @property
    def clock(self) -> list[float]:
        """Moments, in seconds."""
        return self.__dict__.setdefault("moments", [])


def measure_point(
    *, kernel: str, n: int, m: int, d: int, c: int, device: str, epochs: int, n_predicted: int = N_PREDICTED
) -> dict[str, float | None]:
    """Fit and predict in this process.

    Parameters
    ----------
    kernel : str
        A key of ``KERNELS``.
    n, m, d, c : int
        Points, particles, latent dimensions, classes.
    device : str
        Where.
    epochs : int
        Passes over the data, of which the first does not count.
    n_predicted : int
        Rows to predict.

    Returns
    -------
    dict
        ``fit_seconds`` (an epoch), ``predict_seconds``, ``fit_gib``, ``predict_gib``: memory beyond what the
        process held before.
    """
    (X, y), (new, _) = make_inputs(n, c), make_inputs(n_predicted, c, seed=1)
    # What torch loads at a first time is not what grows.
    _model(kernel, m=2, d=2, device=device, epochs=2).fit(*make_inputs(20, 2)).predict_proba(new[:2])
    model = _model(kernel, m=m, d=d, device=device, epochs=epochs)
    peak = _PeakMemory(device)
    model.fit(X, y)
    fit_gib = peak.gib()
    epochs_taken = [b - a for a, b in pairwise(model.clock)]
    peak = _PeakMemory(device)
    predict_seconds = median([timed(lambda: model.predict_proba(new), device) for _ in range(3)])
    return {
        "fit_seconds": median(epochs_taken),
        "fit_gib": fit_gib,
        "predict_seconds": predict_seconds,
        "predict_gib": peak.gib(),
    }


def _model(kernel: str, *, m: int, d: int, device: str, epochs: int) -> _Clocked:
    """The model without what is chosen or computed once: the kernel and the network remain."""
    return _Clocked(
        **KERNELS[kernel],
        n_particles=m,
        n_components=d,
        n_folds=None,
        scaling=None,
        background=0.03,
        input_weight=0.0,
        dropout=0.0,
        augmentation=0.0,
        batch_size=None,
        max_epochs=epochs,
        device=device,
        random_state=0,
    )


class _PeakMemory:
    """Peak memory from now on, beyond what is held now: of the GPU, or of this process."""

    def __init__(self, device: str) -> None:
        self.is_cuda = device.startswith("cuda")
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()
            return
        _give_back()
        try:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far; Linux only
            self.before = _status("VmRSS")
            self.is_reset = _status("VmHWM") < 1.05 * self.before
        except OSError:
            self.is_reset = False
        if not self.is_reset:
            self.before = _largest()

    def gib(self) -> float | None:
        """Peak beyond the beginning; None if an earlier peak of the process hides it."""
        if self.is_cuda:
            return (torch.cuda.max_memory_allocated() - self.before) / _GIB
        beyond = (_status("VmHWM") if self.is_reset else _largest()) - self.before
        return beyond / _GIB if beyond > 0 else None


def _give_back() -> None:
    """Hand freed memory to the system, where that can be asked for: else it hides what is needed next."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}")


def _largest() -> int:
    """Largest memory of this process so far, in bytes."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def measure_in_fresh_process(settings: Mapping[str, Any], threads: int | None) -> dict[str, float | None]:
    """Measure a point in a process of its own, so that its peak memory is its own.

    Parameters
    ----------
    settings : mapping
        Arguments of :func:`measure_point`.
    threads : int or None
        Torch threads.

    Returns
    -------
    dict
        See :func:`measure_point`.
    """
    command = [sys.executable, __file__, "--point", json.dumps(dict(settings)), str(threads or 0)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float | None] = json.loads(said.stdout.splitlines()[-1])
    return measured


def is_known(kernel: str) -> bool:
    """Whether this version of pnca has the kernel."""
    (options,) = PNCAClassifier._parameter_constraints["kernel"]
    return KERNELS[kernel]["kernel"] in options.options


def make_records(
    kernel: str, sweep: str, sizes: Mapping[str, int], device: str, measured: Mapping[str, float | None]
) -> list[Record]:
    """Turn a point into one record of the fit and one of the prediction.

    Parameters
    ----------
    kernel : str
        A key of ``KERNELS``.
    sweep : str
        The letter that varies.
    sizes : mapping of str to int
        n, m, d, c.
    device : str
        Where.
    measured : mapping
        See :func:`measure_point`.

    Returns
    -------
    list of Record
    """
    words = {"fit": "an epoch", "predict": f"{N_PREDICTED:,} rows"}
    return [
        Record(
            name=f"{kernel}: {task} ({words[task]}), {sweep} = {sizes[sweep]}",
            **sizes,
            device=device,
            seconds=measured[f"{task}_seconds"],
            memory_gib=measured[f"{task}_gib"],
            series=f"{kernel}: {task}",
            sweep=sweep,
        )
        for task in words
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=1)
    options.add_argument("--epochs", type=int, default=6, help="Epochs of a fit; the first does not count.")
    options.add_argument("--kernels", nargs="*", default=list(KERNELS), help="Which kernels.")
    chosen = options.parse_args(arguments)
    sweeps = {"n": (20, 40)} if chosen.tiny else SWEEPS
    kernels = chosen.kernels[:1] if chosen.tiny else chosen.kernels
    skipped = [
        {"name": kernel, "reason": "this version has no such kernel"}
        for kernel in kernels
        if not is_known(kernel)
    ]
    measured = measure_all(list(filter(is_known, kernels)), sweeps, chosen)
    finish(chosen, "growth", measured, skipped)


def measure_all(
    kernels: Sequence[str], sweeps: Mapping[str, Sequence[int]], chosen: argparse.Namespace
) -> Iterator[list[Record]]:
    """Measure every point of every curve, and print the exponent at the end of each."""
    for kernel in kernels:
        for sweep, values in sweeps.items():
            records = []
            for value in values:
                sizes = {**BASE, sweep: value}
                point = {**sizes, "kernel": kernel, "device": chosen.device, "epochs": chosen.epochs}
                measured = measure_in_fresh_process(point, chosen.threads)
                records += make_records(kernel, sweep, sizes, chosen.device, measured)
                yield records[-2:]
            for task in (0, 1):
                law = growth_law(list(values), [r.seconds or 0.0 for r in records[task::2]])
                if law is not None:
                    print(f"{records[task].series}: time ~ {sweep}^{law.exponent:.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--point"]:
        torch.set_num_threads(int(sys.argv[3]) or torch.get_num_threads())
        print(json.dumps(measure_point(**json.loads(sys.argv[2]))))
    else:
        main()
