"""Image files in folders: one folder for each class, or any below one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.vision.dicom import is_dicom

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".dcm", ".dicom")
#: Bytes by which a file without suffix is known to be DICOM.
_START = 132


@dataclass(frozen=True)
class ImageFiles:
    """Image files below a folder."""

    folder: Path
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Their paths below the folder."""
        return [path.relative_to(self.folder).as_posix() for path in self.paths]


def image_files(folder: str | Path) -> ImageFiles:
    """List the images below a folder, in the order of their names; other files are counted in a note.

    Parameters
    ----------
    folder : str or Path
        A folder, or a single image.

    Returns
    -------
    ImageFiles
    """
    folder = Path(folder)
    if folder.is_file():
        return ImageFiles(folder.parent, (folder,))
    if not folder.is_dir():
        raise MissingDataError(f"There is no image or folder {folder}.")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path, folder))
    images = tuple(path for path in files if _is_image(path))
    others = [path.relative_to(folder).as_posix() for path in files if path not in set(images)]
    if not images:
        raise InvalidInputError(f"{folder} holds no images: they end with {', '.join(SUFFIXES)}.")
    if not others:
        return ImageFiles(folder, images)
    note = f"{len(others)} files in {folder} are no images and were not used, such as {others[0]!r}"
    return ImageFiles(folder, images, (note,))


def classes_of(files: ImageFiles) -> list[str]:
    """The class of each image: the folder in which it lies.

    Parameters
    ----------
    files : ImageFiles
        From :func:`image_files`.

    Returns
    -------
    list of n str
    """
    if loose := [name for name in files.names if "/" not in name]:
        raise InvalidInputError(
            f"{files.folder} holds images beside its folders, such as {loose[0]!r}: put each into a "
            "folder named as its class, or pass a table of paths and classes (--path-column)."
        )
    found = [name.split("/", 1)[0] for name in files.names]
    if len(set(found)) < 2:
        raise InvalidInputError(
            f"{files.folder} has images in one folder only, {found[0]!r}: a fit needs a folder for each "
            "of two classes."
        )
    return found


def listed_files(folder: str | Path, names: Iterable[str]) -> ImageFiles:
    """Image files that a table names, below a folder; one that is not there is an error that names its row.

    Parameters
    ----------
    folder : str or Path
        To which names are relative.
    names : iterable of str
        Of the files.

    Returns
    -------
    ImageFiles
    """
    paths = tuple(Path(folder) / name for name in names)
    if missing := [place for place, path in enumerate(paths) if not path.is_file()]:
        raise MissingDataError(
            f"There is no image {paths[missing[0]]} ({len(missing)} of {len(paths)} are missing): paths "
            f"are relative to {folder}; name another folder with --folder."
        )
    return ImageFiles(Path(folder), paths)


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _is_image(path: Path) -> bool:
    if path.suffix:
        return path.suffix.lower() in SUFFIXES
    try:
        with path.open("rb") as file:
            return is_dicom(file.read(_START))
    except OSError:
        return False
