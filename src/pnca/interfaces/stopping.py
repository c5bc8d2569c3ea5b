"""Ctrl-C and SIGTERM end a command with the exit codes that shells expect."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a run as Ctrl-C does."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise :class:`Terminated` at SIGTERM while the block runs."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


@contextmanager
def stoppable() -> Iterator[None]:
    """End the command when it is interrupted, and say that nothing was written."""
    try:
        with terminable():
            yield
    except KeyboardInterrupt as interrupt:
        typer.echo("pnca: stopped; nothing was written.", err=True)
        raise typer.Exit(exit_code(interrupt)) from None
