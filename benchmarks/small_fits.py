"""Small fits: the paper's models on 100 to 1,000 examples, against their matrix products and other code."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

import pnca
from measuring import clocked, finish, interleaved, median, parser, spread
from problems import COLUMNS, make_inputs
from products import kappa_products, n_parameters, network_products, repeated
from records import Record, Reference, Target

#: Seconds of the authors' code: n = 100, 100 epochs, 1,000 predictions, TensorFlow 2.21 on two cores.
AUTHORS = {"DNN": 9.4, "NCA": 2.2, "PNCA": 42.0, "Ensemble": 79.0, "BNN": 136.0}
#: How often a step multiplies the particles, or their gradients, by a kernel between particles.
MIXINGS = {"PNCA": 1, "BNN": 2}
WITH_TARGETS = ("PNCA", "Ensemble", "BNN")

_NETWORK, _NETWORK_AND_KAPPA = "products of the network", "products of the network and of kappa"
_FLOOR_TARGET = Target(text="at most 1.5 times the products", quantity="over_floor", at_most=1.5)
_AUTHORS_TARGET = Target(text="35 times faster than the authors' code", quantity="speedup", at_least=35.0)


def paper_model(name: str, n: int, epochs: int, device: str) -> tuple[type, dict[str, Any]]:
    """Class and settings of a model of the paper."""
    own = {"max_epochs": epochs, "device": device, "random_state": 0}
    return getattr(pnca, f"{name}Classifier"), {**pnca.paper_settings(name, n_train=n), **own}


def measure_paper_model(
    name: str, n: int, repeats: int, device: str, *, epochs: int = 100, n_predicted: int = 1000
) -> list[Record]:
    """Time a model of the paper beside the products of its steps, and with predictions the authors' code."""
    make, settings = paper_model(name, n, epochs, device)
    (X, y), (new, _) = make_inputs(n), make_inputs(n_predicted, seed=1)
    m, batch_size = settings.get("n_particles", 1), settings["batch_size"] or n
    widths = [COLUMNS, *settings["hidden_layer_sizes"], 10]
    n_steps = epochs * math.ceil(n / batch_size)
    network = network_products(widths, m, min(n, batch_size), device)
    fitted: list[Any] = []
    tasks: dict[str, Callable[[], object]] = {
        "fit": lambda: fitted.append(make(**settings).fit(X, y)),
        "predict": lambda: fitted.pop().predict_proba(new),
        _NETWORK: repeated(n_steps, network),
    }
    if name in MIXINGS:
        kappa = kappa_products(n_parameters(widths), m, MIXINGS[name], device)
        tasks[_NETWORK_AND_KAPPA] = repeated(n_steps, network, kappa)
    taken = interleaved(tasks, repeats, warm_up=int(repeats > 1), device=device)
    has_targets = name in WITH_TARGETS and device == "cpu"
    common: dict[str, Any] = {"n": n, "m": m, "d": 10, "c": 10, "device": device}
    fit = Record(
        name=f"{name} (paper), fit",
        **common,
        **spread(taken["fit"]),
        floors=[Reference(name=key, seconds=median(taken[key])) for key in list(tasks)[:1:-1]],
        targets=(_FLOOR_TARGET,) if has_targets else (),
        note="" if epochs == 100 else f"{epochs} epochs",
    )
    if n != 100 or epochs != 100:
        return [fit]
    both = Record(
        name=f"{name} (paper), fit and {n_predicted:,} predictions",
        **common,
        **spread(np.add(taken["fit"], taken["predict"]).tolist()),
        alternatives=[
            Reference(name="authors' code", seconds=AUTHORS[name], source="another 2-core machine")
        ],
        targets=(_AUTHORS_TARGET,) if has_targets else (),
    )
    return [fit, both]


def measure_loop(n: int, repeats: int, device: str, *, epochs: int = 100) -> list[Record]:
    """Time the ensemble against its networks trained one after the other with ``torch.optim.NAdam``."""
    make, settings = paper_model("Ensemble", n, epochs, device)
    X, y = make_inputs(n)
    tasks = {
        "ensemble": lambda: make(**settings).fit(X, y),
        "network": lambda: train_one(X, y, epochs=epochs, device=device),
    }
    taken = interleaved(tasks, repeats, warm_up=int(repeats > 1), device=device)
    m = settings["n_particles"]
    loop = f"a loop over {m} networks with torch.optim.NAdam"
    return [
        Record(
            name="Ensemble (paper), fit, beside a loop",
            n=n,
            m=m,
            c=10,
            device=device,
            **spread(taken["ensemble"]),
            alternatives=[Reference(name=loop, seconds=m * median(taken["network"]))],
            note="one network of the loop is measured" + ("" if epochs == 100 else f"; {epochs} epochs"),
        )
    ]


def train_one(
    X: NDArray[np.float32], y: NDArray[np.int64], *, epochs: int, device: str, batch_size: int = 20
) -> nn.Module:
    """Train one network as the documentation of PyTorch would."""
    layers = nn.Linear(X.shape[1], 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    network = nn.Sequential(*layers).to(device)
    optimiser = torch.optim.NAdam(network.parameters(), lr=1e-3)
    inputs, labels = torch.from_numpy(X).to(device), torch.from_numpy(y).to(device)
    for _ in range(epochs):
        for rows in torch.randperm(len(X), device=device).split(batch_size):
            optimiser.zero_grad()
            functional.cross_entropy(network(inputs[rows]), labels[rows]).backward()
            optimiser.step()
    return network


def measure_default(
    n: int, repeats: int, device: str, *, as_images: bool, epochs: int | str = "auto"
) -> list[Record]:
    """Time the neighbours alone beside the same without folds, and the selection within it.

    Images are 28 x 28 and moved about in training; rows are not.
    """
    X, y = make_inputs(n)
    X = X.reshape(n, 28, 28) if as_images else X
    settings = {"experts": (), "max_epochs": epochs, "device": device, "random_state": 0}
    tasks = {
        "with": lambda: pnca.PNCAClassifier(**settings).fit(X, y),
        "without": lambda: pnca.PNCAClassifier(**settings, n_folds=None).fit(X, y),
    }
    with clocked("selection", device) as selecting:
        taken = interleaved(tasks, repeats, warm_up=int(repeats > 1), device=device)
    name = f"PNCAClassifier(experts=()), {'images of 28 x 28' if as_images else 'rows of 784'}"
    common: dict[str, Any] = {"n": n, "m": 10, "d": 10, "c": 10, "device": device}
    whole = Record(
        name=f"{name}: fit",
        **common,
        **spread(taken["with"]),
        alternatives=[Reference(name="n_folds=None, nothing chosen", seconds=median(taken["without"]))],
        note="" if epochs == "auto" else f"{epochs} epochs",
    )
    share = median(selecting["wall"][-repeats:]) / median(taken["with"])
    choice = Record(
        name=f"{name}: share of the fit spent choosing out of fold",
        **common,
        value=round(share, 4),
        unit="of the fit",
        repeats=repeats,
    )
    return [whole, choice]


def measure_tiny(device: str) -> Iterator[list[Record]]:
    """A toy of every measurement."""
    yield measure_paper_model("PNCA", 20, 1, device, epochs=2, n_predicted=10)
    yield measure_paper_model("BNN", 40, 1, device, epochs=1, n_predicted=10)
    yield measure_loop(20, 1, device, epochs=2)
    yield measure_default(20, 1, device, as_images=True, epochs=3)


def measure_all(repeats: int, large_repeats: int, device: str) -> Iterator[list[Record]]:
    """Every measurement, the longer ones with fewer repetitions."""
    for name in AUTHORS:
        yield measure_paper_model(name, 100, repeats, device)
    yield measure_loop(100, repeats, device)
    for as_images in (False, True):
        yield measure_default(100, large_repeats, device, as_images=as_images)
    for n in (400, 1000):
        yield measure_paper_model("PNCA", n, large_repeats, device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--large-repeats", type=int, default=3, help="Repetitions of the longer fits.")
    chosen = options.parse_args(arguments)
    torch.set_num_threads(chosen.threads or torch.get_num_threads())
    tiny, full = measure_tiny(chosen.device), measure_all(chosen.repeats, chosen.large_repeats, chosen.device)
    finish(chosen, "small_fits", tiny if chosen.tiny else full)


if __name__ == "__main__":
    main()
