"""Files that are complete or absent, never half written."""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from pnca.exceptions import InvalidInputError, MissingDataError

#: The file in a folder that a process locks while the folder is its own.
LOCK = ".lock"
#: Errors of the operating system that are about where a file is written.
_OF_THE_PLACE = {
    errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT,
    errno.ENAMETOOLONG }  # fmt: skip


def cache_folder() -> Path:
    """Return the folder for downloads and computed features, which may not exist yet.

    It is ``$PNCA_CACHE_DIR`` if set, else ``pnca`` in the user's cache folder.
    """
    if folder := os.environ.get("PNCA_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pnca"


def prepare_folder(path: str | Path, marker: str) -> Path:
    """Make a folder for results, or take one with earlier results, which contains the file ``marker``.

    A folder with anything else in it is refused, so that nothing of the user's is overwritten. What a process
    that died at the start left there, a lock or a marker half written, is none of the user's.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file; name a folder for the results.")
    left = {LOCK, *(path.name for path in folder.glob(f".{marker}.*.tmp"))}
    others = {entry.name for entry in folder.iterdir()} - left if folder.is_dir() else set()
    if others and marker not in others:
        raise InvalidInputError(f"{folder} holds other files; name a new or an empty folder for the results.")
    make_folder(folder)
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"{folder} cannot be written to; name another folder.")
    return folder


def make_folder(folder: Path, advice: str = "name another folder") -> Path:
    """Make a folder and its parents where they are missing; ``advice`` ends the message of an error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{folder} cannot be made ({error.strerror}); {advice}.") from error
    return folder


@contextmanager
def own_folder(folder: Path, advice: str = "wait for it to end, or name another folder") -> Iterator[None]:
    """Keep other processes, and other blocks of this one, from using a folder while the block runs.

    The operating system frees the lock when the process dies, however it dies. ``advice`` ends the message
    of an error.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InvalidInputError(f"{folder} is in use by another process or block; {advice}.") from None
    except OSError as error:
        raise InvalidInputError(f"{folder} cannot be written to ({error.strerror}); {advice}.") from error
    try:
        yield
    finally:
        lock.release()


def open_to_read(path: str | Path, kind: str = "file") -> BinaryIO:
    """Open a file of bytes; an error names it and its ``kind``.

    A folder, a pipe or a device, which may have no end, is refused.
    """
    try:
        reason = None if stat.S_ISREG(Path(path).stat().st_mode) else "it is not a file"
        if reason is None:
            return Path(path).open("rb")
    except FileNotFoundError as error:
        raise MissingDataError(f"There is no {kind} {path}.") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = getattr(error, "strerror", None) or str(error)
    raise InvalidInputError(f"The {kind} {path} cannot be opened ({reason}).")


def check_target(path: str | Path, *, overwrite: bool = False, inputs: Iterable[str | Path] = ()) -> Path:
    """Refuse a name under which no file can be written, or where one is that shall not be replaced.

    Parameters
    ----------
    path : str or Path
        The file that is to be written; its folder must exist.
    overwrite : bool
        Whether a file that is there may be replaced.
    inputs : iterable of str or Path
        Files that are read: none of them is replaced in any case.

    Returns
    -------
    Path
    """
    if not isinstance(path, str | os.PathLike) or "\0" in str(path) or not str(path):
        raise InvalidInputError(f"path must be the name of a file; got {path!r}.")
    target = Path(path)
    try:
        is_there, is_folder = os.path.lexists(target), target.is_dir()
        if not target.parent.is_dir():
            raise InvalidInputError(f"There is no folder {target.parent}: make it, or name another one.")
    except OSError as error:
        raise InvalidInputError(
            f"{target} cannot be written ({error.strerror}): name another file."
        ) from error
    if is_folder:
        raise InvalidInputError(
            f"{target} is a folder: name a file in it, such as {target.name or 'model'}.pnca."
        )
    if is_there and not overwrite:
        raise InvalidInputError(
            f"{target} exists: name another file, or pass overwrite=True (--force) to replace it."
        )
    if is_there and any(_is_same(target, Path(name)) for name in inputs):
        raise InvalidInputError(f"{target} is what is read here: name another file for the result.")
    if not os.access(target.parent, os.W_OK):
        raise InvalidInputError(f"{target} cannot be written (the folder is read-only): name another folder.")
    return target


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary file beside a destination, and move it there when the block has ended without error.

    Parameters
    ----------
    path : str or Path
        The destination; its folder must exist.
    overwrite : bool
        Whether a file that is there, or comes there while the block runs, may be replaced.
    """
    target = check_target(path, overwrite=overwrite)
    temporary = _beside(target)
    try:
        yield temporary
        check_target(target, overwrite=overwrite)
        temporary.replace(target)
    except OSError as error:
        if error.errno not in _OF_THE_PLACE:
            raise
        raise InvalidInputError(
            f"{target} cannot be written ({error.strerror}): make room, or name another folder."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    # Not from tempfile: its files are readable by their owner alone, and the move would keep that.
    return target.with_name(f".{target.name}.{uuid4().hex}.tmp")


def write_atomically(path: str | Path, write: Callable[[Path], None]) -> Path:
    """Write a file beside its destination and move it there once it is complete.

    Parameters
    ----------
    path : str or Path
        Destination; its folder must exist.
    write : callable
        ``write(temporary_path)`` writes the content. If it fails, an earlier file stays as it was.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        write(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def write_bytes(path: str | Path, *parts: bytes) -> Path:
    """Write bytes that are on the disk before they take the place of an earlier file."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())  # a power cut must not cost both

    return write_atomically(path, write)


def write_json(path: str | Path, content: Any) -> Path:  # noqa: ANN401
    """Write JSON atomically; NaN, which JSON lacks, is an error."""
    return write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8 atomically."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    return write_atomically(path, write)
