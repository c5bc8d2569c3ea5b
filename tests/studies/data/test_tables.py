"""The thirty tables: from a file, from the cache, and from OpenML by a stored reply."""

import gzip
import hashlib
import json
import socket

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, MissingDataError
from pnca_studies.data import tables
from pnca_studies.data.tables import TABLES, Published, load_table

#: What OpenML answered for a table of five rows, as its files are cached by scikit-learn.
ARFF = """@relation toy
@attribute size numeric
@attribute colour {red, blue, green}
@attribute good {no, yes}
@data
1.5,red,yes
?,blue,no
3,?,yes
4,green,no
5,blue,yes
"""
FEATURES = [
    ("0", "size", "numeric", [], "false"),
    ("1", "colour", "nominal", ["red", "blue", "green"], "false"),
    ("2", "good", "nominal", ["no", "yes"], "true"),
]


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A table of five rows, of which alone the list knows."""
    monkeypatch.setitem(TABLES, "toy", Published(99, 5, 2, 2))
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def stored_reply(toy, monkeypatch):
    """The cache of scikit-learn, as if OpenML had answered; no other answer is possible."""

    def refuse(*arguments, **options):
        raise AssertionError("a network was asked")

    monkeypatch.setattr(socket, "create_connection", refuse)
    folder = toy / "cache" / "tables" / "openml"
    description = {
        **{"id": "99", "name": "toy", "version": "1", "format": "ARFF", "file_id": "7", "status": "active"},
        **{"url": "https://api.openml.org/data/v1/download/7/toy.arff", "default_target_attribute": "good"},
        **{
            "description": "A toy.",
            "md5_checksum": hashlib.md5(ARFF.encode()).hexdigest(),
            "processing_date": "",
            "upload_date": "",
        },
    }
    names = ("index", "name", "data_type", "nominal_value", "is_target")
    features = [
        {
            **dict(zip(names, given, strict=True)),
            **{"is_ignore": "false", "is_row_identifier": "false"},
            "number_of_missing_values": "0" if given[1] == "good" else "1",
        }
        for given in FEATURES
    ]
    qualities = [{"name": "NumberOfInstances", "value": "5.0"}]
    replies = {
        "api/v1/json/data/99": json.dumps({"data_set_description": description}),
        "api/v1/json/data/features/99": json.dumps({"data_features": {"feature": features}}),
        "api/v1/json/data/qualities/99": json.dumps({"data_qualities": {"quality": qualities}}),
        "data/v1/download/7/toy.arff": ARFF,
    }
    for host in ("api.openml.org", "www.openml.org", "openml.org"):
        for path, text in replies.items():
            target = folder / host / f"{path}.gz"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(gzip.compress(text.encode()))
    return toy


def test_list__has_thirty_tables_half_of_them_for_tuning_and_numbers_of_their_own():
    assert len(TABLES) == 30
    assert sum(table.is_tuning for table in TABLES.values()) == 15
    assert len({table.data_id for table in TABLES.values()}) == 30


def test_load__from_the_file_of_all_tables(toy):
    content = {
        "toy/X": np.array([[1.0, 0], [np.nan, 1], [2, 1], [3, 0], [4, 1]], dtype=np.float32),
        "toy/y": np.array([5, 3, 5, 3, 5]),
        "toy/cat": np.array([1]),
    }
    np.savez(toy / "tables30.npz", **content)
    table = load_table("toy", toy)
    assert table.inputs.shape == (5, 2)
    assert np.isnan(table.inputs[1, 0])
    assert table.labels.tolist() == [1, 0, 1, 0, 1]
    assert table.categories == (1,)


def test_load__another_shape_is_refused(toy):
    np.savez(toy / "tables30.npz", **{"toy/X": np.ones((4, 2)), "toy/y": np.arange(4), "toy/cat": []})
    with pytest.raises(CorruptDataError, match="toy has 4 rows, 2 columns and 4 classes, expected 5"):
        load_table("toy", toy)


def test_load__what_is_missing_is_said_and_nothing_is_fetched_unasked(toy, monkeypatch):
    monkeypatch.setattr(tables, "_fetch", lambda *arguments: pytest.fail("it was fetched"))
    with pytest.raises(MissingDataError, match=r"The table toy is not on this machine.*--download"):
        load_table("toy", toy)


@pytest.mark.usefixtures("stored_reply")
def test_download__reads_numbers_categories_and_holes_and_keeps_them(tmp_path):
    said = []
    table = load_table("toy", download=True, say=said.append)
    assert "data set 99" in said[0]
    np.testing.assert_array_equal(table.inputs[:, 0], [1.5, np.nan, 3, 4, 5])
    # Codes in the order of the names: blue, green, red.
    np.testing.assert_array_equal(table.inputs[:, 1], [2, 0, np.nan, 1, 0])
    assert table.labels.tolist() == [1, 0, 1, 0, 1]
    assert table.categories == (1,)
    again = load_table("toy")
    np.testing.assert_array_equal(again.inputs, table.inputs)
    assert again.categories == (1,)


def test_real_tables__are_all_there(data_dir):
    for name in TABLES:
        table = load_table(name, data_dir)
        assert all(column < table.inputs.shape[1] for column in table.categories)
