"""One thread that asks the model, so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pnca.workflows.answers import Scores, checked_inputs, scores_of

Result = TypeVar("Result")
#: Inputs that are asked at once; what comes meanwhile waits for the next turn.
MOST_ROWS = 4096


class Worker:
    """Asks a model in one thread. What several requests ask meanwhile is answered together.

    Everything that touches the model, and every figure, is made in this thread: matplotlib, and the warnings
    of Python, have one state for all.
    """

    def __init__(self, model: Any, n_examples: int) -> None:  # noqa: ANN401
        self.model, self.n_examples = model, n_examples
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pnca-model")
        self._waiting: deque[tuple[Any, Future[Scores]]] = deque()
        self._lock = threading.Lock()

    async def score(self, X: Any) -> Scores:  # noqa: ANN401
        """What the model says of inputs X (n, ...)."""
        future: Future[Scores] = Future()
        with self._lock:
            self._waiting.append((X, future))
            is_first = len(self._waiting) == 1
        if is_first:
            self._pool.submit(self._answer)
        return await asyncio.wrap_future(future)

    async def run(self, function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:  # noqa: ANN401
        """Call something that touches the model, or draws."""

        def quietly() -> Result:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*arguments, **named)

        return await asyncio.wrap_future(self._pool.submit(quietly))

    def close(self) -> None:
        """Finish what waits, and end the thread."""
        self._pool.shutdown(wait=True)

    def _answer(self) -> None:
        """Answer what waits, as much as is asked at once."""
        taken: list[tuple[Any, Future[Scores]]] = []
        n = 0
        with self._lock:
            while self._waiting and (not taken or n + len(self._waiting[0][0]) <= MOST_ROWS):
                taken.append(self._waiting.popleft())
                n += len(taken[-1][0])
            is_more = bool(self._waiting)
        if is_more:
            self._pool.submit(self._answer)
        wanted = [(X, future) for X, future in taken if future.set_running_or_notify_cancel()]
        checked: list[tuple[NDArray[Any], Future[Scores]]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of values that were never seen; notes say it
            for X, future in wanted:
                try:
                    checked.append((checked_inputs(self.model, X), future))
                except Exception as error:  # whatever it is, the one who asked is told
                    future.set_exception(error)
            self._score(checked)

    def _score(self, checked: list[tuple[NDArray[Any], Future[Scores]]]) -> None:
        """Score inputs together, and give each request its own."""
        if not checked:
            return
        try:
            inputs = np.concatenate([one for one, _ in checked])
            found = scores_of(self.model, inputs, self.n_examples)
        except Exception as error:
            for _, future in checked:
                future.set_exception(error)
            return
        start = 0
        for one, future in checked:
            future.set_result(found.of(slice(start, start + len(one))))
            start += len(one)
