import hashlib
import io
import socket

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies.data import _sources
from pnca_studies.data._sources import (
    array_digest,
    as_bytes_array,
    check_array,
    check_file,
    download,
    file_digest,
    folders_to_search,
    make_cache_folder,
)

CONTENT = bytes(range(256)) * 40
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def served(tmp_path):
    """Addresses of a file, an altered one, a shorter one, a longer one, and none; no network is used."""
    contents = {
        "good": CONTENT,
        "altered": CONTENT[:-1] + b"\0",
        "short": CONTENT[:-1],
        "long": CONTENT + b"\0",
    }
    for name, content in contents.items():
        (tmp_path / f"served-{name}").write_bytes(content)
    return {name: (tmp_path / f"served-{name}").as_uri() for name in [*contents, "absent"]}


def test_file_digest__is_that_of_the_content(tmp_path, monkeypatch):
    (path := tmp_path / "file").write_bytes(CONTENT)
    monkeypatch.setattr(_sources, "_CHUNK", 1000)  # several pieces, the last one shorter
    assert file_digest(path) == hashlib.sha256(CONTENT).hexdigest()
    assert file_digest(path, "md5") == MD5


def test_check_file__tells_a_wrong_size_from_wrong_content(tmp_path):
    (path := tmp_path / "file").write_bytes(CONTENT)
    check_file(path, n_bytes=len(CONTENT), algorithm="md5", digest=MD5)
    with pytest.raises(CorruptDataError, match=r"file has 10,240 bytes, but .* 10,241"):
        check_file(path, n_bytes=len(CONTENT) + 1, algorithm="md5", digest=MD5)
    with pytest.raises(CorruptDataError, match=rf"file was altered .* expected {MD5}"):
        check_file(path, digest=MD5)


def test_array_digest__depends_on_values_not_on_memory_layout():
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert array_digest(array) == hashlib.sha256(bytes(range(6))).hexdigest()
    assert array_digest(np.asfortranarray(array)) == array_digest(array)
    assert array_digest(array.T) != array_digest(array)


def test_check_array__names_file_and_array():
    array = np.arange(6, dtype=np.uint8)
    found = check_array(
        array.astype(np.int64), name="x", shape=(6,), sha256=array_digest(array), path="file.npz"
    )
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)
    with pytest.raises(CorruptDataError, match=r"file.npz: 'x' has shape \(6,\), expected \(2, 3\)"):
        check_array(array, name="x", shape=(2, 3), sha256=array_digest(array), path="file.npz")
    with pytest.raises(CorruptDataError, match=r"file.npz: the values of 'x'"):
        check_array(array[::-1], name="x", shape=(6,), sha256=array_digest(array), path="file.npz")


def test_as_bytes_array__keeps_whole_numbers_and_refuses_what_would_change():
    for dtype in (np.uint8, np.int64, np.float64, np.uint16):
        array = as_bytes_array(np.array([0, 7, 255], dtype=dtype), "y", "file")
        assert array.dtype == np.uint8
        np.testing.assert_array_equal(array, [0, 7, 255])
    for value in (256, -1, 1.5, np.nan, "1", True):
        with pytest.raises(CorruptDataError, match="file: 'y' must hold whole numbers"):
            as_bytes_array(np.array([value]), "y", "file")


def test_folders_to_search__callers_folder_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))
    assert folders_to_search(None, "mnist") == [tmp_path / "cache" / "mnist"]
    assert folders_to_search(str(tmp_path), "mnist") == [tmp_path, tmp_path / "cache" / "mnist"]
    with pytest.raises(MissingDataError, match="no-such-folder does not exist"):
        folders_to_search(tmp_path / "no-such-folder", "mnist")


def test_make_cache_folder__says_how_to_choose_another(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(InvalidInputError, match="set PNCA_CACHE_DIR"):
        make_cache_folder("mnist")


def test_download__announces_verifies_and_keeps(tmp_path, served):
    lines = []
    target = tmp_path / "target"

    def say(line):
        assert not target.exists(), "announced too late"
        lines.append(line)

    found = download([served["good"]], target, n_bytes=len(CONTENT), digest=MD5, algorithm="md5", say=say)
    assert found == target
    assert target.read_bytes() == CONTENT
    assert len(lines) == 1
    assert served["good"] in lines[0]
    assert str(target) in lines[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("altered", "altered"), ("short", "10,239 bytes"), ("long", "10,241 bytes"), ("absent", "No such file")],
)
def test_download__failure_leaves_nothing_and_says_why(tmp_path, served, name, reason):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(MissingDataError, match=reason) as caught:
        download(
            [served[name]], folder / "target", n_bytes=len(CONTENT), digest=MD5, algorithm="md5", say=print
        )
    assert served[name] in str(caught.value)
    assert not list(folder.iterdir())


def test_download__keeps_an_earlier_file_when_it_fails(tmp_path, served):
    (target := tmp_path / "target").write_text("earlier")
    with pytest.raises(MissingDataError):
        download([served["short"]], target, n_bytes=len(CONTENT), digest=MD5, algorithm="md5", say=print)
    assert target.read_text() == "earlier"


def test_download__tries_the_next_address(tmp_path, served):
    lines = []
    urls = [served["absent"], served["altered"], served["good"]]
    download(urls, tmp_path / "target", n_bytes=len(CONTENT), digest=MD5, algorithm="md5", say=lines.append)
    assert (tmp_path / "target").read_bytes() == CONTENT
    assert [url for url, line in zip(urls, lines, strict=True) if url in line] == urls


def test_download__a_connection_that_breaks_leaves_nothing(tmp_path, monkeypatch):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise ConnectionResetError("connection reset")
            return super().read(100)

    monkeypatch.setattr(_sources, "urlopen", lambda url, timeout: Broken(CONTENT))
    with pytest.raises(MissingDataError, match="connection reset"):
        download(["http://x"], tmp_path / "target", n_bytes=len(CONTENT), digest=MD5, say=print)
    assert not list(tmp_path.iterdir())


def test_download__without_a_network_says_so(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(MissingDataError, match="Network is unreachable"):
        download(["http://127.0.0.1:9/x"], tmp_path / "target", n_bytes=1, digest="", say=print)


def test_download__default_announcement_goes_to_standard_error(tmp_path, served, capsys):
    download([served["good"]], tmp_path / "target", n_bytes=len(CONTENT), digest=MD5, algorithm="md5")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"Downloading {served['good']}")
