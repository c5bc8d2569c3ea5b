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

from measuring import finish, interleaved, limited_threads, median, parser
from pnca import PNCAClassifier
from problems import COLUMNS, make_inputs
from records import Record, Reference

N_WORKERS = 2
_ONE, _PRODUCTS = "PNCA, one process, 1 thread", "products of the networks, float64, 1 thread"


def score(model: Any, rows: Path, part: slice) -> int:
    """Predict a part of the rows in a numpy file, reading no more; return how many that were."""
    return len(model.predict_proba(np.load(rows, mmap_mode="r")[part]))


def with_threads(n_threads: int, task: Callable[[], object]) -> Callable[[], object]:
    """Run a task with this many threads in torch, and in the libraries below scikit-learn."""

    def run() -> object:
        with limited_threads(n_threads):
            return task()

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
    """Start local workers, which the stack stops in the end; return what lets them score all rows."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None, processes=True)
    client = stack.enter_context(Client(stack.enter_context(cluster)))
    (sent,) = client.scatter([model], broadcast=True)

    def run(pieces: Sequence[slice] = tuple(parts(n_rows, 4 * N_WORKERS))) -> object:
        return sum(client.gather([client.submit(score, sent, rows, part, pure=False) for part in pieces]))

    run([slice(0, 100)] * 2 * N_WORKERS)  # a first time loads libraries in every worker
    return run


def measure(
    n: int, n_rows: int, repeats: int, *, epochs: int, use_dask: bool = True
) -> tuple[list[Record], dict[str, str]]:
    """Time the scoring of rows in a file by the default model and by nearest neighbours, in turn."""
    X, y = make_inputs(n)
    model = PNCAClassifier(max_epochs=epochs, n_folds=None, device="cpu", random_state=0).fit(X, y)
    neighbours = KNeighborsClassifier().fit(X, y)
    nca = NeighborhoodComponentsAnalysis(n_components=10, init="pca", max_iter=3, random_state=0)
    projected = make_pipeline(nca, KNeighborsClassifier()).fit(X, y)
    contenders = {
        _ONE: (1, model),
        "PNCA, one process, 2 threads": (2, model),
        "k nearest neighbours (scikit-learn), 2 threads": (2, neighbours),
        "NCA to 10 columns + k nearest neighbours (scikit-learn), 2 threads": (2, projected),
    }
    skipped = {}
    with ExitStack() as stack:
        rows = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "rows.npy"
        np.save(rows, make_inputs(n_rows, seed=1)[0])
        tasks: dict[str, Callable[[], object]] = {}
        for name, (n_threads, classifier) in contenders.items():
            score(classifier, rows, slice(0, 100))  # a first time loads libraries
            tasks[name] = with_threads(n_threads, partial(score, classifier, rows, slice(0, n_rows)))
        tasks[_PRODUCTS] = with_threads(1, forward_products(model, n_rows))
        if use_dask:
            try:
                tasks[f"PNCA, Dask, {N_WORKERS} local workers"] = dask_task(stack, model, rows, n_rows)
            except ImportError:
                skipped["Dask"] = "distributed is not installed (extra: dask)"
        taken = interleaved(tasks, repeats, warm_up=0)
    return make_records(
        {name: n_rows / median(seconds) for name, seconds in taken.items()}, n, repeats
    ), skipped


def make_records(rates: dict[str, float], n: int, repeats: int) -> list[Record]:
    """Rows a second; the alternative of all is one process with one thread."""
    floor = Reference(name="products of the networks alone", value=rates.pop(_PRODUCTS))
    return [
        Record(
            name=name,
            n=n,
            m=10 if name.startswith("PNCA") else None,
            value=round(rate, 1),
            unit="rows/s",
            repeats=repeats,
            alternatives=() if name == _ONE else (Reference(name=_ONE, value=rates[_ONE]),),
            floors=(floor,) if name == _ONE else (),
        )
        for name, rate in rates.items()
    ]


def forward_products(model: PNCAClassifier, n_rows: int, chunk: int = 1024) -> Callable[[], object]:
    """The products that a model's networks need for so many rows, in the precision of predictions."""
    m = len(model.particles_)
    weights = [torch.rand(m, a, b, dtype=torch.float64) for a, b in pairwise(model.network_.layer_sizes)]
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
