"""Cells as lines of files, their plan, and a run that goes on where it was stopped."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from benchmark_cells import line, write_cells
from pnca.calibration import fit_temperature
from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies.experiments.benchmark import N_DRAWS, choices_plan, plan, run_benchmark, work
from pnca_studies.experiments.benchmark import cells as cells_module
from pnca_studies.experiments.benchmark.cells import Cell, CellFile, code_fingerprint, is_of_cells, read_lines
from pnca_studies.experiments.benchmark.models import PLANNED
from pnca_studies.experiments.benchmark.sources import load_sources
from pnca_studies.experiments.benchmark.work import Bench, Clock, run_cell
from pnca_studies.experiments.grid import Engine

CELL = Cell(data="iris", size="50", draw=0, model="k-NN")


def test_plan__has_every_model_on_every_draw_the_first_draw_first():
    cells = plan(2, data_sets=["iris", "final tables"], models=PLANNED)
    assert len(cells) == 2 * (1 + 2 * 15) * len(PLANNED)
    assert [cell.draw for cell in cells] == sorted(cell.draw for cell in cells)
    assert len({cell.key() for cell in cells}) == len(cells)
    assert {cell.size for cell in cells} == {"50", "100", "half"}
    only = plan(1, data_sets=["car"], sizes=["half"], models=["PNCA"])
    assert only == [Cell(data="car", size="half", draw=0, model="PNCA")]
    assert max(cell.draw for cell in plan(models=["PNCA"])) == N_DRAWS - 1


def test_plan__unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InvalidInputError, match=r"models \['SVM'\]; known are PNCA"):
        plan(1, models=["SVM"])
    with pytest.raises(InvalidInputError, match=r"data sets \['cars'\]; known are tuning tables"):
        plan(1, data_sets=["cars"])
    with pytest.raises(InvalidInputError, match="Nothing to fit"):
        plan(1, data_sets=["MNIST images"], models=["k-NN"])


def test_choices__change_one_setting_of_pnca_without_experts():
    cells = choices_plan(1, data_sets=["iris", "MNIST images"])
    default = [cell for cell in cells if cell.model == "PNCA"]
    assert [cell.changes for cell in default] == 3 * [{"experts": []}]  # iris, and images at two sizes
    assert all(cell.changes["experts"] == [] for cell in cells)
    assert {cell.study for cell in cells} == {"choices"}


def test_key__depends_on_what_decides_the_result():
    others = [
        replace(CELL, draw=1),
        replace(CELL, model="PNCA"),
        replace(CELL, study="choices"),
        replace(CELL, changes={"a": 1}),
    ]
    assert len({cell.key() for cell in (CELL, *others)}) == 5


def test_file__gives_back_what_was_added_and_the_last_of_equals(tmp_path):
    file = CellFile(tmp_path / "new" / "a.jsonl")
    assert file.lines() == []
    for temperature in (1.0, 2.0):
        file.append(line(CELL, temperature=temperature))
    file.append(line(replace(CELL, draw=1)))
    assert [found["temperature"] for found in file.lines()] == [2.0, 1.0]
    file.tidy()
    assert len(file.path.read_text().splitlines()) == 2


def test_file__a_line_that_was_cut_off_is_left_out_and_removed(tmp_path):
    file = CellFile(tmp_path / "a.jsonl")
    file.append(line(CELL))
    with file.path.open("a") as half:
        half.write(json.dumps(line(replace(CELL, draw=1)))[:100])
    assert [found["draw"] for found in file.lines()] == [0]
    file.tidy()
    file.append(line(replace(CELL, draw=2)))
    assert [found["draw"] for found in file.lines()] == [0, 2]


@pytest.mark.parametrize("damage", ["{}", "no json", '{"key": 3}'])
def test_file__a_damaged_line_is_named(tmp_path, damage):
    path = write_cells(tmp_path / "a.jsonl", [CELL])
    path.write_text(path.read_text() + damage + "\n")
    with pytest.raises(CorruptDataError, match=r"Line 2 of .*a\.jsonl is not a cell .*delete the line"):
        list(read_lines([path]))


def test_lines__of_a_folder_are_those_of_its_files(tmp_path):
    write_cells(tmp_path / "a.jsonl", [CELL])
    write_cells(tmp_path / "b.jsonl", [replace(CELL, draw=1)])
    assert len(list(read_lines([tmp_path]))) == len(list(read_lines([tmp_path / "a.jsonl"]))) + 1 == 2
    assert is_of_cells(tmp_path)
    (tmp_path / "run.json").touch()
    assert not is_of_cells(tmp_path)
    with pytest.raises(MissingDataError, match="holds no cells"):
        list(read_lines([tmp_path / "nothing"]))


def test_code__comments_and_docstrings_do_not_count(tmp_path):
    first, second, other = (tmp_path / f"{name}.py" for name in "abc")
    first.write_text('"""One."""\ndef f(x):\n    """Two."""\n    return x\n')
    second.write_text('"""Three."""\n# four\ndef f(x):\n    return x\n')
    other.write_text("def f(x):\n    return x + 1\n")
    assert cells_module._code(first) == cells_module._code(second) != cells_module._code(other)
    assert len(code_fingerprint()) == 12


@pytest.fixture(scope="module")
def bench():
    return Bench(sources=load_sources(["iris"], None)[0], machine="abacus")


def test_cell__has_measures_seconds_and_where_it_is_from(bench):
    found = run_cell(CELL, bench).details["line"]
    assert {key: found[key] for key in ("data", "size", "draw", "model", "n")} == {
        **{key: getattr(CELL, key) for key in ("data", "size", "draw", "model")},
        "n": 50,
    }
    assert found["key"] == CELL.key()
    assert (found["machine"], found["code"], found["device"]) == ("abacus", code_fingerprint(), "cpu")
    assert set(found["seconds"]) == {"fit", "predict", "out of fold"}
    assert found["measures"]["test"]["accuracy"] > 0.8
    assert {"unseen class", "unit error"} < set(found["measures"])
    assert json.loads(json.dumps(found)) == found


def test_cell__temperature_is_of_predictions_out_of_fold(bench, monkeypatch):
    seen = []
    monkeypatch.setattr(work, "fit_temperature", lambda logs, labels: seen.append(logs) or 1.5)
    for model in ("k-NN", "shrinkage LDA"):
        assert run_cell(replace(CELL, model=model), bench).details["line"]["temperature"] == 1.5
    problem = bench.sources["iris"].draw("50", 0)
    for logs in seen:
        assert logs.shape == (50, 2)
        assert 0.7 < (logs.argmax(axis=1) == problem.labels).mean() < 1
    assert fit_temperature(seen[0], problem.labels) > 0


def test_out_of_fold__examples_are_predicted_by_models_that_have_not_seen_them(bench):
    class Memory(DummyClassifier):
        def fit(self, X, y):
            self.seen = {tuple(row) for row in X}
            return super().fit(X, y)

        def predict_proba(self, X):
            assert not self.seen & {tuple(row) for row in X}
            return super().predict_proba(X)

    problem = bench.sources["iris"].draw("50", 0)
    unique = np.random.default_rng(0).normal(size=(50, 2))
    logs = work.out_of_fold(Memory(), Memory(), replace(problem, inputs=unique), 0)
    assert np.isfinite(logs).all()


def test_score__is_no_classifier_and_not_scaled(bench):
    found = run_cell(replace(CELL, model="PCA residual"), bench).details["line"]
    assert found["temperature"] == 1.0
    assert "out of fold" not in found["seconds"]
    assert "auroc_evidence" in found["measures"]["unseen class"]


def test_clock__seconds_on_a_gpu_have_another_name():
    cpu, gpu = Clock("cpu"), Clock("cuda:0")
    assert cpu.time("fit", lambda: 3) == gpu.time("fit", lambda: 3) == 3
    assert (list(cpu.seconds), list(gpu.seconds)) == (["fit"], ["GPU fit"])


def test_run__computes_what_is_missing_and_nothing_else(tmp_path):
    cells = [replace(CELL, model=model) for model in ("k-NN", "class shares", "PCA residual")]
    said, watched = [], []

    def run(given, **options):
        watched.clear()
        return run_benchmark(
            given,
            tmp_path,
            Engine(),
            said=said.append,
            watch=lambda outcome, done, total: watched.append(outcome.cell.model),
            **options,
        )

    assert run(cells[:2]) == []
    path = tmp_path / "small_data_sets.jsonl"
    before = path.read_text().splitlines()
    assert run(cells) == []
    assert watched == ["PCA residual"]
    assert path.read_text().splitlines()[:2] == before
    assert "2 of 3 cells are in" in said[-1]
    run(cells, renew=True)
    assert watched == []
    path.write_text(path.read_text().replace(code_fingerprint(), "other code", 1))
    run(cells)
    assert watched == []
    run(cells, renew=True)
    assert len(watched) == 1
    assert len(path.read_text().splitlines()) == 3


def test_run__what_fails_is_told_and_tried_again(tmp_path, monkeypatch):
    cells = [replace(CELL, data="car", size="100", model="class shares"), CELL]
    said = []
    assert run_benchmark(cells, tmp_path, Engine(), data_dir=tmp_path, said=said.append) == []
    assert "The table car is not on this machine" in said[0]
    wrong = replace(CELL, size="no number")
    (failed,) = run_benchmark([wrong], tmp_path, Engine())
    assert "no number" in failed.error
