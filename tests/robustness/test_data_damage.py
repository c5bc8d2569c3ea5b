"""A damaged file of data is refused by name, or its arrays are the true ones; a bomb takes no memory."""

import functools
import gzip
import struct
import time
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError, PncaError
from pnca.vision import Preprocessing, read_image
from pnca_studies.arrays import Expected, read_headers, read_npz
from pnca_studies.data import load_mnist, load_notmnist, mnist, notmnist
from pnca_studies.data._sources import array_digest
from robustness.mutators import flips, truncations, zeroed_tails

Image = pytest.importorskip("PIL.Image")

HUGE = 4_000_000_000  # bytes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for data; the cache is empty."""
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))
    (path := tmp_path / "data").mkdir()
    return path


@pytest.fixture
def digits(monkeypatch):
    """A miniature MNIST, which the loader is told to expect."""
    rng = np.random.RandomState(0)
    shapes = {"x_train": (7, 4, 5), "y_train": (7,), "x_test": (3, 4, 5), "y_test": (3,)}
    arrays = {key: rng.randint(0, 10, size=shape).astype(np.uint8) for key, shape in shapes.items()}
    parts = tuple(
        replace(part, shape=arrays[part.key].shape, sha256=array_digest(arrays[part.key]))
        for part in mnist._PARTS
    )
    monkeypatch.setattr(mnist, "_PARTS", parts)
    return arrays


def damaged(content, rng, n):
    yield from flips(content, rng, n)
    yield from truncations(content)
    yield from zeroed_tails(content)


def attempt(call):
    """What a call returns, and the message of our own error if it raises one."""
    try:
        return call(), None
    except PncaError as error:
        return None, str(error)


def assert_true_or_refused(digits, folder, name, damage):
    loaded, refusal = attempt(lambda: load_mnist(folder))
    if refusal is not None:
        assert name in refusal, damage
        return
    np.testing.assert_array_equal(loaded.train_images, digits["x_train"], err_msg=damage)
    np.testing.assert_array_equal(loaded.test_labels, digits["y_test"], err_msg=damage)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz__damage_is_named_or_without_effect(digits, folder, save):
    save(path := folder / "mnist.npz", **digits)
    for damage, content in damaged(path.read_bytes(), np.random.RandomState(0), 150):
        path.write_bytes(content)
        assert_true_or_refused(digits, folder, "mnist.npz", damage)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx__damage_is_named_or_without_effect(digits, folder, suffix):
    for part in mnist._PARTS:
        array = digits[part.key]
        content = (
            bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
        )
        (folder / f"{part.idx_name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    path = folder / f"train-images-idx3-ubyte{suffix}"
    for damage, content in damaged(path.read_bytes(), np.random.RandomState(1), 100):
        path.write_bytes(content)
        # A damaged image in a file without a checksum of its own is found in the array, and the folder named.
        assert_true_or_refused(digits, folder, str(folder), damage)


def test_headers__of_a_damaged_file_are_told_or_the_file_is_named(tmp_path):
    np.savez(path := tmp_path / "cell.npz", a=np.arange(6.0), b=np.array("text"))
    for damage, content in damaged(path.read_bytes(), np.random.RandomState(2), 200):
        path.write_bytes(content)
        headers, refusal = attempt(lambda: read_headers(path))
        if refusal is not None:
            assert "cell.npz" in refusal, damage
        else:
            assert all(header.n_bytes < 1000 for header in headers.values()), damage


@pytest.mark.parametrize("name", ["mnist.npz", "train-images-idx3-ubyte"])
def test_folder_in_the_place_of_a_file__counts_for_nothing(digits, folder, name):
    (folder / name).mkdir()
    with pytest.raises(MissingDataError, match="MNIST is not on this machine"):
        load_mnist(folder)


def test_link_to_the_file__is_followed_and_one_to_nothing_is_not(digits, folder, tmp_path):
    np.savez(tmp_path / "elsewhere.npz", **digits)
    (folder / "mnist.npz").symlink_to(tmp_path / "elsewhere.npz")
    np.testing.assert_array_equal(load_mnist(folder).test_images, digits["x_test"])
    (tmp_path / "elsewhere.npz").unlink()
    with pytest.raises(MissingDataError, match="MNIST is not on this machine"):
        load_mnist(folder)


def test_recorded_digest__damaged_is_named(folder, monkeypatch):
    (archive := folder / "notMNIST_small.tar.gz").write_bytes(b"archive")
    monkeypatch.setattr(notmnist, "_ARCHIVE_BYTES", 7)
    monkeypatch.setattr(notmnist, "_ARCHIVE_MD5", "888d0ee361af3603736f32131e7b20a2")
    for content in (b"", b"\xff\xfe\0", b"\0" * 5000):
        (folder / "notMNIST_small.tar.gz.sha256").write_bytes(content)
        with pytest.raises(CorruptDataError, match=rf"{archive.name} was altered"):
            load_notmnist(folder)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tiff", "gif", "bmp", "webp"])
def test_image__damage_is_named_or_gives_pixels(tmp_path, suffix):
    pixels = np.random.RandomState(3).randint(0, 256, size=(20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path := tmp_path / f"a.{suffix}")
    for damage, content in damaged(path.read_bytes(), np.random.RandomState(4), 60):
        path.write_bytes(content)
        found, refusal = attempt(lambda: read_image(path, Preprocessing(size=16)))
        if refusal is not None:
            assert path.name in refusal, damage
        else:
            assert (found.shape, found.dtype) == ((16, 16, 3), np.uint8), damage


# --- bombs ----------------------------------------------------------------------------------------------


def header_of(shape, descr="|u1"):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


BLOCK = 1 << 26  # bytes


@functools.cache
def block_of_zeros():
    """A piece of a deflate stream; it ends on a byte, and nothing in it refers to what came before."""
    compressor = zlib.compressobj(9, wbits=-15)
    return compressor.compress(bytes(BLOCK)) + compressor.flush(zlib.Z_FULL_FLUSH)


def zeros(n_bytes):
    """The rest of a deflate stream: at least so many zeros."""
    return block_of_zeros() * -(-n_bytes // BLOCK) + b"\x03\x00"  # an empty last block


def write_archive(path, members):
    """A zip file of members (name, start, size): the start, then zeros up to the size that it states."""
    local, central = b"", b""
    for name, start, size in members:
        stream = zlib.compressobj(9, wbits=-15)
        body = stream.compress(start) + stream.flush(zlib.Z_FULL_FLUSH) + zeros(size - len(start))
        sizes = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, 0, len(body), size, len(name), 0)
        central += b"PK\x01\x02" + struct.pack("<H", 20) + sizes
        central += struct.pack("<HHHII", 0, 0, 0, 0, len(local)) + name.encode()
        local += b"PK\x03\x04" + sizes + name.encode() + body
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(local), 0)
    path.write_bytes(local + central + b"PK\x05\x06" + end)


@pytest.fixture
def spent():
    """Seconds and bytes that a call took."""

    def measure(call):
        tracemalloc.start()
        start = time.perf_counter()
        try:
            call()
        finally:
            seconds = time.perf_counter() - start
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert seconds < 1
            assert peak < 2e6

    return measure


TRUE = (60_000, 28, 28)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (header_of((HUGE - 128,)), r"'x_train' has shape \(3999999872,\), expected \(60000, 28, 28\)"),
        (header_of(TRUE), "'x_train' has 3,999,999,872 bytes, but its header says 47,040,000"),
        (header_of(TRUE, "|S85"), r"'x_train' (would take|has 3,999,999,872)"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", HUGE - 12), "the header of the array 'x_train' is damaged"),
        (b"", "'x_train' is not an array"),
    ],
    ids=["shape", "content", "type", "header", "zeros"],
)
def test_npz_bomb__is_refused_by_name_without_being_unpacked(folder, spent, start, message):
    names = ("y_train", "x_test", "y_test")
    write_archive(
        folder / "mnist.npz",
        [("x_train.npy", start, HUGE), *((f"{name}.npy", header_of((1,)), 129) for name in names)],
    )
    assert (folder / "mnist.npz").stat().st_size < 20e6
    with pytest.raises(CorruptDataError, match=rf"mnist\.npz: .*{message}"):
        spent(lambda: load_mnist(folder))


def test_npz_bomb__that_agrees_with_itself_is_over_the_limit(tmp_path, spent):
    write_archive(tmp_path / "cell.npz", [("a.npy", header_of((HUGE - 128,)), HUGE)])
    assert read_headers(tmp_path / "cell.npz")["a"].n_bytes == HUGE - 128
    with pytest.raises(CorruptDataError, match=r"cell\.npz: 'a' would take 3,999,999,872 bytes"):
        spent(lambda: read_npz(tmp_path / "cell.npz", {"a": Expected(max_bytes=1 << 20)}))


def test_npz_bomb__that_states_too_small_a_size_is_read_no_further(tmp_path, spent):
    # The directory says 1,000 bytes, the stream holds 64 MB: its checksum cannot be right.
    write_archive(path := tmp_path / "cell.npz", [("a.npy", header_of((872,)), 1 << 26)])
    content = path.read_bytes().replace(struct.pack("<I", 1 << 26), struct.pack("<I", 1000))
    path.write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"cell\.npz is not a complete npz file \(Bad CRC"):
        spent(lambda: read_npz(path, {"a": Expected(max_bytes=1 << 20)}))


def test_idx_bomb__is_read_no_further_than_expected(digits, folder, spent):
    for part in mnist._PARTS:
        array = digits[part.key]
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        stream = zlib.compressobj(9, wbits=31)
        start = stream.compress(header + array.tobytes()) + stream.flush(zlib.Z_FULL_FLUSH)
        (folder / f"{part.idx_name}.gz").write_bytes(start + zeros(HUGE))
    with pytest.raises(CorruptDataError, match=r"train-images-idx3-ubyte\.gz goes on too long"):
        spent(lambda: load_mnist(folder))


def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("side", [10_000, 20_000, 60_000])  # Pillow takes up to 9,459, and warns up to 13,377
def test_image_bomb__is_refused_by_name_without_being_decoded(tmp_path, spent, side):
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = (
        png_chunk(b"IHDR", header)
        + png_chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
        + png_chunk(b"IEND", b"")
    )
    (path := tmp_path / "vast.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    with pytest.raises(InvalidInputError, match=r"vast\.png has too many pixels"):
        spent(lambda: read_image(path))


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 2)])
def test_narrow_image__that_would_be_vast_once_resized_is_refused(tmp_path, spent, size):
    Image.new("L", size).save(path := tmp_path / "line.png")
    with pytest.raises(InvalidInputError, match=r"line\.png is too narrow"):
        spent(lambda: read_image(path))
