"""Inputs of a fit come back from a model file with their values and types."""

import builtins
import json

import numpy as np
import pytest

import pnca
from models import make, noisy
from pnca.exceptions import CorruptDataError, InvalidInputError, MissingExtraError
from pnca.persistence.encoding import MalformedError
from pnca.persistence.layouts import Store
from pnca.persistence.tables import Given
from robustness.model_files import forge, model, opened

X, Y = noisy()


def there_and_back(value):
    store = Store()
    found = json.loads(json.dumps(Given().write(value, "inputs", store), allow_nan=False))
    again = Store(dict(store.tensors))
    read = Given().read(found, "inputs", again)
    assert again.used == again.tensors.keys()
    return read


KINDS = ["?", "u1", "i1", "<u2", "i2", "<u4", "i4", "<u8", "i8", "f2", "f4", "f8", ">f8"]


@pytest.mark.parametrize("kind", KINDS)
def test_array__comes_back_with_its_type(kind):
    array = np.array([[[0, 1]], [[1, 7]]]).astype(kind)
    array = -array if np.dtype(kind).kind in "if" else array
    found = there_and_back(array)
    assert found.dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(found, array)


def test_array__of_large_numbers_without_a_sign_comes_back():
    assert there_and_back(np.array([2**64 - 1], "u8")).tolist() == [2**64 - 1]


def test_array__of_objects_comes_back():
    array = np.array([[1, "a"], [None, 2.5]], dtype=object)
    assert there_and_back(array).tolist() == array.tolist()


def columns():
    pd = pytest.importorskip("pandas")
    moments = pd.to_datetime(["2020-10-25 00:30", None, "1960-01-01 00:00"], utc=True)
    return {
        "bytes": np.array([1, 2, 3], "u1"),
        "unsigned": np.array([1, 2, 2**64 - 1], "u8"),
        "single": np.array([0.1, np.nan, -np.inf], "f4"),
        "truth": np.array([True, False, True]),
        "Int64": pd.array([1, None, 2**62 + 1], dtype="Int64"),
        "UInt8": pd.array([1, None, 255], dtype="UInt8"),
        "Float32": pd.array([0.5, None, -1], dtype="Float32"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "text": ["a", None, "ü\0"],
        "string": pd.array(["a", None, ""], dtype="string"),
        "mixed": pd.Series(["a", None, 1.5], dtype=object),
        "holes": pd.Series([pd.NA, float("nan"), pd.NaT], dtype=object),
        "moment": moments.tz_localize(None),
        "coarse": moments.tz_localize(None).astype("datetime64[s]"),
        "zone": moments.tz_convert("Europe/Berlin"),  # an hour of that night was there twice
        "UTC": moments,
        "offset": moments.tz_convert("+02:30"),
        "duration": pd.to_timedelta([1, None, -5], unit="h"),
        "month": pd.PeriodIndex(["2020-01", None, "1960-01"], freq="M"),
        "quarter": pd.PeriodIndex(["2020Q1", None, "1960Q4"], freq="Q"),
        "category": pd.Categorical(["y", None, "x"], categories=["z", "y", "x"], ordered=True),
        "codes": pd.Categorical([2, 1, 2]),
        "intervals": pd.cut([1, 2, 3], 2),
        "interval": pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3]),
    }


def test_columns__come_back_with_their_values_and_types():
    pd = pytest.importorskip("pandas")
    for name, values in columns().items():
        table = pd.DataFrame({name: pd.Series(values)})
        pd.testing.assert_frame_equal(there_and_back(table), table)


def test_table__may_have_names_of_any_sort():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.eye(3), columns=[1, "a", "a"])
    pd.testing.assert_frame_equal(there_and_back(table), table)


def test_column__of_another_kind_keeps_its_values():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"sparse": pd.arrays.SparseArray([0, 0, 3])})
    assert there_and_back(table)["sparse"].tolist() == [0, 0, 3]


def test_column__that_no_file_can_hold_is_named():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="store='predictive'"):
        there_and_back(pd.DataFrame({"a": pd.Series([object()] * 3, dtype=object)}))


def test_record__comes_back_with_the_model_and_can_be_left_out(tmp_path):
    pd = pytest.importorskip("pandas")
    made, queries = model("table")
    found = pnca.load(pnca.save(made, tmp_path / "full.pnca"))
    pd.testing.assert_frame_equal(found.record_.inputs, made.record_.inputs)
    for name in ("labels", "ids", "groups"):
        expected = getattr(made.record_, name)
        assert getattr(found.record_, name).dtype == expected.dtype
        np.testing.assert_array_equal(getattr(found.record_, name), expected)
    small = pnca.save(made, tmp_path / "predictive.pnca", store="predictive")
    assert b"patient 3" not in small.read_bytes()
    assert b"patient 3" in (tmp_path / "full.pnca").read_bytes()
    without = pnca.load(small)
    np.testing.assert_array_equal(without.predict_proba(queries), made.predict_proba(queries))
    with pytest.raises(AttributeError, match="'record_': its file was saved with store='predictive'"):
        without.record_  # noqa: B018
    assert pnca.save(without, tmp_path / "again.pnca").read_bytes() == small.read_bytes()
    with pytest.raises(InvalidInputError, match="store must be 'full' or 'predictive'"):
        pnca.save(made, tmp_path / "x.pnca", store="all")


@pytest.fixture
def without_pandas(monkeypatch):
    original = builtins.__import__

    def without(name, *others, **more):
        if name == "pandas":
            raise ImportError(name)
        return original(name, *others, **more)

    return lambda: monkeypatch.setattr(builtins, "__import__", without)


def test_record__without_pandas_says_what_is_missing_and_is_not_lost(tmp_path, without_pandas):
    path = pnca.save(model("table")[0], tmp_path / "a.pnca")
    without_pandas()
    found = pnca.load(path)
    assert found.record_.inputs is None
    assert "pip install 'pnca[studies]'" in found.record_.missing
    assert found.record_.ids[3] == "patient 3"
    with pytest.raises(MissingExtraError, match="pandas"):
        pnca.save(found, tmp_path / "b.pnca")
    pnca.save(found, tmp_path / "b.pnca", store="predictive")


def at(path, value):
    def change(found, tensors):
        place = found["record"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def in_tensor(name, value):
    def change(found, tensors):
        tensors[f"record.inputs.{name}"][0] = value

    return change


COLUMNS = ("inputs", "table", 1)
CHANGES = {
    "an id less": lambda found, tensors: found["record"]["ids"]["array"][2].pop(),
    "one row less": lambda found, tensors: found["record"]["inputs"]["table"][1][3]["values"][1].pop(),
    "a column less": lambda found, tensors: found["record"]["inputs"]["table"][1].pop(0),
    "a name that is none": at(("inputs", "table", 0, 0), {}),
    "a category that is none": in_tensor("2", 9),
    "text of another sort": at((*COLUMNS, 3, "values", 0), "eval"),
    "a list in the text": at((*COLUMNS, 3, "values", 1, 0), [1]),
    "another unit": at((*COLUMNS, 4, "times", 1), "Y"),
    "a zone in a folder": at((*COLUMNS, 5, "times", 2), "../../etc/passwd"),
    "a zone of another reader": at((*COLUMNS, 5, "times", 2), "dateutil//etc/passwd"),
    "a frequency of code": at((*COLUMNS, 8, "periods", 0), "__import__"),
    "a frequency that is none": at((*COLUMNS, 8, "periods", 0), "XX"),
    "another masked type": at((*COLUMNS, 1, "masked", 0), "Int8"),
    "no inputs and no reason": at(("inputs",), None),
    "a field more": at(("more",), 1),
}


@pytest.mark.parametrize("case", CHANGES)
def test_forgery__of_a_record_is_refused(case, tmp_path):
    pytest.importorskip("pandas")
    forge(path := tmp_path / "model.pnca", "table", CHANGES[case])
    with pytest.raises(CorruptDataError, match=r"model\.pnca is damaged \(it has .*\): take another copy"):
        pnca.load(path)


@pytest.mark.parametrize("case", sorted(CHANGES.keys() - {"a frequency that is none"}))
def test_forgery__of_a_record_is_refused_without_pandas_too(case, tmp_path, without_pandas):
    pytest.importorskip("pandas")
    forge(path := tmp_path / "model.pnca", "table", CHANGES[case])
    without_pandas()
    with pytest.raises(CorruptDataError, match="is damaged"):
        pnca.load(path)


def test_forgery__of_a_record_for_a_model_that_has_none_is_refused(tmp_path):
    def change(found, tensors):
        found["record"] = {"inputs": None, "ids": None, "groups": None, "missing": "x"}

    forge(path := tmp_path / "model.pnca", "DNN", change)
    assert opened(path, "DNN") is None


def test_forgery__of_a_table_without_the_names_of_its_columns_is_refused(tmp_path):
    forge(
        path := tmp_path / "model.pnca",
        "table",
        lambda found, _: found["attributes"].pop("feature_names_in_"),
    )
    assert opened(path, "table") is None


def test_forgery__of_a_record_of_other_inputs_is_refused(tmp_path):
    def narrower(found, tensors):
        tensors["record.inputs"] = tensors["record.inputs"][:, :2].clone()

    def wider(found, tensors):
        found["record"]["inputs"]["table"][0].append("more")
        found["record"]["inputs"]["table"][1].append({"values": ["object", [None] * 40]})

    for name, change in (("NCA", narrower), ("PNCA pooled", narrower), ("table", wider)):
        forge(path := tmp_path / "model.pnca", name, change)
        assert opened(path, name) is None


def test_reader__refuses_an_array_of_no_rows():
    with pytest.raises(MalformedError):
        Given().read({"array": {"values": [], "shape": []}}, "inputs", Store())


def test_record__of_a_pipeline_is_of_its_last_step(tmp_path):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipe = make_pipeline(StandardScaler(), make("NCA", max_epochs=1)).fit(X, Y)
    found = pnca.load(pnca.save(pipe, tmp_path / "pipe.pnca"))
    np.testing.assert_array_equal(found[-1].record_.inputs, pipe[:-1].transform(X))
