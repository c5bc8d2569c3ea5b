import io
import os
import zipfile

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies import arrays
from pnca_studies.arrays import Expected, read_headers, read_npz

ANY = Expected(max_bytes=10_000)


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "some.npz"
    np.savez_compressed(path, a=np.arange(12).reshape(3, 4), b=np.array(["x", "yz"]))
    return path


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def archive_of(path, content, compression=zipfile.ZIP_STORED, name="a.npy"):
    """An npz file whose one array has these bytes."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(name, content)
    return path


# --- what is read ---------------------------------------------------------------------------------------


def test_read_npz__returns_the_expected_arrays(npz):
    found = read_npz(npz, {"a": ANY, "b": ANY})
    np.testing.assert_array_equal(found["a"], np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(found["b"], ["x", "yz"])
    assert list(read_npz(npz, {"b": ANY})) == ["b"]
    found["a"][0] = 0  # it can be written to


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("compressed", [False, True])
def test_read_npz__equals_numpy_for_every_type_order_and_shape(tmp_path, monkeypatch, compressed, chunk):
    monkeypatch.setattr(arrays, "_CHUNK", chunk)
    numbers = np.random.default_rng(0).integers(0, 100, size=(4, 3, 2))
    types = ["?", "i1", "u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8", "<c16", "S5", "<U7", ">U7"]
    given = {f"type {name}": numbers.astype(name) for name in types}
    given |= {
        "scalar": np.array(3.5),
        "text": np.array("{'descr'}"),
        "astral": np.array(["\U0010ffff", ""]),
        "empty": np.zeros((0, 3)),
        "fortran": np.asfortranarray(numbers),
        "folder/name": np.arange(3),
    }
    (np.savez_compressed if compressed else np.savez)(tmp_path / "all.npz", **given)
    found = read_npz(tmp_path / "all.npz", dict.fromkeys(given, ANY))
    for name, array in given.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_read_npz__takes_later_headers_and_those_of_python_2(tmp_path):
    content = npy(np.arange(3.0))
    for other in (
        npy(np.arange(3.0), version=(2, 0)),
        content.replace(b"(3,), } ", b"(3L,), }"),
        content.replace(b"'descr': '<f8', ", b'"descr":"<f8",  '),
    ):
        assert other != content
        path = archive_of(tmp_path / "other.npz", other)
        np.testing.assert_array_equal(read_npz(path, {"a": ANY})["a"], np.arange(3.0))


def test_read_headers__tells_all_arrays_without_reading_them(npz, monkeypatch):
    monkeypatch.setattr(arrays, "_read_array", pytest.fail)
    found = read_headers(npz)
    assert {name: (header.shape, header.dtype, header.n_bytes) for name, header in found.items()} == {
        "a": ((3, 4), np.dtype("int64"), 96),
        "b": ((2,), np.dtype("<U2"), 16),
    }


# --- what is not as expected ----------------------------------------------------------------------------


def test_read_npz__names_the_missing_array(npz):
    with pytest.raises(
        CorruptDataError, match=r"some.npz lacks the arrays \['c'\]; it holds \['a', 'b'\]: delete it"
    ):
        read_npz(npz, {"a": ANY, "c": ANY})


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (Expected(max_bytes=95), r"some\.npz: 'a' would take 96 bytes, expected are at most 95: do this\."),
        (Expected(max_bytes=96, shape=(4, 3)), r"'a' has shape \(3, 4\), expected \(4, 3\)"),
        (Expected(max_bytes=96, dtype=np.float32), r"'a' has type int64, expected float32"),
    ],
)
def test_read_npz__what_is_not_expected_is_refused_before_anything_is_read(
    npz, monkeypatch, expected, message
):
    monkeypatch.setattr(arrays, "_read_array", pytest.fail)
    with pytest.raises(CorruptDataError, match=message):
        read_npz(npz, {"b": ANY, "a": expected}, advice="do this")


def test_read_npz__exactly_as_expected_is_taken(npz):
    expected = Expected(max_bytes=96, shape=(3, 4), dtype=np.int64)
    assert read_npz(npz, {"a": expected})["a"].shape == (3, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not an array", "'a' is not an array"),
        (b"", "'a' is not an array"),
        (npy(np.arange(3.0)).replace(b"<f8", b"<f3"), r"no known type \(<f3\)"),
        (npy(np.arange(3.0)).replace(b"<f8", b"<M8"), "not of numbers or text"),
        (npy(np.array(["abc"])).replace(b"<U3", b"<U0"), "elements of no bytes"),
        (npy(np.arange(3.0)).replace(b"(3,)", b"(-3)"), "the header of the array 'a' is damaged"),
        (npy(np.arange(3.0)).replace(b"(3,), }", b"(3,)   "), "the header of the array 'a' is damaged"),
        (npy(np.arange(3.0)).replace(b"(3,)", b"(4,)"), "'a' has 24 bytes, but its header says 32"),
        (npy(np.arange(3.0)) + b"more", "'a' has 28 bytes, but its header says 24"),
        (npy(np.arange(3.0))[:60], "the header of the array 'a' is damaged"),
        (npy(np.zeros(3, dtype=[("x", "f4"), ("y", "i4")])), "not of numbers or text"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"{" * 99, "the header of the array 'a' is damaged"),
        (npy(np.array(["a"])).replace(b"a\0\0\0", b"\xff" * 4), "text that is not Unicode"),
    ],
)
def test_read_npz__header_and_content_must_agree(tmp_path, content, message):
    path = archive_of(tmp_path / "odd.npz", content)
    with pytest.raises(CorruptDataError, match=rf"odd\.npz: .*{message}"):
        read_npz(path, {"a": ANY})


def test_read_npz__never_unpickles(tmp_path):
    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "unpickled"),)

    np.savez(tmp_path / "objects.npz", a=np.array([Payload()], dtype=object))
    with pytest.raises(CorruptDataError, match=r"objects.npz: .* 'a' .* not of numbers or text"):
        read_npz(tmp_path / "objects.npz", {"a": ANY})
    (tmp_path / "pickle.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(CorruptDataError, match=r"pickle\.npz"):
        read_npz(tmp_path / "pickle.npz", {"a": ANY})
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_read_npz__other_compression_is_refused(tmp_path, compression):
    path = archive_of(tmp_path / "odd.npz", npy(np.arange(3)), compression)
    with pytest.raises(CorruptDataError, match=r"odd\.npz: .* compressed in a way that numpy does not use"):
        read_npz(path, {"a": ANY})


def test_read_npz__another_kind_of_file_is_named(tmp_path):
    (tmp_path / "single.npz").write_bytes(npy(np.zeros(3)))
    with pytest.raises(CorruptDataError, match=r"single.npz is not a complete npz file"):
        read_npz(tmp_path / "single.npz", {"a": ANY})
    with pytest.raises(MissingDataError, match=r"no file .*gone\.npz"):
        read_npz(tmp_path / "gone.npz", {"a": ANY})
    with pytest.raises(InvalidInputError, match=r"cannot be opened \(it is not a file\)"):
        read_npz(tmp_path, {"a": ANY})
