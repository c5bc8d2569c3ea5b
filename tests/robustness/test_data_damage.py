"""A damaged file of data is refused by name, or its arrays are the true ones; a bomb takes no memory."""

import struct

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.vision import Preprocessing, read_image
from pnca_studies.arrays import Expected, read_headers, read_npz
from pnca_studies.data import load_mnist, load_notmnist, notmnist
from robustness.bombs import HUGE, TRUE, assert_cheap, bomb, header_of, write_archive, write_png, zeros
from robustness.data_damage import assert_true_or_refused, attempt, damaged_data, small_mnist, write_idx
from robustness.mutators import flips, truncations, zeroed_tails

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for data; the cache is empty."""
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))
    (path := tmp_path / "data").mkdir()
    return path


@pytest.fixture
def digits():
    """A miniature MNIST, which the loader is told to expect."""
    with small_mnist() as arrays:
        yield arrays


@pytest.mark.parametrize("seed", range(20))
def test_damage__of_any_kind_is_named_or_without_effect(folder, seed):
    damaged_data(seed, folder)


@pytest.mark.parametrize("seed", range(12))
def test_bomb__of_any_kind_is_refused_by_name_and_cheaply(folder, seed):
    bomb(seed, folder)


def damaged(content, rng, n):
    yield from flips(content, rng, n)
    yield from truncations(content)
    yield from zeroed_tails(content)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz__damage_is_named_or_without_effect(digits, folder, save):
    save(path := folder / "mnist.npz", **digits)
    for damage, content in damaged(path.read_bytes(), np.random.RandomState(0), 150):
        path.write_bytes(content)
        assert_true_or_refused(digits, folder, "mnist.npz", damage)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx__damage_is_named_or_without_effect(digits, folder, suffix):
    for key in reversed(digits):
        path = write_idx(folder, key, digits[key], suffix)
    assert path.name == f"train-images-idx3-ubyte{suffix}"
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
def test_npz_bomb__is_refused_by_name_without_being_unpacked(folder, start, message):
    names = ("y_train", "x_test", "y_test")
    write_archive(
        folder / "mnist.npz",
        [("x_train.npy", start, HUGE), *((f"{name}.npy", header_of((1,)), 129) for name in names)],
    )
    assert (folder / "mnist.npz").stat().st_size < 20e6
    with pytest.raises(CorruptDataError, match=rf"mnist\.npz: .*{message}"):
        load_mnist(folder)
    assert_cheap(lambda: load_mnist(folder), CorruptDataError, "mnist.npz", message)


def test_npz_bomb__that_agrees_with_itself_is_over_the_limit(tmp_path):
    write_archive(tmp_path / "cell.npz", [("a.npy", header_of((HUGE - 128,)), HUGE)])
    assert read_headers(tmp_path / "cell.npz")["a"].n_bytes == HUGE - 128
    assert_cheap(
        lambda: read_npz(tmp_path / "cell.npz", {"a": Expected(max_bytes=1 << 20)}),
        CorruptDataError,
        "cell.npz: 'a' would take 3,999,999,872 bytes",
        "cell",
    )


def test_npz_bomb__that_states_too_small_a_size_is_read_no_further(tmp_path):
    # The directory says 1,000 bytes, the stream holds 64 MB: its checksum cannot be right.
    write_archive(path := tmp_path / "cell.npz", [("a.npy", header_of((872,)), 1 << 26)])
    content = path.read_bytes().replace(struct.pack("<I", 1 << 26), struct.pack("<I", 1000))
    path.write_bytes(content)
    assert_cheap(
        lambda: read_npz(path, {"a": Expected(max_bytes=1 << 20)}),
        CorruptDataError,
        "cell.npz is not a complete npz file (Bad CRC",
        "cell",
    )


def test_idx_bomb__is_read_no_further_than_expected(digits, folder):
    for key, array in digits.items():
        write_idx(folder, key, array, ".gz", tail=zeros(HUGE))
    message = "train-images-idx3-ubyte.gz goes on too long"
    assert_cheap(lambda: load_mnist(folder), CorruptDataError, message, "idx")


@pytest.mark.parametrize("side", [10_000, 20_000, 60_000])  # Pillow takes up to 9,459, and warns up to 13,377
def test_image_bomb__is_refused_by_name_without_being_decoded(tmp_path, side):
    write_png(path := tmp_path / "vast.png", side)
    assert_cheap(lambda: read_image(path), InvalidInputError, "vast.png has too many pixels", "image")


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 2)])
def test_narrow_image__that_would_be_vast_once_resized_is_refused(tmp_path, size):
    Image.new("L", size).save(path := tmp_path / "line.png")
    assert_cheap(lambda: read_image(path), InvalidInputError, "line.png is too narrow", "image")
