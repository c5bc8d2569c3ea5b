"""Files that are complete or absent, never half written."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from pnca.exceptions import InvalidInputError


def cache_folder() -> Path:
    """Return the folder for what can be had again: downloads and computed features.

    Returns
    -------
    Path
        ``$PNCA_CACHE_DIR`` if set, else ``pnca`` in the user's cache folder. It may not exist yet.
    """
    if folder := os.environ.get("PNCA_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pnca"


def prepare_folder(path: str | Path, marker: str) -> Path:
    """Make a folder for results, or take one that earlier results are in.

    Parameters
    ----------
    path : str or Path
        The folder.
    marker : str
        Name of the file by which a folder of earlier results is known. A folder with anything
        else in it is refused, so that nothing of the user's is overwritten.

    Returns
    -------
    Path
        The folder, which exists.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file; name a folder for the results.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / marker).exists():
        raise InvalidInputError(f"{folder} holds other files; name a new or an empty folder for the results.")
    make_folder(folder)
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"{folder} cannot be written to; name another folder.")
    return folder


def make_folder(folder: Path, advice: str = "name another folder") -> Path:
    """Make a folder and those above it, if they are not there.

    Parameters
    ----------
    folder : Path
        Which.
    advice : str
        What to do if it cannot be made.

    Returns
    -------
    Path
        The folder, which exists.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{folder} cannot be made ({error.strerror}); {advice}.") from error
    return folder


def write_atomically(path: str | Path, write: Callable[[Path], None]) -> Path:
    """Write a file beside its place and move it there once it is complete.

    Parameters
    ----------
    path : str or Path
        Where the file shall be; its folder must exist.
    write : callable
        ``write(temporary_path)`` writes the content. If it fails, an earlier file stays as it was.

    Returns
    -------
    Path
        The place of the file.
    """
    target = Path(path)
    # Not from tempfile: its files are readable by their owner alone, and the move would keep that.
    temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
    try:
        write(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def write_json(path: str | Path, content: Any) -> Path:  # noqa: ANN401
    """Write JSON that any reader accepts, all of it or nothing.

    Parameters
    ----------
    path : str or Path
        Where the file shall be.
    content : dict, list, str, number, bool or None
        A NaN is an error: JSON has none.

    Returns
    -------
    Path
        The place of the file.
    """
    return write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, all of it or nothing.

    Parameters
    ----------
    path : str or Path
        Where the file shall be.
    text : str
        Its content.

    Returns
    -------
    Path
        The place of the file.
    """

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    return write_atomically(path, write)
