"""Options that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from pnca.tables import TableFile


class EngineName(str, Enum):
    """Where parts of a table are predicted."""

    local = "local"
    dask = "dask"


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
Target = Annotated[
    str | None, typer.Option(help="Column with the class; of every table.", show_default=False)
]
Group = Annotated[
    str | None,
    typer.Option(help="Column that says which rows belong together, such as a patient.", show_default=False),
]
Ignore = Annotated[
    list[str] | None, typer.Option(help="Column that is no input; may be repeated.", show_default=False)
]
Codes = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of numbers that are names, such as wards; may be repeated.", show_default=False
    ),
]
Hole = Annotated[
    list[str] | None,
    typer.Option(help="Text that means a missing value, beside NA, ? and the like.", show_default=False),
]
SkipMissing = Annotated[bool, typer.Option("--skip-missing", help="Leave out rows without a class.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the fit.")]


IMAGES = "Images"
PathColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of a table that names image files.", show_default=False, rich_help_panel=IMAGES
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="Folder to which these are relative.", show_default="that of the table", rich_help_panel=IMAGES
    ),
]
BackboneName = Annotated[
    str | None,
    typer.Option(
        help="Pretrained network whose features are inputs: FEATURES.onnx or timm:NAME.",
        show_default=False,
        rich_help_panel=IMAGES,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="A .safetensors file for a timm backbone.",
        show_default="those on this machine",
        rich_help_panel=IMAGES,
    ),
]
Download = Annotated[
    bool,
    typer.Option(
        "--download", help="Fetch weights of a timm backbone that are missing.", rich_help_panel=IMAGES
    ),
]
SkipBroken = Annotated[
    bool,
    typer.Option("--skip-broken", help="Go on without images that cannot be read.", rich_help_panel=IMAGES),
]


class ScaleName(str, Enum):
    """Pixel values of an ONNX network."""

    bytes = "0-255"
    unit = "0-1"
    imagenet = "imagenet"


def open_users_table(path: Path, sheet: str | None, encoding: str | None, separator: str | None) -> TableFile:
    """Open the table that a user names."""
    from pnca.tables import open_table

    delimiter = "\t" if separator == "tab" else separator
    return open_table(path, sheet=sheet, encoding=encoding, delimiter=delimiter)


def is_of_images(model: object) -> bool:
    """Whether a model was fitted on image files, so that a folder holds such files."""
    from pnca.sources import ImageSource

    return isinstance(getattr(model, "source_", None), ImageSource)


def open_users_data(
    path: Path, sheet: str | None, encoding: str | None, separator: str | None
) -> TableFile | None:
    """Open what a user names: a table, or those of a pattern; None of an image, and of a folder of either."""
    from pnca.interfaces.networks import is_images
    from pnca.tables.parts import is_pattern

    if is_pattern(path):
        return open_users_parts(path, sheet, encoding, separator)
    return None if is_images(path) else open_users_table(path, sheet, encoding, separator)


def open_users_parts(path: Path, sheet: str | None, encoding: str | None, separator: str | None) -> TableFile:
    """Open the tables of a folder, or those that a pattern names."""
    from pnca.tables import open_parts

    delimiter = "\t" if separator == "tab" else separator
    return open_parts(path, sheet=sheet, encoding=encoding, delimiter=delimiter)


def target_of(table: TableFile, target: str | None) -> str:
    """The column with the class, which must be named of every table."""
    if target is None:
        shown = ", ".join(map(repr, table.names[:20]))
        raise InvalidInputError(
            f"Say which column of {table.path} is the class, with --target: there are {shown}."
        )
    return target


def refuse_for_tables(**options: object) -> None:
    """Refuse options of images where the inputs are columns."""
    if given := [f"--{name.replace('_', '-')}" for name, value in options.items() if value]:
        raise InvalidInputError(
            f"{' and '.join(given)} is for images: name the column of their files, --path-column, or a "
            "folder."
        )
