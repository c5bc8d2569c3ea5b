"""What is said of columns that are perhaps not meant, and of inputs unlike those of the training."""

import warnings

import numpy as np
import pandas as pd
import pytest

from models import make
from pnca.columns import Columns
from pnca.estimators.notices import warn_of_columns, warn_of_inputs

N = 120


def table(**more):
    rng = np.random.RandomState(0)
    found = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N).round(1)})
    return found.assign(**more)


def said(X, groups=None, **settings):
    """Every warning of a fit to these columns, in one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_columns(Columns.fit(X), X, groups, **settings)
    return " ".join(str(warning.message) for warning in caught)


def said_of(columns, X, n_train=N):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_inputs(columns, X, n_train)
    assert len(caught) <= 1
    return "".join(str(warning.message) for warning in caught)


def test_ordinary_columns__are_passed_over_in_silence():
    rng = np.random.RandomState(0)
    assert (
        said(table(sex=rng.choice(["f", "m"], N), age=rng.randint(20, 90, N), k=7, x=np.linspace(0, 1, N)))
        == ""
    )
    assert said(rng.normal(size=(N, 3))) == ""


def test_unused__says_which_of_the_reasons_it_is():
    text = said(table(empty=np.nan, name=[f"p{i}" for i in range(N)]), takes_ids=True)
    assert "Not used: 'empty', in which every value is missing." in text
    assert "Not used: 'name', in which no value occurs twice; if it names the rows" in text
    assert "ids=" in text
    assert "ids=" not in said(table(name=[f"p{i}" for i in range(N)]))


def decimals(form):
    return [form.format(i // 2 % 9 + 1, 100 + i // 2) for i in range(N)]


@pytest.mark.parametrize(
    ("values", "what", "cure"),
    [
        (decimals("{}.{}"), "numbers as text", "to_numeric"),
        (["<5", "7.3", "6.1"] * 40, "numbers as text", "to_numeric"),
        (decimals("{},{}"), "numbers with a decimal comma", "decimal=','"),
        (decimals("{}.{},5"), "numbers with a decimal comma", "thousands='.'"),
        (decimals("{},{}.5"), "numbers with commas", "thousands=','"),
        (
            [f"{i}{',5' * (i % 2)}" for i in range(N)],
            "numbers with a decimal comma",
            "decimal=','",
        ),  # all differ
        (["2026-01-02", "2026-01-03"] * 60, "dates as text", "to_datetime"),
    ],
)
def test_text__that_reads_as_something_else_is_pointed_out(values, what, cure):
    text = said(table(x=values))
    assert f"'x' holds {what}" in text
    assert cure in text


@pytest.mark.parametrize(
    "values", [["a", "b,c"] * 60, ["1, 2", "3, 4"] * 60, ["T1", "T2"] * 60, ["a", "2026"] * 60]
)
def test_text__that_is_text_is_left_alone(values):
    assert said(table(x=values)) == ""


@pytest.mark.parametrize(
    "values", [np.arange(N) + 1000, np.random.RandomState(0).permutation(N), N - np.arange(N)]
)
def test_numbers_of_the_rows__are_pointed_out(values):
    assert "Column 'id' looks like a number of the rows" in said(table(id=values))
    assert "Column 2 looks like a number of the rows" in said(table(id=values).to_numpy())


@pytest.mark.parametrize("as_name", [lambda g: g + 500, lambda g: [f"patient {k}" for k in g]])
def test_names_of_groups__are_pointed_out(as_name):
    groups = np.random.RandomState(0).permutation(np.arange(N) // 3)
    named = table(patient=as_name(groups))
    assert "Column 'patient' tells the groups apart one to one" in said(named, groups)
    assert "groups" not in said(named)
    own = np.random.RandomState(1).normal(size=N // 3)[groups]  # a measurement of each patient
    assert said(table(age=own, sex=np.where(own > 0, "f", "m")), groups) == ""


def test_holes__where_there_were_some_are_pointed_out_if_there_are_far_more():
    train = table()
    train.loc[::12, "a"] = np.nan  # 8 %
    columns = Columns.fit(train)
    assert said_of(columns, train) == said_of(columns, train[:1]) == ""
    assert said_of(columns, train[1:12].assign(a=[np.nan] * 2 + [1.0] * 9)) == ""
    text = said_of(columns, train.assign(a=np.nan))
    assert (
        text == "X lacks far more values than the training data in 'a' (120 of 120 rows, 8.3 % in training)."
    )


def test_values__of_categories_that_were_never_seen_are_named_and_counted():
    columns = Columns.fit(table(hospital=["North", "South"] * 60))
    asked = table(hospital=["West"] * 12 + ["x" * 500] + ["South"] * 107)
    text = said_of(columns, asked)
    assert "'hospital': 'West' in 12 rows, 'xxx" in text
    assert len(text) < 200
    many = said_of(columns, table(hospital=[f"h{i}" for i in range(N)]))
    assert "in 1 row, ..." in many
    assert len(many) < 200


def test_both__are_one_warning_in_the_line_that_asks_and_not_one_for_each_chunk():
    y = np.arange(N) % 2
    model = make("PNCA", max_epochs=2).fit(table(hospital=["North", "South"] * 60), y)
    asked = pd.concat(
        [table(hospital="West", a=np.nan)] * 10, ignore_index=True
    )  # 1,200 rows, more than a chunk
    for ask in (model.predict, model.predict_proba, model.familiarity, model.neighbors):
        with pytest.warns(UserWarning, match="X lacks") as caught:
            ask(asked)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert "lacked none ('a')" in str(caught[0].message)
        assert "'West' in 1200 rows" in str(caught[0].message)


def test_constant_columns__are_refused_for_what_they_are():
    with pytest.raises(ValueError, match="Every column of X is constant"):
        make("PNCA").fit(np.ones((20, 3)), np.arange(20) % 2)
