"""notMNIST: the letters A to J from many fonts, in the format of MNIST."""

import io
import math
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, MissingDataError, MissingExtraError
from pnca.files import open_to_read, write_text
from pnca_studies.arrays import Expected, read_npz
from pnca_studies.data import _sources
from pnca_studies.data._sources import (
    Say,
    check_array,
    check_file,
    file_digest,
    folders_to_search,
    make_cache_folder,
    missing_data,
    say_on_stderr,
)
from pnca_studies.data.letters import LETTERS

_NPZ_NAME = "notmnist.npz"
_NPZ_SHAPE = (10_000, 28, 28)
_NPZ_DIGESTS = {  # of the values as uint8
    "x": "6bda48464effe4169d9cd068967cd81a717ae2f925ddb55fd71025e23022ee9a",
    "y": "cbf49d96931f5bf9ec86d14ed2f729c2870d4f9b406729e43c68d3748a345369",
}

_ARCHIVE_NAME = "notMNIST_small.tar.gz"
# The author names the second; the first is the copy that courses use, and has https.
_ARCHIVE_URLS = (
    "https://commondatastorage.googleapis.com/books1000/notMNIST_small.tar.gz",
    "http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",
)
_ARCHIVE_BYTES = 8_458_043
# Not published by the author: several independent loaders of the archive carry this same MD5.
_ARCHIVE_MD5 = "c9890a473a9769fda4bdf314aaf500dd"
_ARCHIVE_IMAGES = 18_726

# Empty files in the archive since it was made.
_KNOWN_UNREADABLE = frozenset(
    {
        "A/RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=.png",
        "F/Q3Jvc3NvdmVyIEJvbGRPYmxpcXVlLnR0Zg==.png",
    }
)
_PER_LETTER = 1_000
_SIDE = 28
_MAX_PNG_BYTES = 1 << 16  # 28 x 28 pixels take below 1 kB; this only bounds memory for a forged archive


# Compared by identity: equality of arrays is not one truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class NotMnist:
    """Letters as 28 by 28 images, white on black, 0 to 255."""

    images: NDArray[np.uint8]  # (10000, 28, 28)
    labels: NDArray[np.int64]  # (10000,), 0 for A up to 9 for J


def load_notmnist(
    data_dir: str | Path | None = None, *, download: bool = False, say: Say = say_on_stderr
) -> NotMnist:
    """Load 10,000 letters, 1,000 of each, and verify them.

    They are looked for in ``data_dir`` and then in the folder ``notmnist`` of the cache, as ``notmnist.npz``
    (10,000 letters in random order: arrays ``x`` and ``y``) or as the published archive
    ``notMNIST_small.tar.gz``, of which the first 1,000 of each letter are taken in order of their file names;
    with ``download`` the archive is then fetched into the cache. No SHA-256 of it is published: its size and
    the MD5 that others' loaders expect are checked, and the SHA-256 of a download from then on.
    """
    folders = folders_to_search(data_dir, "notmnist")
    for folder in folders:
        if (npz := folder / _NPZ_NAME).is_file():
            return _read_npz(npz)
        if (archive := folder / _ARCHIVE_NAME).is_file():
            return _read_archive(archive)
    if not download:
        raise _missing(folders)
    _require_pillow()  # before the download: without it the archive is of no use
    return _read_archive(_download(say))


def _read_npz(path: Path) -> NotMnist:
    """Read and verify the prepared selection."""
    shapes = {"x": _NPZ_SHAPE, "y": _NPZ_SHAPE[:1]}
    # The same numbers may be stored in up to eight bytes each.
    arrays = read_npz(path, {k: Expected(shape=s, max_bytes=8 * math.prod(s)) for k, s in shapes.items()})
    images, labels = (
        check_array(arrays[key], name=key, shape=shape, sha256=_NPZ_DIGESTS[key], path=path)
        for key, shape in shapes.items()
    )
    return NotMnist(images=images, labels=labels.astype(np.int64))


def _read_archive(path: Path) -> NotMnist:
    """Verify the published archive and decode its first images of each letter."""
    _require_pillow()
    check_file(path, n_bytes=_ARCHIVE_BYTES, algorithm="md5", digest=_ARCHIVE_MD5)
    if (record := _record_of(path)).is_file():
        with open_to_read(record) as file:  # a digest and a name; what else a damaged one holds is no digest
            check_file(path, digest=file.read(1000).decode("ascii", "replace").partition(" ")[0])
    files = dict(_members(path))
    if len(files) != _ARCHIVE_IMAGES:
        raise CorruptDataError(f"{path} holds {len(files):,} images, expected {_ARCHIVE_IMAGES:,}.")
    images = [image for letter in LETTERS for image in _first_readable(files, letter, path)]
    labels = np.repeat(np.arange(len(LETTERS), dtype=np.int64), _PER_LETTER)  # (n,)
    return NotMnist(images=np.stack(images), labels=labels)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield ``("A/name.png", content)`` of each image; nothing is written to disk."""
    try:
        # As a stream: a member is read where it stands, so links and odd paths lead nowhere.
        with tarfile.open(path, mode="r|gz") as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                letter = place.parent.name
                is_image = place.suffix == ".png" and len(letter) == 1 and letter in LETTERS
                if not (member.isfile() and is_image) or place.name.startswith("."):
                    continue
                if member.size > _MAX_PNG_BYTES or (file := archive.extractfile(member)) is None:
                    raise CorruptDataError(f"{path}: {member.name} is too large for a small image.")
                yield f"{letter}/{place.name}", file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise CorruptDataError(f"{path} cannot be read: {error}") from error


def _first_readable(files: dict[str, bytes], letter: str, path: Path) -> list[NDArray[np.uint8]]:
    """Decode a letter's first images in order of file name, passing over the known empty ones."""
    images: list[NDArray[np.uint8]] = []
    for name in sorted(name for name in files if name.startswith(f"{letter}/")):
        if len(images) == _PER_LETTER:
            break
        image = _decode(files[name])
        if image is not None:
            images.append(image)
        elif name not in _KNOWN_UNREADABLE:
            raise CorruptDataError(
                f"{path}: {name} is not a readable grey image of {_SIDE} x {_SIDE} pixels."
            )
    if len(images) < _PER_LETTER:
        raise CorruptDataError(
            f"{path} holds only {len(images)} readable images of {letter}, expected {_PER_LETTER:,}."
        )
    return images


def _decode(content: bytes) -> NDArray[np.uint8] | None:
    """Return a grey image of shape (28, 28), or None if the bytes are none."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            # Before the pixels are decoded: a forged header could ask for gigabytes.
            if image.mode != "L" or image.size != (_SIDE, _SIDE):
                return None
            return np.array(image, dtype=np.uint8)
    # Pillow warns of a large image and refuses a larger one; where warnings are errors, both are raised.
    except (
        *(OSError, SyntaxError, ValueError),
        *(Image.DecompressionBombError, Image.DecompressionBombWarning),
    ):
        return None


def _require_pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("Pillow", "vision") from error


def _download(say: Say) -> Path:
    """Download the archive into the cache and write its SHA-256 beside it."""
    target = make_cache_folder("notmnist") / _ARCHIVE_NAME
    _sources.download(
        _ARCHIVE_URLS, target, n_bytes=_ARCHIVE_BYTES, digest=_ARCHIVE_MD5, algorithm="md5", say=say
    )
    # As sha256sum writes and reads it.
    write_text(_record_of(target), f"{file_digest(target)}  {target.name}\n")
    return target


def _record_of(archive: Path) -> Path:
    return archive.with_name(archive.name + ".sha256")


def _missing(folders: list[Path]) -> MissingDataError:
    return missing_data(
        "notMNIST",
        looked_for=f"{_NPZ_NAME} or {_ARCHIVE_NAME}",
        folders=folders,
        advice=f"Get {' or '.join(_ARCHIVE_URLS)} and put it into your data folder as it is, not unpacked. "
        "Or fetch it: `pnca reproduce mnist --download`, in Python download=True.",
    )
