"""A table in several files of the same columns: a folder, or those that ``parts/*.parquet`` names."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.tables.files import SUFFIXES, TableFile, open_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PartsTable:
    """Tables in files, one after the other in the order of their names."""

    path: Path  # the folder or pattern
    parts: tuple[TableFile, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the first part."""
        return self.parts[0].names

    @property
    def has_commas(self) -> bool:
        """Whether 3,5 is a number."""
        return self.parts[0].has_commas

    @property
    def labels(self) -> tuple[str, ...]:
        """What each part is called: the name of its file, with folders where names are not enough."""
        names = tuple(part.path.name for part in self.parts)
        return names if len(set(names)) == len(names) else tuple(str(part.path) for part in self.parts)

    def frames(self, numbers: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Tables of some rows each, part after part."""
        for part in self.parts:
            for frame in part.frames(numbers):
                yield frame[list(self.names)]


def is_pattern(path: Path) -> bool:
    """Whether a path names files by a pattern, and no file has that name."""
    return glob.has_magic(str(path)) and not path.exists()


def open_parts(path: str | Path, **options: Any) -> PartsTable:  # noqa: ANN401
    r"""Open the tables in a folder, or those that a pattern names; they have the same columns.

    Parameters
    ----------
    path : str or Path
        A folder, of which hidden files and folders in it are not looked at, or a pattern.
    **options
        ``sheet``, ``encoding`` and ``delimiter`` of :func:`pnca.tables.open_table`, for every part.

    Returns
    -------
    PartsTable
        In the order of the names.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> for year in (2023, 2024):
    ...     _ = (folder / f"{year}.csv").write_text("height,kind\n3.5,ash\n")
    >>> table = open_parts(folder)
    >>> table.labels, sum(map(len, table.frames()))
    (('2023.csv', '2024.csv'), 2)
    """
    path, notes = Path(path), []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        found = [file for file in files if file.suffix.lower() in SUFFIXES]
        if others := [file.name for file in files if file not in found]:
            notes.append(
                f"{len(others)} files in {path} are no tables and were not used, such as {others[0]!r}"
            )
    else:
        anchor = Path(path.anchor)  # of an absolute pattern
        found = sorted(file for file in anchor.glob(str(path.relative_to(anchor))) if file.is_file())
    if not found:
        raise MissingDataError(f"There are no tables in {path}: they end with {', '.join(SUFFIXES)}.")
    parts = tuple(open_table(file, **options) for file in found)
    first = parts[0]
    for part in parts[1:]:
        if set(part.names) != set(first.names):
            differing = sorted(set(part.names) ^ set(first.names))
            raise InvalidInputError(
                f"{part.path} has other columns than {first.path}, such as {differing[0]!r}: parts of "
                "a table have the same ones."
            )
        if part.has_commas != first.has_commas:
            raise InvalidInputError(
                f"{part.path} and {first.path} separate columns differently: name one kind."
            )
    notes += [note for part in parts for note in part.notes]
    return PartsTable(path, parts, tuple(notes))
