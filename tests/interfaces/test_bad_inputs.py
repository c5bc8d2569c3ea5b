"""Every command on users' files refuses what it cannot use in one sentence, and never spoils an output."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pnca

#: Commands that read a table with a model, and what they need beside both.
OF_TABLES = {
    "predict": ("-o", "out.csv"),
    "explain": ("--row", "1", "-o", "out.html"),
    "suggest": ("-k", "1", "-o", "out.csv"),
}
#: Commands that read a model file alone.
OF_MODELS = {
    "info": (),
    "audit": ("-o", "out.csv"),
    "export": ("--onnx", "out.onnx"),
}
HEADER = "sample,a,b,site,y\n"
BAD_TABLES = [
    (b"", "empty (0 bytes)"),
    (HEADER.encode(), "a header and no rows"),
    (b"sample,a,site\nS1,1,Bonn\n", "no column 'b'"),
    (b"a,a,b,site\n1,2,3,Bonn\n", "both called 'a'"),
    ((HEADER + "S1,1,2\n").encode(), "row 1 has 3 fields"),
    ((HEADER + ",".join(["1"] * 10**6) + "\n").encode(), "row 1 has 1000000 fields"),
    ((",".join(f"c{i}" for i in range(10**6)) + "\n").encode(), "has 1,000,000 columns"),
    (b"PK\x03\x04" + bytes(50), "a zip archive or an Excel file, whatever its name says"),
    ((HEADER + "S1,1,2,Bonn,well\n").encode("utf-16-le"), "zero bytes"),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def here():
    return sorted(path.name for path in Path().iterdir())


def is_refused(found, reason):
    code, out, err = found
    assert (code, out) == (1, "")
    assert reason in err
    assert err.startswith("pnca: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", OF_TABLES)
@pytest.mark.parametrize(("content", "reason"), BAD_TABLES, ids=[reason for _, reason in BAD_TABLES])
def test_bad_tables(run, model_file, place, command, content, reason):
    (place / "t.csv").write_bytes(content)
    if command == "explain" and reason == "a header and no rows":
        reason = "has no row 1: there are 0"
    is_refused(run(command, model_file, "t.csv", *OF_TABLES[command]), reason)
    assert here() == ["t.csv"]


@pytest.mark.parametrize("command", OF_TABLES)
def test_tables_in_a_wrong_encoding_or_that_are_folders(run, model_file, place, command):
    (place / "t.csv").write_bytes((HEADER + "S1,1,2,gr\xfcn,well\n").encode("latin-1"))
    call = (command, model_file, "t.csv", *OF_TABLES[command])
    is_refused(run(*call, "--encoding", "utf-8"), "not text in utf-8")
    is_refused(run(*call, "--encoding", "klingon"), "There is no encoding 'klingon'")
    (place / "folder.csv").mkdir()
    is_refused(run(command, model_file, "folder.csv", *OF_TABLES[command]), "There are no tables in")
    is_refused(run(command, model_file, "absent.csv", *OF_TABLES[command]), "There is no table absent.csv")
    assert here() == ["folder.csv", "t.csv"]


@pytest.mark.parametrize("command", [*OF_TABLES, *OF_MODELS])
def test_bad_models(run, model_file, small_tables, place, command):
    whole = model_file.read_bytes()
    data = (small_tables / "new.csv",) if command in OF_TABLES else ()
    more = {**OF_TABLES, **OF_MODELS}[command]
    for content in (b"", b"nothing of the kind", whole[: len(whole) // 2], whole[:-1]):
        (place / "m.pnca").write_bytes(content)
        is_refused(run(command, "m.pnca", *data, *more), "m.pnca")
    (place / "folder.pnca").mkdir()
    is_refused(run(command, "folder.pnca", *data, *more), "folder.pnca")
    is_refused(run(command, "absent.pnca", *data, *more), "absent.pnca")
    assert here() == ["folder.pnca", "m.pnca"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty (0 bytes)"),
        (HEADER, "a header and no rows"),
        ("a,z\n1,u\n", "no column 'y' (--target)"),
        ("a,y\n1,u\n2,u\n", "a fit needs two classes"),
        ("a,a,y\n1,2,u\n", "both called 'a'"),
    ],
)
def test_audit__of_bad_tables(run, place, content, reason):
    (place / "t.csv").write_text(content)
    is_refused(run("audit", "t.csv", "--target", "y", "-o", "out.csv"), reason)
    assert here() == ["t.csv"]


#: Commands that write, and which option names the file.
WRITING = {
    "fit": ("train.csv", "--target", "y", "--id", "sample", "-o", "out.pnca"),
    "predict": ("model.pnca", "new.csv", "-o", "out.csv"),
    "explain": ("model.pnca", "new.csv", "--row", "1", "-o", "out.html"),
    "audit": ("model.pnca", "-o", "out.csv"),
    "suggest": ("model.pnca", "new.csv", "-o", "out.csv"),
    "export": ("model.pnca", "--onnx", "out.onnx"),
}


@pytest.fixture
def files(small_tables, model_file, place):
    """The current folder with a model and tables, and what a fit is replaced by for the sake of time."""
    for path in (model_file, small_tables / "train.csv", small_tables / "new.csv"):
        shutil.copy(path, place / path.name)
    return place


def fitted(*_, **__):
    return pnca.load("model.pnca")


@pytest.mark.parametrize("command", WRITING)
def test_files_that_are_there_are_replaced_only_if_that_is_wanted(run, files, command, monkeypatch):
    monkeypatch.setattr("pnca.workflows.fit_table", fitted)
    out = Path(WRITING[command][-1])
    out.write_text("mine")
    is_refused(run(command, *WRITING[command]), "exists: name another file, or pass overwrite=True (--force)")
    assert out.read_text() == "mine"
    code, _, err = run(command, *WRITING[command], "--force")
    assert code == 0, err
    assert out.stat().st_size > 100
    is_refused(run(command, *WRITING[command][:-1], "no/such/out"), "There is no folder no/such")
    Path("folder").mkdir()
    is_refused(run(command, *WRITING[command][:-1], "folder", "--force"), "is a folder")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("predict", ("model.pnca", "new.csv", "-o", "new.csv")),
        ("explain", ("model.pnca", "new.csv", "--row", "1", "-o", "model.pnca")),
        ("suggest", ("model.pnca", "new.csv", "-k", "1", "-o", "new.csv")),
        ("evaluate", ("model.pnca", "new.csv", "--report", "model.pnca")),
        ("compare", ("train.csv", "--target", "y", "--report", "train.csv")),
        ("export", ("model.pnca", "--onnx", "model.pnca")),
        ("fit", ("train.csv", "--target", "y", "-o", "train.csv")),
    ],
)
def test_what_is_read_is_not_replaced_even_if_that_is_wanted(run, files, command, arguments):
    before = Path(arguments[-1]).read_bytes()
    is_refused(run(command, *arguments, "--force"), "is what is read here: name another file")
    assert Path(arguments[-1]).read_bytes() == before


def test_predictions_do_not_go_into_the_folder_that_is_read(run, files):
    Path("parts").mkdir()
    shutil.copy("new.csv", "parts")
    is_refused(run("predict", "model.pnca", "parts", "-o", "parts/out.csv"), "is the folder that is read")


@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk_leaves_what_was_there(run, files, command, monkeypatch):
    monkeypatch.setattr("pnca.workflows.fit_table", fitted)
    out = Path(WRITING[command][-1])
    out.write_text("mine")
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, former[1]))
    try:
        found = run(command, *WRITING[command], "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert found[0] == 1
    assert f"{out} cannot be written (File too large): make room" in found[2]
    assert "Traceback" not in found[2]
    assert out.read_text() == "mine"
    assert not list(files.glob(".*"))


@pytest.mark.parametrize("command", WRITING)
def test_a_folder_that_is_read_only(run, files, command, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    monkeypatch.setattr("pnca.workflows.fit_table", lambda *_, **__: pytest.fail("was fitted"))
    before = here()
    is_refused(run(command, *WRITING[command]), "the folder is read-only")
    assert here() == before


KILLED = """
import os, pathlib, signal, sys
import pnca, pnca.workflows

pnca.workflows.fit_table = lambda *_, **__: pnca.load("model.pnca")
pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # all is written, and not in place
sys.argv = ["pnca", *sys.argv[1:]]
from pnca.interfaces import cli

cli.main()
"""


@pytest.mark.parametrize("command", ["fit", "explain", "suggest", "export"])
def test_a_kill_before_the_end_leaves_what_was_there(files, environment, command):
    out = Path(WRITING[command][-1])
    out.write_text("mine")
    call = [sys.executable, "-c", KILLED, command, *WRITING[command], "--force"]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert out.read_text() == "mine"


@pytest.mark.parametrize("command", WRITING)
def test_the_console_script_says_it_in_one_sentence(script, environment, place, command):
    call = [*script, command, *WRITING[command]]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("pnca: There is no ")
    assert len(done.stderr.splitlines()) == 1
    assert not here()
