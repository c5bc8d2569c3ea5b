"""The record of a fit: what was given, in the caller's order, safe from later changes, and checked."""

import datetime
import pickle

import numpy as np
import pytest
import torch

from models import digits, make, noisy
from pnca import record
from pnca.exceptions import InvalidInputError
from pnca.record import Record, names_of, unique_ids

X, Y = noisy()
IDS = np.array([f"p{row}" for row in range(40)])


def fitted(X=X, y=Y, **others):
    return make("NCA", max_epochs=1).fit(X, y, **others)


def test_record__is_what_was_given_in_its_order():
    groups = np.repeat(["b", "a"], 20)
    found = fitted(groups=groups, ids=IDS).record_
    np.testing.assert_array_equal(found.inputs, X)
    np.testing.assert_array_equal(found.labels, Y)
    assert (found.ids.tolist(), found.groups.tolist()) == (IDS.tolist(), groups.tolist())
    assert repr(found) == "<Record of 40 examples, with inputs and ids and groups>"


def test_record__does_not_follow_later_changes():
    inputs, labels, ids = X.copy(), Y.copy(), IDS.copy()
    found = fitted(inputs, labels, ids=ids).record_
    inputs[:], labels[:], ids[:] = 0, 0, "x"
    np.testing.assert_array_equal(found.inputs, X)
    np.testing.assert_array_equal(found.labels, Y)
    assert found.ids.tolist() == IDS.tolist()


def test_record__of_a_table_has_its_columns_and_no_index():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(Y == 1, "x", "y")}, index=IDS)
    found = fitted(table, ids=table.index).record_
    pd.testing.assert_frame_equal(found.inputs, table.reset_index(drop=True))
    assert found.ids.tolist() == IDS.tolist()
    table.loc["p3", "b"] = "changed"
    assert found.inputs["b"][3] == "x"


def test_record__of_lists_and_tensors_is_an_array():
    for given in (X.tolist(), torch.from_numpy(X)):
        np.testing.assert_array_equal(fitted(given).record_.inputs, X)


def test_record__holds_images_in_a_small_type():
    images, y = digits()
    small = fitted(images.astype(float), y).record_.inputs
    assert small.dtype == np.uint8
    np.testing.assert_array_equal(small, images)
    assert fitted(images.astype(float) / 16, y).record_.inputs.dtype == np.float32
    assert fitted(images.reshape(60, 64).astype(float), y).record_.inputs.dtype == float


def test_record__of_very_large_inputs_has_none_and_says_so(monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", X.nbytes - 1)
    found = fitted(ids=IDS).record_
    assert found.inputs is None
    assert "were not kept" in found.missing
    assert found.ids.tolist() == IDS.tolist()


def test_record__is_of_neighbour_models_and_of_the_last_fit():
    assert not hasattr(make("DNN", max_epochs=1).fit(X, Y), "record_")
    model = fitted(ids=IDS)
    assert model.fit(X[:30], Y[:30]).record_.ids is None
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.record_.inputs, X[:30])


def test_ids__have_no_influence():
    np.testing.assert_array_equal(fitted(ids=IDS).predict_proba(X), fitted().predict_proba(X))


def test_record__is_there_after_an_interrupt(monkeypatch):
    from pnca.training.loop import Run

    original = Run.advance

    def advance(run):
        original(run)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "advance", advance)
    model = make("PNCA", max_epochs=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, ids=IDS)
    assert model.record_.ids.tolist() == IDS.tolist()


@pytest.mark.parametrize(
    "ids",
    [
        list(range(3)),
        ["1", 1, "b"],
        np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[D]"),
        [datetime.date(2020, 1, day) for day in (1, 2, 3)],
    ],
)
def test_ids__may_be_texts_numbers_and_dates(ids):
    assert unique_ids(ids, 3).tolist() == np.asarray(ids, dtype=getattr(ids, "dtype", object)).tolist()


def test_ids__in_nanoseconds_are_dates():
    ids = np.array(["2020-01-01T01", "2020-01-02"], "M8[ns]")
    found = Record(inputs=None, labels=np.zeros(2), ids=unique_ids(ids, 2))
    assert found.ids.tolist() == [datetime.datetime(2020, 1, 1, 1), datetime.datetime(2020, 1, 2)]
    assert found.rows_of([ids[1], datetime.datetime(2020, 1, 1, 1)]).tolist() == [1, 0]
    with pytest.raises(InvalidInputError, match="ids is missing for 1 examples, the first in row 1"):
        unique_ids(np.array(["2020-01-01", "NaT"], "M8[ns]"), 2)


def test_ids__of_pandas_are_pythons_own():
    pd = pytest.importorskip("pandas")
    zoned = pd.Series(pd.date_range("2020-01-01", periods=2, tz="UTC"))
    assert [type(name) for name in unique_ids(zoned, 2)] == [datetime.datetime] * 2
    assert unique_ids(pd.Series(["a", "b"], dtype="string"), 2).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b"], "ids has 2 entries, but there are 3 examples"),
        (["a", None, "c"], "ids is missing for 1 examples, the first in row 1: name each"),
        (["a", float("nan"), "c"], "ids is missing"),
        (["a", "b", "a"], "ids has 'a' twice, in rows 0 and 2: .* pass groups="),
        ([[1], [2], [3]], "one entry an example; its shape"),
        (np.ma.array([1, 2, 3]), "masked"),
        ([{}, {}, {}], "an id must be a text"),
    ],
)
def test_ids__that_name_nothing_are_refused(ids, message):
    with pytest.raises(InvalidInputError, match=message):
        unique_ids(ids, 3)


def test_groups__are_checked_alike():
    with pytest.raises(InvalidInputError, match="one that belongs to no other is a group of its own"):
        names_of("groups", [1, None], 2)


def test_rows_of__names():
    named = Record(inputs=None, labels=np.zeros(3), ids=np.array([7, 8, 9]))
    assert named.rows_of([np.int64(9), 7]).tolist() == [2, 0]
    with pytest.raises(InvalidInputError, match="No training example has id 5"):
        named.rows_of([5])
    with pytest.raises(InvalidInputError, match="row 3: rows are 0 to 2"):
        Record(inputs=None, labels=np.zeros(3)).rows_of([3])
    with pytest.raises(InvalidInputError, match="No training example"):
        named.rows_of([[7]])


def test_names__of_a_tensor_are_a_copy():
    groups = torch.arange(4)
    names = names_of("groups", groups, 4)
    groups[0] = 9
    assert names.tolist() == [0, 1, 2, 3]


def test_ids__dates_of_numpy_and_periods_are_found_again_and_saved(tmp_path):
    import datetime

    import pandas as pd

    import pnca

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 2
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=2, experts=(), random_state=0)
    days = [np.datetime64("2024-05-01") + i for i in range(12)]
    months = pd.period_range("2024-01", periods=12, freq="M")
    for ids, name, kept in (
        (days, days[3], datetime.date(2024, 5, 4)),
        (np.array(days), days[3], datetime.date(2024, 5, 4)),
        (months, months[3], "2024-04"),
        (list(months), months[3], "2024-04"),
    ):
        model.fit(X, y, ids=ids)
        again = pnca.load(pnca.save(model, tmp_path / "m.pnca", overwrite=True))
        for found in (model.record_, again.record_):
            assert found.ids[3] == kept
            assert found.rows_of([name]).tolist() == [3]
            assert found.rows_of([kept]).tolist() == [3]
