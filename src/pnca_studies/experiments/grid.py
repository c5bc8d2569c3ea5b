"""Run many independent fits, here or on a cluster, so that nothing finished is ever lost.

joblib distributes the cells to processes of this machine or to the workers of a Dask cluster. Every worker
computes with one thread, so a cell's result does not depend on where it is computed.
"""

import logging
import os
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import joblib
import torch

from pnca.exceptions import InvalidInputError, MissingExtraError, WorkersLostError
from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.workers import begin_worker, end_workers

C = TypeVar("C")
D = TypeVar("D")

#: Computes one cell with the data of the experiment.
Work = Callable[[C, D], CellResult]


# Dask tells its workers to return freed memory to the system at once. Training frees and asks for the same
# few megabytes at every step, and page faults then make a fit 1.7 times as long: let them keep it.
_WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "MALLOC_TRIM_THRESHOLD_": 2**30,
    "MALLOC_MMAP_THRESHOLD_": 2**25,
}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where cells are computed."""

    name: str = "local"  # processes of this machine; or "dask", a cluster
    jobs: int = 1  # cells at a time; on a running scheduler its workers decide
    scheduler: str | None = None  # address such as tcp://host:8786; None starts a Dask cluster here

    def __post_init__(self) -> None:
        if self.name not in ("local", "dask"):
            raise InvalidInputError(f"Unknown engine {self.name!r}; the engines are local and dask.")
        if self.jobs < 1:
            raise InvalidInputError(f"jobs must be at least 1, but it is {self.jobs}.")
        if self.scheduler is not None and self.name != "dask":
            raise InvalidInputError("A scheduler's address needs the Dask engine: add --engine dask.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome(Generic[C]):
    """A cell with its result, or with the traceback of the error that ended it."""

    cell: C
    result: CellResult | None = None
    error: str | None = None


def run_cells(
    cells: Sequence[C], work: Work[C, D], data: D, engine: Engine
) -> Generator[Outcome[C], None, None]:
    """Compute cells, each as one task, and yield their outcomes as they finish.

    Workers import ``work``, and get ``data`` once; on this machine large arrays are mapped, not copied. They
    end with this process, however it ends. Closed early, the generator gives up the rest.
    """
    waiting = list(cells)
    for last_try in (False, True):
        try:
            with closing(_run_once(tuple(waiting), work, data, engine)) as outcomes:
                for outcome in outcomes:
                    waiting.remove(outcome.cell)
                    yield outcome
            return
        except WorkersLostError:
            # Once may be bad luck: another program took the memory. Start again with what is left.
            if last_try:
                raise


def _run_once(
    cells: Sequence[C], work: Work[C, D], data: D, engine: Engine
) -> Generator[Outcome[C], None, None]:
    if not cells:
        return
    with _backend(engine, data):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        outcomes = parallel(joblib.delayed(_attempt)(work, cell, data) for cell in cells)
        try:
            for outcome in outcomes:  # noqa: UP028 - "yield from" would close it before the handler below
                yield outcome
        # What a cell raises is in its outcome, so this is the engine's; each engine has its own exceptions.
        except Exception as error:
            raise WorkersLostError(
                f"The workers died ({type(error).__name__}), perhaps for want of memory or disk space. "
                "Finished cells are kept: continue with --resume, and fewer --jobs if memory was short."
            ) from error
        except BaseException:  # the run is given up, by Ctrl-C or because the caller wants no more
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib's, on the fits that are given up with it
                outcomes.close()
            if engine.name == "local":
                end_workers()
            raise


def check_engine(engine: Engine) -> None:
    """Refuse an engine that cannot work, before anything is written."""
    if engine.scheduler is not None:
        with _dask_client(engine):
            pass


def _attempt(work: Work[C, D], cell: C, data: D) -> Outcome[C]:
    """Run in the worker: one thread, warnings collected, exceptions returned as text."""
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = work(cell, data)
    except Exception:
        return Outcome(cell=cell, error=traceback.format_exc())
    result.details["warnings"] = sorted({str(warning.message) for warning in caught})
    return Outcome(cell=cell, result=result)


@contextmanager
def _backend(engine: Engine, data: Any) -> Iterator[None]:  # noqa: ANN401
    """Let joblib use the engine within the context."""
    with ExitStack() as stack:
        if engine.name == "local":
            stack.enter_context(
                joblib.parallel_config(
                    "loky",
                    n_jobs=engine.jobs,
                    inner_max_num_threads=1,
                    initializer=begin_worker,
                    initargs=(os.getpid(),),
                )
            )
        else:
            client = stack.enter_context(_dask_client(engine))
            stack.enter_context(joblib.parallel_config("dask", n_jobs=-1, client=client, scatter=[data]))
        yield


@contextmanager
def _dask_client(engine: Engine) -> Iterator[Any]:
    try:
        import dask
        from dask import distributed
    except ImportError as error:
        raise MissingExtraError("dask.distributed", "dask") from error
    with ExitStack() as stack:
        address: Any = engine.scheduler
        if address is None:
            stack.enter_context(dask.config.set({"distributed.nanny.pre-spawn-environ": _WORKER_ENVIRONMENT}))
            # No dashboard: it would open a port that nobody asked for.
            cluster = distributed.LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=engine.jobs,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.ERROR,
            )
            address = stack.enter_context(cluster)
        try:
            client = distributed.Client(address, timeout=10)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"No Dask scheduler answers at {engine.scheduler}: start one with `dask scheduler`, or "
                "leave --scheduler out to start a cluster here."
            ) from error
        stack.enter_context(client)
        if engine.scheduler is not None and not client.scheduler_info()["workers"]:
            raise InvalidInputError(
                f"The Dask scheduler at {engine.scheduler} has no workers: start some with "
                f"`dask worker {engine.scheduler} --nthreads 1`."
            )
        yield client
