"""Default fits as people start them: rows of numbers on a laptop, beside a random forest of 300 trees."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import pnca
from measuring import clocked, finish, interleaved, median, parser, spread
from products import network_products, repeated
from records import Record, Reference, Target

FOREST = "random forest, 300 trees"
#: Rows, columns and classes, and the seconds that a fit may take on two cores.
SHAPES = (
    (100, 8, 2, 2.0),
    (100, 784, 10, 6.0),
    (1000, 50, 2, 10.0),
    (277, 2048, 2, 15.0),
    (5000, 20, 3, 30.0),
)
#: A phase is told about from this part of the time on.
_LARGE = 0.2


def make_rows(n: int, n_columns: int, n_classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of which some columns tell the class."""
    found: tuple[NDArray[np.float64], NDArray[np.int64]] = make_classification(
        n,
        n_columns,
        n_informative=min(n_columns, 2 * n_classes + 4),
        n_redundant=0,
        n_classes=n_classes,
        random_state=0,
    )
    return found


def measure(n: int, n_columns: int, n_classes: int, limit: float, repeats: int) -> list[Record]:
    """Time a default fit beside a forest, and its phases beside what they cannot do without."""
    X, y = make_rows(n, n_columns, n_classes)
    fitted: list[pnca.PNCAClassifier] = []
    tasks: dict[str, Callable[[], object]] = {
        "fit": lambda: fitted.append(pnca.PNCAClassifier(random_state=0, device="cpu").fit(X, y)),
        FOREST: lambda: RandomForestClassifier(300, random_state=0).fit(X, y),
    }
    phases = {
        "training": "the particles and their fold models",
        "experts": "line, forest and weights",
        "selection": "choosing out of fold",
    }
    with ExitStack() as stack:
        clocks = {phase: stack.enter_context(clocked(phase)) for phase in phases}
        taken = interleaved(tasks, repeats, warm_up=int(repeats > 1))
    whole = median(taken["fit"])
    common: dict[str, Any] = {"n": n, "c": n_classes}
    what = f"PNCAClassifier(), {n_columns:,} columns"
    found = [
        Record(
            name=f"{what}: fit",
            **common,
            **spread(taken["fit"]),
            alternatives=[Reference(name=FOREST, seconds=median(taken[FOREST]))],
            targets=(Target(text=f"at most {limit:g} s", at_most=limit),),
        )
    ]
    floors = {"training": network_floor(fitted[-1], n, n_columns), "experts": forest_floor(X, y)}
    for phase, words in phases.items():
        seconds = clocks[phase]["wall"][-repeats:]
        if median(seconds) < _LARGE * whole:
            continue
        below = []
        if phase in floors:
            name, floor = floors[phase]
            below = [Reference(name=name, seconds=median(interleaved({name: floor}, min(repeats, 3))[name]))]
        found.append(Record(name=f"{what}: {words}", **common, **spread(seconds), floors=below))
    return found


def network_floor(model: pnca.PNCAClassifier, n: int, n_columns: int) -> tuple[str, Callable[[], None]]:
    """The products of all networks in all steps: of an example as it is asked, and as a neighbour."""
    n_networks = len(model.particles_) + 5 * -(-len(model.particles_) // 2)
    n_batches = max(1, round(n / 250)) if n > 500 else 1
    products = network_products([n_columns, 100, 10], n_networks, n // n_batches)
    return "products of the networks", repeated(2 * model.n_iter_ * n_batches, products)


def forest_floor(X: NDArray[np.float64], y: NDArray[np.int64]) -> tuple[str, Callable[[], None]]:
    """The forest, and a third of one for each fold, on one core."""

    def grow() -> None:
        for n_trees in (300, *5 * (100,)):
            rows = slice(None) if n_trees == 300 else slice(len(X) // 5, None)
            RandomForestClassifier(n_trees, random_state=0).fit(X[rows], y[rows])

    return "the forests alone, on one core", grow


def measure_all(shapes: Sequence[tuple[int, int, int, float]], repeats: int) -> Iterator[list[Record]]:
    """Every shape."""
    for n, n_columns, n_classes, limit in shapes:
        yield measure(n, n_columns, n_classes, limit, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    chosen = parser(__doc__).parse_args(arguments)
    torch.set_num_threads(chosen.threads or torch.get_num_threads())
    shapes, repeats = (((30, 4, 2, 60.0),), 1) if chosen.tiny else (SHAPES, chosen.repeats)
    finish(chosen, "default_fits", measure_all(shapes, repeats))


if __name__ == "__main__":
    main()
