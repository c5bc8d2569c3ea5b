"""``pnca fit``, ``predict`` and ``info`` on tables: what they write and print, and how they refuse."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

import pnca
from pnca.interfaces import fit as fit_module
from pnca.workflows import predicting

#: Where a command refuses before it fits, so that it costs nothing.
FIT = ("--target", "y")


def test_fit__is_the_fit_of_python(model_file, small_tables):
    table = pd.read_csv(small_tables / "train.csv")
    own = pnca.PNCAClassifier(random_state=0).fit(table[["a", "b", "site"]], table["y"])
    found = pnca.load(model_file)
    X = table[["a", "b", "site"]].iloc[:5]
    assert found.record_.ids.tolist() == table["sample"].tolist()
    assert found.get_params()["verbose"] is False
    # Forests of the suite have fewer trees than those of the command.
    assert abs(found.predict_proba(X) - own.predict_proba(X)).max() < 0.2


def test_predict__through_the_console_script(script, environment, model_file, small_tables):
    command = [*script, "predict", "model.pnca", "new.csv", "-o", "p.csv", "--max-error", "0.2"]
    done = subprocess.run(
        command, cwd=small_tables, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "12 inputs: " in done.stdout
    said = pd.read_csv(small_tables / "p.csv")
    assert said["sample"].tolist() == [f"S{i}" for i in range(12)]
    assert list(said.columns) == [
        "sample", "label", "reason", "confidence", "familiarity", "set",
        "probability_ill", "probability_well", "examples", "shares",
    ]  # fmt: skip
    assert said["examples"].str.fullmatch(r"S\d+; S\d+; S\d+").all()


def test_predict__json(run, model_file, small_tables, tmp_path):
    code, out, err = run(
        "predict", model_file, small_tables / "new.csv", "-o", tmp_path / "p.parquet", "--json"
    )
    assert code == 0
    found = json.loads(out)
    # The examples are too few for the promise; the reason is said where people look, and where machines do.
    (reason,) = found["notes"]
    assert err == f"pnca: {reason}.\n"
    assert reason.startswith("Nothing is answered: ")
    assert found["n"] == sum(found["reasons"].values()) == 12
    assert 0 <= found["drift"]["p_value"] <= 1
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 12


def test_predict__warns_of_drift_on_standard_error(run, model_file, small_tables, tmp_path):
    pd.read_csv(small_tables / "new.csv").assign(a=99.0).to_csv(tmp_path / "moved.csv", index=False)
    code, out, err = run("predict", model_file, tmp_path / "moved.csv", "-o", tmp_path / "p.csv")
    assert code == 0
    assert "drift: " in err
    assert "less familiar" in err
    assert "drift: " not in out


def test_info__says_what_fit_said_and_where_it_comes_from(run, model_file):
    code, out, _ = run("info", model_file)
    assert code == 0
    for text in (
        "a: number, with holes",
        "Accuracy: ",
        "random_state=0",
        f"pnca {pnca.__version__}",
        "SHA-256",
    ):
        assert text in out
    about = json.loads(run("info", model_file, "--json")[1])
    assert about["n_examples"] == 60
    assert about["source"] == {"target": "y", "id": "sample"}


@pytest.mark.parametrize("command", ["fit", "predict", "info"])
def test_help__has_an_example_and_the_exit_status(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: pnca {command} " in out
    assert "Exit status: 0" in out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty (0 bytes)"),
        ("a,y\n", "a header and no rows"),
        ("a,z\n1,u\n", "no column 'y' (--target)"),
        ("a,y\n1,u\n2,u\n", "a fit needs two classes"),
        ("a,a,y\n1,2,u\n", "both called 'a'"),
        ("a,y\n1,u\n2,v,w\n", "row 2 has 3 fields"),
        ("a,y\n1,u\n2,\n", "no 'y' in row 2"),
        ("a,y\n1,u\n2,v\n", "at least 3 examples"),
        (",".join(["a"] * 200_001) + "\n", "has 200,001 columns"),
    ],
)
def test_fit__bad_tables_are_one_sentence_and_status_one(run, tmp_path, content, reason):
    (tmp_path / "t.csv").write_text(content)
    code, out, err = run("fit", tmp_path / "t.csv", *FIT, "-o", tmp_path / "m.pnca")
    assert (code, out) == (1, "")
    assert reason in err
    assert err.startswith("pnca: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_fit__a_wrong_encoding_is_named(run, tmp_path):
    (tmp_path / "t.csv").write_bytes("a,y\n1,gr\xfcn\n".encode("latin-1"))
    code, _, err = run("fit", tmp_path / "t.csv", *FIT, "-o", tmp_path / "m.pnca", "--encoding", "utf-8")
    assert code == 1
    assert "not text in utf-8" in err


def test_fit__what_is_absent_or_may_not_be_written_is_refused_before_the_fit(
    run, small_tables, tmp_path, monkeypatch
):
    monkeypatch.setattr("pnca.workflows.fit_table", lambda *_, **__: pytest.fail("was fitted"))
    data = small_tables / "train.csv"
    mine = tmp_path / "mine.pnca"
    mine.write_text("mine")
    for out, reason in [
        (mine, "exists: name another file, or pass overwrite=True (--force)"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "m.pnca", "There is no folder"),
    ]:
        code, _, err = run("fit", data, *FIT, "-o", out)
        assert code == 1
        assert reason in err
    assert mine.read_text() == "mine"
    code, _, err = run("fit", tmp_path / "absent.csv", *FIT, "-o", tmp_path / "m.pnca")
    assert (code, err) == (1, f"pnca: There is no table {tmp_path / 'absent.csv'}.\n")


def test_fit__a_wrong_command_line_is_status_two(run, small_tables):
    assert run("fit", small_tables / "train.csv", "--target", "y")[0] == 2
    assert run("fit", small_tables / "train.csv", *FIT, "-o", "m.pnca", "--seed", "-1")[0] == 2


def test_fit__ctrl_c_writes_nothing(run, small_tables, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    monkeypatch.setattr("pnca.workflows.fit_table", interrupted)
    code, _, err = run("fit", small_tables / "train.csv", *FIT, "-o", tmp_path / "m.pnca")
    assert (code, err) == (130, "pnca: stopped; nothing was written.\n")
    assert not list(tmp_path.iterdir())


def test_fit__warnings_of_columns_are_said_once(run, small_tables, tmp_path, monkeypatch):
    monkeypatch.setattr(fit_module, "write_model", lambda *_, **__: None)
    code, _, err = run("fit", small_tables / "train.csv", *FIT, "-o", tmp_path / "m.pnca")
    assert code == 0
    # The identifier was not named as one.
    assert err == (
        "pnca: Not used: 'sample', in which no value occurs twice; if it names the rows, leave it out "
        "(--ignore), or pass it to fit as ids= (--id).\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_predict__stopped_between_parts_leaves_nothing(
    run, model_file, small_tables, tmp_path, monkeypatch, number
):
    rows = (small_tables / "new.csv").read_text().splitlines()
    (tmp_path / "many.csv").write_text("\n".join([rows[0], *rows[1:] * 10]))
    monkeypatch.setattr(predicting, "_ROWS", 50)
    frame = predicting.Answers.frame

    def then_stop(self, *arguments):
        said = frame(self, *arguments)
        if self.n >= 100:
            assert list(tmp_path.glob(".p.csv.*.tmp"))  # it is being written, elsewhere
            os.kill(os.getpid(), number)
        return said

    monkeypatch.setattr(predicting.Answers, "frame", then_stop)
    code, _, err = run("predict", model_file, tmp_path / "many.csv", "-o", tmp_path / "p.csv")
    assert (code, err) == (128 + number, "pnca: stopped; nothing was written.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]


def test_predict__killed_in_the_middle_leaves_nothing_at_the_output(
    environment, model_file, small_tables, tmp_path
):
    rows = (small_tables / "new.csv").read_text().splitlines()
    (tmp_path / "many.csv").write_text("\n".join([rows[0], *rows[1:] * 100_000]))
    out = tmp_path / "p.csv"
    out.write_text("mine")
    command = [sys.executable, "-m", "pnca", "predict", model_file, "many.csv", "-o", "p.csv", "--force"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in tmp_path.glob(".p.csv.*.tmp")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert out.read_text() == "mine"


def test_predict__a_full_disk_is_one_sentence_and_leaves_nothing(run, model_file, small_tables, tmp_path):
    rows = (small_tables / "new.csv").read_text().splitlines()
    (tmp_path / "many.csv").write_text("\n".join([rows[0], *rows[1:] * 20]))
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name in ("p.csv", "p.parquet"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, former[1]))
        try:
            code, _, err = run("predict", model_file, tmp_path / "many.csv", "-o", tmp_path / name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, former)
        assert code == 1
        assert f"{name} cannot be written (File too large): make room" in err
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]


def test_predict__a_folder_that_is_read_only(run, model_file, small_tables, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    code, _, err = run("predict", model_file, small_tables / "new.csv", "-o", tmp_path / "p.csv")
    assert code == 1
    assert "the folder is read-only" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--max-error", "2"), "max_error"),
        (("--coverage", "0"), "coverage"),
        (("--examples", "61"), "60 training examples"),
        (("--id", "nobody"), "no column 'nobody' (--id)"),
        (("--sheet", "one"), "no Excel file"),
    ],
)
def test_predict__settings_that_cannot_be_met(run, model_file, small_tables, tmp_path, arguments, reason):
    code, _, err = run("predict", model_file, small_tables / "new.csv", "-o", tmp_path / "p.csv", *arguments)
    assert code == 1
    assert reason in err
    assert not list(tmp_path.iterdir())


def test_predict__bad_models(run, small_tables, tmp_path):
    (tmp_path / "m.pnca").write_bytes(b"nothing of the kind")
    for model in (tmp_path / "m.pnca", tmp_path / "absent.pnca"):
        code, _, err = run("predict", model, small_tables / "new.csv", "-o", tmp_path / "p.csv")
        assert code == 1
        assert str(model) in err
