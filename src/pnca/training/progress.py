"""A progress bar over the epochs of a training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pnca.training.loop import Run, Wrapper


def progress_bar(description: str) -> "Wrapper":
    """Show epochs, loss and accuracy while a training runs, with a caption."""
    return partial(_shown, description)


@contextmanager
def _shown(description: str, run: "Run") -> Iterator[Callable[[], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(description, total=run.schedule.max_epochs - run.n_epochs, state="")

        def advance() -> None:
            loss, accuracy = run.log.last()
            bar.update(task, advance=1, state=f"loss {loss:.4f}  accuracy {accuracy:.3f}")

        yield advance
