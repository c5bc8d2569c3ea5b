"""A progress bar that shows loss and accuracy, or nothing at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(description: str, total: int, *, enabled: bool) -> Iterator[Callable[[float, float], None]]:
    """Show a bar over ``total`` epochs.

    Parameters
    ----------
    description : str
        Caption of the bar.
    total : int
        Number of epochs.
    enabled : bool
        If False nothing is shown, and rich is not imported.

    Yields
    ------
    callable
        ``advance(loss, accuracy)``, to be called once an epoch.
    """
    if not enabled:
        yield lambda loss, accuracy: None
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(description, total=total, state="")

        def advance(loss: float, accuracy: float) -> None:
            bar.update(task, advance=1, state=f"loss {loss:.4f}  accuracy {accuracy:.3f}")

        yield advance
