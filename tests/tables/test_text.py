"""Text files: encodings, separators, records, and what is wrong with them."""

import csv

import pandas as pd
import pytest

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.tables import open_table, read_table
from pnca.tables import text as text_module


@pytest.fixture
def write(tmp_path):
    def to(content, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return to


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_open_table__finds_the_encoding(write, encoding):
    table = open_table(write("größe,ort\n1,Köln\n", encoding=encoding))
    assert table.names == ("größe", "ort")
    assert next(table.frames()).iloc[0].tolist() == ["1", "Köln"]
    assert bool(table.notes) == (encoding == "cp1252")  # a guess is said


def test_open_table__an_encoding_that_is_wrong_is_named_with_the_row(write):
    path = write("a,b\n" + "1,2\n" * 30 + "3,\xe9\n", encoding="latin-1")
    with pytest.raises(InvalidInputError, match=r"not text in utf-8, after row .*cp1252"):
        list(open_table(path, encoding="utf-8").frames())
    with pytest.raises(InvalidInputError, match="no encoding 'utf-9': name utf-8, utf-16 or cp1252"):
        open_table(path, encoding="utf-9")
    with pytest.raises(InvalidInputError, match="not text in utf-16"):
        open_table(path, encoding="utf-16")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_open_table__finds_the_separator(write, delimiter):
    rows = [["name", "note", "n"], ["a", "x, y", "1"], ["b", "p; q", "2"]]
    lines = [delimiter.join(f'"{v}"' if delimiter in v else v for v in row) for row in rows]
    table = open_table(write("\n".join(lines)))
    assert (table.delimiter, table.names) == (delimiter, ("name", "note", "n"))
    assert [r for f in table.frames() for r in f["note"]] == ["x, y", "p; q"]


def test_open_table__tsv_has_tabs_and_a_separator_can_be_named(write):
    assert open_table(write("a,b\tc\n1,2\t3\n", "table.tsv")).names == ("a,b", "c")
    assert open_table(write("a,b\tc\n1,2\t3\n"), delimiter="\t").names == ("a,b", "c")
    with pytest.raises(InvalidInputError, match="one character"):
        open_table(write("a,b\n"), delimiter="::")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [7, 2**20])
def test_frames__are_the_rows_wherever_blocks_end(write, monkeypatch, end, block):
    monkeypatch.setattr(text_module, "BLOCK", block)
    path = write(end.join(["a,b", "1,x", '2,"y', 'z ""q"""', "", "3,", '4,5" pipe', ""]))
    frames = list(open_table(path).frames())
    joined = pd.concat(frames, ignore_index=True)
    assert joined["a"].tolist() == ["1", "2", "3", "4"]
    assert joined["b"].tolist()[1] == f'y{end}z "q"'
    assert joined["b"].tolist()[3] == '5" pipe'
    assert len(frames) > 1 or block > 7


def test_frames__equal_pythons_reader_on_random_records(write, monkeypatch):
    import random

    chance = random.Random(0)
    monkeypatch.setattr(text_module, "BLOCK", 60)
    fields = ["x", "1.5", 'say "hi"', "a,b", "two\nlines", " ", "é"]
    rows = [[chance.choice(fields) for _ in range(3)] for _ in range(200)]
    path = write("")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["p", "q", "r"], *rows])
    found = pd.concat(list(open_table(path).frames()), ignore_index=True)
    assert found.to_numpy().tolist() == rows


def test_frames__numbers_are_read_as_such_and_a_text_among_them_leaves_the_block_text(write, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK", 8)
    first, second = open_table(write("a,b\n1,2\n3,NA\nx,4\n")).frames(["a", "b"])
    assert first.dtypes.tolist() == ["float64", "float64"]
    assert second["a"].tolist() == ["x"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", r"empty \(0 bytes\)"),
        ("\n\n\n", "empty"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 are both called 'a'"),
        ("a,b\n1,2\n3\n", r"row 2 has 1 fields, but there are 2 columns .*begins '3'"),
        ("a,b\n1,2\n3,4,5\n", "row 2 has 3 fields"),
        ("a,b\n1\n3,4,5\n", "row 1 has 1 fields"),  # as many separators as there should be
        ('a,b\n1,"2\n3,4\n' + "5,6\n" * 50_000, "row 1 cannot be read .* never closed"),
        (b"PK\x03\x04 and more", "zip archive or an Excel file"),
        (b"PAR1 and more", "Parquet"),
        (b"a,b\n1,\x002\n", "zero bytes"),
        (",,\n1,2,3\n", "names no columns"),
    ],
)
def test_open_table__says_what_is_wrong(write, content, reason):
    path = write(content)
    with pytest.raises(InvalidInputError, match=reason) as caught:
        list(open_table(path).frames())
    assert str(path) in str(caught.value)


def test_open_table__a_row_of_a_million_columns_is_refused(write):
    path = write(",".join(f"c{i}" for i in range(1_000_000)) + "\n1\n")
    with pytest.raises(InvalidInputError, match=r"has 1,000,000 columns, of 100,000 at most.*on its side"):
        open_table(path)


def test_open_table__a_line_without_end_is_refused(write, monkeypatch):
    monkeypatch.setattr(text_module, "LONGEST", 100)
    with pytest.raises(InvalidInputError, match="first line has 100 characters or more"):
        open_table(write("a" * 1000))


def test_open_table__what_is_no_file(write, tmp_path):
    with pytest.raises(InvalidInputError, match="is a folder"):
        open_table(tmp_path)
    with pytest.raises(MissingDataError, match="no table"):
        open_table(tmp_path / "absent.csv")
    with pytest.raises(InvalidInputError, match=r"no known kind.*\.parquet.*save it as \.xlsx"):
        open_table(write("a", "old.xls"))
    with pytest.raises(InvalidInputError, match="no Excel file"):
        open_table(write("a,b\n"), sheet="one")


def test_read_table__a_column_without_a_name_is_called_by_its_place(write):
    assert list(read_table(write(",b\n1,2\n")).columns) == ["column 1", "b"]


def test_read_table__one_column_has_holes_in_empty_lines(write):
    assert read_table(write("a\n1\n\n3\n"))["a"].isna().tolist() == [False, True, False]


def test_read_table__header_only(write):
    with pytest.raises(InvalidInputError, match="a header and no rows"):
        read_table(write("a,b\n"))
