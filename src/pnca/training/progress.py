"""A progress bar for each phase of a fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pnca.training.loop import Run, Wrapper


@contextmanager
def bar(caption: str, n_steps: int) -> Iterator[Callable[..., None]]:
    """Show how far a phase is while the block runs; see :data:`pnca.training.loop.Phase`."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task(caption, total=n_steps, state="")
        yield lambda steps=1, state="": progress.update(task, advance=steps, state=state)


def progress_bar(caption: str) -> "Wrapper":
    """Show epochs, loss and accuracy while a training runs, with a caption."""
    return partial(_of_epochs, caption)


@contextmanager
def _of_epochs(caption: str, run: "Run") -> Iterator[Callable[[], None]]:
    with bar(caption, run.schedule.max_epochs - run.n_epochs) as advance:

        def after_epoch() -> None:
            loss, accuracy = run.log.last()
            advance(1, f"loss {loss:.4f}  accuracy {accuracy:.3f}")

        yield after_epoch
