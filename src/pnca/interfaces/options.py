"""Options that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pnca.tables import TableFile


class StoreName(str, Enum):
    """What a model file holds of the training examples."""

    full = "full"
    predictive = "predictive"


Model = Annotated[Path, typer.Argument(help="A model file of pnca fit or pnca.save.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Store = Annotated[
    StoreName,
    typer.Option(help="Keep the training table in the model file, for explanations, or only what predicts."),
]
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
