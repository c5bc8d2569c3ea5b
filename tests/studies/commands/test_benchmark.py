"""``pnca benchmark``, and ``pnca report`` on what it wrote."""

import json

import pytest
from typer.testing import CliRunner

from benchmark_cells import write_cells
from pnca.exceptions import InvalidInputError
from pnca.files import own_folder
from pnca.interfaces import cli
from pnca_studies.experiments.benchmark import choices_plan, plan
from pnca_studies.experiments.benchmark.cells import Cell

FEW = ["--data-sets", "iris;wine", "--models", "k-NN;PCA residual", "--trials", 2, "--jobs", 1]


def call(*arguments, folder):
    """Run the command in this process, where no data are but those that come with scikit-learn."""
    environment = {"PNCA_DATA_DIR": "", "PNCA_CACHE_DIR": str(folder / "cache"), "COLUMNS": "1000"}
    return CliRunner(env=environment).invoke(cli.make_app(), [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def without_pnca(tmp_path_factory):
    """A run of two models on two data sets, and what the command said."""
    folder = tmp_path_factory.mktemp("benchmark")
    return folder / "run", call("benchmark", *FEW, "--out", folder / "run", folder=folder)


def test_benchmark__cells_are_kept_whether_or_not_a_document_can_be_written(without_pnca):
    out, said = without_pnca
    assert said.exit_code == 0, said.output
    assert "8 cells; lines go to" in said.output
    assert "There is no document without a cell of PNCA" in said.output
    assert "iris, n = 50" in said.output  # and a table
    assert "AUROC" in said.output
    assert not list(out.glob("*.md"))
    lines = [json.loads(line) for line in (out / "small_data_sets.jsonl").read_text().splitlines()]
    assert {(line["data"], line["model"], line["draw"]) for line in lines} == {
        (data, model, draw)
        for data in ("wine", "iris")
        for model in ("k-NN", "PCA residual")
        for draw in (0, 1)
    }


def test_benchmark__the_same_command_computes_nothing_again(without_pnca, tmp_path):
    out, _ = without_pnca
    before = (out / "small_data_sets.jsonl").read_bytes()
    said = call("benchmark", *FEW, "--out", out, folder=tmp_path)
    assert "8 of 8 cells are in" in said.output
    assert (out / "small_data_sets.jsonl").read_bytes() == before


def test_benchmark__a_folder_in_use_is_refused(without_pnca, tmp_path):
    out, _ = without_pnca
    with own_folder(out):
        said = call("benchmark", *FEW, "--out", out, folder=tmp_path)
    assert "in use by another process" in str(said.exception)


def test_benchmark__with_pnca_the_document_is_where_it_is_asked_for(tmp_path):
    write_cells(
        tmp_path / "run" / "small_data_sets.jsonl", plan(1, data_sets=["iris"], models=["PNCA", "k-NN"])
    )
    options = ["--data-sets", "iris", "--models", "k-NN", "--trials", 1, "--out", tmp_path / "run"]
    document = tmp_path / "docs" / "mine.md"
    said = call("benchmark", *options, "--document", document, folder=tmp_path)
    assert said.exit_code == 0, said.output
    assert f"Written {document}." in said.output
    assert (tmp_path / "docs" / "mine" / "tables.md").exists()
    said = call("benchmark", *options, "--document", tmp_path / "a.html", folder=tmp_path)
    assert "must end in .md" in str(said.exception)


def test_plan__lists_and_computes_nothing(tmp_path):
    said = call("benchmark", "--plan", "--trials", 1, "--out", tmp_path / "run", folder=tmp_path)
    assert "final tables (" in said.output
    assert "logistic regression, gate by PCA residual" in said.output
    assert not (tmp_path / "run").exists()
    said = call("benchmark", "--plan", "--models", "SVM", folder=tmp_path)
    assert "known are PNCA" in str(said.exception)


def test_benchmark__a_cell_that_fails_is_told_and_the_others_are_kept(tmp_path, monkeypatch):
    wrong = [Cell(data="iris", size=size, draw=0, model="class shares") for size in ("50", "none")]
    monkeypatch.setattr("pnca_studies.experiments.benchmark.plan", lambda *given, **options: wrong)
    said = call("benchmark", "--jobs", 1, "--out", tmp_path / "run", folder=tmp_path)
    assert said.exit_code == 1
    assert "Failed: benchmark iris none 0 class shares: ValueError" in said.output
    assert len((tmp_path / "run" / "small_data_sets.jsonl").read_text().splitlines()) == 1


def test_report__redraws_the_document_without_fitting(tmp_path):
    write_cells(tmp_path / "cells" / "a.jsonl", plan(2, data_sets=["iris"], models=["PNCA", "k-NN"]))
    said = call("report", tmp_path / "cells", folder=tmp_path)
    assert (said.exit_code, said.output) == (0, f"Written {tmp_path / 'cells' / 'benchmark.md'}.\n")
    first = (tmp_path / "cells" / "benchmark.md").read_text(encoding="utf-8")
    said = call("report", tmp_path / "cells", "--out", tmp_path / "b.md", "--trials", 2, folder=tmp_path)
    assert said.exit_code == 0, said.output
    second = (tmp_path / "b.md").read_text(encoding="utf-8")
    firsts = [text.splitlines()[2] for text in (first, second)]
    counts = [int(line.split(" of ")[0].strip("*").replace(",", "")) for line in firsts]
    assert counts[1] < counts[0]


def test_report__of_choices_is_the_document_about_the_method(tmp_path):
    write_cells(tmp_path / "choices" / "a.jsonl", choices_plan(1, data_sets=["iris"]))
    said = call("report", tmp_path / "choices", folder=tmp_path)
    assert (said.exit_code, said.output) == (0, f"Written {tmp_path / 'choices' / 'method.md'}.\n")
    write_cells(tmp_path / "cells" / "a.jsonl", plan(1, data_sets=["iris"], models=["PNCA"]))
    said = call("report", tmp_path / "choices", tmp_path / "cells", folder=tmp_path)
    assert isinstance(said.exception, InvalidInputError)
    assert "cells of benchmark and choices, which have documents of their own" in str(said.exception)
