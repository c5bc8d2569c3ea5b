"""Tables in Excel and Parquet files."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.files import open_to_read
from pnca.tables.extras import require
from pnca.tables.names import check_names

if TYPE_CHECKING:
    import pandas as pd

#: Values that are read at once.
_VALUES = 500_000


@dataclass(frozen=True)
class ExcelTable:
    """A sheet of an Excel file."""

    path: Path
    names: tuple[str, ...]
    sheet: str
    notes: tuple[str, ...] = ()
    has_commas = False

    def frames(self, numbers: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Tables of some rows each, with the values of the cells; empty rows are none."""
        pandas, width = require("pandas"), len(self.names)
        with open_to_read(self.path, "table") as file:
            rows = _rows(_workbook(file, self.path)[self.sheet])
            next(rows)
            records = (row for row in rows if any(cell is not None for cell in row))
            while some := list(islice(records, max(1, _VALUES // width))):
                if too_wide := [row for row in some if any(cell is not None for cell in row[width:])]:
                    raise InvalidInputError(
                        f"{self.path}: a row that begins {too_wide[0][:2]!r} has values beyond the "
                        f"{width} named columns: name every column in the first row."
                    )
                cells = [list(row[:width]) + [None] * (width - len(row)) for row in some]
                yield pandas.DataFrame(cells, columns=list(self.names), dtype=object)


def open_excel(path: Path, sheet: str | None = None) -> ExcelTable:
    """Choose the sheet of an Excel file; where several have content, one must be named."""
    with open_to_read(path, "table") as file:
        book = _workbook(file, path)
        if sheet is not None and sheet not in book.sheetnames:
            raise InvalidInputError(f"{path} has no sheet {sheet!r}: there are {', '.join(book.sheetnames)}.")
        firsts = {name: next(_rows(book[name]), ()) for name in ([sheet] if sheet else book.sheetnames)}
        filled = {name: row for name, row in firsts.items() if any(cell is not None for cell in row)}
        if not filled:
            where = f"the sheet {sheet!r}" if sheet else "every sheet"
            raise InvalidInputError(f"{path}: {where} is empty in its first row, which names the columns.")
        if len(filled) > 1:
            raise InvalidInputError(f"{path} has the sheets {', '.join(filled)}: say which (--sheet).")
        chosen, header = next(iter(filled.items()))
    while header and header[-1] is None:
        header = header[:-1]
    return ExcelTable(path, check_names(header, path), chosen)


def _workbook(file: Any, path: Path) -> Any:  # noqa: ANN401
    openpyxl = require("openpyxl")
    try:
        return openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (
        openpyxl.utils.exceptions.InvalidFileException,
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        OSError,
    ) as error:
        raise CorruptDataError(
            f"{path} cannot be read as an Excel file ({error}): open it and save it as .xlsx."
        ) from error


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    if hasattr(sheet, "reset_dimensions"):
        sheet.reset_dimensions()  # some programs write a wrong size, behind which rows would be cut off
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(values_only=True)
    return rows


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file."""

    path: Path
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    has_commas = False

    def frames(self, numbers: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Tables of some rows each, with the types of the file."""
        arrow = require("pyarrow")
        with open_to_read(self.path, "table") as file:
            try:
                parquet = require("pyarrow.parquet").ParquetFile(file)
                for batch in parquet.iter_batches(max(1, _VALUES // len(self.names))):
                    if batch.num_rows:
                        frame: pd.DataFrame = batch.to_pandas(integer_object_nulls=True)
                        frame = frame.reset_index(drop=True)
                        yield frame.set_axis(list(self.names), axis=1)
            except (arrow.ArrowException, OSError) as error:
                raise _damaged(self.path, error) from error


def open_parquet(path: Path) -> ParquetTable:
    """Read the names of a Parquet file's columns."""
    arrow = require("pyarrow")
    with open_to_read(path, "table") as file:
        try:
            schema = require("pyarrow.parquet").ParquetFile(file).schema_arrow
        except (arrow.ArrowException, OSError) as error:
            raise _damaged(path, error) from error
    return ParquetTable(path, check_names(schema.names, path))


def _damaged(path: Path, error: Exception) -> CorruptDataError:
    return CorruptDataError(f"{path} cannot be read as a Parquet file ({error}): take another copy of it.")
