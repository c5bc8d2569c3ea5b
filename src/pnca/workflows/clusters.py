"""Parts of a table are predicted by processes of Dask, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pnca.exceptions import InvalidInputError, MissingExtraError, PncaError, WorkersLostError
from pnca.workflows.answers import Answers, Settings, Tally
from pnca.workflows.predicting import Part, Seen, predicted_rows

if TYPE_CHECKING:
    import pandas as pd

#: Parts for each worker that are on their way at a time: more would wait in memory to be written.
_AHEAD = 2
#: Seconds after which it is looked whether there are workers left.
_PATIENCE = 10.0
#: One thread for each process, as many as there are cores.
_ENVIRONMENT = {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}


@dataclass(frozen=True)
class Cluster:
    """Processes of Dask that predict parts.

    Attributes
    ----------
    client : distributed.Client
        Of a scheduler. Its workers read the files of the parts, by the same paths as this process.
    """

    client: Any

    def predicted_parts(
        self,
        model: Any,  # noqa: ANN401
        settings: Settings | None,
        parts: Sequence[Part],
        tally: Tally,
        seen: Seen,
    ) -> Iterator[pd.DataFrame]:
        """What is said of the rows of each part, in their order; see ``predicted_rows``.

        A part whose worker dies is given to another one, a few times.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its size: scattered, it would be lost with its worker
            there = self.client.submit(_itself, model, pure=False)
        waiting, n_workers = deque[Any](), max(1, len(self._workers()))
        left = iter(parts)
        try:
            while True:
                while len(waiting) < _AHEAD * n_workers and (part := next(left, None)) is not None:
                    waiting.append(self.client.submit(_predicted, there, settings, part, pure=False))
                if not waiting:
                    return
                frames, found, values, said = self._result(waiting[0])
                waiting.popleft()
                tally.merge(found)
                seen.merge(values)
                for text in said:
                    warnings.warn(text, UserWarning, stacklevel=2)
                yield from frames
        finally:
            self.client.cancel(list(waiting))

    def _result(self, future: Any) -> Any:  # noqa: ANN401
        from dask import distributed

        while True:
            try:
                return future.result(timeout=_PATIENCE)
            except distributed.TimeoutError:
                if not self._workers():
                    raise WorkersLostError(
                        "No worker of Dask is left, so nothing was written: start some, and try again."
                    ) from None
            except PncaError:  # what the part itself is refused for
                raise
            except Exception as error:  # Dask's own, when workers died again and again
                raise WorkersLostError(
                    f"The workers of Dask died ({type(error).__name__}), perhaps for want of memory, so "
                    "nothing was written: pass fewer --jobs, or divide the table into smaller parts."
                ) from error

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.scheduler_info()["workers"]
        return found


def _itself(model: Any) -> Any:  # noqa: ANN401
    return model


def _predicted(
    model: Any,  # noqa: ANN401
    settings: Settings | None,
    part: Part,
) -> tuple[list[pd.DataFrame], Tally, Seen, list[str]]:
    """Predict a part on a worker; its warnings come back as text."""
    import torch

    torch.set_num_threads(1)
    tally, seen = Answers(model, settings, part.seed).tally, Seen()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        frames = list(predicted_rows(model, settings, part, tally, seen))
    return frames, tally, seen, list(dict.fromkeys(str(warning.message) for warning in caught))


@contextmanager
def dask_cluster(scheduler: str | None = None, jobs: int | None = None) -> Iterator[Cluster]:
    """Connect to a Dask scheduler, or start processes here that end with the block.

    Parameters
    ----------
    scheduler : str, optional
        Address of a scheduler such as ``tcp://host:8786``. Its workers need pnca, and the files by the same
        paths.
    jobs : int, optional
        Processes that are started here; by custom one for each core.

    Yields
    ------
    Cluster
    """
    try:
        import dask
        from dask import distributed
    except ImportError as error:
        raise MissingExtraError("dask.distributed", "dask") from error
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            stack.enter_context(dask.config.set({"distributed.nanny.pre-spawn-environ": _ENVIRONMENT}))
            address = stack.enter_context(
                distributed.LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=jobs or os.cpu_count() or 1,
                    threads_per_worker=1,
                    dashboard_address=None,  # it would open a port that nobody asked for
                    silence_logs=logging.CRITICAL,
                )
            )
        try:
            client = distributed.Client(address, timeout=10)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"No Dask scheduler answers at {scheduler}: start one with `dask scheduler`, or leave "
                "--scheduler out to start processes here."
            ) from error
        cluster = Cluster(stack.enter_context(client))
        if not cluster._workers():
            raise InvalidInputError(
                f"The Dask scheduler at {scheduler} has no workers: start some with `dask worker {scheduler} "
                "--nthreads 1`."
            )
        yield cluster
