"""Damaged files of data: each is refused by name, or its arrays are the true ones."""

import contextlib
import gzip
import os
import struct
import zlib
from dataclasses import replace
from unittest import mock

import numpy as np

from pnca.exceptions import PncaError
from pnca_studies.arrays import read_headers
from pnca_studies.data import load_mnist, mnist
from pnca_studies.data._sources import array_digest
from robustness.mutators import flips, truncations, zeroed_tails
from robustness.oddities import pick
from robustness.verdicts import Skipped

_IMAGES = ("png", "jpg", "tiff", "gif", "bmp", "webp")


def pillow():
    """The package, or a skipped case."""
    try:
        import PIL.Image
    except ImportError as error:
        raise Skipped("pillow is not installed") from error
    return PIL.Image


@contextlib.contextmanager
def small_mnist():
    """A miniature MNIST, which the loader is told to expect."""
    rng = np.random.RandomState(0)
    shapes = {"x_train": (7, 4, 5), "y_train": (7,), "x_test": (3, 4, 5), "y_test": (3,)}
    arrays = {key: rng.randint(0, 10, size=shape).astype(np.uint8) for key, shape in shapes.items()}
    parts = tuple(
        replace(part, shape=arrays[part.key].shape, sha256=array_digest(arrays[part.key]))
        for part in mnist._PARTS
    )
    with mock.patch.object(mnist, "_PARTS", parts):
        yield arrays


def write_idx(folder, key, array, suffix, tail=None):
    """An array as a file of the name that it has in MNIST; ``tail`` continues a compressed stream."""
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    (name,) = (part.idx_name for part in mnist._PARTS if part.key == key)
    if tail is not None:
        stream = zlib.compressobj(9, wbits=31)
        content = stream.compress(content) + stream.flush(zlib.Z_FULL_FLUSH) + tail
    elif suffix:
        content = gzip.compress(content)
    (path := folder / f"{name}{suffix}").write_bytes(content)
    return path


def one_of(content, rng):
    """(name, damaged bytes): one random damage that changes something."""
    damages = [*flips(content, rng, 8), *truncations(content), *zeroed_tails(content)]
    start, end = sorted(rng.randint(0, len(content) + 1, size=2))
    damages += [
        (f"random bytes {start} to {end}", content[:start] + rng.bytes(end - start) + content[end:]),
        (f"without bytes {start} to {end}", content[:start] + content[end:]),
        (f"bytes {start} to {end} twice", content[:end] + content[start:]),
        ("a byte more", content + b"\0"),
    ]
    damages = [(name, damaged) for name, damaged in damages if damaged != content]
    return damages[rng.randint(len(damages))]


def attempt(call):
    """What a call returns, and the message of our own error if it raises one."""
    try:
        return call(), None
    except PncaError as error:
        return None, str(error)


def assert_true_or_refused(arrays, folder, name, damage):
    """MNIST is loaded as it is, or the error has this name."""
    loaded, refusal = attempt(lambda: load_mnist(folder))
    if refusal is not None:
        assert name in refusal, f"{damage}: {refusal}"
        return
    np.testing.assert_array_equal(loaded.train_images, arrays["x_train"], err_msg=damage)
    np.testing.assert_array_equal(loaded.test_labels, arrays["y_test"], err_msg=damage)


def damaged_data(seed, folder):
    """One damage to a file of data of any kind."""
    rng = np.random.RandomState(seed)
    kind = pick(np.random.default_rng(seed), sorted(_KINDS))
    with small_mnist() as arrays, mock.patch.dict(os.environ, PNCA_CACHE_DIR=str(folder / "cache")):
        _KINDS[kind](rng, folder, arrays, f"damaged_data {seed}: {kind}")


def _npz(save):
    def damage(rng, folder, arrays, case):
        save(path := folder / "mnist.npz", **arrays)
        name, content = one_of(path.read_bytes(), rng)
        path.write_bytes(content)
        assert_true_or_refused(arrays, folder, "mnist.npz", f"{case}, {name}")

    return damage


def _idx(suffix):
    def damage(rng, folder, arrays, case):
        paths = [write_idx(folder, key, array, suffix) for key, array in arrays.items()]
        path = paths[rng.randint(len(paths))]
        name, content = one_of(path.read_bytes(), rng)
        path.write_bytes(content)
        # A damaged image in a file without a checksum of its own is found in the array, and the folder named.
        assert_true_or_refused(arrays, folder, str(folder), f"{case} {path.name}, {name}")

    return damage


def _headers(rng, folder, arrays, case):
    np.savez(path := folder / "cell.npz", a=np.arange(6.0), b=np.array("text"))
    name, content = one_of(path.read_bytes(), rng)
    path.write_bytes(content)
    headers, refusal = attempt(lambda: read_headers(path))
    if refusal is not None:
        assert "cell.npz" in refusal, f"{case}, {name}: {refusal}"
    else:
        assert all(header.n_bytes < 1000 for header in headers.values()), f"{case}, {name}"


def _image(suffix):
    def damage(rng, folder, arrays, case):
        image = pillow()
        from pnca.vision import Preprocessing, read_image

        pixels = rng.randint(0, 256, size=(20, 30, 3), dtype=np.uint8)
        image.fromarray(pixels).save(path := folder / f"a.{suffix}")
        name, content = one_of(path.read_bytes(), rng)
        path.write_bytes(content)
        found, refusal = attempt(lambda: read_image(path, Preprocessing(size=16)))
        if refusal is not None:
            assert path.name in refusal, f"{case}, {name}: {refusal}"
        else:
            assert (found.shape, found.dtype) == ((16, 16, 3), np.uint8), f"{case}, {name}"

    return damage


_KINDS = {
    "npz": _npz(np.savez),
    "compressed npz": _npz(np.savez_compressed),
    "idx": _idx(""),
    "compressed idx": _idx(".gz"),
    "headers": _headers,
    **{suffix: _image(suffix) for suffix in _IMAGES},
}
