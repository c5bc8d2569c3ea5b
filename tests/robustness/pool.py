"""Processes that run cases one by one; one that crashes, hangs or takes too much memory is replaced."""

import importlib
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

#: Seconds between two looks at the memory and the time of the cases under way.
_LOOK = 0.5
#: Seconds more for the first case of a process, which waits for torch.
_START = 120.0


class Case(NamedTuple):
    """One call of a function of a module of this package, with a seed."""

    task: str
    module: str
    function: str
    seed: int
    seconds: float  # how long it may take


class Outcome(NamedTuple):
    """What became of a case: "right", "skipped" or "failed"."""

    case: Case
    verdict: str
    message: str
    seconds: float


def run_cases(cases: Iterable[Case], n_workers: int, max_bytes: int) -> Iterator[Outcome]:
    """Run all cases in so many processes; outcomes come as they are known."""
    left = iter(cases)
    workers = [_Worker() for _ in range(n_workers)]
    try:
        for worker in workers:
            worker.start(next(left, None))
        while busy := [worker for worker in workers if worker.case is not None]:
            ready = wait([worker.pipe for worker in busy], timeout=_LOOK)
            for worker in busy:
                outcome = worker.outcome(max_bytes, has_answered=worker.pipe in ready)
                if outcome is not None:
                    yield outcome
                    worker.start(next(left, None))
    finally:
        for worker in workers:
            worker.kill()


class _Worker:
    """A process and the case it is at."""

    def __init__(self) -> None:
        self.case: Case | None = None
        self._renew()

    def _renew(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,))
        self.process.start()
        theirs.close()
        self.is_new = True

    def start(self, case: Case | None) -> None:
        """Begin a case; None is the end."""
        self.case, self.began = case, time.monotonic()
        if case is not None:
            self.pipe.send(case)

    def outcome(self, max_bytes: int, *, has_answered: bool) -> Outcome | None:
        """What became of the case, if that is known."""
        case, seconds = self.case, time.monotonic() - self.began
        assert case is not None
        if has_answered:
            try:
                verdict, message = self.pipe.recv()
            except (EOFError, OSError):
                self.process.join(10)
                message = f"the process died with exit code {self.process.exitcode}"
                return self._replaced(message, seconds)
            self.is_new = False
            return Outcome(case, verdict, message, seconds)
        if seconds > case.seconds + _START * self.is_new:
            return self._replaced(f"no end after {seconds:.0f} s", seconds)
        if (n_bytes := _resident(self.process.pid)) > max_bytes:
            return self._replaced(f"it took {n_bytes / 2**30:.1f} GiB", seconds)
        return None

    def _replaced(self, message: str, seconds: float) -> Outcome:
        assert self.case is not None
        outcome = Outcome(self.case, "failed", message, seconds)
        self.kill()
        self._renew()
        return outcome

    def kill(self) -> None:
        """End the process and those it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _resident(pid: int | None) -> int:
    """Bytes of memory that a process holds."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _serve(pipe) -> None:
    """Run the cases that come through a pipe until it is closed."""
    os.setsid()  # so that what a case leaves behind can be ended with it
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(_verdict(case))


def _verdict(case: Case) -> tuple[str, str]:
    from robustness.verdicts import Skipped

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(importlib.import_module(f"robustness.{case.module}"), case.function)(
                case.seed, Path(folder)
            )
        except Skipped as reason:
            return "skipped", str(reason)
        except AssertionError as error:
            return "failed", str(error)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in ("pnca", "pnca_studies", "robustness"):
                return "failed", traceback.format_exc()
            return "skipped", f"{error.name} is not installed"
        except BaseException:  # the worst is a case that ends the run
            return "failed", traceback.format_exc()
    return "right", ""
