"""``pnca compare``: what it prints and writes, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pnca


def test_compare__through_the_console_script(small_tables, tmp_path):
    script = Path(sys.executable).with_name("pnca")
    if not script.exists():
        pytest.skip("pnca is not installed beside this Python")
    report = tmp_path / "c.html"
    command = [str(script), "compare", "train.csv", "--target", "y", "--ignore", "sample"]
    command += ["--folds", "2", "--repeats", "1", "--json", "--report", str(report)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(pnca.__file__).parents[1])}
    done = subprocess.run(
        command, cwd=small_tables, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [model["name"] for model in found["models"]][:2] == ["pnca (default)", "logistic regression"]
    assert len(found["models"]) == 6
    assert found["failed"] == {}
    assert found["verdict"]
    text = report.read_text(encoding="utf-8")
    assert found["verdict"][0].replace(" %", "\u00a0%") in text.replace("&gt;", ">")
    assert "train.csv" in text


@pytest.fixture
def fast(monkeypatch):
    """A comparison that fits nothing but the class shares."""
    from pnca.workflows import baselines, comparing

    def fits(examples, labels, groups, n_classes, codes):
        import numpy as np

        shares = np.bincount(labels) / len(labels)
        return {
            name: lambda shown, held_out, seed: np.tile(shares, (len(held_out), 1))
            for name in (comparing.DEFAULT, "logistic regression", "class shares")
        }

    monkeypatch.setattr(comparing, "_fits", fits)
    return baselines


def test_compare__prints_a_table_and_a_verdict(run, small_tables, fast):
    code, out, _ = run("compare", small_tables / "train.csv", "--target", "y")
    assert code == 0
    assert "logistic regression" in out
    assert "Nothing beats the class shares" in out
    assert "60 examples; 5 folds, dealt 2 times" in out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty (0 bytes)"),
        ("a,y\n", "a header and no rows"),
        ("a,z\n1,u\n", "no column 'y' (--target)"),
        ("a,y\n1,u\n2,u\n", "a fit needs two classes"),
        ("a,y\n1,u\n2,v\n", "There are 2 examples, and 5 folds need 10"),
        ("a,y\n1,u\n2,\n", "no 'y' in row 2"),
    ],
)
def test_compare__bad_tables_are_one_sentence(run, tmp_path, content, reason):
    (tmp_path / "t.csv").write_text(content)
    code, out, err = run("compare", tmp_path / "t.csv", "--target", "y", "--report", tmp_path / "c.html")
    assert (code, out) == (1, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_compare__a_folder_and_an_existing_report_are_refused(run, small_tables, tmp_path, fast):
    code, _, err = run("compare", tmp_path, "--target", "y")
    assert code == 1
    assert "compared on a table" in err
    (tmp_path / "c.html").write_text("mine")
    arguments = ("compare", small_tables / "train.csv", "--target", "y", "--report", tmp_path / "c.html")
    assert run(*arguments)[0] == 1
    assert (tmp_path / "c.html").read_text() == "mine"
    assert run(*arguments, "--force")[0] == 0
    assert "Nothing beats" in (tmp_path / "c.html").read_text(encoding="utf-8")
    assert run("compare", small_tables / "train.csv")[0] == 2


@pytest.mark.parametrize("command", ["compare", "evaluate"])
def test_help__has_an_example_and_the_exit_status(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: pnca {command} " in out
    assert "Exit status: 0" in out
