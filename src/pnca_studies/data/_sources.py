"""Shared by the loaders of published data: find a file, verify it, or say where to get it.

A file with other content is refused with its name in the error; nothing is downloaded unless the caller asks.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, MissingDataError
from pnca.files import cache_folder, make_folder, open_to_read, write_atomically

#: Takes one line of news for the user.
Say = Callable[[str], None]

_CHUNK = 1 << 20
_TIMEOUT = 60.0  # seconds without a byte; a slow server is not a dead one


def say_on_stderr(message: str) -> None:
    """Print a line where it does not mix with a program's output."""
    print(message, file=sys.stderr)


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hexadecimal digest of a file, read piece by piece."""
    # Not for security: without this note a machine in FIPS mode refuses MD5.
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open_to_read(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def array_digest(array: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's values in row order, whatever the memory layout."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def check_file(path: Path, *, n_bytes: int | None = None, algorithm: str = "sha256", digest: str) -> None:
    """Refuse a file whose size or digest is not the expected one."""
    size = path.stat().st_size
    if n_bytes is not None and size != n_bytes:
        raise CorruptDataError(f"{path} has {size:,} bytes, but the published file has {n_bytes:,}.")
    found = file_digest(path, algorithm)
    if found != digest:
        raise CorruptDataError(
            f"{path} was altered or is another version: its {algorithm} is {found}, expected {digest}."
        )


def as_bytes_array(array: NDArray[Any], name: str, path: Path | str) -> NDArray[np.uint8]:
    """Convert whole numbers from 0 to 255 to uint8, and refuse anything that would change."""
    if array.dtype == np.uint8:
        return array
    # Written so that a NaN fails the comparison.
    is_in_range = array.dtype.kind in "iuf" and (not array.size or (array.min() >= 0 and array.max() <= 255))
    if is_in_range:
        converted = array.astype(np.uint8)
        if np.array_equal(converted, array):
            return converted
    raise CorruptDataError(f"{path}: {name!r} must hold whole numbers from 0 to 255.")


def check_array(
    array: NDArray[Any], *, name: str, shape: tuple[int, ...], sha256: str, path: Path | str
) -> NDArray[np.uint8]:
    """Return an array as uint8 if its shape and values are the published ones, and refuse any other."""
    published = as_bytes_array(array, name, path)
    if array.shape != shape:
        raise CorruptDataError(f"{path}: {name!r} has shape {array.shape}, expected {shape}.")
    if (found := array_digest(published)) != sha256:
        raise CorruptDataError(
            f"{path}: the values of {name!r} are not the published ones "
            f"(sha256 {found[:12]}..., expected {sha256[:12]}...)."
        )
    return published


def folders_to_search(data_dir: str | Path | None, name: str) -> list[Path]:
    """Return where a data set may be: the caller's folder, then its folder in the cache."""
    cache = cache_folder() / name
    if data_dir is None:
        return [cache]
    # A name that is no folder is probably a typing mistake.
    if not (folder := Path(data_dir)).is_dir():
        raise MissingDataError(f"The data folder {folder} does not exist or is not a folder.")
    return [folder, cache]


def make_cache_folder(name: str) -> Path:
    """Make the folder of a data set in the cache."""
    return make_folder(cache_folder() / name, "set PNCA_CACHE_DIR to a folder you may write to")


def missing_data(name: str, *, looked_for: str, folders: Iterable[Path], advice: str) -> MissingDataError:
    """Return the error for a data set that is not there."""
    places = " and ".join(str(folder) for folder in folders)
    return MissingDataError(f"{name} is not on this machine. Looked for {looked_for} in {places}. {advice}")


def download(
    urls: Sequence[str],
    target: Path,
    *,
    n_bytes: int,
    digest: str,
    algorithm: str = "sha256",
    say: Say = say_on_stderr,
) -> Path:
    """Download a file from the first address that has it; it appears once it is complete and verified."""
    failures = []
    for url in urls:
        say(f"Downloading {url} ({n_bytes / 1e6:.1f} MB) to {target}")
        fetch = partial(_fetch, url, n_bytes=n_bytes, digest=digest, algorithm=algorithm)
        try:
            return write_atomically(target, fetch)
        except (OSError, HTTPException, CorruptDataError) as error:
            failures.append(f"{url}: {error}")
    raise MissingDataError(f"{target.name} could not be downloaded; nothing was kept. " + " ".join(failures))


def _fetch(url: str, path: Path, *, n_bytes: int, digest: str, algorithm: str) -> None:
    """Download from one address to ``path``, and verify it."""
    with urlopen(url, timeout=_TIMEOUT) as response, path.open("wb") as file:
        n_left = n_bytes + 1  # one more than expected, so that a longer file is noticed
        while n_left and (chunk := response.read(min(_CHUNK, n_left))):
            file.write(chunk)
            n_left -= len(chunk)
    check_file(path, n_bytes=n_bytes, algorithm=algorithm, digest=digest)
