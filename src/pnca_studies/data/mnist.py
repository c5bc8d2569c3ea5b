"""MNIST: 70,000 handwritten digits, in whichever form they are on this machine."""

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, MissingDataError
from pnca.files import write_atomically
from pnca_studies.arrays import Expected, read_npz
from pnca_studies.data._sources import (
    Say,
    check_array,
    folders_to_search,
    make_cache_folder,
    missing_data,
    say_on_stderr,
)


@dataclass(frozen=True)
class _Part:
    """One of the four arrays: its names, its shape, and the SHA-256 of its values as uint8."""

    key: str
    idx_name: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def expected(self) -> Expected:
        """The array in an npz file, whose numbers may be stored in up to eight bytes each."""
        return Expected(shape=self.shape, max_bytes=8 * math.prod(self.shape))


# Of an mnist.npz whose four arrays, written as idx files, have the MD5 sums known for the uncompressed
# originals: 6bbc9ace..., a25bea73..., 2646ac64..., 27ae3e4e... (as data/test_mnist.py checks).
_PARTS = (
    _Part(
        "x_train",
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    ),
    _Part(
        "y_train",
        "train-labels-idx1-ubyte",
        (60_000,),
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    ),
    _Part(
        "x_test",
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
    ),
    _Part(
        "y_test",
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
)

_NPZ_NAME = "mnist.npz"
_SUBFOLDERS = ("", "raw", "MNIST/raw")  # the last two are torchvision's
_IDX_UINT8 = 8  # the type code of unsigned bytes in an idx header


# Compared by identity: equality of arrays is not one truth value.
@dataclass(frozen=True, kw_only=True, eq=False)
class Mnist:
    """The digits as published: 28 by 28 pixels, white on black, 0 to 255."""

    train_images: NDArray[np.uint8]  # (60000, 28, 28)
    train_labels: NDArray[np.int64]  # (60000,)
    test_images: NDArray[np.uint8]  # (10000, 28, 28)
    test_labels: NDArray[np.int64]  # (10000,)


def load_mnist(
    data_dir: str | Path | None = None, *, download: bool = False, say: Say = say_on_stderr
) -> Mnist:
    """Load MNIST and verify every pixel and label of it.

    It is looked for in ``data_dir`` and then in the folder ``mnist`` of the cache, as ``mnist.npz`` (arrays
    ``x_train``, ``y_train``, ``x_test``, ``y_test``) or as the four idx files, with or without ``.gz``, there
    or in ``raw/`` or ``MNIST/raw/``; with ``download`` it is then fetched from OpenML into the cache.
    """
    folders = folders_to_search(data_dir, "mnist")
    for folder in folders:
        if (npz := folder / _NPZ_NAME).is_file():
            return _as_mnist(_verified(read_npz(npz, {part.key: part.expected for part in _PARTS}), npz))
        for subfolder in _SUBFOLDERS:
            paths = _idx_paths(folder / subfolder)
            if len(paths) == len(_PARTS):
                arrays = {part.key: _read_idx(paths[part.key], part.shape) for part in _PARTS}
                return _as_mnist(_verified(arrays, folder / subfolder))
    if download:
        return _download(say)
    raise _missing(folders)


def _verified(arrays: dict[str, NDArray[Any]], source: Path | str) -> dict[str, NDArray[np.uint8]]:
    """Return the four arrays as uint8 if they are the published ones."""
    return {
        part.key: check_array(
            arrays[part.key], name=part.key, shape=part.shape, sha256=part.sha256, path=source
        )
        for part in _PARTS
    }


def _as_mnist(arrays: dict[str, NDArray[np.uint8]]) -> Mnist:
    return Mnist(
        train_images=arrays["x_train"],
        train_labels=arrays["y_train"].astype(np.int64),
        test_images=arrays["x_test"],
        test_labels=arrays["y_test"].astype(np.int64),
    )


def _idx_paths(folder: Path) -> dict[str, Path]:
    """Return those of the four idx files that a folder holds, by array name."""
    return {
        part.key: path for part in _PARTS for path in _idx_candidates(folder, part.idx_name) if path.is_file()
    }


def _idx_candidates(folder: Path, name: str) -> Iterator[Path]:
    """List the names under which an idx file is distributed, the preferred one last."""
    dotted = name.replace("-idx", ".idx")  # how some programs unpack it
    for stem in (dotted, name):
        yield folder / f"{stem}.gz"
        yield folder / stem


def _read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, which must have this shape."""
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            header = file.read(4 + 4 * len(shape))
            _check_idx_header(header, shape, path)
            # One byte more than expected, so that a longer file is noticed without reading all of it.
            data = file.read(math.prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptDataError(f"{path} cannot be read: {error}") from error
    if len(data) != math.prod(shape):
        problem = "ends early" if len(data) < math.prod(shape) else "goes on too long"
        raise CorruptDataError(f"{path} {problem}: expected {math.prod(shape):,} bytes after its header.")
    array: NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8).reshape(shape).copy()
    return array  # a copy: the buffer could not be written to


def _check_idx_header(header: bytes, shape: tuple[int, ...], path: Path) -> None:
    """Refuse an idx header other than that of unsigned bytes in the given shape."""
    if header[:4] != bytes([0, 0, _IDX_UINT8, len(shape)]):
        raise CorruptDataError(
            f"{path} is not an idx file of {len(shape)}-dimensional bytes: it starts with {header[:4].hex()}."
        )
    if header[4:] != struct.pack(f">{len(shape)}I", *shape):
        raise CorruptDataError(f"{path} does not declare the expected shape {shape} in its header.")


def _download(say: Say) -> Mnist:
    """Download the data from OpenML, verify them, and keep them in the cache."""
    folder = make_cache_folder("mnist")
    target = folder / _NPZ_NAME
    say(f"Downloading mnist_784, version 1, from https://www.openml.org (about 15 MB) to {target}")
    pixels, digits = _fetch_from_openml(folder)
    n_train = _PARTS[0].shape[0]  # OpenML keeps the published order, training images first
    published = {
        "x_train": pixels[:n_train],
        "y_train": digits[:n_train],
        "x_test": pixels[n_train:],
        "y_test": digits[n_train:],
    }
    arrays: dict[str, Any] = _verified(published, "mnist_784 from OpenML")

    def write(path: Path) -> None:
        with path.open("wb") as file:  # given a name, numpy would append ".npz" to it
            np.savez_compressed(file, **arrays)

    write_atomically(target, write)
    return _as_mnist(arrays)


def _fetch_from_openml(folder: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return all images (n, 28, 28) and their digits (n,)."""
    from sklearn.datasets import fetch_openml

    # scikit-learn's own choice needs pandas, which is not a dependency; its other parser is slower.
    parser = "pandas" if find_spec("pandas") else "liac-arff"
    try:
        bunch = fetch_openml("mnist_784", version=1, as_frame=False, data_home=folder, parser=parser)
        pixels = np.asarray(bunch.data)
        return pixels.reshape(-1, *_PARTS[0].shape[1:]), np.asarray(bunch.target).astype(np.int64)
    except (OSError, HTTPException, ValueError) as error:
        raise MissingDataError(
            f"MNIST could not be downloaded from https://www.openml.org: {error} {_ADVICE}"
        ) from error


_ADVICE = (
    "Get mnist.npz from https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz, or the four "
    "idx files from https://ossci-datasets.s3.amazonaws.com/mnist/, and put them into your data folder."
)


def _missing(folders: list[Path]) -> MissingDataError:
    names = ", ".join(part.idx_name for part in _PARTS)
    incomplete = ""
    for place in (folder / subfolder for folder in folders for subfolder in _SUBFOLDERS):
        if paths := _idx_paths(place):
            absent = [part.idx_name for part in _PARTS if part.key not in paths]
            incomplete += f" ({place} lacks {', '.join(absent)}.)"
    return missing_data(
        "MNIST",
        looked_for=f"{_NPZ_NAME}, or {names} (with or without .gz, also in raw/ or MNIST/raw/)",
        folders=folders,
        advice=f"{_ADVICE} Or fetch them: `pnca reproduce mnist --download`, in Python download=True."
        f"{incomplete}",
    )
