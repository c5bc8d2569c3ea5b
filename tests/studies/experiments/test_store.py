import json

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError, PncaError
from pnca.files import LOCK, own_folder
from pnca_studies.experiments.cells import outline
from pnca_studies.experiments.store import RunFolder, versions, write_json_lines
from robustness.cells import LENGTHS, RUN_FORGERIES, make_result
from robustness.mutators import forge_run

RUN = {
    "study": "mnist",
    "options": {"trials": None, "train_sizes": [100], "models": ["DNN"], "quick": False},
    "protocol": {"test_sets": {}},
    "seeds": "none",
    "models": {},
    "versions": {"numpy": "2"},
    "hardware": {"machine": "m", "processor": "abacus", "cores": 2, "system": "beads"},
    "engine": {"name": "local", "jobs": 2, "scheduler": None},
    "cells": dict.fromkeys("bac"),
    "failed": {},
    "sessions": [],
}


@pytest.fixture
def run_folder(tmp_path):
    folder = RunFolder.create(tmp_path / "run", resume=False)
    folder.write_run(RUN)
    return folder


# --- the folder -----------------------------------------------------------------------------------------


def test_create__makes_a_new_folder(tmp_path):
    folder = RunFolder.create(tmp_path / "deep" / "run", resume=False)
    assert folder.path.is_dir()
    folder.write("a", make_result())
    assert folder.find("a") is not None


def test_create__earlier_run_is_refused_unless_resumed(run_folder):
    run_folder.write("a", make_result())
    with pytest.raises(InvalidInputError, match=r"holds an earlier run.*--resume"):
        RunFolder.create(run_folder.path, resume=False)
    again = RunFolder.create(run_folder.path, resume=True)
    assert again.find("a") is not None
    assert again.read_run() == RUN


@pytest.mark.parametrize("resume", [False, True])
def test_create__files_of_others_are_refused(tmp_path, resume):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(PncaError, match="holds no run to continue" if resume else "holds other files"):
        RunFolder.create(tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_create__without_a_run_there_is_nothing_to_resume(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(MissingDataError, match=r"holds no run to continue.*leave --resume out"):
            RunFolder.create(place, resume=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resume", [False, True])
def test_create__a_folder_in_use_is_refused(run_folder, resume):
    with own_folder(run_folder.path), pytest.raises(InvalidInputError, match="in use by another process"):
        RunFolder.create(run_folder.path, resume=resume)


def test_create__what_a_process_killed_at_the_start_left_is_taken(tmp_path):
    for name in (LOCK, ".run.json.0123.tmp"):
        (tmp_path / name).touch()
    folder = RunFolder.create(tmp_path, resume=False)
    folder.begin(RUN)
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "cells", "run.json"]


def test_begin__removes_what_a_killed_process_left_half_written_and_nothing_else(run_folder):
    (cells := run_folder.path / "cells").mkdir()
    for path in (cells / ".a.npz.01.tmp", run_folder.path / ".run.json.01.tmp"):
        path.touch()
    kept = [cells / "notes.tmp", run_folder.path / ".results.jsonl.01.tmp"]  # a report may be writing it
    for path in kept:
        path.touch()
    run_folder.begin(RUN)
    assert sorted(run_folder.path.rglob("*.tmp")) == sorted(kept)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("options", {**RUN["options"], "trials": 2}, r"options \(trials\)"),
        ("protocol", {"test_sets": {"test": 5}}, r"protocol \(test_sets\)"),
        ("versions", {"numpy": "1"}, r"versions \(numpy\)"),
        ("study", "covid", "of mnist, not of covid"),
    ],
)
def test_begin__of_another_run_is_refused_by_name_and_changes_nothing(run_folder, key, value, named):
    before = (run_folder.path / "run.json").read_bytes()
    with pytest.raises(InvalidInputError, match=f"holds a run.* {named}"):
        run_folder.begin({**RUN, key: value})
    assert (run_folder.path / "run.json").read_bytes() == before


def test_begin__a_folder_in_place_of_a_result_is_refused(run_folder):
    (run_folder.path / "cells" / "a.npz").mkdir(parents=True)
    with pytest.raises(InvalidInputError, match=r"a\.npz is a folder.*move it away"):
        run_folder.begin(RUN)


def test_begin__after_a_damaged_run_file_was_deleted_results_are_found_again(run_folder):
    run_folder.write("a", make_result())
    (run_folder.path / "run.json").unlink()
    again = RunFolder.create(run_folder.path, resume=True)
    again.begin(RUN)
    assert again.finished() == ["a"]


def test_create__file_in_its_place_is_refused(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(InvalidInputError, match="is a file"):
        RunFolder.create(tmp_path / "run", resume=False)


def test_open__needs_a_run(tmp_path, run_folder):
    with pytest.raises(MissingDataError, match=r"holds no run\.json"):
        RunFolder.open(tmp_path)
    with pytest.raises(MissingDataError, match=r"holds no run\.json"):
        RunFolder.open(tmp_path / "nowhere")
    assert RunFolder.open(run_folder.path).read_run() == RUN


def test_read_run__says_what_was_written(run_folder):
    assert run_folder.read_run() == RUN
    assert len(json.loads((run_folder.path / "run.json").read_text())["digest"]) == 12


def test_read_run__of_earlier_versions_lists_cells_and_has_no_digest(run_folder):
    forge_run(run_folder.path / "run.json", lambda run: run.update(cells=["b", "a", "c"]), with_digest=False)
    assert run_folder.read_run() == RUN


@pytest.mark.parametrize("content", ["", '{"cells": [', "{}", "[]", '{"cells": []}', "\0", "[" * 100_000])
def test_read_run__file_of_another_program_is_refused(run_folder, content):
    (run_folder.path / "run.json").write_text(content)
    with pytest.raises(CorruptDataError, match=r"run\.json .*delete it.*--resume"):
        run_folder.read_run()


def test_read_run__bits_that_flip_are_found(run_folder):
    content = (path := run_folder.path / "run.json").read_bytes()
    for place in np.random.RandomState(0).randint(8 * len(content), size=500):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = run_folder.read_run()
        except CorruptDataError:
            continue
        assert {key: found[key] for key in RUN} == RUN, place


@pytest.mark.parametrize("with_digest", [True, False])
@pytest.mark.parametrize("change", RUN_FORGERIES, ids=str)
def test_read_run__forged_is_refused_though_its_digest_fits(run_folder, change, with_digest):
    forge_run(run_folder.path / "run.json", lambda run: run.update(change), with_digest=with_digest)
    with pytest.raises(CorruptDataError, match=r"run\.json is not of a run"):
        run_folder.read_run()


def test_find__a_damaged_result_is_named_and_its_cell_is_run_again(run_folder):
    run_folder.write("a", make_result())
    assert run_folder.find("a") is not None
    (run_folder.path / "cells" / "a.npz").write_bytes(b"PK")
    again = RunFolder.open(run_folder.path)
    assert again.find("a") is None
    assert "a.npz" in again.damaged["a"]
    assert again.finished() == []
    again.write("a", make_result())
    assert (again.damaged, again.finished()) == ({}, ["a"])


def test_find__a_link_that_leads_nowhere_is_named(run_folder):
    (run_folder.path / "cells").mkdir()
    (run_folder.path / "cells" / "a.npz").symlink_to("nowhere")
    assert run_folder.find("a") is None
    assert "a.npz" in run_folder.damaged["a"]
    assert run_folder.find("b") is None
    assert "b" not in run_folder.damaged


def test_results__leave_out_what_is_damaged_or_of_another_study(run_folder):
    result = make_result()
    whole = outline(result.columns, LENGTHS, with_answers=True)
    other = outline(result.columns, {**LENGTHS, "more": 5}, with_answers=True)
    for stem in "abc":
        run_folder.write(stem, result)
    run_folder.write_run({**RUN, "cells": {"a": whole, "b": other, "c": None}})
    path = run_folder.path / "cells" / "c.npz"
    path.write_bytes(path.read_bytes()[:-1])
    again = RunFolder.open(run_folder.path)
    assert len(list(again.results())) == len(list(again.results(()))) == 1
    assert again.finished() == ["a"]
    assert again.damaged.keys() == {"b", "c"}


def test_results__are_the_finished_cells_in_the_order_of_the_grid(run_folder):
    for number, stem in enumerate("abd"):  # c is missing; d is of another run
        run_folder.write(stem, make_result(number))
    assert [result.columns["draw"] for result in run_folder.results()] == [1, 0]
    assert [list(result.answers) for result in run_folder.results(["test"])] == [["test"], ["test"]]
    assert [row["draw"] for row in run_folder.rows()] == [1, 1, 1, 0, 0, 0]


def test_write_tables__timings_are_apart(run_folder):
    for seconds, stem in ((2.0, "a"), (3.0, "b")):
        run_folder.write(stem, make_result(seconds={"fit_seconds": seconds}))
    run_folder.write_tables()
    lines = (run_folder.path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == run_folder.rows()
    assert "fit_seconds" not in lines[0]
    timings = (run_folder.path / "timings.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["fit_seconds"] for line in timings] == [3.0, 2.0]
    assert [json.loads(line)["model"] for line in timings] == ["PNCA (paper)"] * 2


def test_write_json_lines__is_json_in_utf_8(tmp_path):
    rows = [{"model": "hidden ä", "auroc": None, "n": 3}, {"model": "b\nc", "accuracy": 0.1}]
    path = write_json_lines(tmp_path / "rows.jsonl", rows)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == rows
    assert lines[-1] == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_write_json_lines__what_is_not_json_is_refused(tmp_path, value):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json_lines(tmp_path / "rows.jsonl", [{"nll": 1.0}, {"nll": value}])
    assert list(tmp_path.iterdir()) == []


def test_versions__has_what_decides_the_numbers():
    assert {"python", "pnca", "torch", "numpy", "scipy", "scikit-learn"} <= versions().keys()
    assert versions()["numpy"] == np.__version__
