"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pnca.tables import TableFile

Model = Annotated[Path, typer.Argument(help="A model file of pnca fit or pnca.save.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an Excel file that has several.")]
Encoding = Annotated[
    str | None, typer.Option(help="Of a text file, such as utf-8, cp1252, utf-16.", show_default="found out")
]
Separator = Annotated[
    str | None,
    typer.Option(help="Between columns of a text file; 'tab' for a tab.", show_default="found out"),
]
Id = Annotated[str | None, typer.Option(help="Column that names each row; no input.", show_default=False)]


def open_users_table(path: Path, sheet: str | None, encoding: str | None, separator: str | None) -> TableFile:
    """Open the table that a user names."""
    from pnca.tables import open_table

    delimiter = "\t" if separator == "tab" else separator
    return open_table(path, sheet=sheet, encoding=encoding, delimiter=delimiter)


def given(**options: Any) -> list[str]:  # noqa: ANN401
    """Names, as a user writes them, of the options that were given."""
    return [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
