"""Time of a training step on one and on two processes of this machine, one thread each.

    python benchmarks/scaling.py --out scaling.json

Starts torchrun for each number of processes. Of the steps of a fit, all on one batch, the fastest counts, in
wall time and in time of the processor; the latter is the better measure where others use the machine too.
Bytes are counted from the calls that move them, without what a link carries besides (headers, repetitions).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

#: Columns of the inputs, classes, widths of the hidden layers, latent dimensions.
COLUMNS, CLASSES, HIDDEN, COMPONENTS = 50, 10, (200, 200), 10


def main() -> None:
    """Read the arguments; time here if torchrun has started this process, else start torchrun."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2000, help="examples, all in one batch")
    parser.add_argument("--particles", type=int, default=10, help="particles")
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, help="where to write the result as JSON")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        measure(arguments)
        return
    runs = [launch(arguments, size) for size in arguments.processes]
    report = {"machine": machine(), "settings": settings(arguments), "runs": with_efficiency(runs)}
    text = json.dumps(report, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


def launch(arguments: argparse.Namespace, size: int) -> dict[str, Any]:
    """Time on so many processes."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        options = [f"--{name}={getattr(arguments, name)}" for name in ("rows", "particles", "steps")]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
        subprocess.run(
            [*torchrun, __file__, *options, f"--out={out}"],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


def measure(arguments: argparse.Namespace) -> None:
    """Time the step of each kind of model; the first process writes what it found."""
    import torch

    import pnca

    torch.set_num_threads(1)
    rng = np.random.RandomState(0)
    y = np.arange(arguments.rows) % CLASSES
    X = (rng.normal(size=(arguments.rows, COLUMNS)) + 2 * rng.normal(size=(CLASSES, COLUMNS))[y]).astype(
        np.float32
    )
    with pnca.distributed() as processes:
        names = ("PNCA shared", "PNCA cross", "Ensemble")
        steps = {name: measure_fit(make(name, arguments), X, y) for name in names}
        if processes.is_first:
            result = {"processes": processes.size, "steps": steps}
            arguments.out.write_text(json.dumps(result), encoding="utf-8")


def measure_fit(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Seconds of the fastest step of a fit, and bytes that a process puts into the collectives of one."""
    from pnca.training.shards import ProcessShards
    from pnca.training.steps import Step

    take, stack, sum_ = Step.take, ProcessShards.stack, ProcessShards.sum_
    wall, processor = [], []
    moved = {"gathered_bytes": 0, "summed_bytes": 0}
    of_step: dict[str, int] = {}

    def timed_take(self: Any, indices: Any) -> None:
        moved.update(gathered_bytes=0, summed_bytes=0)
        started = time.perf_counter(), time.process_time()
        take(self, indices)
        wall.append(time.perf_counter() - started[0])
        processor.append(time.process_time() - started[1])
        of_step.update(moved)

    def counted_stack(self: Any, tensor: Any) -> Any:
        moved["gathered_bytes"] += tensor.nbytes
        return stack(self, tensor)

    def counted_sum(self: Any, tensor: Any) -> Any:
        moved["summed_bytes"] += tensor.nbytes
        return sum_(self, tensor)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Step, "take", timed_take))
        patches.enter_context(mock.patch.object(ProcessShards, "stack", counted_stack))
        patches.enter_context(mock.patch.object(ProcessShards, "sum_", counted_sum))
        model.fit(X, y)
    return {"wall_seconds": min(wall[1:]), "processor_seconds": min(processor[1:]), **of_step}


def make(name: str, arguments: argparse.Namespace) -> Any:
    """A model whose epoch is one step on all examples, with nothing to choose afterwards."""
    from pnca import EnsembleClassifier, PNCAClassifier

    common: dict[str, Any] = {
        "n_particles": arguments.particles,
        "hidden_layer_sizes": HIDDEN,
        "max_epochs": 1 + arguments.steps,  # the first prepares
        "batch_size": None,
        "device": "cpu",
        "random_state": 0,
    }
    if name == "Ensemble":
        return EnsembleClassifier(**common)
    kind = {"expectation": name.split()[1], "n_components": COMPONENTS}
    return PNCAClassifier(**common, **kind, n_folds=None, scaling=None, input_weight=0.0, dropout=0.0)


def with_efficiency(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add what share of the ideal speed each run has: the time of one process over size times its own."""
    single = next((run for run in runs if run["processes"] == 1), None)
    for run in runs if single is not None else []:
        for name, step in run["steps"].items():
            for clock in ("wall", "processor"):
                ideal = single["steps"][name][f"{clock}_seconds"] / run["processes"]
                step[f"{clock}_efficiency"] = round(ideal / step[f"{clock}_seconds"], 3)
    return runs


def settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was timed."""
    sizes = {"columns": COLUMNS, "classes": CLASSES, "hidden": HIDDEN, "components": COMPONENTS}
    return {
        "n": arguments.rows,
        "m": arguments.particles,
        "steps": arguments.steps,
        "threads_per_process": 1,
        **sizes,
    }


def machine() -> dict[str, Any]:
    """Where it was timed, and how busy it was with other things."""
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_at_the_end": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


if __name__ == "__main__":
    main()
