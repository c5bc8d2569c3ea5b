import io
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, PncaError
from pnca_studies import arrays
from pnca_studies.experiments.answers import Answers
from pnca_studies.experiments.cells import CellResult, fingerprint, outline, read_cell, write_cell
from robustness.cells import FORGERIES, LENGTHS, make_result
from robustness.mutators import forge_cell


def assert_same_answers(one, other):
    assert one.keys() == other.keys()
    for name, given in one.items():
        for part in ("compact", "labels", "evidence"):
            values, others = getattr(given, part), getattr(other[name], part)
            assert (values is None) == (others is None)
            if values is not None:
                assert values.dtype == others.dtype
                np.testing.assert_array_equal(values, others)


@pytest.fixture
def cell_file(tmp_path):
    return write_cell(tmp_path / "cell.npz", make_result())


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
    row, *others = (result := make_result(4)).rows()
    assert row == {
        **{"n_train": 100, "draw": 4, "model": "PNCA (paper)", "test_set": "test"},
        **result.measures["test"],
    }
    assert [other["test_set"] for other in others] == ["rotated", "notmnist"]


@pytest.mark.parametrize("test_sets", [(), ("test",), ("test", "notmnist")])
def test_read_cell__reads_only_the_test_sets_asked_for(cell_file, monkeypatch, test_sets):
    read, read_array = [], arrays._read_array
    monkeypatch.setattr(
        arrays, "_read_array", lambda archive, name: read.append(name) or read_array(archive, name)
    )
    result = read_cell(cell_file, test_sets)
    assert tuple(result.answers) == test_sets
    assert {name.rpartition("/")[0] for name in read} == {"", *test_sets}
    assert result.measures == make_result().measures  # the record has them all


def test_cell__file_is_the_same_whenever_it_is_written(tmp_path, cell_file):
    (tmp_path / "again").mkdir()
    again = write_cell(tmp_path / "again" / "cell.npz", make_result())
    with zipfile.ZipFile(cell_file) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()
        assert all(one.read(name) == other.read(name) for name in one.namelist())


def write_single_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def write_other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")


def replace_record(path, text):
    with np.load(path) as file:
        np.savez(path, **{**file, "record": np.array(text), "digest": np.array(fingerprint(text))})


def write_bomb(path):
    """Eight gigabytes of zeros in eight megabytes, by what they say of themselves; here it is cut short."""
    forge_cell(path, lambda record, arrays: record["measures"]["test"].update(n=1 << 30))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f2", "fortran_order": False, "shape": (1 << 30, 3)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, header.getvalue() + content if name == "test/compact.npy" else content)


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 4),
    "text": lambda path: path.write_text("not a result"),
    "other arrays": lambda path: np.savez(path, images=np.zeros(3)),
    "a single array": write_single_array,
    "zip of something else": write_other_zip,
    "bomb": write_bomb,
    "record is not JSON": lambda path: replace_record(path, "{"),
    "record of another kind": lambda path: replace_record(path, '{"columns": {}, "colour": 1}'),
    "record is a list": lambda path: replace_record(path, "[1]"),
    "record is deep": lambda path: replace_record(path, "[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_read_cell__damaged_file_is_named(cell_file, damage):
    damage(cell_file)
    with pytest.raises(CorruptDataError, match=r"cell\.npz.*continue the run with --resume"):
        read_cell(cell_file)


def test_read_cell__what_is_no_file_is_named(cell_file, tmp_path):
    with pytest.raises(PncaError, match=r"absent\.npz"):
        read_cell(tmp_path / "absent.npz")
    cell_file.unlink()
    cell_file.mkdir()
    with pytest.raises(PncaError, match=r"cell\.npz"):
        read_cell(cell_file)


@pytest.mark.parametrize("with_digests", [True, False])
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_read_cell__forged_is_refused_though_digests_fit(tmp_path, forgery, with_digests):
    path = write_cell(tmp_path / "100-0-PNCA__paper_-0.npz", make_result())
    forge_cell(path, lambda record, arrays: None, with_digests=with_digests)
    assert read_cell(path).measures == make_result().measures
    write_cell(path, make_result())
    forge_cell(path, forgery, with_digests=with_digests)
    with pytest.raises(CorruptDataError, match="--resume"):
        read_cell(path)


def test_read_cell__of_another_cell_is_refused(cell_file):
    other = cell_file.with_name("other.npz")
    shutil.copy(cell_file, other)
    with pytest.raises(CorruptDataError, match=r"other\.npz .*it is the result of cell"):
        read_cell(other)
    forge_cell(cell_file, lambda record, arrays: None, with_digests=False)
    with pytest.raises(CorruptDataError, match=r"cell\.npz .*of another cell"):
        read_cell(cell_file)


@pytest.mark.parametrize("test_sets", [None, ()])
def test_read_cell__without_a_test_set_of_the_study_is_refused(cell_file, test_sets):
    result = make_result()
    expected = outline(result.columns, LENGTHS, with_answers=True)
    assert read_cell(cell_file, test_sets, expected=expected).measures == result.measures
    for other in (
        outline(result.columns, {**LENGTHS, "bones": 7}, with_answers=True),
        outline(result.columns, {**LENGTHS, "test": 59}, with_answers=True),
        outline({**result.columns, "draw": 1}, LENGTHS, with_answers=True),
        outline(result.columns, LENGTHS, with_answers=False),
    ):
        with pytest.raises(CorruptDataError, match="lacks test sets of the study"):
            read_cell(cell_file, test_sets, expected=other)


def test_read_cell__every_bit_that_flips_is_found_or_changes_nothing(tmp_path):
    result = replace(make_result(), answers={"test": Answers(compact=np.zeros((2, 2), np.float16))})
    result = replace(result, measures={"test": {"n": 2}}, details={"seconds": {}})
    content = write_cell(path := tmp_path / "cell.npz", result).read_bytes()
    for place in np.random.RandomState(0).randint(8 * len(content), size=600):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = read_cell(path)
        except CorruptDataError:
            continue
        assert (found.columns, found.measures) == (result.columns, result.measures), place
        assert_same_answers(found.answers, result.answers)


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
    with pytest.raises(CorruptDataError, match=r"cell\.npz.*is damaged, or not of numbers or text"):
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
