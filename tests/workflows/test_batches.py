"""Batches, verdicts and samples are what the model itself says."""

import numpy as np
import pandas as pd
import pytest

from pnca import PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca.tables import open_table
from pnca.tables.text import open_text
from pnca.workflows.answers import Answers, Scores, Settings, checked_inputs, decisions_out_of_fold, scores_of
from pnca.workflows.batches import (
    RowsTable,
    answered,
    arranged,
    batch_of_table,
    explain_input,
    kind_of,
    table_parts,
    without_rows,
)
from pnca.workflows.predicting import predict_table, source_of
from pnca.workflows.samples import sample_of, samples_of
from pnca.workflows.verdicts import verdict_of

SETTINGS = Settings(max_error=0.2, n_examples=4)


def batch_of(model, table):
    inputs, parts = table_parts(model, table, 1000)
    scores = [scores_of(model, checked_inputs(model, part.X), 4) for part in parts]
    return batch_of_table(inputs, parts, Scores.joined(scores))


@pytest.fixture(scope="module")
def batch(model, folder):
    return batch_of(model, open_table(folder / "new.csv"))


def test_answered__is_what_predict_writes(model, folder, batch, tmp_path):
    predict_table(model, open_table(folder / "new.csv"), tmp_path / "p.csv", SETTINGS)
    answered(model, batch, SETTINGS).frame.to_csv(tmp_path / "own.csv", index=False)
    written, own = (pd.read_csv(tmp_path / name) for name in ("p.csv", "own.csv"))
    pd.testing.assert_frame_equal(own, written, rtol=1e-9)


def test_answered__by_other_settings_needs_no_other_scores(model, batch):
    strict, lax = (answered(model, batch, Settings(max_error=share)) for share in (0.01, 0.3))
    assert sum(strict.counts.values()) == sum(lax.counts.values()) == len(batch) == 20
    assert strict.decisions.is_answered.sum() < lax.decisions.is_answered.sum()
    expected = model.decide(batch.X, max_error=0.3)
    assert lax.decisions.reason.tolist() == expected.reason.tolist()


def test_text__from_memory_is_read_as_from_a_file(model, folder):
    content = (folder / "new.csv").read_bytes()
    table = open_text(open_table(folder / "new.csv").path.with_name("elsewhere.csv"), content=content)
    expected, found = batch_of(model, open_table(folder / "new.csv")), batch_of(model, table)
    pd.testing.assert_frame_equal(found.X, expected.X)
    assert list(found.names) == list(expected.names)


def test_rows__are_read_as_a_table_is(model, batch, patients):
    new = patients[1]
    columns = ["marker", "age", "site", "seen", "smoker"]
    plain = new[columns].assign(seen=new["seen"].dt.strftime("%Y-%m-%d")).astype(object)
    plain = plain.where(plain.notna(), None)
    named = RowsTable(plain.to_dict("records"))
    listed = RowsTable(plain.to_numpy().tolist(), list(source_of(model).sorts))
    for table in (named, listed):
        np.testing.assert_allclose(batch_of(model, table).scores.proba, batch.scores.proba, rtol=1e-9)
    with pytest.raises(InvalidInputError, match="Row 1 has 1 values, but the model has 5"):
        batch_of(model, RowsTable([[1]], columns))
    with pytest.raises(InvalidInputError, match="no column 'marker'"):
        batch_of(model, RowsTable([{**plain.iloc[0].drop("marker").to_dict(), " marker": 1.0}]))


def test_table_parts__of_too_many_rows(model, folder):
    with pytest.raises(InvalidInputError, match="more than 19 rows"):
        table_parts(model, open_table(folder / "new.csv"), 19)


def test_arranged__by_a_column_and_a_reason(model, batch):
    frame = answered(model, batch, SETTINGS).frame
    assert arranged(frame).tolist() == list(range(20))
    rows = arranged(frame, by="confidence", descending=True)
    assert (np.diff(frame["confidence"].to_numpy()[rows]) <= 0).all()
    rows = arranged(frame, by="name", descending=True)
    assert frame.iloc[rows, 0].tolist() == sorted(frame.iloc[:, 0], reverse=True)
    reason = frame["reason"].iloc[0]
    rows = arranged(frame, by="familiarity", reason=reason)
    assert set(frame["reason"].iloc[rows]) == {reason}
    assert (np.diff(frame["familiarity"].to_numpy()[rows]) >= 0).all()
    with pytest.raises(InvalidInputError, match="sorted by one of"):
        arranged(frame, by="__class__")


def test_explain_input__is_the_case_of_the_model(model, batch):
    case, expected = explain_input(model, batch, 3, 2), model.explain(batch.X.iloc[[3]], 2)[0]
    assert case.row == 4
    np.testing.assert_allclose(case.proba, expected.proba, rtol=1e-12)
    assert [example.id for example in case.examples] == [example.id for example in expected.examples]
    rows = [example.row for example in case.examples]
    names = [example.id for example in case.examples]
    np.testing.assert_allclose(without_rows(case, rows).after, expected.without(names).after)
    for wrong in (-1, 60):
        with pytest.raises(InvalidInputError, match="There is no training example"):
            without_rows(case, [wrong])


def test_kind_of__models(model):
    assert kind_of(model) == "table"
    X, y = np.random.default_rng(0).normal(size=(20, 6, 6)), np.arange(20) % 2
    images = PNCAClassifier(n_particles=2, max_epochs=1, random_state=0).fit(X, y)
    with pytest.raises(InvalidInputError, match="not known what an input"):
        kind_of(images)


def test_samples__are_one_of_each_reason_out_of_fold(model):
    decisions, found = decisions_out_of_fold(model, SETTINGS), samples_of(model, SETTINGS)
    assert set(found) == set(decisions.reason.tolist())
    for reason, row in found.items():
        assert decisions.reason[row] == reason
    bare = PNCAClassifier(n_particles=2, max_epochs=1, random_state=0).fit(*_plain())
    del bare.record_
    assert samples_of(bare, SETTINGS) == {}
    with pytest.raises(InvalidInputError, match="no record"):
        sample_of(bare, 0)


def _plain():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 3)), np.arange(30) % 2


@pytest.mark.parametrize("experts", [["linear"], "auto", ()])
def test_sample__is_answered_as_without_itself(experts):
    X, y = _plain()
    X[:, 0] += 2 * y
    model = PNCAClassifier(n_particles=2, max_epochs=5, experts=experts, random_state=0).fit(X, y)
    for row in range(0, 30, 3):
        sample = sample_of(model, row, k=3)
        expected = model.explain(X[[row]])[0].without([row]).after[0]
        np.testing.assert_allclose(sample.case.proba, expected, rtol=1e-9)
        np.testing.assert_allclose(sum(sample.case.parts.values()), expected, rtol=1e-9)
        assert row not in [example.row for example in sample.case.examples]
        assert len(sample.case.examples) == 3
        assert (sample.label, sample.case.row) == (y[row], row + 1)
    with pytest.raises(InvalidInputError, match="no training example 31"):
        sample_of(model, 30)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("answered", "well: answered"), ("unfamiliar", "Not answered: unfamiliar"),
        ("ambiguous", "Not answered: ambiguous"), ("cannot promise", "cannot promise at most 5 %"),
    ],
)  # fmt: skip
def test_verdict__says_the_reason_and_what_it_rests_on(reason, said):
    from pnca.calibration.decisions import Decisions
    from pnca.calibration.selective import Threshold

    value = None if reason == "cannot promise" else 0.8
    promise = Threshold(value, 0.05, 30, 1, 30, 1 / 30, 45)
    label = np.array([None, "well" if reason == "answered" else None], dtype=object)
    decisions = Decisions(
        label,
        np.array(["answered", reason]),
        np.array([1.0, 0.7]),
        np.array([1.0, 0.2]),
        {None: promise},
        0.9,
        0.05,
    )
    found = verdict_of(decisions, 1, np.array(["ill", "well"]), np.array([0.3, 0.7]))
    assert said in found.title
    assert found.reason == reason
    assert ".700" in found.details
    expected = {
        "answered": "Of all answers that the model gives, at most 5 % are wrong, with confidence .9",
        "unfamiliar": "below .050", "ambiguous": "from .800 on",
        "cannot promise": "takes 45 examples",
    }  # fmt: skip
    assert expected[reason] in found.details


def test_scores__are_joined_and_divided(model, batch):
    whole = batch.scores
    again = Scores.joined([whole.of(slice(0, 7)), whole.of(slice(7, 20))])
    for name in ("inputs", "proba", "evidence", "rows", "shares"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    assert len(again) == 20
    asked = Answers(model, SETTINGS).ask(batch.X)
    np.testing.assert_allclose(asked.proba, whole.proba, rtol=1e-12)
