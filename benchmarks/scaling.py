"""More than one process: a training step on one and on several processes of this machine, a thread each.

Starts torchrun for each number of processes. Bytes are counted from the calls that move them, without what a
link carries besides (headers, repetitions).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

import pnca
from measuring import finish, limited_threads, make_inputs, median, parser, spread
from pnca.training.shards import ProcessShards
from pnca.training.steps import Step
from records import Record, Reference

#: Columns of the inputs, classes, widths of the hidden layers, latent dimensions.
COLUMNS, CLASSES, HIDDEN, COMPONENTS = 50, 10, (200, 200), 10
MODELS = ("PNCA, shared", "PNCA, cross", "ensemble")
#: Figures of a model's steps by name: lists of seconds, and bytes.
Figures = dict[str, Any]


def measure_fit(model: Any, X: NDArray[np.float32], y: NDArray[np.int64]) -> Figures:
    """Time the steps of a fit in this process.

    Parameters
    ----------
    model : classifier
        One epoch is one step.
    X, y : ndarray
        What to fit.

    Returns
    -------
    dict
        ``wall`` and ``processor``: seconds of each step but the first; ``gathered`` and ``summed``: bytes
        that this process puts into the collectives of a step.
    """
    take, stack, sum_ = Step.take, ProcessShards.stack, ProcessShards.sum_
    wall, processor = [], []
    moved, of_step = {"gathered": 0, "summed": 0}, {"gathered": 0, "summed": 0}

    def timed_take(self: Step, indices: Any) -> None:
        moved.update(gathered=0, summed=0)
        started = time.perf_counter(), time.process_time()
        take(self, indices)
        wall.append(time.perf_counter() - started[0])
        processor.append(time.process_time() - started[1])
        of_step.update(moved)

    def counted_stack(self: ProcessShards, tensor: torch.Tensor) -> torch.Tensor:
        moved["gathered"] += tensor.nbytes
        return stack(self, tensor)

    def counted_sum(self: ProcessShards, tensor: torch.Tensor) -> torch.Tensor:
        moved["summed"] += tensor.nbytes
        return sum_(self, tensor)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Step, "take", timed_take))
        patches.enter_context(mock.patch.object(ProcessShards, "stack", counted_stack))
        patches.enter_context(mock.patch.object(ProcessShards, "sum_", counted_sum))
        model.fit(X, y)
    return {"wall": wall[1:], "processor": processor[1:], **of_step}


def make(name: str, m: int, steps: int) -> Any:
    """Make a model whose epoch is one step on all examples, with nothing to choose afterwards.

    Parameters
    ----------
    name : str
        One of ``MODELS``.
    m : int
        Particles.
    steps : int
        Those that are timed; one more comes before.

    Returns
    -------
    classifier
    """
    common: dict[str, Any] = {
        "n_particles": m,
        "hidden_layer_sizes": HIDDEN,
        "max_epochs": 1 + steps,
        "batch_size": None,
        "device": "cpu",
        "random_state": 0,
    }
    if name == "ensemble":
        return pnca.EnsembleClassifier(**common)
    kind = {"expectation": name.split()[-1], "n_components": COMPONENTS}
    return pnca.PNCAClassifier(**common, **kind, n_folds=None, scaling=None, input_weight=0.0, dropout=0.0)


def run_member(n: int, m: int, steps: int, path: Path) -> None:
    """What each process of torchrun does: fit all models together; the first writes its figures."""
    torch.set_num_threads(1)
    X, y = make_inputs(n, CLASSES, COLUMNS)
    with pnca.distributed() as processes:
        figures = {name: measure_fit(make(name, m, steps), X, y) for name in MODELS}
        if processes.is_first:
            path.write_text(json.dumps(figures), encoding="utf-8")


def launch(size: int, n: int, m: int, steps: int) -> dict[str, Figures]:
    """Start so many processes.

    Parameters
    ----------
    size : int
        How many.
    n, m : int
        Examples, particles.
    steps : int
        Steps that are timed.

    Returns
    -------
    dict of str to dict
        By model; see :func:`measure_fit`.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
        subprocess.run(
            [*torchrun, __file__, "--member", *map(str, (n, m, steps)), str(path)],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        figures: dict[str, Figures] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def pooled(rounds: Sequence[Mapping[str, Figures]]) -> dict[str, Figures]:
    """Put the steps of several rounds together; the bytes are those of the last."""
    return {
        name: {
            **rounds[-1][name],
            **{clock: [s for one in rounds for s in one[name][clock]] for clock in ("wall", "processor")},
        }
        for name in rounds[-1]
    }


def make_records(runs: Mapping[int, Mapping[str, Figures]], n: int, m: int) -> list[Record]:
    """Turn figures into records.

    Parameters
    ----------
    runs : mapping of int to mapping
        By number of processes, figures of each model.
    n, m : int
        Examples, particles.

    Returns
    -------
    list of Record
        The value is the efficiency: the time of one process over that of several times their number.
    """
    records = []
    for name in MODELS:
        for size, run in runs.items():
            figures, single = run[name], runs.get(1, {}).get(name) if size > 1 else None
            record = Record(
                name=f"step of {name}, {size} process{'es' if size > 1 else ''}",
                n=n,
                m=m,
                d=None if name == "ensemble" else COMPONENTS,
                c=CLASSES,
                **spread(figures["wall"]),
                **({} if single is None else _efficiency(figures, single, size)),
            )
            records.append(record)
    return records


def _efficiency(figures: Figures, single: Figures, size: int) -> dict[str, Any]:
    """Fields of a record that compare it with one process."""
    by = {clock: median(single[clock]) / (size * median(figures[clock])) for clock in ("wall", "processor")}
    return {
        "value": by["wall"],
        "unit": "efficiency",
        "alternatives": (Reference(name="one process", seconds=median(single["wall"])),),
        "note": (
            f"efficiency by time of the processor, which leaves waiting out, {by['processor']:.2f}; "
            f"a process puts {figures['gathered']:,} bytes into gathers and {figures['summed']:,} into sums"
        ),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=2)
    options.add_argument("--rows", type=int, default=2000, help="Examples, all in one batch.")
    options.add_argument("--particles", type=int, default=10, help="Particles.")
    options.add_argument("--steps", type=int, default=5, help="Steps of a fit that are timed.")
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="How many, one by one.")
    chosen = options.parse_args(arguments)
    with limited_threads(1):  # as the processes have, for the description of the machine
        finish(chosen, "scaling", _measure_all(chosen))


def _measure_all(chosen: argparse.Namespace) -> Iterator[list[Record]]:
    """Start every number of processes in turn, several times."""
    n, m, steps, repeats = chosen.rows, chosen.particles, chosen.steps, chosen.repeats
    if chosen.tiny:
        n, m, steps, repeats = 40, 2, 2, 1
    rounds = [{size: launch(size, n, m, steps) for size in chosen.processes} for _ in range(repeats)]
    runs = {size: pooled([one[size] for one in rounds]) for size in chosen.processes}
    yield make_records(runs, n, m)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        run_member(*map(int, sys.argv[2:5]), Path(sys.argv[5]))
    else:
        main()
