"""Small fits on a GPU: the step recorded against the step taken anew, folds stacked against one by one."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from measuring import finish, interleaved, make_inputs, median, parser, spread, synchronise
from pnca import PNCAClassifier, paper_settings
from pnca.training import loop, steps
from pnca.training.folds import assign_folds
from products import kappa_products, n_parameters, network_products, repeated
from records import Record, Reference, Target

#: What 100 steps read and write at least, at the rate of an H200's memory.
_TRAFFIC = Reference(name="memory traffic of 100 steps", seconds=0.005, source="arithmetic for an H200")
_WITHIN = Target(text="at most 25 ms", at_most=0.025)


class CompiledStep(steps.Step):
    """A step whose evaluation, forward and backward, went through ``torch.compile``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.evaluate = torch.compile(self.evaluate, mode="reduce-overhead")


@contextmanager
def step_taken_by(kind: type[steps.Step]) -> Iterator[None]:
    """Let fits take their steps this way, where they would record them."""
    # Without the last argument, which is for recordings alone.
    with patch.object(loop, "RecordedStep", lambda *arguments: kind(*arguments[:-1])):
        yield


@contextmanager
def clocks(device: str) -> Iterator[dict[str, list[float]]]:
    """Time the training loop of every fit, and within it the recording of steps."""
    seconds: dict[str, list[float]] = {"training": [], "recording": []}

    def clocked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            synchronise(device)
            start = time.perf_counter()
            result = function(*arguments, **options)
            synchronise(device)
            seconds[name].append(time.perf_counter() - start)
            return result

        return call

    with (
        patch("pnca.estimators.base.train", clocked(loop.train, "training")),
        patch.object(steps, "_record", clocked(steps._record, "recording")),
    ):
        yield seconds


def measure_paper_pnca(
    n: int, repeats: int, device: str, *, epochs: int = 100, compiled: bool = False
) -> tuple[list[Record], list[dict[str, str]]]:
    """Time the paper's PNCA with its step recorded, and taken anew every time.

    Parameters
    ----------
    n : int
        Training examples.
    repeats : int
        Rounds.
    device : str
        ``"cuda"``; on a CPU both are the same.
    epochs : int
        Steps.
    compiled : bool
        Whether to try ``torch.compile`` too.

    Returns
    -------
    records : list of Record
    skipped : list of dict
        What did not run, and why.
    """
    settings = {**paper_settings("PNCA"), "max_epochs": epochs, "device": device, "random_state": 0}
    X, y = make_inputs(n)

    def fit() -> None:
        PNCAClassifier(**settings).fit(X, y)

    def fit_by(kind: type[steps.Step]) -> Callable[[], None]:
        def run() -> None:
            with step_taken_by(kind):
                fit()

        return run

    sizes = [X.shape[1], *settings["hidden_layer_sizes"], settings["n_components"]]
    m = settings["n_particles"]
    network = network_products(sizes, m, n, device)
    products = repeated(epochs, network, kappa_products(n_parameters(sizes), m, 1, device))
    tasks: dict[str, Callable[[], object]] = {
        "recorded": fit,
        "eager": fit_by(steps.Step),
        "products": _recorded(products) if device.startswith("cuda") else products,
    }
    skipped = []
    if compiled:
        try:
            fit_by(CompiledStep)()
            tasks["torch.compile"] = fit_by(CompiledStep)
        except Exception as error:  # whatever the compiler does not know
            skipped.append({"name": "torch.compile", "reason": f"{type(error).__name__}: {error}"[:300]})
    taken = interleaved(tasks, repeats, warm_up=_warm_up(repeats), device=device)
    with clocks(device) as seconds:
        for _ in range(repeats):
            fit()
    others = {"eager": "each step started from Python", "torch.compile": "evaluation by torch.compile"}
    alternatives = [
        Reference(name=words, seconds=median(taken[key])) for key, words in others.items() if key in taken
    ]
    shape = {"n": n, "m": m, "d": 10, "c": 10, "device": device}
    floor = Reference(
        name="products of the network and of kappa, recorded", seconds=median(taken["products"])
    )
    records = [
        Record(
            name=f"PNCA (paper), {epochs} epochs: fit",
            **shape,
            **spread(taken["recorded"]),
            alternatives=tuple(alternatives),
            floors=(floor, _TRAFFIC),
            targets=(_WITHIN,),
        ),
        Record(
            name=f"PNCA (paper), {epochs} epochs: the training loop alone",
            **shape,
            **spread(seconds["training"]),
            floors=(floor, _TRAFFIC),
            targets=(_WITHIN,),
            note="without checking the data, drawing particles and embedding the support",
        ),
    ]
    if seconds["recording"]:
        records.append(Record(name="recording the step, once a fit", **shape, **spread(seconds["recording"])))
    return records, skipped


def _recorded(work: Callable[[], None]) -> Callable[[], None]:
    """Record work on the GPU and return what plays it."""
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def measure_folds(n: int, repeats: int, device: str, *, epochs: int | str = "auto") -> Record:
    """Time the default fit, all folds in one program, against its teams of particles fitted one by one.

    Parameters
    ----------
    n : int
        Training examples.
    repeats : int
        Rounds.
    device : str
        Where.
    epochs : int or "auto"
        Steps of each.

    Returns
    -------
    Record
    """
    X, y = make_inputs(n)
    settings: Mapping[str, Any] = {"max_epochs": epochs, "device": device, "random_state": 0}
    folds = assign_folds(y, 5, np.random.RandomState(0))

    def one_by_one() -> None:
        PNCAClassifier(**settings, n_folds=None).fit(X, y)
        for fold in range(5):
            seen = folds != fold
            PNCAClassifier(**settings, n_folds=None, n_particles=5).fit(X[seen], y[seen])

    tasks = {"stacked": lambda: PNCAClassifier(**settings).fit(X, y), "one by one": one_by_one}
    taken = interleaved(tasks, repeats, warm_up=_warm_up(repeats), device=device)
    return Record(
        name="PNCAClassifier(): ten particles and five folds of five in one program",
        n=n,
        m=35,
        d=10,
        c=10,
        device=device,
        **spread(taken["stacked"]),
        alternatives=(
            Reference(name="six fits one by one, nothing chosen", seconds=median(taken["one by one"])),
        ),
        note="" if epochs == "auto" else f"{epochs} epochs",
    )


def _warm_up(repeats: int) -> int:
    """Rounds before the clock counts: none in a trial."""
    return 3 if repeats > 1 else 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=15)
    options.set_defaults(device="cuda")
    options.add_argument("--compile", action="store_true", help="Try torch.compile too.")
    chosen = options.parse_args(arguments)
    if chosen.device.startswith("cuda") and not torch.cuda.is_available():
        finish(chosen, "gpu_small", [], [{"name": "small fits on a GPU", "reason": "no CUDA device here"}])
        return
    skipped: list[dict[str, str]] = []  # filled while measuring
    finish(chosen, "gpu_small", _measure_all(chosen, skipped), skipped)


def _measure_all(chosen: argparse.Namespace, skipped: list[dict[str, str]]) -> Iterator[list[Record]]:
    n, repeats, epochs = (40, 1, 3) if chosen.tiny else (100, chosen.repeats, 100)
    records, not_run = measure_paper_pnca(n, repeats, chosen.device, epochs=epochs, compiled=chosen.compile)
    skipped += not_run
    yield records
    of_folds = 3 if chosen.tiny else "auto"
    yield [measure_folds(n, min(repeats, 5), chosen.device, epochs=of_folds)]


if __name__ == "__main__":
    main()
