"""Labelled examples of a table: roles, labels, and what is said of columns."""

import numpy as np
import pytest

from pnca.exceptions import InvalidInputError
from pnca.tables import Roles, open_table, read_examples


@pytest.fixture
def read(tmp_path):
    def of(rows, target="y", *, skip_missing=False, holes=(), **roles):
        path = tmp_path / "table.csv"
        path.write_text("\n".join([rows] if isinstance(rows, str) else rows))
        return read_examples(
            open_table(path), Roles(target=target, **roles), skip_missing=skip_missing, holes=holes
        )

    return of


def rows(*columns):
    return [",".join(map(str, row)) for row in zip(*columns, strict=True)]


def test_read_examples__roles_are_no_inputs(read):
    found = read(
        ["id,who,junk,a,y", "01,p,1,2.5,u", "02,p,1,3.5,v", "03,q,2,NA,u"],
        id="id",
        group="who",
        ignore=("junk",),
    )
    assert list(found.X.columns) == ["a"]
    assert found.ids.tolist() == ["01", "02", "03"]
    assert found.groups.tolist() == ["p", "p", "q"]
    assert found.y.tolist() == ["u", "v", "u"]
    assert found.rows.tolist() == [1, 2, 3]
    assert found.source.sorts == {"a": "number"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["0", "1", "0"], [0, 1, 0]),
        (["01", "02", "01"], ["01", "02", "01"]),
        (["TRUE", "false", "True"], [True, False, True]),
        (["1.0", "2", "1"], [1, 2, 1]),
        (["None", "mild", "None"], ["None", "mild", "None"]),
    ],
)
def test_read_examples__labels_keep_their_type(read, labels, expected):
    found = read(["a,y", *rows([1, 2, 3], labels)]).y.tolist()
    assert found == expected
    assert type(found[0]) is type(expected[0])


def test_read_examples__rows_without_a_class_are_named_and_left_out_if_wanted(read):
    table = ["a,y", "1,u", "2,", "3,v", "4,?", "5,u"]
    with pytest.raises(InvalidInputError, match=r"no 'y' in rows 2, 4\. .*--skip-missing"):
        read(table)
    found = read(table, skip_missing=True)
    assert found.rows.tolist() == [1, 3, 5]
    assert found.X["a"].tolist() == [1, 3, 5]
    assert any("2 rows without 'y' are left out" in note for note in found.notes)
    with pytest.raises(InvalidInputError, match="empty in all 2 rows"):
        read(["a,y", "1,", "2,"], skip_missing=True)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (["a,z", "1,u"], r"no column 'y' \(--target\): there are 'a', 'z'"),
        (["a,yy", "1,u"], "did you mean 'yy'"),
        (["a,y", "1,u", "2,u"], "'u' in all 2 rows: a fit needs two classes"),
        (["a,y", "1,0.5", "2,1.25", "3,2"], r"looks continuous: .* such as 0\.5"),
        (["a,y", *rows(range(90), range(90))], "looks continuous: it has 90 different values"),
        (["a,y", *rows(range(90), [f"p{i}" for i in range(90)])], "looks like an identifier"),
        (["y", "u", "v"], "no column but y"),
    ],
)
def test_read_examples__targets_that_cannot_be_learnt(read, table, reason):
    with pytest.raises(InvalidInputError, match=reason):
        read(table)


def test_read_examples__ids_are_different_and_there(read):
    with pytest.raises(InvalidInputError, match=r"rows 1 and 3 have the same 'id', 'p'.*--group"):
        read(["id,a,y", "p,1,u", "q,2,v", "p,3,u"], id="id")
    with pytest.raises(InvalidInputError, match="row 2 has no 'who'"):
        read(["who,a,y", "p,1,u", ",2,v"], group="who")
    with pytest.raises(InvalidInputError, match="is the target"):
        read(["a,y", "1,u", "2,v"], group="y")


def test_read_examples__what_looks_odd_is_said(read):
    n = np.arange(40)
    table = [
        "nr,empty,same,crp,stage,y",
        *rows(
            1000 - 3 * n,
            ["5"] + [""] * 39,
            ["x"] * 40,
            [*["<5", "7.5"] * 3, *(n[:34] / 2)],
            n % 3,
            np.where(n % 2, "u", "v"),
        ),
    ]
    found = read(table)
    notes = "\n".join(found.notes)
    assert "'nr'" not in notes  # the fit says it
    assert "'empty' is almost empty: 1 of 40 rows" in notes
    assert "'same' is the same in all rows" in notes
    assert "'crp' is taken for text: 3 of 40 values are no numbers, such as '<5' in row 1" in notes
    assert "stage" not in notes
    mended = read(table, ignore=("nr", "empty", "same"), holes=("<5",))
    assert mended.source.sorts == {"crp": "number", "stage": "number"}
    assert mended.X["crp"].isna().sum() == 3
    assert not mended.notes


def test_read_examples__a_few_words_among_numbers_are_refused_unless_numbers_are_names(read):
    n = np.arange(40)
    table = ["crp,y", *rows(["<5", *(n[1:] / 2)], np.where(n % 2, "u", "v"))]
    with pytest.raises(
        InvalidInputError, match="'crp': 1 of 40 values are no numbers, such as '<5' in row 1"
    ):
        read(table)
    assert read(table, holes=("<5",)).source.sorts == {"crp": "number"}
    assert read(table, codes=("crp",)).source.sorts == {"crp": "text"}


def test_read_examples__a_measurement_of_distinct_whole_numbers_is_no_identifier(read):
    values = np.random.default_rng(0).permutation(1000)[:50]
    assert not read(["platelets,y", *rows(values, np.arange(50) % 2)]).notes


def test_read_examples__codes_must_be_inputs_that_can_be_names(read):
    with pytest.raises(InvalidInputError, match="--codes names 'day', which holds no numbers"):
        read(["day,y", "2024-01-01,u", "2024-01-02,v"], codes=("day",))
