import json
import os
import sys
import zipfile

import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.persistence import container
from pnca.persistence.container import FORMAT, MANIFEST, MODEL, TENSORS, Content, packed, unpacked
from robustness.bombs import HUGE, assert_cheap, write_archive

CONTENT = Content({"pnca": "0.2.0", "examples": 3}, {"a": [1, 0.5, None, "é"]}, bytes(range(200)))


@pytest.fixture
def path(tmp_path):
    (path := tmp_path / "model.pnca").write_bytes(b"".join(packed(CONTENT)))
    return path


def test_file__holds_what_was_written(path):
    found = unpacked(path)
    assert found.model == CONTENT.model
    assert found.tensors == CONTENT.tensors
    assert found.about.items() >= CONTENT.about.items()


def test_file__is_an_archive_that_any_program_opens(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [MANIFEST, MODEL, TENSORS]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert json.loads(archive.read(MODEL)) == CONTENT.model
        assert json.loads(archive.read(MANIFEST))["format"] == FORMAT == 1


def test_file__is_the_same_for_the_same_content():
    assert packed(CONTENT) == packed(CONTENT)


def test_every_bit_counts(path):
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CorruptDataError, match=r"model\.pnca"):
            unpacked(path)


def test_every_length_but_one_is_refused(path):
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CorruptDataError, match=r"model\.pnca"):
            unpacked(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(CorruptDataError, match="as long as it says"):
        unpacked(path)


@pytest.mark.parametrize("version", ["0.9.1", "1.0rc1"])
def test_later_format__asks_for_an_update(version, path, monkeypatch):
    monkeypatch.setattr(container, "FORMAT", 2)
    path.write_bytes(b"".join(packed(CONTENT._replace(about={"pnca": version, "new": {}}))) + b"and more")
    monkeypatch.undo()
    with pytest.raises(CorruptDataError, match=rf"was written by pnca {version}, .*: update pnca"):
        unpacked(path)


@pytest.mark.parametrize("version", [None, "", 1, [], "x" * 99, "a\nb", "<b>"])
def test_version__that_is_none_is_not_repeated(version, path):
    path.write_bytes(b"".join(packed(CONTENT._replace(about={"pnca": version}))))
    with pytest.raises(CorruptDataError, match="names no format"):
        unpacked(path)


@pytest.mark.parametrize("size", [2**16 + 1, 10**6, HUGE])
@pytest.mark.parametrize("first", [MANIFEST, MODEL])
def test_bomb__is_refused_before_it_is_unpacked(size, first, path):
    write_archive(path, [(first, b"{", size), (TENSORS, b"", size)])
    assert_cheap(lambda: unpacked(path), CorruptDataError, "model.pnca", f"{first} of {size} bytes")


def test_length__that_the_file_does_not_have_is_never_allocated(path, monkeypatch):
    def claim(name, part):
        return [name, 2**31 if name == TENSORS else len(part), container._digest(part)]

    monkeypatch.setattr(container, "_described", claim)
    path.write_bytes(b"".join(packed(CONTENT)))
    assert_cheap(lambda: unpacked(path), CorruptDataError, "model.pnca", "two gigabytes")


@pytest.mark.skipif(sys.platform == "win32", reason="no sparse files")
def test_length__of_an_empty_giant_is_refused_at_once(path):
    with path.open("r+b") as file:
        file.truncate(2**40)
    assert_cheap(lambda: unpacked(path), CorruptDataError, "model.pnca", "a terabyte of nothing")


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', "[NaN]", "[1e999]", "[-Infinity]", "[1e]", "[" * 10**5, "\xe9", "[" + "1" * 5000 + "]"],
)
def test_json__that_is_none_is_refused(text, path, monkeypatch):
    monkeypatch.setattr(
        container, "to_json", lambda value: value if isinstance(value, bytes) else dump(value)
    )
    dump = lambda value: json.dumps(value, separators=(",", ":")).encode()  # noqa: E731
    path.write_bytes(b"".join(packed(CONTENT._replace(model=text.encode("latin1")))))
    with pytest.raises(CorruptDataError, match="no JSON"):
        unpacked(path)


def test_content__that_is_too_large_is_not_written(monkeypatch):
    monkeypatch.setitem(container._MOST, TENSORS, 100)
    with pytest.raises(
        InvalidInputError, match=r"cannot be saved: its tensors\.safetensors has 200 bytes, of 100"
    ):
        packed(CONTENT)


def test_place__without_a_file_is_named(tmp_path):
    with pytest.raises(MissingDataError, match="There is no model file"):
        unpacked(tmp_path / "none.pnca")
    with pytest.raises(InvalidInputError, match="it is not a file"):
        unpacked(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.pnca")
        with pytest.raises(InvalidInputError, match="it is not a file"):
            unpacked(tmp_path / "pipe.pnca")


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"\x80\x04K\x01.", b"PK\5\6" + bytes(18), b"\x89PNG" + bytes(99)]
)
def test_file__of_another_kind_is_told(content, path):
    path.write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"model\.pnca is no model file of pnca"):
        unpacked(path)
