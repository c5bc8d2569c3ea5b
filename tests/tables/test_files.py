"""The same table in every format is the same table."""

import datetime

import numpy as np
import pandas as pd
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingExtraError
from pnca.tables import open_table, read_table, write_table
from pnca.tables.files import typed


@pytest.fixture
def trees():
    """Every sort, with a hole in each column but the first."""
    return pd.DataFrame(
        {
            "name": ["007", "008", "009"],
            "height": [3.5, np.nan, 2.0],
            "planted": pd.to_datetime(["2020-05-01", None, "2021-01-01"]),
            "sick": pd.Series([True, None, False], dtype=object),
            "kind": ["ash", None, "birch"],
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv", "xlsx", "parquet"])
def test_read_table__is_the_table_that_was_written(trees, tmp_path, suffix):
    path = tmp_path / f"trees.{suffix}"
    if suffix == "xlsx":
        trees.to_excel(path, index=False)
    else:
        with write_table(path) as table:
            table.write(trees)
    found = read_table(path)
    assert list(found.columns) == list(trees.columns)
    assert found["name"].tolist() == ["007", "008", "009"]
    np.testing.assert_array_equal(found["height"], trees["height"])
    assert found["planted"].dropna().tolist() == trees["planted"].dropna().tolist()
    assert found["sick"].dropna().tolist() == [True, False]
    assert found["kind"].dropna().tolist() == ["ash", "birch"]
    assert found.isna().to_numpy()[1].tolist() == [False, True, True, True, True]


def test_read_table__of_excel_cells_have_their_types_and_empty_rows_are_none(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["a", "day", None])
    book.active.append([1, datetime.datetime(2024, 5, 1)])
    book.active.append([None, None])
    book.active.append(["NA", None])
    book.save(tmp_path / "t.xlsx")
    found = read_table(tmp_path / "t.xlsx")
    assert found["a"].tolist()[0] == 1
    assert np.isnan(found["a"].iloc[1])
    assert found["day"].iloc[0] == pd.Timestamp("2024-05-01")
    assert len(found) == 2


def test_open_table__excel_with_several_sheets_wants_one_named(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "patients"
    book.active.append(["a"])
    book.create_sheet("notes").append(["b"])
    book.create_sheet("empty")
    book.save(path := tmp_path / "t.xlsx")
    with pytest.raises(InvalidInputError, match="sheets patients, notes: say which"):
        open_table(path)
    assert open_table(path, sheet="notes").names == ("b",)
    with pytest.raises(InvalidInputError, match="no sheet 'x': there are patients, notes, empty"):
        open_table(path, sheet="x")
    with pytest.raises(InvalidInputError, match="'empty' is empty"):
        open_table(path, sheet="empty")


@pytest.mark.parametrize("name", ["t.xlsx", "t.parquet"])
def test_open_table__damaged(tmp_path, name):
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(CorruptDataError, match="cannot be read as"):
        open_table(tmp_path / name)


def test_open_table__an_absent_package_is_named_with_its_extra(tmp_path, monkeypatch):
    import sys

    (tmp_path / "t.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[files\]"):
        open_table(tmp_path / "t.xlsx")


def test_parquet__whole_numbers_with_holes_stay_whole_as_names(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": pa.array([2**60 + 1, None])}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", texts=["id"])["id"].iloc[0] == str(2**60 + 1)


def test_typed__names_row_and_column_of_a_wrong_value(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,high\n5,low\n")
    table = open_table(tmp_path / "t.csv")
    (raw,) = table.frames()
    with pytest.raises(InvalidInputError, match=r"row 12, column 'b': 'high' is no number \(and 1 more"):
        typed(raw, table, {"a": "number", "b": "number"}, row=10)


def test_write_table__is_whole_or_absent(tmp_path, trees):
    path = tmp_path / "t.csv"

    def write_and_fail():
        with write_table(path) as table:
            table.write(trees)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
    path.write_text("mine")
    with pytest.raises(InvalidInputError, match="exists"), write_table(path):
        pass
    assert path.read_text() == "mine"
    with pytest.raises(InvalidInputError, match=r"written as \.csv"), write_table(tmp_path / "t.xlsx"):
        pass


def test_write_table__does_not_replace_what_came_meanwhile(tmp_path, trees):
    path = tmp_path / "t.csv"

    def write_late():
        with write_table(path) as table:
            table.write(trees)
            path.write_text("another's")

    with pytest.raises(InvalidInputError, match="exists"):
        write_late()
    assert path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_write_table__parts_are_one_table(tmp_path, trees, suffix):
    path = tmp_path / f"t.{suffix}"
    with write_table(path) as table:
        table.write(trees[["name", "kind"]].iloc[:1])
        table.write(trees[["name", "kind"]].iloc[1:2])  # in which a column holds nothing
        table.write(trees[["name", "kind"]].iloc[2:])
    assert read_table(path)["name"].tolist() == ["007", "008", "009"]
