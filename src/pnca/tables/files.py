"""Files of tables by their names: which reader, and a whole table with the sorts of its columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pnca.exceptions import InvalidInputError
from pnca.tables.binary import open_excel, open_parquet
from pnca.tables.extras import require
from pnca.tables.text import open_text
from pnca.tables.values import TEXT, as_text, converted, sort_of, tidied

if TYPE_CHECKING:
    import pandas as pd

TEXT_SUFFIXES, EXCEL_SUFFIXES, PARQUET_SUFFIXES = (
    (".csv", ".tsv", ".tab", ".txt"),
    (".xlsx", ".xlsm"),
    (".parquet", ".pq"),
)
SUFFIXES = (*TEXT_SUFFIXES, *EXCEL_SUFFIXES, *PARQUET_SUFFIXES)


class TableFile(Protocol):
    """A table in a file that was found to be one."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of how it is read."""

    @property
    def has_commas(self) -> bool:
        """Whether 3,5 is a number."""

    def frames(self, numbers: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Tables of some rows each, as the file has them; the columns ``numbers`` as such where they are."""


def open_table(
    path: str | Path,
    *,
    sheet: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> TableFile:
    r"""Open a table, whose format is known by the file's suffix.

    Parameters
    ----------
    path : str or Path
        A CSV file (``.csv``, ``.txt``; ``.tsv`` and ``.tab`` with tabs), an Excel file (``.xlsx``) or a
        Parquet file.
    sheet : str, optional
        The sheet of an Excel file; where only one has content it need not be named.
    encoding : str, optional
        Of a text file. None finds it out: UTF-8 or UTF-16 with a mark at the start, UTF-8, otherwise cp1252.
    delimiter : str, optional
        The character between the columns of a text file. None finds it out: comma, semicolon, tab or bar.

    Returns
    -------
    TableFile
        With ``names``, ``notes``, and ``frames()`` for some rows after the other.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "trees.csv"
    >>> _ = path.write_text("name;height\nash;3,5\n")
    >>> open_table(path).names
    ('name', 'height')
    """
    path = Path(path)
    suffix = path.suffix.lower()
    require("pandas")
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: name a table, a file in it.")
    is_text = suffix in TEXT_SUFFIXES
    if sheet is not None and suffix not in EXCEL_SUFFIXES:
        raise InvalidInputError(f"{path} is no Excel file, so it has no sheet {sheet!r}.")
    if (encoding is not None or delimiter is not None) and not is_text:
        raise InvalidInputError(f"{path} is no text file, so it has no encoding and no separator.")
    if is_text:
        return open_text(path, encoding, delimiter)
    if suffix in EXCEL_SUFFIXES:
        return open_excel(path, sheet)
    if suffix in PARQUET_SUFFIXES:
        return open_parquet(path)
    hint = "save it as .xlsx" if suffix in (".xls", ".xlsb", ".ods") else "save it as CSV"
    raise InvalidInputError(f"{path} is of no known kind: a table ends with {', '.join(SUFFIXES)}; {hint}.")


def read_table(path: str | Path, *, texts: Collection[str] = (), **options: Any) -> pd.DataFrame:  # noqa: ANN401
    r"""Read a whole table, whose columns get the types that their values have.

    Numbers, truth values, dates and text are told by all values of a column. Missing are empty fields and
    ``pnca.tables.HOLES`` such as NA and ?; in columns of numbers and dates also None, - and a single point.

    Parameters
    ----------
    path : str or Path
        The file; see :func:`open_table`.
    texts : collection of str
        Columns that stay text, such as identifiers.
    **options
        ``sheet``, ``encoding`` and ``delimiter`` of :func:`open_table`.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> path = getfixture("tmp_path") / "trees.csv"
    >>> _ = path.write_text("name,height,seen\nash,3.5,2024-05-01\nbirch,NA,2024-06-01\n")
    >>> [kind.kind for kind in read_table(path).dtypes[1:]]
    ['f', 'M']
    """
    table = open_table(path, **options)
    raw = whole(table)
    return typed(raw, table, sorts_of(raw, table, texts))


def whole(table: TableFile) -> pd.DataFrame:
    """All rows as the file has them; an error if there are none."""
    frames = list(table.frames())
    if not frames:
        raise InvalidInputError(f"{table.path} has a header and no rows.")
    joined: pd.DataFrame = require("pandas").concat(frames, ignore_index=True)
    return joined


def sorts_of(
    raw: pd.DataFrame, table: TableFile, texts: Collection[str] = (), holes: Collection[str] = ()
) -> dict[str, str]:
    """What each column is taken for; ``holes`` are further texts that stand for a missing value."""
    return {
        name: TEXT if name in texts else sort_of(tidied(raw[name], holes), has_commas=table.has_commas)
        for name in table.names
    }


def typed(
    raw: pd.DataFrame,
    table: TableFile,
    sorts: Mapping[str, str],
    *,
    row: int = 0,
    holes: Collection[str] = (),
) -> pd.DataFrame:
    """Columns as these sorts, in their order; a value that is none is an error that names row and column.

    ``row`` rows came before those of ``raw``.
    """
    columns = {}
    for name, sort in sorts.items():
        column = raw[name]
        if sort == TEXT:  # first: a whole number with holes beside it would become one with a point
            column = as_text(column)
        if column.dtype != np.float64:
            column = tidied(column, holes)
        columns[name], is_wrong = converted(column, sort, has_commas=table.has_commas)
        if is_wrong.any():
            place = int(is_wrong.argmax())
            value = str(raw[name].iloc[place])[:40]
            others = f" (and {int(is_wrong.sum()) - 1} more near it)" if is_wrong.sum() > 1 else ""
            raise InvalidInputError(
                f"{table.path}: row {row + place + 1}, column {name!r}: {value!r} is no {sort}{others}. "
                "Correct it, or leave the field empty if it is not known."
            )
    return require("pandas").DataFrame(columns)
