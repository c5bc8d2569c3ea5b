"""More than one process: a training step with world sizes 1 and 2 on this machine, a thread per process.

Starts torchrun for each world size. Bytes are counted from the calls that move them, without what a link
carries besides (headers, repetitions).
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import pnca
from measuring import clocked, finish, limited_threads, median, parser, replaced, spread
from problems import make_inputs
from records import Record, Reference

#: Columns of the inputs, classes, widths of the hidden layers, latent dimensions.
COLUMNS, CLASSES, HIDDEN, COMPONENTS = 50, 10, (200, 200), 10
MODELS = ("PNCA, shared", "PNCA, cross", "ensemble")
#: Figures of a model's steps by name: lists of seconds, and bytes.
Figures = dict[str, Any]


def measure_fit(model: Any, X: NDArray[np.float32], y: NDArray[np.int64]) -> Figures:
    """Seconds of each step but the first, and bytes that this process puts into the collectives of a step."""
    moved, of_step = {"gathered": 0, "summed": 0}, {"gathered": 0, "summed": 0}

    def counting(name: str) -> Callable[[Any], Any]:
        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(self: Any, tensor: torch.Tensor) -> torch.Tensor:
                moved[name] += tensor.nbytes
                return function(self, tensor)

            return call

        return wrap

    def noting(take: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            moved.update(gathered=0, summed=0)
            take(*arguments)
            of_step.update(moved)

        return call

    with (
        clocked("step") as seconds,
        replaced("step", noting),
        replaced("gather", counting("gathered")),
        replaced("sum", counting("summed")),
    ):
        model.fit(X, y)
    return {**{clock: values[1:] for clock, values in seconds.items()}, **of_step}


def make(name: str, m: int, steps: int) -> Any:
    """Make a model whose epoch is one step on all examples, with nothing to choose afterwards."""
    common: dict[str, Any] = {
        "n_particles": m,
        "hidden_layer_sizes": HIDDEN,
        "max_epochs": 1 + steps,  # the first is not timed
        "batch_size": None,
        "device": "cpu",
        "random_state": 0,
    }
    if name == "ensemble":
        return pnca.EnsembleClassifier(**common)
    kind = {"expectation": name.split()[-1], "n_components": COMPONENTS}
    return pnca.PNCAClassifier(**common, **kind, n_folds=None, scaling=None, input_weight=0.0, dropout=0.0)


def run_rank(n: int, m: int, steps: int, path: Path) -> None:
    """What each process of torchrun does: fit all models together; rank 0 writes its figures."""
    torch.set_num_threads(1)
    X, y = make_inputs(n, CLASSES, COLUMNS)
    with pnca.distributed() as processes:
        figures = {name: measure_fit(make(name, m, steps), X, y) for name in MODELS}
        if processes.is_first:
            path.write_text(json.dumps(figures), encoding="utf-8")


def launch(world_size: int, n: int, m: int, steps: int) -> dict[str, Figures]:
    """Start so many processes; return the figures of each model."""
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={world_size}",
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [*torchrun, __file__, "--rank", str(n), str(m), str(steps), str(path)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        figures: dict[str, Figures] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def pooled(rounds: Sequence[Mapping[str, Figures]]) -> dict[str, Figures]:
    """Put the steps of several rounds together; the bytes are those of the last."""
    clocks = ("wall", "processor")
    return {
        name: {**last, **{clock: [s for one in rounds for s in one[name][clock]] for clock in clocks}}
        for name, last in rounds[-1].items()
    }


def make_records(runs: Mapping[int, Mapping[str, Figures]], n: int, m: int) -> list[Record]:
    """Turn figures, by world size and model, into records whose value is the efficiency."""
    records = []
    for name in MODELS:
        for size, run in runs.items():
            single = runs.get(1, {}).get(name) if size > 1 else None
            record = Record(
                name=f"step of {name}, {size} process{'es' if size > 1 else ''}",
                n=n,
                m=m,
                d=None if name == "ensemble" else COMPONENTS,
                c=CLASSES,
                **spread(run[name]["wall"]),
                **({} if single is None else _efficiency(run[name], single, size)),
            )
            records.append(record)
    return records


def _efficiency(figures: Figures, single: Figures, size: int) -> dict[str, Any]:
    """Fields of a record that compare it with one process."""
    by = {clock: median(single[clock]) / (size * median(figures[clock])) for clock in ("wall", "processor")}
    return {
        "value": by["wall"],
        "unit": "efficiency",
        "alternatives": [Reference(name="one process", seconds=median(single["wall"]))],
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
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="World sizes, one by one.")
    chosen = options.parse_args(arguments)
    with limited_threads(1):  # as the processes have, for the description of the machine
        finish(chosen, "scaling", _measure_all(chosen))


def _measure_all(chosen: argparse.Namespace) -> Iterator[list[Record]]:
    """Start every world size in turn, several times."""
    n, m, steps, repeats = chosen.rows, chosen.particles, chosen.steps, chosen.repeats
    if chosen.tiny:
        n, m, steps, repeats = 40, 2, 2, 1
    rounds = [{size: launch(size, n, m, steps) for size in chosen.processes} for _ in range(repeats)]
    yield make_records({size: pooled([one[size] for one in rounds]) for size in chosen.processes}, n, m)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        run_rank(*map(int, sys.argv[2:5]), Path(sys.argv[5]))
    else:
        main()
