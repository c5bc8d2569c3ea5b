"""The documents of cells whose numbers are dictated: what they say follows from the numbers."""

import re
from dataclasses import replace

import pytest

from benchmark_cells import row_of, section, tables, write_cells
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.benchmark import plan
from pnca_studies.experiments.benchmark.catalogue import DATA_SETS
from pnca_studies.experiments.benchmark.models import CLASSIFIERS, PLANNED, PNCA
from pnca_studies.reports.benchmark import document as document_module
from pnca_studies.reports.benchmark import write_benchmark
from pnca_studies.reports.benchmark.measures import NLL
from pnca_studies.reports.benchmark.results import Results

#: Enough for every sentence: a few models, on all data sets.
FEW = (
    PNCA,
    "class shares",
    "logistic regression, gate by PCA residual",
    "CatBoost",
    "logistic regression",
    "k-NN",
    "PNCA (paper)",
    "PCA residual",
    "nearest distance",
)
N_DRAWS = 5


@pytest.fixture(scope="module", autouse=True)
def few_models():
    """The plan of a benchmark of few models, so that it is complete without the others."""
    patch = pytest.MonkeyPatch()
    patch.setattr(document_module, "plan", lambda n, models: plan(n, models=[*FEW, *models[len(PLANNED) :]]))
    yield
    patch.undo()


def written(folder, change=lambda cell, name: {}, keep=lambda cell: True, n_draws=N_DRAWS, **others):
    """Pages by name, the first screen as ``""``."""
    cells = [cell for cell in plan(n_draws, models=FEW) if keep(cell)]
    path = write_cells(folder / "cells" / "all.jsonl", cells, change, **others)
    document = write_benchmark([path], folder / "benchmark.md", n_draws=N_DRAWS)
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (folder / "benchmark").glob("*.md")}
    return {"": document.read_text(encoding="utf-8"), **pages}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, written(folder)


def of_group(*groups):
    return lambda cell: DATA_SETS[cell.data].group in groups


# The first screen


def test_first_screen__says_when_to_use_it_when_not_and_what_it_costs(whole):
    _, pages = whole
    assert not any(page.split("\n")[2].startswith("**") and "missing" in page for page in pages.values())
    use, do_not, cost = re.findall(r"^\*\*(?:Use|Do not|It costs).*$", pages[""], re.MULTILINE)
    assert use.startswith("**Use it** for small tables and where inputs may be foreign: on 15 tables")
    assert "mean rank in NLL among 7 classifiers is 1.0 with 100 rows and 1.0 with half of the rows" in use
    assert "sure and wrong about 0.1 % (logistic regression, gate by PCA residual 20 %)" in use
    assert "no rival is better in NLL, accuracy or AUROC by more than luck" in do_not
    assert "No rival is ahead in NLL in any of 30 cases" in do_not
    assert cost.startswith("**It costs** 1.00 s for 100 rows and 1.00 s for half of the rows, of one core")
    assert "CatBoost takes .10 s and .10 s" in cost


def test_first_screen__has_the_default_and_five_rivals(whole):
    _, pages = whole
    (first, *_) = tables(pages[""])
    assert len(first) == 6
    assert row_of(first, PNCA)["NLL, 100 rows"] == ".320"  # .3 and a wobble of .02
    assert "class shares" not in [row["model"] for row in first]
    assert "**" not in "".join(cell for row in first[1:] for cell in row.values())


def test_first_screen__losses_are_marked_and_said(tmp_path):
    """CatBoost is better in accuracy on all tables: that is no luck. k-NN has less NLL on average alone."""

    def change(cell, name):
        if cell.model == "CatBoost" and name == "test":
            return {"accuracy": 0.95}
        if cell.model == "k-NN" and name == "test" and cell.data == "car":
            return {"nll": -9.0}
        return {}

    pages = written(tmp_path, change, of_group("final tables"))
    (first, *_) = tables(pages[""])
    assert row_of(first, "CatBoost")["accuracy, 100 rows"] == "**.950**‡"
    assert row_of(first, "k-NN")["NLL, half of the rows"].startswith("**")
    assert not row_of(first, "k-NN")["NLL, half of the rows"].endswith("‡")
    (do_not,) = re.findall(r"^\*\*Do not.*$", pages[""], re.MULTILINE)
    assert "where in accuracy with 100 rows CatBoost is better, not by luck" in do_not
    assert "ahead in NLL in 2 of 30 cases, most on car" in do_not
    assert "(k-NN)" in do_not


def test_first_screen__a_default_that_is_never_ahead_is_not_recommended(tmp_path):
    def change(cell, name):
        return {"nll": 2.0} if (cell.model, name) == (PNCA, "test") else {}

    pages = written(tmp_path, change, of_group("final tables"))
    assert "**Use it** for neither likelihood nor caution, by these cells" in pages[""]


def test_figures__are_drawn_and_the_same_again(whole, tmp_path):
    folder, _ = whole
    figures = sorted((folder / "benchmark").glob("*.svg"))
    assert [figure.name for figure in figures][-1] == "risk_coverage.svg"
    assert len(figures) == 5
    written(tmp_path)
    for figure in figures:
        assert (tmp_path / "benchmark" / figure.name).read_bytes() == figure.read_bytes()


def test_pages__link_only_to_what_is_there(whole):
    folder, pages = whole
    for name, text in pages.items():
        base = folder / "benchmark" if name else folder
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            assert (base / link).exists(), (name, link)
        assert "nan" not in text.replace("nan-", ""), name
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert len(headings) == len(set(headings)), name


def test_first_screen__with_one_size_alone_is_about_that_size(tmp_path):
    def keep(cell):
        return DATA_SETS[cell.data].group == "final tables" and cell.size == "100"

    text = written(tmp_path, keep=keep)[""]
    assert "is 1.0 with 100 rows; the best rival's is 2.0" in text
    (first, *_) = tables(text)
    assert list(first[0]) == [
        "model",
        "NLL, 100 rows",
        "accuracy, 100 rows",
        "AUROC, 100 rows",
        *list(first[0])[4:],
    ]
    assert "half" not in " ".join(first[0])


# Missing cells


def test_missing__every_document_says_so_first_with_the_count(tmp_path):
    pages = written(tmp_path, keep=lambda cell: cell.model != "CatBoost" or cell.draw < 4)
    n_missing, n = sum(c.model == "CatBoost" for c in plan(1, models=FEW)), len(plan(N_DRAWS, models=FEW))
    for name, text in pages.items():
        first = text.split("\n")[2]
        assert first.startswith(f"**{n_missing} of {n:,} planned cells are missing** (of CatBoost)."), name


def test_missing__an_incomplete_model_is_not_ranked(tmp_path):
    pages = written(
        tmp_path, keep=lambda cell: cell.model != "CatBoost" or (cell.data, cell.draw) != ("car", 4)
    )
    text = section(pages["tables"], "## Final tables, 100 rows")
    assert "Not complete, and left out: CatBoost" in text
    assert "CatBoost" not in [row["model"] for row in tables(text)[0]]
    tuning = section(pages["tables"], "## Tuning tables, 100 rows")
    assert "CatBoost" in [row["model"] for row in tables(tuning)[0]]


def test_missing__of_nearly_everything_the_first_screen_decides_nothing(tmp_path):
    pages = written(tmp_path, keep=lambda cell: cell.data == "iris" and cell.draw == 0)
    assert "Too few cells are there" in pages[""]
    assert "there is nothing to rank" in pages["tables"]


def test_missing__without_the_default_there_is_no_document(tmp_path):
    with pytest.raises(InvalidInputError, match="No cell of PNCA"):
        written(tmp_path, keep=lambda cell: cell.model == "k-NN" and cell.data == "iris")
    with pytest.raises(InvalidInputError, match=r"must end in \.md"):
        write_benchmark([tmp_path], tmp_path / "a.html")


def test_code__of_two_versions_is_told(tmp_path):
    cells = plan(1, data_sets=["iris"], models=FEW)
    paths = [
        write_cells(tmp_path / f"{code}.jsonl", [replace(cell, draw=draw) for cell in cells], code=code)
        for draw, code in enumerate(("abc", "def"))
    ]
    write_benchmark(paths, tmp_path / "b.md")
    text = (tmp_path / "b" / "appendix.md").read_text(encoding="utf-8")
    assert "PNCA was measured with 2 versions of it** (`abc` and `def`)" in text


# Pages


def test_tables_page__ranks_tests_and_every_table(whole):
    _, pages = whole
    text = section(pages["tables"], "## Final tables, 100 rows")
    ranks, tests, every = tables(text)
    assert ranks[0]["model"] == "**PNCA**"
    assert ranks[0]["NLL (rank)"] == ".320 (1.00)"
    assert row_of(tests, "CatBoost")["NLL: better / worse, p"].startswith("15 / 0, ")
    assert len(every) == 15
    assert every[0]["best rival there"].endswith("(logistic regression, gate by PCA residual)")
    assert every[0]["difference (95 %)"].count("to") == 1


def test_intervals__there_is_none_of_fewer_than_five_draws(tmp_path):
    cells = plan(4, data_sets=["iris"], models=FEW)
    results = Results([], cells)
    assert results.difference(("iris", "50"), "k-NN", NLL) is None
    pages = written(tmp_path, keep=lambda cell: cell.data == "iris", n_draws=4)
    (table,) = tables(section(pages["tables"], "## iris, n = 50"))
    assert "to" not in row_of(table, "CatBoost")["PNCA less it: NLL"]


def test_foreign_pages__sort_by_sure_mistakes_with_the_scores_last(whole):
    _, pages = whole
    (unseen, *_) = tables(pages["unseen"])
    assert unseen[0]["model"] == "**PNCA**"
    assert [row["model"] for row in unseen][-2:] == ["nearest distance", "PCA residual"]
    assert row_of(unseen, PNCA)["OoD AUROC"] == ".997"
    assert row_of(unseen, "CatBoost")["OoD AUROC"] == ".800"
    assert "## Unit error: final tables, half of the rows" in pages["foreign"]
    assert "### MNIST, n = 100: letters" in pages["images"]
    assert "### COVID: bones" in pages["features"]


def test_time_page__is_of_one_machine_and_marks_the_gpu(tmp_path):
    pages = written(
        tmp_path,
        keep=lambda cell: cell.size == "50",
        device="cuda",
        seconds={"GPU fit": 2.0, "GPU predict": 0.1},
    )
    (table,) = tables(pages["time"])
    assert table[0]["fit"] == "2.00"
    assert all(row["model"].endswith("(GPU)") for row in table)
    assert "abacus, 2 cores." in pages["time"]


def test_appendix__has_commands_machines_targets_and_every_size(whole):
    _, pages = whole
    text = pages["appendix"]
    assert "pnca benchmark --data-dir DATA --trials 5 --out CELLS" in text
    assert "abacus, 2 cores; python 3" in text
    assert "## car, half of the rows" in text
    targets = section(text, "## Targets")
    (final, *_) = tables(targets)
    assert {row["verdict"] for row in final} <= {"met", "**not met**"}
    assert final[0]["target"] == "Best mean rank in NLL"
    assert final[0]["verdict"] == "met"


def test_targets__a_table_where_the_shares_are_better_is_named(tmp_path):
    def change(cell, name):
        is_it = (cell.model, cell.data, name) == (PNCA, "car", "test")
        return {"nll": 0.7} if is_it else {}

    pages = written(tmp_path, change, of_group("final tables"))
    (final,) = tables(section(pages["appendix"], "### final tables: targets"))
    worst = [row for row in final if row["best other"] == "on car"]
    assert [row["verdict"] for row in worst] == ["**not met**", "**not met**"]
    assert float(worst[0]["PNCA"]) > 1


def test_optional__models_that_ran_are_ranked(tmp_path):
    cells = plan(N_DRAWS, data_sets=["final tables"], sizes=["100"], models=[*FEW, "TabPFN"])
    path = write_cells(tmp_path / "a.jsonl", cells)
    write_benchmark([path], tmp_path / "b.md")
    text = (tmp_path / "b" / "tables.md").read_text(encoding="utf-8")
    assert "TabPFN" in [row["model"] for row in tables(section(text, "## Final tables, 100 rows"))[0]]


def test_optional__models_that_could_not_run_are_named(whole):
    _, pages = whole
    said = " ".join(pages[""].split())
    assert "or weights: frozen network + logistic regression, TabPFN and TabICL." in said
    assert all(model in said for model in CLASSIFIERS)
    assert set(FEW) < set(PLANNED)
