"""The ``pnca`` command: what installed packages offer in the entry-point group ``pnca.commands``."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

import typer

from pnca import __version__
from pnca.exceptions import PncaError

#: A package adds a command by an entry point of this group: a function with typer's annotations. Heavy
#: imports belong inside the function, so that ``pnca --help`` answers at once.
COMMANDS = "pnca.commands"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pnca {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop."),
    ] = False,
) -> None:
    pass


def make_app() -> typer.Typer:
    """Build the application from the installed commands; a broken one is named and left out."""
    app = typer.Typer(
        name="pnca",
        help="Classifiers that know when they do not know, from a hundred labels.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        callback=_options,
    )
    for entry in sorted(entry_points(group=COMMANDS), key=lambda entry: entry.name):
        _add(app, entry)
    return app


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        command = entry.load()
        app.command(entry.name, help=_flowing(inspect.getdoc(command)))(command)
    except Exception as error:  # any: another package's fault must not take the other commands away
        owner = entry.dist.name if entry.dist else entry.value
        reason = f"{type(error).__name__}: {error}"
        typer.echo(f"pnca: the command {entry.name!r} of {owner} cannot be loaded ({reason}).", err=True)


def _flowing(text: str | None) -> str | None:
    """A docstring whose lines end with a sentence, or where the terminal's do."""
    return text and re.sub(r"(?<=[^.:\n])\n(?=[^\n])", " ", text)


def main() -> None:
    """Run the command line; an expected error is one sentence and exit status 1."""
    try:
        make_app()()
    except PncaError as error:
        typer.echo(f"pnca: {error}", err=True)
        raise SystemExit(1) from None
    except OSError as error:  # a full disk, a folder that may not be written to
        place = f"{error.filename}: " if error.filename else ""
        typer.echo(f"pnca: {place}{error.strerror or error}. What was finished before is kept.", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
