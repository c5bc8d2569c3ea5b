import base64
import hashlib
import io
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image

from pnca.exceptions import CorruptDataError, MissingDataError, MissingExtraError
from pnca_studies.data import LETTERS, NotMnist, load_notmnist, notmnist
from pnca_studies.data._sources import array_digest

ARCHIVE = "notMNIST_small.tar.gz"
PER_LETTER = 3


def png(pixels, mode="L"):
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "PNG")
    return buffer.getvalue()


def make_images():
    """Five images of each letter under names whose sorted order differs from the order in the archive."""
    rng = np.random.default_rng(0)
    names = ["c.png", "a.png", "e.png", "b.png", "d.png"]
    return {
        f"{letter}/{name}": rng.integers(0, 256, (28, 28)).astype(np.uint8)
        for letter in LETTERS
        for name in names
    }


def write_archive(path, files, monkeypatch=None):
    """Write a tar file; with ``monkeypatch``, have the loader take it for the published one."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"notMNIST_small/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    if monkeypatch:
        expect(monkeypatch, path.read_bytes(), len(files))


def expect(monkeypatch, content, n_images):
    monkeypatch.setattr(notmnist, "_ARCHIVE_BYTES", len(content))
    monkeypatch.setattr(notmnist, "_ARCHIVE_MD5", hashlib.md5(content).hexdigest())
    monkeypatch.setattr(notmnist, "_ARCHIVE_IMAGES", n_images)
    monkeypatch.setattr(notmnist, "_PER_LETTER", PER_LETTER)


def known_unreadable():
    return dict.fromkeys(notmnist._KNOWN_UNREADABLE, b"")


@pytest.fixture
def images():
    return make_images()


@pytest.fixture
def files(images):
    return {name: png(pixels) for name, pixels in images.items()} | known_unreadable()


@pytest.fixture
def prepared(monkeypatch):
    """A miniature notmnist.npz, which the loader is told to expect."""
    rng = np.random.default_rng(1)
    arrays = {
        "x": rng.integers(0, 256, (20, 28, 28)).astype(np.uint8),
        "y": rng.integers(0, 10, 20).astype(np.uint8),
    }
    monkeypatch.setattr(notmnist, "_NPZ_SHAPE", (20, 28, 28))
    monkeypatch.setattr(notmnist, "_NPZ_DIGESTS", {key: array_digest(array) for key, array in arrays.items()})
    return arrays


def test_known_unreadable__names_are_font_files_in_base64():
    # The archive names each image after its font; a slip of the pen would not decode to a font's name.
    fonts = [
        base64.b64decode(name.partition("/")[2].removesuffix(".png")).decode()
        for name in sorted(notmnist._KNOWN_UNREADABLE)
    ]
    assert fonts == ["DemocraticaBoldOldstyle Bold.ttf", "Crossover BoldOblique.ttf"]


def test_load_notmnist__from_npz(prepared, folder):
    np.savez_compressed(folder / "notmnist.npz", **prepared)
    loaded = load_notmnist(folder)
    assert isinstance(loaded, NotMnist)
    assert (loaded.images.dtype, loaded.labels.dtype) == (np.uint8, np.int64)
    np.testing.assert_array_equal(loaded.images, prepared["x"])
    np.testing.assert_array_equal(loaded.labels, prepared["y"])


@pytest.mark.parametrize("key", ["x", "y"])
def test_load_notmnist__altered_npz_names_file_and_array(prepared, folder, key):
    prepared[key].flat[3] ^= 1
    np.savez(folder / "notmnist.npz", **prepared)
    with pytest.raises(CorruptDataError, match=rf"notmnist\.npz: the values of '{key}'"):
        load_notmnist(folder)


def test_load_notmnist__damaged_npz(prepared, folder):
    np.savez(path := folder / "notmnist.npz", **prepared)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CorruptDataError, match=r"notmnist\.npz is not a complete npz file"):
        load_notmnist(folder)
    np.savez(path, x=prepared["x"])
    with pytest.raises(CorruptDataError, match=r"notmnist\.npz lacks the arrays \['y'\]"):
        load_notmnist(folder)
    np.savez(path, x=prepared["x"], y=np.array([None] * 20))
    with pytest.raises(
        CorruptDataError, match=r"notmnist\.npz: the header of the array 'y' is .* not of num"
    ):
        load_notmnist(folder)


def test_load_notmnist__archive_gives_the_first_of_each_letter_by_name(images, files, folder, monkeypatch):
    write_archive(folder / ARCHIVE, files, monkeypatch)
    loaded = load_notmnist(folder)
    expected = [images[f"{letter}/{name}.png"] for letter in LETTERS for name in "abc"]
    np.testing.assert_array_equal(loaded.images, expected)
    np.testing.assert_array_equal(loaded.labels, np.repeat(np.arange(10), PER_LETTER))
    assert (loaded.images.dtype, loaded.labels.dtype) == (np.uint8, np.int64)


def test_load_notmnist__known_unreadable_files_are_passed_over(images, files, folder, monkeypatch):
    # "R..." sorts before the lower-case names, so the empty file is the first that A meets.
    assert min(name for name in files if name.startswith("A/")) in notmnist._KNOWN_UNREADABLE
    write_archive(folder / ARCHIVE, files, monkeypatch)
    np.testing.assert_array_equal(load_notmnist(folder).images[0], images["A/a.png"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n and no more",
        png(np.zeros((28, 28), np.uint8))[:-30],
        png(np.zeros((28, 27), np.uint8)),
        png(np.zeros((28, 28), np.uint8), mode="RGB"),
    ],
    ids=["empty", "stub", "truncated", "size", "colour"],
)
def test_load_notmnist__another_unreadable_image_is_named(files, folder, monkeypatch, content):
    write_archive(folder / ARCHIVE, files | {"C/b.png": content}, monkeypatch)
    with pytest.raises(CorruptDataError, match=r"notMNIST_small\.tar\.gz: C/b\.png is not a readable"):
        load_notmnist(folder)


def test_load_notmnist__too_few_images_of_a_letter(files, folder, monkeypatch):
    for name in "abc":
        del files[f"H/{name}.png"]
    write_archive(folder / ARCHIVE, files, monkeypatch)
    with pytest.raises(CorruptDataError, match="only 2 readable images of H, expected 3"):
        load_notmnist(folder)


def test_load_notmnist__wrong_number_of_images(files, folder, monkeypatch):
    write_archive(folder / ARCHIVE, files, monkeypatch)
    monkeypatch.setattr(notmnist, "_ARCHIVE_IMAGES", 53)
    with pytest.raises(CorruptDataError, match="holds 52 images, expected 53"):
        load_notmnist(folder)


def test_load_notmnist__size_and_content_of_the_archive_are_checked(files, folder, monkeypatch):
    write_archive(path := folder / ARCHIVE, files, monkeypatch)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptDataError, match=r"notMNIST_small\.tar\.gz has .* bytes, but the published"):
        load_notmnist(folder)
    path.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    with pytest.raises(CorruptDataError, match=r"notMNIST_small\.tar\.gz was altered"):
        load_notmnist(folder)


@pytest.mark.parametrize("keep", [0, 5, 1000, 20_000])
def test_load_notmnist__unreadable_archive_is_named(files, folder, monkeypatch, keep):
    # Of the expected size and MD5, so that the reading itself has to notice.
    write_archive(path := folder / ARCHIVE, files)
    path.write_bytes(path.read_bytes()[:keep])
    expect(monkeypatch, path.read_bytes(), len(files))
    with pytest.raises(CorruptDataError, match=r"notMNIST_small\.tar\.gz"):
        load_notmnist(folder)


def test_load_notmnist__odd_members_write_nothing_and_count_for_nothing(images, files, folder, monkeypatch):
    path = folder / ARCHIVE
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"notMNIST_small/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name in (
            "../../escaped.png",
            "/tmp/absolute.png",
            "notMNIST_small/A/._a.png",
            "notMNIST_small/K/a.png",
        ):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("notMNIST_small/A/0.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    expect(monkeypatch, path.read_bytes(), len(files))
    np.testing.assert_array_equal(load_notmnist(folder).images[0], images["A/a.png"])
    assert [entry.name for entry in folder.iterdir()] == [ARCHIVE]
    assert not list(folder.parent.glob("**/escaped.png"))


def test_load_notmnist__huge_member_is_refused(files, folder, monkeypatch):
    write_archive(folder / ARCHIVE, files | {"A/a.png": bytes(1 << 17)}, monkeypatch)
    with pytest.raises(CorruptDataError, match=r"A/a\.png is too large"):
        load_notmnist(folder)


def test_load_notmnist__missing_says_what_where_and_how(folder, cache):
    with pytest.raises(MissingDataError) as caught:
        load_notmnist(folder)
    message = str(caught.value)
    for part in ("notmnist.npz", ARCHIVE, str(folder), str(cache / "notmnist"), "http://yaroslavvb.com/"):
        assert part in message
    for part in ("download=True", "--download"):
        assert part in message
    assert not cache.exists()


@pytest.fixture
def served(files, tmp_path, monkeypatch):
    """The archive at an address that needs no network."""
    write_archive(path := tmp_path / "served.tar.gz", files, monkeypatch)
    monkeypatch.setattr(notmnist, "_ARCHIVE_URLS", ((tmp_path / "gone").as_uri(), path.as_uri()))
    return path


def test_load_notmnist__download_is_announced_recorded_and_kept(images, served, cache):
    lines = []
    first = load_notmnist(download=True, say=lines.append)
    np.testing.assert_array_equal(first.images[0], images["A/a.png"])
    assert len(lines) == 2, "one line for each address"
    archive = cache / "notmnist" / ARCHIVE
    digest = hashlib.sha256(served.read_bytes()).hexdigest()
    assert archive.with_name(ARCHIVE + ".sha256").read_text() == f"{digest}  {ARCHIVE}\n"
    served.unlink()
    again = load_notmnist(download=True, say=pytest.fail)
    np.testing.assert_array_equal(again.images, first.images)


def test_load_notmnist__recorded_sha256_is_checked(served, cache):
    load_notmnist(download=True, say=print)
    record = cache / "notmnist" / f"{ARCHIVE}.sha256"
    record.write_text("0" * 64 + f"  {ARCHIVE}\n")
    with pytest.raises(CorruptDataError, match="its sha256 is"):
        load_notmnist()


def test_load_notmnist__failed_download_leaves_nothing(served, cache):
    served.write_bytes(served.read_bytes()[:-1])
    with pytest.raises(MissingDataError, match="could not be downloaded"):
        load_notmnist(download=True, say=print)
    assert not list((cache / "notmnist").iterdir())


def test_load_notmnist__names_the_extra_when_pillow_is_missing(files, served, folder, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"Pillow.*pnca\[vision\]"):
        load_notmnist(download=True, say=pytest.fail)
    write_archive(folder / ARCHIVE, files)
    with pytest.raises(MissingExtraError, match=r"pnca\[vision\]"):
        load_notmnist(folder)
    assert not cache.exists()


def test_load_notmnist__real_data(data_dir):
    loaded = load_notmnist(data_dir)
    assert (loaded.images.shape, loaded.images.dtype) == ((10_000, 28, 28), np.uint8)
    assert loaded.labels.dtype == np.int64
    assert np.bincount(loaded.labels).tolist() == [1000] * 10
