"""Tables written a part at a time, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pnca.exceptions import InvalidInputError
from pnca.files import replacing
from pnca.tables.extras import require
from pnca.tables.files import PARQUET_SUFFIXES

if TYPE_CHECKING:
    import pandas as pd

#: Suffixes of tables that are written.
WRITTEN = (".csv", ".tsv", *PARQUET_SUFFIXES)


class TableWriter(Protocol):
    """Takes one part of a table after the other, of the same columns."""

    def write(self, part: pd.DataFrame) -> None:
        """Append rows."""


class _TextWriter:
    def __init__(self, path: Path, delimiter: str) -> None:
        self.file = path.open("w", encoding="utf-8", newline="")
        self.delimiter = delimiter
        self.is_begun = False

    def write(self, part: pd.DataFrame) -> None:
        part.to_csv(self.file, sep=self.delimiter, index=False, header=not self.is_begun)
        self.is_begun = True

    def close(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())


class _ParquetWriter:
    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        self.writer: Any = None

    def write(self, part: pd.DataFrame) -> None:
        arrow = require("pyarrow")
        schema = None if self.writer is None else self.writer.schema
        table = arrow.Table.from_pandas(part, schema=schema, preserve_index=False)
        if self.writer is None:
            table = table.replace_schema_metadata(None)
            self.writer = require("pyarrow.parquet").ParquetWriter(self.file, table.schema)
        self.writer.write_table(table.cast(self.writer.schema))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.file.flush()
        os.fsync(self.file.fileno())


@contextmanager
def write_table(path: str | Path, *, overwrite: bool = False) -> Iterator[TableWriter]:
    """Write a table part by part; it is there when the block has ended, and not if that failed.

    Parameters
    ----------
    path : str or Path
        A file that ends with ``.csv``, ``.tsv`` or ``.parquet``; its folder must exist.
    overwrite : bool
        Whether a file that is there may be replaced.

    Examples
    --------
    >>> import pandas as pd
    >>> path = getfixture("tmp_path") / "trees.csv"
    >>> with write_table(path) as table:
    ...     for height in (3.5, 4.0):
    ...         table.write(pd.DataFrame({"height": [height]}))
    >>> path.read_text().split()
    ['height', '3.5', '4.0']
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in WRITTEN:
        raise InvalidInputError(
            f"{path}: a table is written as {', '.join(WRITTEN)}; give the name such an end."
        )
    if suffix in PARQUET_SUFFIXES:
        require("pyarrow.parquet")
    with replacing(path, overwrite=overwrite) as temporary:
        if suffix in PARQUET_SUFFIXES:
            writer: Any = _ParquetWriter(temporary)
        else:
            writer = _TextWriter(temporary, "," if suffix == ".csv" else "\t")
        try:
            yield writer
            writer.close()
        finally:
            writer.file.close()
