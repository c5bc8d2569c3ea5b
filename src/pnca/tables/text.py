"""Tables in text files: CSV, TSV, and what spreadsheets write under these names."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, TextIO

from pnca.exceptions import InvalidInputError
from pnca.files import open_to_read
from pnca.tables.extras import require
from pnca.tables.names import check_names
from pnca.tables.values import HOLES

if TYPE_CHECKING:
    import pandas as pd

#: Characters that are read at once, and that the first line, or a record, may have.
BLOCK, LONGEST = 2**21, 2**24
#: Characters by which the delimiter is found out.
_SAMPLE = 2**16
_DELIMITERS = (",", ";", "\t", "|")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHERS = {b"PK\x03\x04": "a zip archive or an Excel file", b"PAR1": "a Parquet file", b"%PDF": "a PDF"}
_ENCODINGS = "utf-8, utf-16 or cp1252"


@dataclass(frozen=True)
class TextTable:
    """A table in a text file."""

    path: Path
    names: tuple[str, ...]
    encoding: str
    delimiter: str
    notes: tuple[str, ...] = ()
    content: bytes | None = None  # of the file, where it is not on a disk

    @property
    def has_commas(self) -> bool:
        """Whether 3,5 is a number."""
        return self.delimiter != ","

    def frames(self, numbers: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """Tables of some rows each: text, and numbers in the columns of that name where all are some."""
        row = 0
        with _opened(self.path, self.content) as file:
            text = io.TextIOWrapper(file, self.encoding, newline="")
            try:
                next(csv.reader(text, delimiter=self.delimiter))
                while block := _block(text):
                    frame = self._frame(block, text, row, numbers)
                    row += len(frame)
                    if len(frame):
                        yield frame
            except UnicodeError as error:
                _refuse_encoding(self.path, self.encoding, row, error)

    def _frame(self, block: str, rest: TextIO, row: int, numbers: Collection[str]) -> pd.DataFrame:
        """The table of a block, which may take the rest of its last record; ``row`` rows came before."""
        width = len(self.names)
        if '"' in block:
            block, records = self._records(block, rest, row)
            is_plain = all(len(record) == width for record in records)
        else:
            lines = block.splitlines()
            is_plain = all(line.count(self.delimiter) == width - 1 for line in lines) and "\0" not in block
            is_plain = is_plain and (width > 1 or all(lines))
            records = [] if is_plain else self._records(block, rest, row)[1]
        if is_plain:
            return self._parsed(block, numbers)
        return require("pandas").DataFrame(self._checked(records, row), columns=list(self.names), dtype="str")

    def _parsed(self, block: str, numbers: Collection[str]) -> pd.DataFrame:
        """A block in which every record has a field for each column."""
        pandas = require("pandas")
        kinds: dict[str, type] = dict.fromkeys(self.names, str)

        def read() -> pd.DataFrame:
            return pandas.read_csv(
                io.StringIO(block),
                header=None,
                names=list(self.names),
                dtype=kinds,
                sep=self.delimiter,
                index_col=False,
                keep_default_na=False,
                na_values=list(HOLES),
                skip_blank_lines=False,
                engine="c",
            )

        try:
            kinds |= dict.fromkeys((name for name in numbers if name in kinds), float)
            return read()
        except ValueError:  # a text among numbers, which those who know what is meant look for
            kinds |= dict.fromkeys(self.names, str)
            return read()

    def _records(self, block: str, rest: TextIO, row: int) -> tuple[str, list[list[str]]]:
        """The block to the end of its last record, and its records."""
        taken: list[str] = []
        n_taken = 0

        def lines() -> Iterator[str]:
            nonlocal n_taken
            for line in chain(io.StringIO(block, newline=""), iter(rest.readline, "")):
                taken.append(line)
                n_taken += len(line)
                yield line

        records: list[list[str]] = []
        try:
            for record in csv.reader(lines(), delimiter=self.delimiter):
                records.append(record)
                if n_taken >= len(block):
                    break
        except csv.Error as error:
            raise InvalidInputError(
                f"{self.path}: row {row + len(records) + 1} cannot be read ({error}): a quotation mark "
                "may be opened there and never closed."
            ) from error
        return "".join(taken), records

    def _checked(self, records: list[list[str]], row: int) -> list[list[str]]:
        """Records without empty lines; an error if one has too many fields, or too few.

        Of a single column an empty line is a missing value.
        """
        width = len(self.names)
        if width == 1:
            records = [record or [""] for record in records]
        else:
            records = [record for record in records if len(record) > 1 or (record and record[0].strip())]
        for place, record in enumerate(records, start=row + 1):
            if len(record) != width:
                delimiter = {"\t": "tab"}.get(self.delimiter, repr(self.delimiter))
                raise InvalidInputError(
                    f"{self.path}: row {place} has {len(record)} fields, but there are {width} columns "
                    f"(separated by {delimiter}); it begins {_shown(record)}. Quote texts in which the "
                    "separator occurs, or pass the separator."
                )
        return records


def open_text(
    path: Path, encoding: str | None = None, delimiter: str | None = None, content: bytes | None = None
) -> TextTable:
    """Find out how a text file is written, and the names of its columns.

    With its ``content`` nothing is read from a disk, and ``path`` is a name.
    """
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise InvalidInputError(f"There is no encoding {encoding!r}: name {_ENCODINGS}.") from None
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidInputError(f"A separator is one character; got {delimiter!r}.")
    found = _find_encoding(path, content)
    used = encoding or found
    if delimiter is None and path.suffix.lower() in (".tsv", ".tab"):
        delimiter = "\t"
    with _opened(path, content) as file:
        text = io.TextIOWrapper(file, used, newline="")
        try:
            first = _first_line(text, path)
            sample = first + text.read(_SAMPLE)
        except UnicodeError as error:
            _refuse_encoding(path, used, 0, error)
    delimiter = delimiter or _find_delimiter(sample)
    try:
        header = next(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter), [])
    except csv.Error as error:
        raise InvalidInputError(
            f"{path}: the first line cannot be read ({error}): it names the columns, so this is no table."
        ) from error
    names = check_names(header, path)
    note = (
        f"{path} is not UTF-8 and was read as Windows-1252 (cp1252); if letters are wrong, name its encoding"
    )
    notes = (note,) if used == "cp1252" and not encoding else ()
    return TextTable(path, names, used, delimiter, notes, content)


def _opened(path: Path, content: bytes | None) -> BinaryIO:
    return open_to_read(path, "table") if content is None else io.BytesIO(content)


def _first_line(text: TextIO, path: Path) -> str:
    line = text.readline(LONGEST)
    if not line.strip():
        line += text.readline(LONGEST)
    if not line.strip():
        raise InvalidInputError(f"{path} is empty, or begins with empty lines: the first line names columns.")
    if len(line) >= LONGEST:
        raise InvalidInputError(
            f"{path}: the first line has {LONGEST:,} characters or more, so this is no table of rows and "
            "columns."
        )
    return line


def _find_encoding(path: Path, content: bytes | None) -> str:
    """UTF-8 if the whole file is, or what its first bytes say; otherwise what Windows wrote."""
    with _opened(path, content) as file:
        start = file.read(4)
        if not start:
            raise InvalidInputError(f"{path} is empty (0 bytes).")
        for mark, what in _OTHERS.items():
            if start == mark:
                raise InvalidInputError(f"{path} is {what}, whatever its name says: rename it.")
        for mark, encoding in _MARKS.items():
            if start.startswith(mark):
                return encoding
        decoder, block = codecs.getincrementaldecoder("utf-8")(), start
        is_utf8 = True
        while block:
            if b"\0" in block:
                raise InvalidInputError(
                    f"{path} holds zero bytes, so it is no text in UTF-8: save it as CSV in UTF-8, or name "
                    "its encoding, such as utf-16-le."
                )
            try:
                if is_utf8:
                    decoder.decode(block)
            except UnicodeDecodeError:
                is_utf8 = False
            block = file.read(2**20)
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            is_utf8 = False
    return "utf-8" if is_utf8 else "cp1252"


def _find_delimiter(sample: str) -> str:
    """The character that divides most lines of a sample into as many fields as the first, and most fields."""
    best, found = (0.0, 1), ","
    for delimiter in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row]
        except csv.Error:
            continue
        rows = rows[:-1] if len(rows) > 2 else rows  # the last may be cut off
        width = len(rows[0])
        share = sum(len(row) == width for row in rows) / len(rows)
        if width > 1 and (share, width) > best:
            best, found = (share, width), delimiter
    return found


def _block(text: TextIO) -> str:
    """Some whole lines."""
    block = text.read(BLOCK)
    if block.endswith("\r"):  # a \n may follow
        block += text.read(1)
    return block if not block or block[-1] in "\r\n" else block + text.readline()


def _shown(record: list[str]) -> str:
    start = ", ".join(record[:3])
    return repr(start[:40])


def _refuse_encoding(path: Path, encoding: str, row: int, error: UnicodeError) -> NoReturn:
    raise InvalidInputError(
        f"{path} is not text in {encoding}, after row {row} ({error}): name its encoding, such as "
        f"{_ENCODINGS}, or save it as UTF-8."
    ) from error
