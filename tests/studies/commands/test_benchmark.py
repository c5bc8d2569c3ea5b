"""``pnca benchmark``, and ``pnca report`` on what it wrote."""

import json
import shutil
from dataclasses import asdict, replace

import pytest
from typer.testing import CliRunner

from benchmark_runs import cells, run
from pnca.exceptions import InvalidInputError
from pnca.interfaces import cli
from pnca_studies.experiments.benchmark import benchmark_study
from pnca_studies.experiments.cells import read_cell
from pnca_studies.experiments.store import RunFolder
from pnca_studies.experiments.study import Options

MODELS = "k-NN,nearest distance"


def call(*arguments, folder):
    """Run the command in this process, where no data are but those that come with scikit-learn."""
    environment = {"PNCA_DATA_DIR": "", "PNCA_CACHE_DIR": str(folder / "cache")}
    return CliRunner(env=environment).invoke(cli.make_app(), [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def without_pnca(tmp_path_factory):
    """A quick run of two models on two data sets, and what the command said."""
    folder = tmp_path_factory.mktemp("benchmark")
    out = folder / "run"
    options = ["--data-sets", "wine,iris", "--models", MODELS, "--jobs", 1, "--out", out]
    return out, call("benchmark", "--quick", *options, folder=folder)


def copy_as(source, target, model, study="benchmark"):
    """A run like another, whose k-NN goes by another name."""
    run = RunFolder.open(source).read_run()
    stems = [stem for stem in run["cells"] if "k-NN" in stem]
    folder = RunFolder.create(target, resume=False)
    folder.write_run({**run, "study": study, "cells": stems})
    for stem in stems:
        cell = read_cell(source / "cells" / f"{stem}.npz")
        folder.write(stem, replace(cell, columns={**cell.columns, "model": model}))
    return target


def test_benchmark__results_are_kept_whether_or_not_a_document_can_be_written(without_pnca):
    out, said = without_pnca
    assert "8 fits, 1 at a time" in said.output
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {(row["data"], row["model"], row["draw"]) for row in rows} == {
        (data, model, draw) for data in ("wine", "iris") for model in MODELS.split(",") for draw in (0, 1)
    }
    assert {row["test_set"] for row in rows} == {"test", "ood", "test, scaled", "ood, scaled"}
    assert not any("scaled" in row["test_set"] for row in rows if row["model"] == "nearest distance")
    # Two of three classes are left to tell apart, which is easy; guessing would have about .5.
    accuracy = [row["accuracy"] for row in rows if (row["model"], row["test_set"]) == ("k-NN", "test")]
    assert len(accuracy) == 4
    assert min(accuracy) > 0.8


def test_benchmark__without_pnca_there_is_no_document(without_pnca):
    out, said = without_pnca
    assert said.exit_code == 0
    assert "There is no document without a fit of PNCA" in said.output
    assert "Written" not in said.output
    assert not list(out.glob("*.md"))
    assert len(list((out / "cells").iterdir())) == 8


def test_benchmark__with_pnca_the_document_is_in_the_folder_or_where_it_is_asked_for(without_pnca, tmp_path):
    """A folder that has PNCA already is continued; nothing is left to fit."""
    out = shutil.copytree(without_pnca[0], tmp_path / "run")
    pnca = copy_as(out, tmp_path / "pnca", "PNCA")
    run = RunFolder.open(out).read_run()
    folder = RunFolder.open(out)
    for stem in RunFolder.open(pnca).finished():
        folder.write(f"PNCA-{stem}", read_cell(pnca / "cells" / f"{stem}.npz"))
        run["cells"][f"PNCA-{stem}"] = None
    folder.write_run(run)
    options = ["--data-sets", "wine,iris", "--models", MODELS, "--jobs", 1, "--out", out, "--resume"]
    assert call("benchmark", "--quick", *options, folder=tmp_path).exit_code == 0
    document = tmp_path / "benchmark.md"
    assert call("benchmark", "--quick", *options, "--document", document, folder=tmp_path).exit_code == 0
    for path in (out / "benchmark.md", document):
        assert "--data-sets 'wine,iris' --out run\n" in path.read_text(encoding="utf-8")


def test_report__of_several_runs_is_one_document(without_pnca, tmp_path):
    out, _ = without_pnca
    pnca = copy_as(out, tmp_path / "pnca", "PNCA")
    document = tmp_path / "docs" / "benchmark.md"
    said = call("report", out, pnca, "--out", document, folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert said.output == f"Written {document}.\n"
    text = document.read_text(encoding="utf-8")
    assert "### wine\n" in text
    # k-NN under another name is neither better nor worse than itself.
    assert "| accuracy | 0 | 2 | 0 |" in text
    assert "pnca report run pnca --out" in text


def test_report__without_a_name_puts_the_document_into_the_folder(without_pnca, tmp_path):
    pnca = copy_as(without_pnca[0], tmp_path / "pnca", "PNCA")
    said = call("report", pnca, folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert "## Targets" in (pnca / "benchmark.md").read_text(encoding="utf-8")
    assert (pnca / "results.jsonl").exists()


def test_report__the_benchmark_and_another_study_do_not_mix(without_pnca, tmp_path):
    pnca = copy_as(without_pnca[0], tmp_path / "pnca", "PNCA")
    other = copy_as(without_pnca[0], tmp_path / "other", "DNN", study="mnist")
    for folders in ([pnca, other], [other, pnca]):
        said = call("report", *folders, "--out", tmp_path / "both.md", folder=tmp_path)
        assert isinstance(said.exception, InvalidInputError)
        assert "other holds a run of mnist; the benchmark has a document of its own" in str(said.exception)
    assert not (tmp_path / "both.md").exists()


@pytest.fixture
def choices(tmp_path):
    """A run of the default and one variant on iris that has all of its cells, whose numbers are dictated."""
    study, _ = benchmark_study(
        None, Options(models=("PNCA", "cross"), quick=True), data_sets=("iris",), choices=True
    )
    folder = run(tmp_path / "choices", cells(places=[("iris", 50)], models=["PNCA"]), study="choices")
    stems = [study.stem(cell) for cell in study.cells]
    given = cells(places=[("iris", 50)], models=["PNCA", "cross"])
    for stem, cell, planned in zip(stems, given, study.cells, strict=True):
        assert cell.columns["model"] in stem
        lengths = study.test_sets(planned)
        measures = {name: {**values, "n": lengths[name]} for name, values in cell.measures.items()}
        folder.write(stem, replace(cell, measures=measures))
    described = {"options": asdict(study.options), "protocol": study.protocol, "cells": stems}
    folder.write_run({**folder.read_run(), **described})
    return folder.path


def test_benchmark__choices_have_a_document_of_their_own(choices, tmp_path):
    options = ["--data-sets", "iris", "--models", "PNCA,cross", "--jobs", 1, "--out", choices, "--resume"]
    said = call("benchmark", "--choices", "--quick", *options, folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert f"Written {choices / 'method.md'}." in said.output
    text = (choices / "method.md").read_text(encoding="utf-8")
    assert "pnca benchmark --choices --quick --models 'PNCA,cross' --data-sets 'iris' --out choices\n" in text
    assert "| **PNCA** | 2 | .895 |" in text
    assert not (choices / "benchmark.md").exists()


def test_report__of_choices_is_the_document_about_the_method(choices, tmp_path):
    document = tmp_path / "docs" / "method.md"
    said = call("report", choices, "--out", document, folder=tmp_path)
    assert (said.exit_code, said.output) == (0, f"Written {document}.\n")
    assert document.read_text(encoding="utf-8").startswith("# The method\n")
    said = call("report", choices, folder=tmp_path)
    assert (said.exit_code, said.output) == (0, f"Written {choices / 'method.md'}.\n")


@pytest.mark.parametrize("study", ["benchmark", "mnist"])
def test_report__choices_and_another_study_do_not_mix(choices, without_pnca, tmp_path, study):
    other = copy_as(without_pnca[0], tmp_path / "other", "PNCA", study=study)
    said = call("report", other, choices, "--out", tmp_path / "both.md", folder=tmp_path)
    assert isinstance(said.exception, InvalidInputError)
    assert "of its own" in str(said.exception) or "of their own" in str(said.exception)
    assert not (tmp_path / "both.md").exists()
