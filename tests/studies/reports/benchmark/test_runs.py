"""Folders add up; each says how it was made."""

import re

import pytest

from benchmark_runs import FEW, SMALL, at, cells, row_of, run, section, tables
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.benchmark import benchmark_study
from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.contenders import PAPER, RIVALS
from pnca_studies.experiments.store import versions
from pnca_studies.experiments.study import Options, _describe
from pnca_studies.reports.benchmark import runs, write_benchmark


def test_folders__add_up_and_the_later_one_wins(tmp_path):
    first = run(tmp_path / "first", cells(at(None, None, "k-NN", "test", nll=0.7), SMALL, ["PNCA", "k-NN"]))
    second = run(
        tmp_path / "second", cells(at(None, None, "k-NN", "test", nll=0.6), SMALL[:1], ["k-NN", "SNGP"])
    )
    both = write_benchmark([first, second], tmp_path / "both.md").read_text(encoding="utf-8")
    (wine,), (iris,) = (tables(section(both, f"### {data}")) for data in ("wine", "iris"))
    assert row_of(wine, "k-NN")["NLL"] == ".600 ± .000"
    assert row_of(iris, "k-NN")["NLL"] == ".700 ± .000"
    assert {row["model"] for row in wine} == {"**PNCA**", "k-NN", "SNGP"}
    turned = write_benchmark([second, first], tmp_path / "turned.md").read_text(encoding="utf-8")
    assert row_of(tables(section(turned, "### wine"))[0], "k-NN")["NLL"] == ".700 ± .000"
    assert re.findall(r"^pnca .*$", both, re.MULTILINE) == [
        "pnca benchmark --data-sets 'wine,iris' --out first",
        "pnca benchmark --data-sets 'wine' --out second",
        f"pnca report first second --out {(tmp_path / 'both.md').as_posix()}",
    ]


def test_folders__a_cell_is_replaced_as_a_whole(tmp_path):
    """The later folder has no scaled measures, so there are none."""
    (cell,) = cells(places=SMALL[:1], models=["k-NN"], draws=[0])
    cell.measures.pop("test, scaled")
    first = run(tmp_path / "first", cells(places=SMALL[:1], models=["PNCA", "k-NN"], draws=[0]))
    text = write_benchmark([first, run(tmp_path / "second", [cell])], tmp_path / "both.md").read_text("utf-8")
    (table,) = tables(section(text, "### wine"))
    assert row_of(table, "k-NN")["NLL"] == ".500"
    assert row_of(table, "k-NN")["NLL scaled"] == "-"


def test_folders__what_an_earlier_session_left_gives_way(tmp_path):
    """A folder continued with other settings lists the new cells first."""
    new = cells(places=SMALL[:1], models=["PNCA", "k-NN"])
    old = cells(at(None, None, "k-NN", "test", nll=5.0), SMALL[:1], ["k-NN"], range(3))
    text = write_benchmark([run(tmp_path / "run", [*new, *old])], tmp_path / "d.md").read_text("utf-8")
    (table,) = tables(section(text, "### wine"))
    assert row_of(table, "k-NN")["NLL"] == "2.000 ± 2.598"  # of .5, .5 and the 5 that is not there again


def test_folders__an_unfinished_run_says_so(tmp_path):
    given = cells(places=SMALL, models=FEW)
    text = write_benchmark([run(tmp_path / "run", given, finished=False)], tmp_path / "d.md").read_text(
        "utf-8"
    )
    assert f"- `run`: **{len(given)} of {len(given) + 1} fits**; abacus, 2 cores, beads;" in text


@pytest.mark.parametrize("models", [["k-NN"], []])
def test_document__without_pnca_is_refused(tmp_path, models):
    folder = run(tmp_path / "run", cells(places=SMALL, models=models))
    with pytest.raises(
        InvalidInputError, match=r"No fit of PNCA is finished in run.*name a run with PNCA too"
    ):
        write_benchmark([folder], tmp_path / "benchmark.md")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_document__another_study_is_refused(tmp_path):
    folders = [
        run(tmp_path / "ours", cells(places=SMALL, models=FEW)),
        run(tmp_path / "other", cells(places=SMALL, models=FEW), study="mnist"),
    ]
    with pytest.raises(
        InvalidInputError, match=r"other holds a run of mnist; .* folders of the benchmark alone"
    ):
        write_benchmark(folders, tmp_path / "benchmark.md")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_seconds__the_device_is_told_from_the_name_of_the_file(device):
    study, _ = benchmark_study(None, data_sets=("iris",), device=device)
    written = {"protocol": study.protocol, "versions": versions()}
    for cell in study.cells[:19]:
        result = CellResult(columns=cell.columns(), answers={}, measures={}, details={})
        uses_it = cell.model.name in ("PNCA", *PAPER, "Ensemble + dropout")
        assert runs._device(study.stem(cell), result, written) == (device if uses_it else "cpu")
    assert {cell.model.name for cell in study.cells[:19]} >= {"PNCA", *RIVALS}


def test_seconds__the_device_of_a_variant_is_told_from_the_name_of_the_file():
    options = Options(models=("PNCA", "cross"))
    study, _ = benchmark_study(None, options, data_sets=("iris",), device="cuda", choices=True)
    models = {cell.model.name: _describe(cell.model) for cell in study.cells}
    written = {"protocol": study.protocol, "versions": versions(), "models": models}
    for cell in study.cells[:2]:
        result = CellResult(columns=cell.columns(), answers={}, measures={}, details={})
        assert runs._device(study.stem(cell), result, written) == "cuda"


def test_has_fit__of_a_finished_cell_only(tmp_path):
    folder = run(tmp_path / "run", cells(places=SMALL, models=["k-NN"]), finished=False)
    assert runs.has_fit(folder, "k-NN")
    assert not runs.has_fit(folder)
