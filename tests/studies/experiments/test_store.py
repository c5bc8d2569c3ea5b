import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca_studies.experiments.answers import Answers, compress
from pnca_studies.experiments.store import (
    CellResult,
    RunFolder,
    fingerprint,
    read_cell,
    versions,
    write_cell,
    write_json_lines,
)


def make_result(number=0, **details):
    rng = np.random.RandomState(number)
    logs = np.log(rng.dirichlet(np.ones(3), size=200))
    answers = {
        "test": Answers(
            compact=compress(logs),
            labels=rng.randint(3, size=200).astype(np.uint8),
            evidence=rng.normal(size=200).astype(np.float32),
        ),
        "angle 60": Answers(compact=compress(logs[:5]), labels=np.zeros(5, np.uint8)),
        "bones MURA_XR_HAND": Answers(compact=compress(logs[:7])),
    }
    measures = {name: {"n": len(given.compact), "auroc": None} for name, given in answers.items()}
    return CellResult(
        columns={"n_train": 100, "draw": number, "model": "PNCA (paper)"},
        answers=answers,
        measures=measures,
        details={"seconds": {"fit_seconds": 1.5}, "settings": {"kernel": "exact"}, **details},
    )


def assert_same_answers(one, other):
    assert one.keys() == other.keys()
    for name, given in one.items():
        for part in ("compact", "labels", "evidence"):
            values, others = getattr(given, part), getattr(other[name], part)
            assert (values is None) == (others is None)
            if values is not None:
                assert values.dtype == others.dtype
                np.testing.assert_array_equal(values, others)


RUN = {
    **{key: "" for key in ("study", "options", "protocol", "seeds", "versions", "hardware", "engine")},
    "cells": ["b", "a", "c"],
    "failed": {},
    "sessions": [],
}


@pytest.fixture
def cell_file(tmp_path):
    return write_cell(tmp_path / "cell.npz", make_result())


@pytest.fixture
def run_folder(tmp_path):
    folder = RunFolder.create(tmp_path / "run", resume=False)
    folder.write_run(RUN)
    return folder


# --- one cell -------------------------------------------------------------------------------------------


def test_cell__round_trip(cell_file):
    result, again = make_result(), read_cell(cell_file)
    assert (again.columns, again.measures, again.details) == (
        result.columns,
        result.measures,
        result.details,
    )
    assert_same_answers(again.answers, result.answers)
    assert again.rows() == result.rows()


def test_cell__rows_are_one_a_test_set():
    row, *others = make_result(4).rows()
    assert row == {
        "n_train": 100,
        "draw": 4,
        "model": "PNCA (paper)",
        "test_set": "test",
        "n": 200,
        "auroc": None,
    }
    assert [other["test_set"] for other in others] == ["angle 60", "bones MURA_XR_HAND"]


@pytest.mark.parametrize("test_sets", [(), ("test",), ("test", "bones MURA_XR_HAND")])
def test_read_cell__reads_only_the_test_sets_asked_for(cell_file, monkeypatch, test_sets):
    read = []
    load = np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(
        np.lib.npyio.NpzFile, "__getitem__", lambda file, key: read.append(key) or load(file, key)
    )
    result = read_cell(cell_file, test_sets)
    assert tuple(result.answers) == test_sets
    assert {key.rpartition("/")[0] for key in read} == {"", *test_sets}
    assert result.measures == make_result().measures  # the record has them all


def test_cell__file_is_the_same_whenever_it_is_written(tmp_path, cell_file):
    again = write_cell(tmp_path / "again.npz", make_result())
    with zipfile.ZipFile(cell_file) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()
        assert all(one.read(name) == other.read(name) for name in one.namelist())


def replace_arrays(path, **changes):
    with np.load(path) as file:
        arrays = {**file, **changes}
    np.savez(path, **{name: values for name, values in arrays.items() if values is not None})


def write_single_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def write_other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 4),
    "text": lambda path: path.write_text("not a result"),
    "other arrays": lambda path: np.savez(path, images=np.zeros(3)),
    "a single array": write_single_array,
    "zip of something else": write_other_zip,
    "record is not JSON": lambda path: replace_arrays(path, record=np.array("{")),
    "record of another kind": lambda path: replace_arrays(
        path, record=np.array('{"columns": {}, "colour": 1}')
    ),
    "record is a list": lambda path: replace_arrays(path, record=np.array("[1]")),
    "no record": lambda path: replace_arrays(path, record=None),
    "no probabilities": lambda path: replace_arrays(path, **{"test/compact": None}),
    "unknown part": lambda path: replace_arrays(path, **{"test/colour": np.zeros(3)}),
    "absent": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_read_cell__damaged_file_is_named_and_its_cell_is_run_again(run_folder, damage):
    run_folder.write("a", make_result())
    assert run_folder.find("a") is not None
    damage(path := run_folder.path / "cells" / "a.npz")
    with pytest.raises(CorruptDataError, match=r"a\.npz is not a complete result"):
        read_cell(path)
    assert run_folder.find("a") is None


def test_read_cell__damaged_content_is_named(cell_file):
    with zipfile.ZipFile(cell_file) as archive:
        entry = archive.getinfo("test/compact.npy")
    content = bytearray(cell_file.read_bytes())
    start = entry.header_offset + 30 + len(entry.filename) + 20  # behind the entry's header
    content[start : start + entry.compress_size] = b"\xff" * entry.compress_size
    cell_file.write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"cell\.npz"):
        read_cell(cell_file)


def test_read_cell__pickle_is_refused_and_not_run(cell_file, tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    trap = np.array([Trap()], dtype=object)
    with np.load(cell_file) as file:
        np.savez(cell_file, **{**file, "test/evidence": trap})
    with pytest.raises(CorruptDataError, match=r"cell\.npz.*allow_pickle=False"):
        read_cell(cell_file)
    assert not (tmp_path / "sprung").exists()


def test_write_cell__object_array_is_refused(tmp_path):
    answers = {"test": Answers(compact=np.array([object()]))}
    with pytest.raises(ValueError, match="would be pickled"):
        write_cell(tmp_path / "cell.npz", CellResult(columns={}, answers=answers, measures={}))
    assert list(tmp_path.iterdir()) == []


def test_write_cell__nan_is_refused(tmp_path):
    result = CellResult(columns={}, answers={}, measures={"test": {"nll": float("nan")}})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_cell(tmp_path / "cell.npz", result)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("earlier", [False, True])
def test_write_cell__failing_write_leaves_no_half_file(tmp_path, monkeypatch, earlier):
    path = tmp_path / "cell.npz"
    before = write_cell(path, make_result(1)).read_bytes() if earlier else None

    def fail(file, **arrays):
        file.write(b"PK half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="No space left"):
        write_cell(path, make_result(2))
    assert list(tmp_path.iterdir()) == ([path] if earlier else [])
    if earlier:
        assert path.read_bytes() == before


# --- the folder -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [False, True])
def test_create__makes_a_new_folder(tmp_path, resume):
    folder = RunFolder.create(tmp_path / "deep" / "run", resume=resume)
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
    with pytest.raises(InvalidInputError, match="holds other files"):
        RunFolder.create(tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


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


def test_read_run__damaged_file_is_named(run_folder):
    (run_folder.path / "run.json").write_text('{"cells": [')
    with pytest.raises(CorruptDataError, match=r"run\.json cannot be read"):
        run_folder.read_run()


@pytest.mark.parametrize("content", ["{}", "[]", '{"cells": []}'])
def test_read_run__file_of_another_program_is_refused(run_folder, content):
    (run_folder.path / "run.json").write_text(content)
    with pytest.raises(CorruptDataError, match=r"run\.json"):
        run_folder.read_run()


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


# --- fingerprints ---------------------------------------------------------------------------------------

CONTENT = {"n": 100, "model": "NCA", "changes": {"kernel": "exact", "h": 1.0}, "sets": ["a", "b"]}


def test_fingerprint__of_json_is_twelve_digits_and_does_not_depend_on_the_order_of_keys():
    reordered = dict(reversed(CONTENT.items()))
    reordered["changes"] = {"h": 1.0, "kernel": "exact"}
    assert fingerprint(reordered) == fingerprint(CONTENT)
    assert len(fingerprint(CONTENT)) == 12
    assert set(fingerprint(CONTENT)) <= set("0123456789abcdef")


def test_fingerprint__of_json_changes_with_any_value():
    changes = [
        *({"n": 101}, {"n": "100"}, {"n": None}, {"model": "PNCA"}),
        *({"changes": {"kernel": "exact", "h": 2.0}}, {"changes": {"kernel": "exact"}}),
        *({"sets": ["b", "a"]}, {"sets": ["a", "b", "c"]}, {"more": None}),
    ]
    found = {fingerprint({**CONTENT, **change}) for change in changes}
    assert len(found | {fingerprint(CONTENT)}) == len(changes) + 1


def test_fingerprint__of_arrays_changes_with_one_value_and_not_with_layout():
    x, y = np.arange(12.0).reshape(3, 4), np.array(["a", "b"])
    same = fingerprint(x, y)
    assert fingerprint(np.asfortranarray(x), y.copy()) == same
    x.setflags(write=False)
    assert fingerprint(x, y) == same
    changed = x.copy()
    changed[2, 3] += 1e-9
    assert fingerprint(changed, y) != same
    assert fingerprint(x, np.array(["a", "c"])) != same
    assert fingerprint(y, x) != same
    assert fingerprint(x, None) != same
    assert fingerprint(x, None) != fingerprint(x)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([np.array([1, 2]), np.array([3])], [np.array([1]), np.array([2, 3])]),
        ([np.zeros((2, 3))], [np.zeros((3, 2))]),
        ([np.zeros(2, np.float32)], [np.zeros(1, np.float64)]),
    ],
)
def test_fingerprint__of_arrays_changes_with_shape_and_type(one, other):
    assert fingerprint(*one) != fingerprint(*other)


def test_versions__has_what_decides_the_numbers():
    assert {"python", "pnca", "torch", "numpy", "scipy", "scikit-learn"} <= versions().keys()
    assert versions()["numpy"] == np.__version__
