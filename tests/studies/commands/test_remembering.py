"""A run that is resumed is the run that was begun, whatever is typed."""

import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.files import own_folder
from pnca.interfaces import cli
from pnca_studies.experiments import mnist
from pnca_studies.experiments.mnist import MnistData
from pnca_studies.experiments.store import RunFolder
from robustness.mutators import forge_cell, forge_run

STUDY = ("reproduce", "mnist")
BEGUN = ["--quick", "--train-sizes", "20", "--models", "DNN,NCA", "--trials", "1", "--jobs", "1"]


def call(*arguments, folder):
    environment = {"PNCA_DATA_DIR": "", "PNCA_CACHE_DIR": str(folder / "cache"), "COLUMNS": "1000"}
    return CliRunner(env=environment).invoke(cli.make_app(), [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    """Images of nine random pixels in place of MNIST."""
    rng = np.random.RandomState(0)
    tests = {name: (rng.rand(12, 9).astype(np.float32), np.arange(12) % 10) for name in ("test", "rotated")}
    data = MnistData(
        images=rng.randint(256, size=(40, 9)).astype(np.uint8),
        labels=np.arange(40) % 10,
        tests={**tests, "notmnist": (tests["test"][0], None)},
    )
    monkeypatch.setattr(mnist, "_load", lambda *arguments, **options: data)


@pytest.fixture
def out(tmp_path):
    """A run whose first fit is to be done again."""
    said = call(*STUDY, *BEGUN, "--out", tmp_path / "a run", folder=tmp_path)
    assert said.exit_code == 0, said.output
    sorted((tmp_path / "a run" / "cells").iterdir())[0].unlink()
    return tmp_path / "a run"


def continuing(said):
    """The command that the output says to continue with, as words after the first."""
    (line,) = [line for line in said.output.splitlines() if line.startswith("  pnca ")]
    return shlex.split(line)[1:]


def test_resume__takes_the_options_that_the_run_had(out, tmp_path):
    before = RunFolder.open(out).read_run()
    said = call(*STUDY, "--out", out, "--resume", folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert "2 fits, 1 at a time" in said.output
    assert "2/2" in said.output
    run = RunFolder.open(out).read_run()
    assert (run["cells"], run["command"]) == (before["cells"], before["command"])
    assert RunFolder.open(out).finished() == list(run["cells"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--trials", 2], r"--trials \(1 then\)"),
        (["--models", "NCA"], r"--models \('DNN,NCA' then\)"),
        (["--train-sizes", "50"], r"--train-sizes \('20' then\)"),
        (["--models", "NCA", "--trials", 3], r"--models \('DNN,NCA' then\)|--trials \(1 then\)"),
    ],
)
def test_resume__with_other_options_is_refused_by_name_and_changes_nothing(out, tmp_path, options, named):
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    said = call(*STUDY, *options, "--out", out, "--resume", folder=tmp_path)
    assert isinstance(said.exception, InvalidInputError)
    with pytest.raises(InvalidInputError, match=f"other options: .*({named}).*Leave them out"):
        raise said.exception
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_resume__with_the_same_options_in_other_words_or_of_this_session_goes_on(out, tmp_path):
    options = ["--models", "DNN, NCA", "--trials", 1, "--engine", "local", "--jobs", 1]
    said = call(*STUDY, *options, "--out", out, "--resume", folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert RunFolder.open(out).read_run()["command"]["--engine"] == "local"


def test_resume__of_a_run_of_another_study_is_refused(out, tmp_path):
    said = call("reproduce", "covid", "--out", out, "--resume", folder=tmp_path)
    assert "a run of mnist, not of covid" in str(said.exception)


def test_resume__without_a_run_is_refused_and_makes_nothing(tmp_path):
    said = call(*STUDY, "--out", tmp_path / "new", "--resume", folder=tmp_path)
    assert isinstance(said.exception, MissingDataError)
    assert "holds no run to continue" in str(said.exception)
    assert list(tmp_path.iterdir()) == []


def test_resume__of_a_run_of_version_0_1_takes_the_options_that_it_had(out, tmp_path):
    def age(run):
        del run["command"], run["models"]
        run["cells"] = list(run["cells"])

    forge_run(out / "run.json", age, with_digest=False)
    for path in (out / "cells").iterdir():
        forge_cell(path, lambda record, arrays: None, with_digests=False)
    assert "--trials (1 then)" in str(
        call(*STUDY, "--trials", 2, "--out", out, "--resume", folder=tmp_path).exception
    )
    said = call(*STUDY, "--jobs", 1, "--out", out, "--resume", folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert "2/2" in said.output


def test_resume__after_the_damaged_run_file_was_deleted_as_told(out, tmp_path):
    (out / "run.json").write_text("{")
    said = call(*STUDY, *BEGUN, "--out", out, "--resume", folder=tmp_path)
    assert "delete it" in str(said.exception)
    (out / "run.json").unlink()
    said = call(*STUDY, *BEGUN, "--out", out, "--resume", folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert "1/2" not in said.output  # one fit was found again


def test_resume__a_damaged_result_is_named_and_computed_again(out, tmp_path):
    path = next((out / "cells").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    said = call(*STUDY, "--out", out, "--resume", folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert f"Computed again: {path} is not a complete npz file" in said.output
    assert len(RunFolder.open(out).finished()) == 2


def test_folder_in_use__is_refused_at_once(out, tmp_path):
    for options in (["--resume"], BEGUN):
        with own_folder(out):
            said = call(*STUDY, *options, "--out", out, folder=tmp_path)
        assert "in use by another process" in str(said.exception)


def test_report__says_what_is_missing_and_how_to_continue(out, tmp_path):
    said = call("report", out, folder=tmp_path)
    assert f"{out}: 1 of 2 fits are missing." in said.output
    done = call(*continuing(said), folder=tmp_path)
    assert done.exit_code == 0, done.output
    assert "are missing" not in call("report", out, folder=tmp_path).output


def test_report__names_the_damaged_results_that_it_leaves_out(out, tmp_path):
    path = next((out / "cells").iterdir())
    forge_cell(path, lambda record, arrays: record["measures"].pop("notmnist"))
    said = call("report", out, folder=tmp_path)
    assert f"Left out: {path} is not a complete result" in said.output
    assert "2 of 2 fits are missing" in said.output


def test_command__of_the_environment_is_remembered_and_paths_are_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = {"PNCA_DATA_DIR": "data", "PNCA_CACHE_DIR": "cache"}
    said = CliRunner(env=environment).invoke(cli.make_app(), [*STUDY, *BEGUN, "--out", "run"])
    assert said.exit_code == 0, said.output
    assert json.loads((tmp_path / "run" / "run.json").read_text())["command"] == {
        **{"--data-dir": str(tmp_path / "data"), "--train-sizes": "20", "--quick": True},
        **{"--models": "DNN,NCA", "--trials": 1, "--jobs": 1},
    }
