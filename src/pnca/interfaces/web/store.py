"""Uploads of the last while, in memory alone, so that they can be looked at."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict

from starlette.exceptions import HTTPException

from pnca.interfaces.web.settings import Limits
from pnca.workflows.batches import Batch


class Store:
    """Keeps the last batches, under keys that cannot be guessed; the oldest go first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._kept: OrderedDict[str, Batch] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, batch: Batch) -> str:
        """Keep a batch, and return its key."""
        key = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[key] = batch
            while len(self._kept) > 1 and self._is_full():
                self._kept.popitem(last=False)
        return key

    def of(self, key: str) -> Batch:
        """The batch of a key; an error if it is not there any more."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        raise HTTPException(404, "These inputs are not kept any more: choose the files again.")

    def _is_full(self) -> bool:
        n_bytes = sum(batch.n_bytes for batch in self._kept.values())
        return len(self._kept) > self.limits.kept_batches or n_bytes > self.limits.kept_bytes
