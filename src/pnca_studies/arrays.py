"""Arrays from npz files that others made: sizes and headers are looked at before anything is decompressed.

A small file can hold an array of any size, because zeros compress a thousandfold. So the size that an archive
states, the header of the array and what the caller expects must agree first; nothing is ever unpickled.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pnca.exceptions import CorruptDataError
from pnca.files import open_to_read

_CHUNK = 1 << 20
_SUFFIX = ".npy"
_MAX_HEADER = 1 << 12  # numpy's own take 128 bytes; without a limit a header could be a bomb itself
# As numpy writes it, without blanks: of numbers and text, as objects are pickles. L is Python 2's.
_HEADER = re.compile(
    rb"""\{['"]descr['"]:['"]([<>|=]?[biufcUS?]\d{0,9})['"],"""
    rb"""['"]fortran_order['"]:(True|False),"""
    rb"""['"]shape['"]:\(((?:\d{1,18}L?,)*(?:\d{1,18}L?)?)\),?\}"""
)
_LAST_CHARACTER = 0x10FFFF  # of Unicode


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What an array in a file may be; None allows any."""

    max_bytes: int  # in memory
    shape: tuple[int, ...] | None = None
    dtype: DTypeLike | None = None


@dataclass(frozen=True, kw_only=True)
class ArrayHeader:
    """What an array in a file says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool  # whether columns, not rows, come one after the other

    @property
    def n_bytes(self) -> int:
        """Size in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_headers(path: Path, *, advice: str = "delete it and get it again") -> dict[str, ArrayHeader]:
    """Return the header of each array of an npz file, by name; no array is read.

    A damaged file is a :class:`~pnca.exceptions.CorruptDataError` that names it and ends in ``advice``.
    """
    with _opened(path, advice) as archive:
        return {name: _open_array(archive, name)[1] for name in _names(archive)}


def read_npz(
    path: Path, expected: Mapping[str, Expected], *, advice: str = "delete it and get it again"
) -> dict[str, NDArray[Any]]:
    """Read the expected arrays of an npz file, by name; others in it are left alone.

    What is damaged, missing or not as expected is a :class:`~pnca.exceptions.CorruptDataError` that names the
    file and ends in ``advice``. All headers are checked before the first array is decompressed.
    """
    with _opened(path, advice) as archive:
        if absent := sorted(set(expected) - set(_names(archive))):
            raise _WrongError(f" lacks the arrays {absent}; it holds {sorted(_names(archive))}")
        for name, wanted in expected.items():
            _check(name, _open_array(archive, name)[1], wanted)
        return {name: _read_array(archive, name) for name in expected}


class _WrongError(Exception):
    """What is wrong with a file, to follow its name."""


@contextmanager
def _opened(path: Path, advice: str) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever is wrong with it becomes one error that names it."""
    with open_to_read(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except MemoryError:
            raise
        except _WrongError as error:
            raise CorruptDataError(f"{path}{error}: {advice}.") from error
        except Exception as error:  # zipfile raises whatever its parsing runs into
            raise CorruptDataError(f"{path} is not a complete npz file ({error}): {advice}.") from error


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]


def _open_array(archive: zipfile.ZipFile, name: str) -> tuple[IO[bytes], ArrayHeader]:
    """Open an array after its header, and compare its size with that which the archive states."""
    member = archive.getinfo(name + _SUFFIX)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile does not bound what it takes at once from the other kinds of compression.
        raise _WrongError(f": the array {name!r} is compressed in a way that numpy does not use")
    stream = archive.open(member)
    length, header = _read_header(stream, name)
    if member.file_size != length + header.n_bytes:
        raise _WrongError(
            f": the array {name!r} has {member.file_size - length:,} bytes, but its header says "
            f"{header.n_bytes:,}"
        )
    return stream, header


def _read_header(stream: IO[bytes], name: str) -> tuple[int, ArrayHeader]:
    """Return how many bytes a header takes, and what it says."""
    start = stream.read(8)
    if start not in (b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00"):
        raise _WrongError(f": {name!r} is not an array of numbers or text")
    n_digits = 2 if start[6] == 1 else 4
    n_text = int.from_bytes(stream.read(n_digits), "little")
    text = stream.read(min(n_text, _MAX_HEADER))
    match = _HEADER.fullmatch(re.sub(rb"\s", b"", text))
    if len(text) != n_text or match is None:
        raise _WrongError(f": the header of the array {name!r} is damaged, or not of numbers or text")
    descr, order, shape = (group.decode("ascii") for group in match.groups())
    try:
        dtype = np.dtype(descr)
    except TypeError as error:
        raise _WrongError(f": the array {name!r} has no known type ({descr})") from error
    if not dtype.itemsize:
        raise _WrongError(f": the array {name!r} holds elements of no bytes")
    lengths = tuple(int(length) for length in re.findall(r"\d+", shape))
    return 8 + n_digits + n_text, ArrayHeader(shape=lengths, dtype=dtype, is_fortran=order == "True")


def _check(name: str, header: ArrayHeader, expected: Expected) -> None:
    """Refuse an array whose header is not as expected."""
    if expected.shape is not None and header.shape != expected.shape:
        raise _WrongError(f": {name!r} has shape {header.shape}, expected {expected.shape}")
    if expected.dtype is not None and header.dtype != np.dtype(expected.dtype):
        raise _WrongError(f": {name!r} has type {header.dtype}, expected {np.dtype(expected.dtype)}")
    if header.n_bytes > expected.max_bytes:
        raise _WrongError(
            f": {name!r} would take {header.n_bytes:,} bytes, expected are at most {expected.max_bytes:,}"
        )


def _read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array whose header was checked; zipfile compares its checksum after the last byte."""
    stream, header = _open_array(archive, name)
    content = np.empty(header.n_bytes, dtype=np.uint8)
    for start in range(0, header.n_bytes, _CHUNK):
        wanted = min(_CHUNK, header.n_bytes - start)
        piece = stream.read(wanted)
        if len(piece) != wanted:
            raise _WrongError(f": the array {name!r} ends early")
        content[start : start + wanted] = np.frombuffer(piece, dtype=np.uint8)
    array: NDArray[Any] = np.ndarray(
        header.shape, header.dtype, buffer=content, order="F" if header.is_fortran else "C"
    )
    if header.dtype.kind == "U":
        code_points = content.view(f"{header.dtype.byteorder}u4")
        if code_points.size and code_points.max() > _LAST_CHARACTER:
            raise _WrongError(f": the array {name!r} holds text that is not Unicode")
    return array
