import json
import os
import subprocess
import sys

import pytest

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.files import (
    LOCK,
    cache_folder,
    open_to_read,
    own_folder,
    prepare_folder,
    write_atomically,
    write_json,
)


def test_write_atomically__failure_leaves_the_earlier_file_and_no_litter(tmp_path):
    target = tmp_path / "results.txt"
    target.write_text("before")

    def fail(temporary):
        temporary.write_text("half of i")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, fail)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_write_atomically__replaces_the_earlier_file(tmp_path):
    target = tmp_path / "results.txt"
    target.write_text("before")
    assert write_atomically(target, lambda temporary: temporary.write_text("after") and None) == target
    assert target.read_text() == "after"
    assert list(tmp_path.iterdir()) == [target]


def test_write_json__reads_back(tmp_path):
    content = {"model": "PNCA", "accuracy": 0.5, "name": "é"}
    assert json.loads(write_json(tmp_path / "a.json", content).read_text(encoding="utf-8")) == content


def test_write_json__refuses_nan_and_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"accuracy": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_prepare_folder__makes_it_and_takes_earlier_results(tmp_path):
    folder = prepare_folder(tmp_path / "a" / "b", marker="results.json")
    (folder / "results.json").touch()
    assert prepare_folder(folder, marker="results.json") == folder


def test_prepare_folder__refuses_a_folder_with_something_else_in_it(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InvalidInputError, match="holds other files"):
        prepare_folder(tmp_path, marker="results.json")


def test_prepare_folder__refuses_a_file(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(InvalidInputError, match="is a file"):
        prepare_folder(tmp_path / "a", marker="results.json")


def test_cache_folder__is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("PNCA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pnca"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().parent.name == ".cache"


def test_own_folder__belongs_to_one_block_at_a_time(tmp_path):
    with (
        own_folder(tmp_path),
        pytest.raises(InvalidInputError, match="in use by another process or block; wait"),
        own_folder(tmp_path),
    ):
        pass
    with own_folder(tmp_path):
        pass


def test_own_folder__is_freed_by_the_death_of_its_process(tmp_path):
    own = f"with own_folder(pathlib.Path({str(tmp_path)!r})):\n os._exit(9)"
    code = f"import os, pathlib; from pnca.files import own_folder\n{own}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with own_folder(tmp_path):
        pass


def test_prepare_folder__takes_one_in_which_a_process_died_at_the_start(tmp_path):
    for name in (LOCK, ".results.json.0123.tmp"):
        (tmp_path / name).touch()
    assert prepare_folder(tmp_path, "results.json") == tmp_path


def test_open_to_read__gives_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    with open_to_read(tmp_path / "a") as file:
        assert file.read() == b"content"


def test_open_to_read__names_what_it_cannot_open(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    (tmp_path / "file").touch()
    with pytest.raises(MissingDataError, match=r"There is no image .*gone\."):
        open_to_read(tmp_path / "gone", "image")
    for name, reason in {
        "": "not a file",
        "pipe": "not a file",
        "file/a": "Not a directory",
        "a\0": "null",
    }.items():
        with pytest.raises(InvalidInputError, match=f"The file .*cannot be opened .*{reason}"):
            open_to_read(tmp_path / name)
