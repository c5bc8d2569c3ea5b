import re

import pytest

from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.run import provenance, write_report
from runs import PAPERS_CONDITION, Skill, covid_run, mnist_run

PNG = b"\x89PNG\r\n\x1a\n"


def _skills(columns, test_set):
    repetition = columns.get("draw", columns.get("trial"))
    return Skill(accuracy=0.5 + 0.1 * repetition, sure=0.25, sure_accuracy=0.6)


def _quick_mnist(path):
    """As ``pnca reproduce mnist --quick`` lays it out: 100 images, two draws, four angles."""
    return mnist_run(path, _skills, models=("DNN", "PNCA"), angles=(0, 60, 120, 180))


def _covid(path):
    conditions = [PAPERS_CONDITION, ("equalised", "any_covid", "grouped")]
    return covid_run(path, _skills, models=("DNN", "PNCA"), conditions=conditions)


def _ablation(path):
    return mnist_run(path, _skills, models=("PNCA (paper)", "exact + background .1"), study="ablation")


RUNS = {"mnist": _quick_mnist, "covid": _covid, "ablation": _ablation}


@pytest.fixture(scope="module", params=RUNS)
def report(request, tmp_path_factory):
    """A run's folder as it was before its report, and the report."""
    folder = RUNS[request.param](tmp_path_factory.mktemp(request.param) / "run")
    before = set(folder.path.rglob("*"))
    return folder, before, write_report(folder)


def _texts(path):
    return {file.name: file.read_bytes() for suffix in ("md", "tex") for file in path.glob(f"*.{suffix}")}


def test_report__lists_exactly_the_files_it_wrote(report):
    folder, before, written = report
    new = {path for path in set(folder.path.rglob("*")) - before if path.is_file()}
    assert len(written.files) == len(set(written.files))
    assert set(written.files) == new
    assert written.folder == folder.path
    assert folder.path / "report.md" in new


def test_report__pictures_are_png_and_in_their_folder(report):
    folder, _, written = report
    pictures = [path for path in written.files if path.suffix == ".png"]
    assert pictures
    for path in pictures:
        assert path.parent == folder.path / "figures"
        assert path.read_bytes().startswith(PNG)


def test_report__links_resolve_and_every_picture_is_linked(report):
    folder, _, written = report
    links = re.findall(r"\]\(([^)]*)\)", (folder.path / "report.md").read_text(encoding="utf-8"))
    assert [folder.path / link for link in links] == [p for p in written.files if p.suffix == ".png"]
    for link in links:
        assert (folder.path / link).is_file()


def test_report__holds_every_table_and_each_is_written_twice(report):
    folder, _, written = report
    page = (folder.path / "report.md").read_text(encoding="utf-8")
    tables = [table for section in written.sections for table in section.tables]
    assert tables
    for table in tables:
        assert f"{table.caption}\n\n{table.markdown()}" in page
    for suffix, form in (
        (".md", lambda t: f"{t.caption}\n\n{t.markdown()}\n"),
        (".tex", lambda t: t.latex()),
    ):
        files = [p for p in written.files if p.suffix == suffix and p.name != "report.md"]
        assert [path.read_text(encoding="utf-8") for path in files] == [form(table) for table in tables]


def test_report__says_once_how_the_numbers_were_made(report):
    folder, _, _ = report
    page = (folder.path / "report.md").read_text(encoding="utf-8")
    assert page.startswith(f"# Reproduction: {folder.read_run()['study']}\n")
    assert page.count("## How these numbers were made") == 1
    assert provenance(folder.read_run(), len(folder.finished())) in page


def test_report__does_not_touch_the_results(report):
    folder, before, _ = report
    assert before <= set(folder.path.rglob("*"))
    assert all(folder.find(stem) for stem in folder.read_run()["cells"])


def test_report__a_second_one_is_the_same(tmp_path):
    folder = _ablation(tmp_path / "run")
    first = write_report(folder)
    texts = _texts(folder.path)
    pictures = {path: path.read_bytes() for path in folder.path.rglob("*.png")}
    second = write_report(RunFolder.open(folder.path))
    assert second.files == first.files
    assert _texts(folder.path) == texts
    assert {path: path.read_bytes() for path in folder.path.rglob("*.png")} == pictures


def test_report__of_one_model_and_one_draw(tmp_path):
    folder = mnist_run(tmp_path / "run", _skills, models=("BNN",), draws=1)
    written = write_report(folder)
    assert [section.name for section in written.sections] == ["table1_mnist", "figure2", "figure4"]
    assert written.sections[0].tables[0].rows == [
        ["BNN", ".500", ".74 ± .02", "-.240", ".500", ".20 ± .04", "+.300"]
    ]


def test_report__of_no_finished_fit_still_says_how_it_was_made(tmp_path):
    folder = mnist_run(tmp_path / "run", _skills, finished=lambda columns: False)
    written = write_report(folder)
    assert written.files == [folder.path / "report.md"]
    assert "12 fits" in written.files[0].read_text(encoding="utf-8")


def _run(**changes):
    run = {
        "study": "mnist",
        "options": {"trials": None, "train_sizes": None, "models": None, "quick": False},
        "seeds": "draw s: seed s",
        "versions": {"python": "3.12", "numpy": "2.0"},
        "hardware": {"machine": "m", "processor": "abacus", "cores": 2, "system": "beads"},
        "engine": {"name": "dask", "jobs": 3, "scheduler": None},
        "cells": ["a", "b"],
        "failed": {},
        "sessions": [{"fits": 1, "seconds": 60.0}, {"fits": 1, "seconds": 30.0}],
    }
    return run | changes


def test_provenance__is_complete():
    assert provenance(_run(), 2).splitlines() == [
        "## How these numbers were made",
        "",
        "- `pnca reproduce mnist`: 2 fits, one thread each.",
        "- Seeds: draw s: seed s.",
        "- abacus, 2 cores, beads.",
        "- python 3.12, numpy 2.0.",
        "- 1.5 minutes, 3 at a time (dask engine).",
    ]


def test_provenance__names_the_options_of_the_command():
    options = {"trials": 2, "train_sizes": [50, 100], "models": ["DNN", "PNCA (paper)"], "quick": True}
    expected = "`pnca reproduce mnist --quick --trials 2 --train-sizes 50,100 --models 'DNN,PNCA (paper)'`"
    assert expected in provenance(_run(options=options), 2)


def test_provenance__a_part_is_not_passed_off_as_the_whole():
    assert "minutes" not in provenance(_run(sessions=[{"fits": 1, "seconds": 9.0}]), 1)
    assert "**1 of them are done.**" in provenance(_run(), 1)
    assert "minutes" not in provenance(_run(sessions=[]), 0)


def test_provenance__counts_failures():
    assert "**1 fits failed**" in provenance(_run(failed={"a": "ValueError"}), 1)
