"""``pnca reproduce``: the same results on every engine, and after being killed and resumed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from pnca.exceptions import PncaError
from pnca.interfaces import cli


def command(data_dir, out, *options):
    arguments = [
        "reproduce",
        "mnist",
        "--quick",
        "--data-dir",
        str(data_dir),
        "--out",
        str(out),
        "--jobs",
        "2",
    ]
    return [sys.executable, "-m", "pnca.interfaces.cli", *arguments, *options]


def run(data_dir, out, *options):
    done = subprocess.run(command(data_dir, out, *options), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_same_results(first, second):
    assert (first / "results.jsonl").read_bytes() == (second / "results.jsonl").read_bytes()
    cells = sorted(path.name for path in (first / "cells").glob("*.npz"))
    assert cells == sorted(path.name for path in (second / "cells").glob("*.npz"))
    for name in cells:
        with np.load(first / "cells" / name) as a, np.load(second / "cells" / name) as b:
            assert a.files == b.files
            for key in set(a.files) - {"record", "digest"}:  # the record has the seconds it took
                np.testing.assert_array_equal(a[key], b[key], err_msg=f"{name} {key}")


@pytest.fixture(scope="module")
def local_run(data_dir, tmp_path_factory):
    """An uninterrupted quick run on two processes of this machine."""
    out = tmp_path_factory.mktemp("local") / "run"
    return out, run(data_dir, out)


def test_reproduce__quick_run_reports_what_it_wrote(local_run):
    out, printed = local_run
    assert "Table 1: Accuracy on MNIST" in printed
    for name in (
        "results.jsonl",
        "timings.jsonl",
        "run.json",
        "report.md",
        "table1_mnist.md",
        "table1_mnist.tex",
    ):
        assert (out / name).exists(), name
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    accuracy = {r["model"]: r["accuracy"] for r in rows if r["test_set"] == "test" and r["draw"] == 0}
    assert len(accuracy) == 7
    # The paper's accuracies at n = 100 are .67 to .76; 1,000 images of one draw are within .08 of them.
    assert all(0.59 < value < 0.84 for value in accuracy.values()), accuracy
    assert "| DNN |" in (out / "table1_mnist.md").read_text()
    assert json.loads((out / "run.json").read_text())["failed"] == {}


def test_reproduce__a_dask_cluster_of_two_workers_gives_the_same(local_run, data_dir, tmp_path):
    run(data_dir, tmp_path / "dask", "--engine", "dask")
    assert_same_results(local_run[0], tmp_path / "dask")


def test_reproduce__killed_and_resumed_is_as_if_uninterrupted(local_run, data_dir, tmp_path):
    out = tmp_path / "killed"
    process = subprocess.Popen(command(data_dir, out), stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 300
    while len(list((out / "cells").glob("*.npz"))) < 5:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*.npz")}
    assert 5 <= len(kept) < 14
    assert not (out / "results.jsonl").exists()

    refused = subprocess.run(command(data_dir, out), capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "--resume" in refused.stderr
    run(data_dir, out, "--resume")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # none was computed again
    assert_same_results(local_run[0], out)


def test_report__redraws_everything_from_the_files(local_run, tmp_path):
    out = local_run[0]
    before = {name: (out / name).read_bytes() for name in ("report.md", "table1_mnist.tex", "results.jsonl")}
    for path in [*(out / "figures").iterdir(), *(out / name for name in before)]:
        path.unlink()
    result = CliRunner().invoke(cli.make_app(), ["report", str(out)])
    assert result.exit_code == 0, result.output
    assert {name: (out / name).read_bytes() for name in before} == before
    assert {path.name for path in (out / "figures").iterdir()} == {
        "figure2.png",
        "figure4.png",
        "rotation.png",
    }
    document = tmp_path / "reproduction.md"
    assert CliRunner().invoke(cli.make_app(), ["report", str(out), "--out", str(document)]).exit_code == 0
    assert "## The claims" in document.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist", "--data-dir", "{empty}"], "MNIST is not on this machine"),
        (["covid", "--data-dir", "{empty}"], "covid_features_resnet50"),
        (["covid"], "--data-dir"),
        (["covid", "--data-dir", "{empty}", "--train-sizes", "100"], "leave --train-sizes out"),
        (["mnist", "--data-dir", "{empty}", "--models", "DNN,SVM"], "Unknown models ['SVM']"),
        (["mnist", "--train-sizes", "ten"], "whole numbers such as 100,200"),
        (["mnist", "--scheduler", "tcp://host:1"], "--engine dask"),
        (["ablation", "--backbone", "timm:resnet50"], "--backbone, --weights and --scale are for covid"),
        (["covid", "--data-dir", "{empty}", "--download"], "cannot be downloaded"),
    ],
)
def test_reproduce__what_cannot_be_done_is_said_before_anything_is_written(arguments, message, tmp_path):
    (empty := tmp_path / "empty").mkdir()
    arguments = [argument.format(empty=empty) for argument in arguments]
    environment = {"PNCA_CACHE_DIR": str(tmp_path / "cache"), "PNCA_DATA_DIR": ""}
    said = CliRunner(env=environment).invoke(
        cli.make_app(), ["reproduce", *arguments, "--out", str(tmp_path / "run")]
    )
    assert isinstance(said.exception, PncaError)
    assert message in str(said.exception)
    assert list(tmp_path.iterdir()) == [empty]
    assert not list(empty.iterdir())
