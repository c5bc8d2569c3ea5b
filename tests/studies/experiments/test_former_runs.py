"""Runs that version 0.1 wrote are read as they were: same files, same names of cells, same tables.

``former/`` holds one: DNN and PNCA on random pixels named like MNIST.
"""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import pnca_studies.experiments.study as study_module
from pnca.interfaces import cli
from pnca_studies.experiments.answers import measure
from pnca_studies.experiments.store import RunFolder
from pnca_studies.experiments.study import Options, Study

FORMER = Path(__file__).parent / "former"


@pytest.fixture
def former(tmp_path):
    return RunFolder.open(shutil.copytree(FORMER / "mnist", tmp_path / "mnist"))


def test_tables__are_written_as_they_were(former):
    tables = [former.path / name for name in ("results.jsonl", "timings.jsonl")]
    before = [path.read_bytes() for path in tables]
    for path in tables:
        path.unlink()
    former.write_tables()
    assert [path.read_bytes() for path in tables] == before


def test_cells__measures_follow_from_the_stored_predictions():
    results = list(RunFolder.open(FORMER / "mnist").results())
    assert len(results) == 4
    for result in results:
        assert list(result.answers) == ["test", "rotated", "notmnist", "angle 0"]
        assert (result.answers["test"].evidence is not None) == (result.columns["model"] == "PNCA (paper)")
        for name, measures in measure(result.answers, "test").items():
            stored = result.measures[name]
            assert measures.keys() == stored.keys()
            for key, value in measures.items():
                assert value == (stored[key] and pytest.approx(stored[key], rel=1e-9))


def test_stems__are_the_hashes_of_the_same_content(former, monkeypatch):
    """A cell of the same settings, data and versions is found again, so that --resume computes nothing."""
    run = former.read_run()
    monkeypatch.setattr(study_module, "versions", lambda: run["versions"])
    study = Study(
        name=run["study"],
        cells=[],
        data=None,
        work=None,
        options=Options(),
        protocol=run["protocol"],
        seeds=run["seeds"],
        headline=[],
        test_sets=lambda cell: {},
    )
    for stem, result in zip(run["cells"], former.results(), strict=True):
        model = run["models"][result.columns["model"]]
        settings = result.details["settings"]
        cell = SimpleNamespace(
            columns=lambda result=result: result.columns,
            settings=lambda settings=settings: settings,
            model=SimpleNamespace(estimator=model["estimator"]),
        )
        assert study.stem(cell) == stem
        assert former.find(stem) is not None


def test_fingerprint__of_arrays_is_the_former_one():
    """The test sets of the stored run, drawn again in the order in which they were drawn."""
    rng = np.random.RandomState(0)
    images = rng.randint(256, size=(40, 9)).astype(np.uint8)
    labels = np.arange(20) % 10
    sets = {
        name: (rng.rand(n, 9).astype(np.float32), y)
        for name, n, y in (
            ("test", 20, labels),
            ("rotated", 20, labels),
            ("notmnist", 12, None),
            ("angle 0", 20, labels),
        )
    }
    protocol = json.loads((FORMER / "mnist" / "run.json").read_text())["protocol"]
    assert study_module.fingerprint(images, np.arange(40) % 10) == protocol["training_images"]
    for name, (x, y) in sets.items():
        assert study_module.fingerprint(x, y) == protocol["test_sets"][name]["fingerprint"]


def test_report__is_written_from_a_former_run(tmp_path):
    folder = shutil.copytree(FORMER / "mnist", tmp_path / "mnist")
    said = CliRunner().invoke(cli.make_app(), ["report", str(folder)])
    assert said.exit_code == 0, said.output
    assert "PNCA (paper)" in (folder / "report.md").read_text(encoding="utf-8")
