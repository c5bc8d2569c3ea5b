"""Small fits on a GPU: steps replayed from a CUDA graph or launched from Python; folds stacked or not."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from measuring import NO_GPU, clocked, finish, interleaved, is_cuda, median, parser, replaced, spread
from pnca import PNCAClassifier
from problems import make_inputs
from products import kappa_products, n_parameters, network_products, repeated
from records import Record, Reference, Target
from small_fits import paper_model

#: What 100 steps read and write at least, at the rate of an H200's memory.
_TRAFFIC = Reference(name="memory traffic of 100 steps", seconds=0.005, source="arithmetic for an H200")
_WITHIN = Target(text="at most 25 ms", at_most=0.025)


def fit_eagerly(fit: Callable[[], object]) -> None:
    """Fit with steps launched from Python, where they would be captured as a CUDA graph."""
    with replaced("captured step", lambda _: lambda step, graphs, key: step):
        fit()


def replayed(work: Callable[[], None], device: str) -> Callable[[], None]:
    """Capture work as a CUDA graph and return what replays it; on a CPU, the work itself."""
    if not is_cuda(device):
        return work
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def measure_paper_pnca(n: int, repeats: int, device: str, *, epochs: int) -> list[Record]:
    """Time the paper's PNCA with its step captured and replayed, and with every step launched from Python."""
    make, settings = paper_model("PNCA", n, epochs, device)
    X, y = make_inputs(n)
    m, widths = settings["n_particles"], [X.shape[1], *settings["hidden_layer_sizes"], 10]

    def fit() -> None:
        make(**settings).fit(X, y)

    network, kappa = (
        network_products(widths, m, n, device),
        kappa_products(n_parameters(widths), m, 1, device),
    )
    tasks: dict[str, Callable[[], object]] = {
        "captured": fit,
        "each step launched from Python": partial(fit_eagerly, fit),
        "products of the network and of kappa, in a CUDA graph": replayed(
            repeated(epochs, network, kappa), device
        ),
    }
    taken = interleaved(tasks, repeats, warm_up=_warm_up(repeats), device=device)
    with clocked("training", device) as training, clocked("capture", device) as capture:
        for _ in range(repeats):
            fit()
    _, eager, products = (Reference(name=name, seconds=median(taken[name])) for name in tasks)
    common: dict[str, Any] = {"n": n, "m": m, "d": 10, "c": 10, "device": device}
    judged: dict[str, Any] = {**common, "floors": (products, _TRAFFIC), "targets": (_WITHIN,)}
    name = f"PNCA (paper), {epochs} epochs"
    without = "without checking the data, drawing particles and embedding the support"
    records = [
        Record(name=f"{name}: fit", **judged, **spread(taken["captured"]), alternatives=(eager,)),
        Record(name=f"{name}: the training loop alone", **judged, **spread(training["wall"]), note=without),
    ]
    if capture["wall"]:
        records.append(Record(name="capturing the step, once a fit", **common, **spread(capture["wall"])))
    return records


def measure_folds(n: int, repeats: int, device: str, *, epochs: int | str = "auto") -> list[Record]:
    """Time the default fit, all fold models in one program, against its fold models fitted one by one."""
    X, y = make_inputs(n)
    settings: dict[str, Any] = {
        "experts": (),
        "max_epochs": epochs,
        "device": device,
        "random_state": 0,
    }
    folds = np.arange(n) // 10 % 5  # of each class alike

    def one_by_one() -> None:
        PNCAClassifier(**settings, n_folds=None).fit(X, y)
        for fold in range(5):
            seen = folds != fold
            PNCAClassifier(**settings, n_folds=None, n_particles=5).fit(X[seen], y[seen])

    tasks = {"stacked": lambda: PNCAClassifier(**settings).fit(X, y), "one by one": one_by_one}
    taken = interleaved(tasks, repeats, warm_up=_warm_up(repeats), device=device)
    return [
        Record(
            name="PNCAClassifier(experts=()): ten particles and five folds of five in one program",
            n=n,
            m=35,
            d=10,
            c=10,
            device=device,
            **spread(taken["stacked"]),
            alternatives=[
                Reference(name="six fits one by one, nothing chosen", seconds=median(taken["one by one"]))
            ],
            note="" if epochs == "auto" else f"{epochs} epochs",
        )
    ]


def _warm_up(repeats: int) -> int:
    """Rounds before the clock counts: none in a trial."""
    return 3 if repeats > 1 else 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, repeats=15, device="cuda").parse_args(arguments)
    if is_cuda(chosen.device) and not torch.cuda.is_available():
        finish(chosen, "gpu_small", [], {"small fits on a GPU": NO_GPU})
    else:
        finish(chosen, "gpu_small", _measure_all(chosen))


def _measure_all(chosen: argparse.Namespace) -> Iterator[list[Record]]:
    n, repeats, epochs = (40, 1, 3) if chosen.tiny else (100, chosen.repeats, 100)
    yield measure_paper_pnca(n, repeats, chosen.device, epochs=epochs)
    yield measure_folds(n, min(repeats, 5), chosen.device, epochs=3 if chosen.tiny else "auto")


if __name__ == "__main__":
    main()
