"""What commands print: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

#: Columns that are listed one by one.
_MOST_LISTED = 40


def warn(text: str) -> None:
    """Say what a user should look at."""
    typer.echo(f"pnca: {text}.", err=True)


def say_json(value: Any) -> None:  # noqa: ANN401
    """Print a value for machines."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say_list(title: str, lines: Iterable[str], most: int = _MOST_LISTED) -> None:
    """Print lines below a title; of very many the first."""
    found = list(lines)
    typer.echo(title)
    shown = found if len(found) <= most else found[: most // 2]
    for line in shown:
        typer.echo(f"  {line}")
    if len(shown) < len(found):
        typer.echo(f"  and {len(found) - len(shown)} more")


@contextmanager
def warnings_said() -> Iterator[None]:
    """Say the library's warnings in one line each, and each once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:  # noqa: ANN401
        text = str(message).rstrip(".")
        if text not in said:
            said.add(text)
            warn(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries, about their own code
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def progress(caption: str, unit: str) -> Iterator[Any]:
    """Show on standard error how far something is, where that is a terminal: ``advance(n)``.

    Without a ``unit`` only the time is shown.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([TextColumn("{task.completed:,} " + unit)] if unit else []),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(caption, total=None)
        yield lambda n=1: bar.update(task, advance=n)
