"""``pnca report`` on runs of the paper's experiments; test_benchmark.py has those of the benchmark."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pnca.exceptions import MissingDataError
from pnca.interfaces import cli
from pnca_studies.commands.report import print_report
from pnca_studies.reports.run import write_report
from runs import Skill, mnist_run


@pytest.fixture
def folder(tmp_path):
    return mnist_run(tmp_path / "run", lambda columns, test_set: Skill(accuracy=0.75, sure=0.5))


def test_report__writes_tables_and_names_what_it_wrote(folder):
    said = CliRunner().invoke(cli.make_app(), ["report", str(folder.path)])
    assert said.exit_code == 0, said.output
    assert "Table 1" in said.output
    for name in ("report.md", "table1_mnist.md", "results.jsonl", "timings.jsonl"):
        assert (folder.path / name).exists(), name
    assert "  report.md\n" in said.output


def test_report__one_document_of_several_runs(folder, tmp_path):
    document = tmp_path / "docs" / "reproduction.md"
    said = CliRunner().invoke(cli.make_app(), ["report", str(folder.path), "--out", str(document)])
    assert (said.exit_code, said.output) == (0, f"Written {document}.\n")
    assert document.exists()
    assert not (folder.path / "report.md").exists()


def test_report__a_folder_without_a_run_is_an_error(tmp_path):
    said = CliRunner().invoke(cli.make_app(), ["report", str(tmp_path)])
    assert isinstance(said.exception, MissingDataError)
    assert "holds no run.json" in str(said.exception)


@pytest.mark.parametrize(("width", "is_table"), [(200, True), (30, False)])
def test_print_report__a_table_too_wide_for_the_terminal_is_printed_as_text(folder, width, is_table):
    console = Console(file=io.StringIO(), width=width)
    print_report(console, write_report(folder))
    said = console.file.getvalue()
    assert ("| DNN |" in said) != is_table
    assert ".75" in said
