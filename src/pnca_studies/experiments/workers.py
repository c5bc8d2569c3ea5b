"""Worker processes of this machine end when the process that started them ends, however it ends.

This module imports next to nothing, so that a worker can watch before it has loaded torch.
"""

import os
import signal
import threading
import time

#: Seconds between two looks at the parent.
_INTERVAL = 0.5


def begin_worker(parent: int) -> None:
    """Prepare a worker, in its main thread: leave Ctrl-C to the parent, and end when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_outlive, args=(parent,), daemon=True, name="watch parent").start()


def _outlive(parent: int) -> None:
    # Not Linux's PR_SET_PDEATHSIG: it is sent at the end of the thread that started the worker.
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)


def end_workers() -> None:
    """Kill the workers of joblib, whatever they do."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True, kill_workers=True)
