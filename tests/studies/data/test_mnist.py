import gzip
import hashlib
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets

from pnca.exceptions import CorruptDataError, MissingDataError
from pnca_studies.data import Mnist, load_mnist, mnist
from pnca_studies.data._sources import array_digest

# Known for the uncompressed originals; many programs that read them carry these sums.
IDX_MD5 = {
    "x_train": "6bbc9ace898e44ae57da46a324031adb",
    "y_train": "a25bea736e30d166cdddb491f175f624",
    "x_test": "2646ac647ad5339dbf082846283269ea",
    "y_test": "27ae3e4e09519cfbb04c329615203637",
}


def as_idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def arrays(monkeypatch):
    """A miniature MNIST, which the loader is told to expect: 7 training and 3 test images of 4 by 5."""
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (7, 4, 5)).astype(np.uint8),
        "y_train": rng.integers(0, 10, 7).astype(np.uint8),
        "x_test": rng.integers(0, 256, (3, 4, 5)).astype(np.uint8),
        "y_test": rng.integers(0, 10, 3).astype(np.uint8),
    }
    parts = tuple(
        replace(part, shape=arrays[part.key].shape, sha256=array_digest(arrays[part.key]))
        for part in mnist._PARTS
    )
    monkeypatch.setattr(mnist, "_PARTS", parts)
    return arrays


@pytest.fixture
def openml(arrays, monkeypatch):
    """OpenML as scikit-learn presents it; returns the list of calls."""
    calls = []

    def fetch_openml(name, **options):
        calls.append((name, options))
        images = np.concatenate([arrays["x_train"], arrays["x_test"]])
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
        return SimpleNamespace(
            data=images.reshape(len(images), -1).astype(np.float64),
            target=np.array([str(label) for label in labels], dtype=object),
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    return calls


def write_idx(folder, arrays, *, dotted=False, compressed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for part in mnist._PARTS:
        name = part.idx_name.replace("-idx", ".idx") if dotted else part.idx_name
        content = as_idx(arrays[part.key])
        path = folder / (name + ".gz" * compressed)
        path.write_bytes(gzip.compress(content) if compressed else content)


def check_equal(loaded, arrays):
    assert isinstance(loaded, Mnist)
    assert loaded.train_images.dtype == loaded.test_images.dtype == np.uint8
    assert loaded.train_labels.dtype == loaded.test_labels.dtype == np.int64
    np.testing.assert_array_equal(loaded.train_images, arrays["x_train"])
    np.testing.assert_array_equal(loaded.train_labels, arrays["y_train"])
    np.testing.assert_array_equal(loaded.test_images, arrays["x_test"])
    np.testing.assert_array_equal(loaded.test_labels, arrays["y_test"])


def test_load_mnist__from_npz(arrays, folder):
    np.savez_compressed(folder / "mnist.npz", **arrays)
    check_equal(load_mnist(folder), arrays)
    check_equal(load_mnist(str(folder), download=True, say=pytest.fail), arrays)


def test_load_mnist__wider_types_of_the_same_numbers_will_do(arrays, folder):
    np.savez(folder / "mnist.npz", **{key: array.astype(np.int64) for key, array in arrays.items()})
    check_equal(load_mnist(folder), arrays)


@pytest.mark.parametrize(
    ("subfolder", "dotted", "compressed"),
    [("", False, False), ("raw", True, False), ("MNIST/raw", False, True), ("", True, True)],
)
def test_load_mnist__from_idx_files(arrays, folder, subfolder, dotted, compressed):
    write_idx(folder / subfolder, arrays, dotted=dotted, compressed=compressed)
    loaded = load_mnist(folder)
    check_equal(loaded, arrays)
    loaded.train_images[0] = 0  # arrays can be written to, whatever they were read from


def test_load_mnist__data_dir_comes_before_the_cache(arrays, folder, cache):
    cache_mnist = cache / "mnist"
    cache_mnist.mkdir(parents=True)
    (cache_mnist / "mnist.npz").write_text("not looked at")
    np.savez(folder / "mnist.npz", **arrays)
    check_equal(load_mnist(folder), arrays)
    np.savez(cache_mnist / "mnist.npz", **arrays)
    check_equal(load_mnist(), arrays)


def test_load_mnist__one_flipped_bit_names_file_and_array(arrays, folder):
    for key in arrays:
        altered = {name: array.copy() for name, array in arrays.items()}
        altered[key].flat[1] ^= 1
        np.savez(folder / "mnist.npz", **altered)
        with pytest.raises(CorruptDataError, match=rf"mnist\.npz: the values of '{key}'"):
            load_mnist(folder)


def test_load_mnist__wrong_label_beyond_a_byte_is_not_wrapped_round(arrays, folder):
    np.savez(folder / "mnist.npz", **{**arrays, "y_train": arrays["y_train"].astype(np.int64) + 256})
    with pytest.raises(CorruptDataError, match=r"mnist\.npz: 'y_train' must hold whole numbers"):
        load_mnist(folder)


def test_load_mnist__wrong_shape_is_named(arrays, folder):
    np.savez(folder / "mnist.npz", **{**arrays, "x_test": arrays["x_test"].reshape(3, 20)})
    with pytest.raises(CorruptDataError, match=r"'x_test' has shape \(3, 20\), expected \(3, 4, 5\)"):
        load_mnist(folder)


def test_load_mnist__damaged_npz(arrays, folder):
    np.savez_compressed(path := folder / "mnist.npz", **arrays)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CorruptDataError, match=r"mnist\.npz is not a complete npz file"):
        load_mnist(folder, download=True)
    np.savez(path, x_train=arrays["x_train"])
    with pytest.raises(CorruptDataError, match=r"mnist\.npz lacks the arrays \['x_test'"):
        load_mnist(folder)
    np.savez(path, **{**arrays, "y_test": np.array([1, "2", None], dtype=object)})
    with pytest.raises(
        CorruptDataError, match=r"mnist\.npz: the header of the array 'y_test' is .* not of num"
    ):
        load_mnist(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: b"\0\0\x0d\x03" + content[4:], "is not an idx file .* starts with 00000d03"),
        (lambda content: content[:4] + b"\0\0\0\x08" + content[8:], r"expected shape \(7, 4, 5\)"),
        (lambda content: content[:-1], "ends early"),
        (lambda content: content[:10], "expected shape"),
        (lambda content: b"", "is not an idx file"),
        (lambda content: content + b"\0", "goes on too long"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "the values of 'x_train'"),
    ],
    ids=["magic", "shape", "short", "short-header", "empty", "long", "altered"],
)
def test_load_mnist__bad_idx_file_is_named(arrays, folder, change, reason):
    content = change(as_idx(arrays["x_train"]))
    for compressed in (True, False):  # in this order: the plain file comes before the compressed one
        write_idx(folder, arrays, compressed=compressed)
        path = folder / ("train-images-idx3-ubyte" + ".gz" * compressed)
        path.write_bytes(gzip.compress(content) if compressed else content)
        with pytest.raises(CorruptDataError, match=reason) as caught:
            load_mnist(folder)
        assert str(folder) in str(caught.value)


def test_load_mnist__truncated_gzip_is_named(arrays, folder):
    write_idx(folder, arrays, compressed=True)
    path = folder / "t10k-labels-idx1-ubyte.gz"
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        # Without its last eight bytes, the checksum, a gzip file still must not pass.
        with pytest.raises(CorruptDataError, match=r"t10k-labels-idx1-ubyte\.gz"):
            load_mnist(folder)
    path.write_bytes(b"not gzip at all")
    with pytest.raises(CorruptDataError, match=r"t10k-labels-idx1-ubyte\.gz cannot be read"):
        load_mnist(folder)


def test_load_mnist__missing_says_what_where_and_how(arrays, folder, cache):
    with pytest.raises(MissingDataError) as caught:
        load_mnist(folder)
    message = str(caught.value)
    for part in ("mnist.npz", "train-images-idx3-ubyte", str(folder), str(cache / "mnist")):
        assert part in message
    for part in ("https://", "download=True", "--download"):
        assert part in message
    assert not cache.exists()


def test_load_mnist__names_the_missing_idx_file(arrays, folder):
    write_idx(folder / "raw", arrays)
    (folder / "raw" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(MissingDataError, match=r"raw lacks t10k-labels-idx1-ubyte\."):
        load_mnist(folder)


def test_load_mnist__download_is_announced_verified_and_kept(arrays, openml, cache):
    with pytest.raises(MissingDataError):
        load_mnist()
    assert openml == []
    lines = []
    check_equal(load_mnist(download=True, say=lines.append), arrays)
    [(name, options)] = openml
    assert name == "mnist_784"
    assert (options["version"], options["as_frame"]) == (1, False)
    assert options["data_home"] == cache / "mnist"
    assert len(lines) == 1
    assert "openml.org" in lines[0]
    assert str(cache / "mnist" / "mnist.npz") in lines[0]
    check_equal(load_mnist(), arrays)
    check_equal(load_mnist(download=True), arrays)
    assert len(openml) == 1, "fetched again although it was in the cache"


def test_load_mnist__download_works_without_pandas(openml, monkeypatch):
    monkeypatch.setattr(mnist, "find_spec", lambda name: None)
    load_mnist(download=True, say=print)
    assert openml[0][1]["parser"] == "liac-arff"


def test_load_mnist__wrong_download_is_not_kept(arrays, openml, cache):
    arrays["x_test"][0, 0, 0] ^= 1
    with pytest.raises(CorruptDataError, match="mnist_784 from OpenML: the values of 'x_test'"):
        load_mnist(download=True, say=print)
    assert not list((cache / "mnist").glob("*mnist.npz*"))


@pytest.mark.parametrize("error", [OSError("no route to host"), ValueError("md5 checksum differs")])
def test_load_mnist__failed_download_says_what_else_to_do(arrays, monkeypatch, cache, error):
    def fetch_openml(*_, **__):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    with pytest.raises(MissingDataError, match=f"{error}.*mnist.npz from https"):
        load_mnist(download=True, say=print)
    assert not list((cache / "mnist").iterdir())


def test_load_mnist__interrupted_while_storing_leaves_no_half_file(openml, monkeypatch, cache):
    def savez(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(mnist.np, "savez_compressed", savez)
    with pytest.raises(OSError, match="disk full"):
        load_mnist(download=True, say=print)
    assert not list((cache / "mnist").iterdir())


def test_load_mnist__real_data_are_the_originals(data_dir):
    loaded = load_mnist(data_dir)
    arrays = {
        "x_train": loaded.train_images,
        "y_train": loaded.train_labels,
        "x_test": loaded.test_images,
        "y_test": loaded.test_labels,
    }
    assert {key: hashlib.md5(as_idx(array)).hexdigest() for key, array in arrays.items()} == IDX_MD5
    assert loaded.train_images.shape == (60_000, 28, 28)
    assert loaded.test_labels.dtype == np.int64
    assert np.bincount(loaded.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_load_mnist__real_data_as_idx_files_equal_the_npz(data_dir, folder):
    from_npz = load_mnist(data_dir)
    arrays = {
        "x_train": from_npz.train_images,
        "y_train": from_npz.train_labels,
        "x_test": from_npz.test_images,
        "y_test": from_npz.test_labels,
    }
    write_idx(folder / "MNIST" / "raw", arrays)
    check_equal(load_mnist(folder), arrays)
