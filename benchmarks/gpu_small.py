"""Small fits on a GPU: steps replayed from a CUDA graph or launched from Python; folds stacked or not."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from measuring import NO_GPU, clocked, finish, interleaved, is_cuda, median, parser, replaced, spread
from pnca import PNCAClassifier
from pnca.training.folds import assign_folds
from pnca.training.steps import Step
from problems import make_inputs
from products import kappa_products, n_parameters, network_products, repeated
from records import Record, Reference, Target
from small_fits import paper_model

#: What 100 steps read and write at least, at the rate of an H200's memory.
_TRAFFIC = Reference(name="memory traffic of 100 steps", seconds=0.005, source="arithmetic for an H200")
_WITHIN = Target(text="at most 25 ms", at_most=0.025)
_WAYS = {"eager": "each step started from Python", "torch.compile": "evaluation by torch.compile"}


class CompiledStep(Step):
    """A step whose evaluation, forward and backward, went through ``torch.compile``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.evaluate = torch.compile(self.evaluate, mode="reduce-overhead")


def fit_by(kind: type[Step], fit: Callable[[], object]) -> None:
    """Fit with steps of this kind, where they would be captured as a CUDA graph."""
    # Without the last argument, which is for captured steps alone.
    with replaced("captured step", lambda _: lambda *arguments: kind(*arguments[:-1])):
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


def measure_paper_pnca(
    n: int, repeats: int, device: str, skipped: dict[str, str], *, epochs: int, compiled: bool
) -> list[Record]:
    """Time the paper's PNCA with its step captured and replayed, and with every step launched from Python."""
    make, settings = paper_model("PNCA", n, epochs, device)
    X, y = make_inputs(n)
    m, widths = settings["n_particles"], [X.shape[1], *settings["hidden_layer_sizes"], 10]

    def fit() -> None:
        make(**settings).fit(X, y)

    network = network_products(widths, m, n, device)
    products = repeated(epochs, network, kappa_products(n_parameters(widths), m, 1, device))
    tasks: dict[str, Callable[[], object]] = {
        "captured": fit,
        "eager": partial(fit_by, Step, fit),
        "products": replayed(products, device),
    }
    if compiled:
        try:
            fit_by(CompiledStep, fit)
            tasks["torch.compile"] = partial(fit_by, CompiledStep, fit)
        except Exception as error:  # whatever the compiler does not know
            skipped["torch.compile"] = f"{type(error).__name__}: {error}"[:300]
    taken = interleaved(tasks, repeats, warm_up=_warm_up(repeats), device=device)
    with clocked("training", device) as training, clocked("capture", device) as capture:
        for _ in range(repeats):
            fit()
    return _records(
        taken, training["wall"], capture["wall"], f"PNCA (paper), {epochs} epochs", (n, m, device)
    )


def _records(
    taken: dict[str, list[float]],
    training: Sequence[float],
    capture: Sequence[float],
    name: str,
    sizes: tuple[int, int, str],
) -> list[Record]:
    common: dict[str, Any] = {**dict(zip(("n", "m", "device"), sizes, strict=True)), "d": 10, "c": 10}
    products = "products of the network and of kappa, in a CUDA graph"
    judged = {"floors": (Reference(name=products, seconds=median(taken["products"])), _TRAFFIC)}
    others = [
        Reference(name=words, seconds=median(taken[key])) for key, words in _WAYS.items() if key in taken
    ]
    without = "without checking the data, drawing particles and embedding the support"
    records = [
        Record(
            name=f"{name}: fit",
            **common,
            **spread(taken["captured"]),
            **judged,
            alternatives=others,
            targets=(_WITHIN,),
        ),
        Record(
            name=f"{name}: the training loop alone",
            **common,
            **spread(training),
            **judged,
            targets=(_WITHIN,),
            note=without,
        ),
    ]
    if capture:
        records.append(Record(name="capturing the step, once a fit", **common, **spread(capture)))
    return records


def measure_folds(n: int, repeats: int, device: str, *, epochs: int | str = "auto") -> list[Record]:
    """Time the default fit, all fold models in one program, against its fold models fitted one by one."""
    X, y = make_inputs(n)
    settings: dict[str, Any] = {"max_epochs": epochs, "device": device, "random_state": 0}
    folds = assign_folds(y, 5, np.random.RandomState(0))

    def one_by_one() -> None:
        PNCAClassifier(**settings, n_folds=None).fit(X, y)
        for fold in range(5):
            seen = folds != fold
            PNCAClassifier(**settings, n_folds=None, n_particles=5).fit(X[seen], y[seen])

    tasks = {"stacked": lambda: PNCAClassifier(**settings).fit(X, y), "one by one": one_by_one}
    taken = interleaved(tasks, repeats, warm_up=_warm_up(repeats), device=device)
    return [
        Record(
            name="PNCAClassifier(): ten particles and five folds of five in one program",
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
    options = parser(__doc__, repeats=15, device="cuda")
    options.add_argument("--compile", action="store_true", help="Try torch.compile too.")
    chosen = options.parse_args(arguments)
    skipped: dict[str, str] = {}  # filled while measuring
    if is_cuda(chosen.device) and not torch.cuda.is_available():
        finish(chosen, "gpu_small", [], {"small fits on a GPU": NO_GPU})
    else:
        finish(chosen, "gpu_small", _measure_all(chosen, skipped), skipped)


def _measure_all(chosen: argparse.Namespace, skipped: dict[str, str]) -> Iterator[list[Record]]:
    n, repeats, epochs, device = 100, chosen.repeats, 100, chosen.device
    if chosen.tiny:
        n, repeats, epochs = 40, 1, 3
    yield measure_paper_pnca(n, repeats, device, skipped, epochs=epochs, compiled=chosen.compile)
    yield measure_folds(n, min(repeats, 5), device, epochs=3 if chosen.tiny else "auto")


if __name__ == "__main__":
    main()
