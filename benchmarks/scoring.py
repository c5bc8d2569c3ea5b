"""Scoring: rows a second of a fitted model, in one process and in several, beside nearest neighbours."""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline

from measuring import COLUMNS, finish, interleaved, limited_threads, make_inputs, median, parser
from pnca import PNCAClassifier
from records import Record, Reference

N_WORKERS = 2


def score(model: Any, rows: Path, part: slice) -> int:
    """Predict a part of the rows in a file; return how many that were.

    Parameters
    ----------
    model : classifier
        Fitted.
    rows : Path
        An array saved by numpy, of which only the part is read.
    part : slice
        Which rows.

    Returns
    -------
    int
    """
    return len(model.predict_proba(np.load(rows, mmap_mode="r")[part]))


def with_threads(n_threads: int, task: Callable[[], object]) -> Callable[[], None]:
    """Run a task with this many threads in torch, and in the libraries below scikit-learn."""

    def run() -> None:
        with limited_threads(n_threads):
            task()

    return run


def parts(n_rows: int, n_parts: int) -> list[slice]:
    """Cut rows into parts of nearly the same size.

    Examples
    --------
    >>> parts(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = [n_rows * k // n_parts for k in range(n_parts + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def dask_task(stack: ExitStack, model: Any, rows: Path, n_rows: int) -> Callable[[], object]:
    """Start local workers; return what lets them score all rows.

    Parameters
    ----------
    stack : ExitStack
        Stops them in the end.
    model : classifier
        Sent to each worker once.
    rows : Path
        The file that each reads its parts of.
    n_rows : int
        How many there are.

    Returns
    -------
    callable
    """
    from distributed import Client, LocalCluster

    cluster = stack.enter_context(
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None, processes=True)
    )
    client = stack.enter_context(Client(cluster))
    (sent,) = client.scatter([model], broadcast=True)
    # A first time loads libraries in every worker.
    client.gather([client.submit(score, sent, rows, slice(0, 100), pure=False) for _ in range(2 * N_WORKERS)])

    def run() -> object:
        waiting = [
            client.submit(score, sent, rows, part, pure=False) for part in parts(n_rows, 4 * N_WORKERS)
        ]
        return sum(client.gather(waiting))

    return run


def measure(
    n: int, n_rows: int, repeats: int, *, epochs: int, use_dask: bool = True
) -> tuple[list[Record], list[dict[str, str]]]:
    """Time the scoring of rows in a file by the default model and by nearest neighbours.

    Parameters
    ----------
    n : int
        Training examples.
    n_rows : int
        Rows to score.
    repeats : int
        Rounds.
    epochs : int
        Of the fit, which does not count.
    use_dask : bool
        Whether to start workers.

    Returns
    -------
    records : list of Record
        Rows a second; the alternative of all is one process with one thread.
    skipped : list of dict
        What did not run, and why.
    """
    X, y = make_inputs(n)
    model = PNCAClassifier(max_epochs=epochs, n_folds=None, device="cpu", random_state=0).fit(X, y)
    neighbours = KNeighborsClassifier().fit(X, y)
    nca = NeighborhoodComponentsAnalysis(n_components=10, init="pca", max_iter=3, random_state=0)
    projected = make_pipeline(nca, KNeighborsClassifier()).fit(X, y)
    skipped = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = folder / "rows.npy"
        np.save(rows, make_inputs(n_rows, seed=1)[0])
        everything = slice(0, n_rows)
        tasks: dict[str, Callable[[], object]] = {
            "PNCA, one process, 1 thread": with_threads(1, partial(score, model, rows, everything)),
            "PNCA, one process, 2 threads": with_threads(2, partial(score, model, rows, everything)),
            "k nearest neighbours (scikit-learn), 2 threads": with_threads(
                2, partial(score, neighbours, rows, everything)
            ),
            "NCA to 10 columns + k nearest neighbours (scikit-learn), 2 threads": with_threads(
                2, partial(score, projected, rows, everything)
            ),
            "products of the networks, float64, 1 thread": with_threads(1, forward_products(model, n_rows)),
        }
        if use_dask:
            try:
                tasks[f"PNCA, Dask, {N_WORKERS} local workers"] = dask_task(stack, model, rows, n_rows)
            except ImportError:
                skipped.append({"name": "Dask", "reason": "distributed is not installed (extra: dask)"})
        for classifier in (model, neighbours, projected):  # a first time loads libraries
            score(classifier, rows, slice(0, 100))
        taken = interleaved(tasks, repeats, warm_up=0)
    rates = {name: n_rows / median(seconds) for name, seconds in taken.items()}
    one, *others = rates
    floor = Reference(name="products of the networks alone", value=rates[others[3]])
    base = Reference(name="PNCA, one process, 1 thread", value=rates[one])
    return [
        Record(
            name=name,
            n=n,
            m=10 if name.startswith("PNCA") else None,
            value=round(rate, 1),
            unit="rows/s",
            repeats=repeats,
            alternatives=() if name == one else (base,),
            floors=(floor,) if name == one else (),
        )
        for name, rate in rates.items()
        if not name.startswith("products")
    ], skipped


def forward_products(model: PNCAClassifier, n_rows: int, chunk: int = 1024) -> Callable[[], object]:
    """The products that the networks need for so many rows, in the precision of predictions.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted.
    n_rows : int
        Rows.
    chunk : int
        Rows at once.

    Returns
    -------
    callable
    """
    sizes = model.network_.layer_sizes
    m = len(model.particles_)
    weights = [torch.rand(m, a, b, dtype=torch.float64) for a, b in pairwise(sizes)]
    inputs = torch.rand(min(chunk, n_rows), COLUMNS, dtype=torch.float64).expand(m, -1, -1)

    def run() -> float:
        start = time.perf_counter()
        for _ in range(max(1, n_rows // chunk)):
            hidden = inputs
            for weight in weights:
                hidden = torch.bmm(hidden, weight)
        scale = n_rows / (inputs.shape[1] * max(1, n_rows // chunk))  # a last, smaller chunk
        return scale * (time.perf_counter() - start)

    return run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=3)
    options.add_argument("--rows", type=int, default=100_000, help="Rows to score.")
    options.add_argument("--no-dask", action="store_true", help="Start no workers.")
    chosen = options.parse_args(arguments)
    n, n_rows, repeats, epochs = (40, 200, 1, 2) if chosen.tiny else (1000, chosen.rows, chosen.repeats, 5)
    records, skipped = measure(n, n_rows, repeats, epochs=epochs, use_dask=not chosen.no_dask)
    finish(chosen, "scoring", [records], skipped)


if __name__ == "__main__":
    main()
