"""Predictions of a table are those of the model, whatever the table's parts and form."""

import json

import numpy as np
import pandas as pd
import pytest

import pnca
from pnca import PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca.persistence.encoding import MalformedError
from pnca.persistence.model_file import content_of, model_of
from pnca.tables import open_table, read_table
from pnca.workflows import predict_table
from pnca.workflows import predicting as predicting_module
from pnca.workflows.answers import Answers, Settings, _Sample
from pnca.workflows.predicting import drift_note, source_of

INPUTS = ["marker", "age", "site", "seen", "smoker"]


def predict(model, folder, table="new.csv", settings=None, name="p.csv", **options):
    found = predict_table(
        model, open_table(folder / table), folder / name, settings, overwrite=True, **options
    )
    return found, read_table(folder / name)


def as_given(table):
    return table[INPUTS].assign(smoker=table["smoker"].astype(object))


def test_predict_table__says_what_the_model_says(model, folder, patients):
    found, said = predict(model, folder, settings=Settings(max_error=0.2, coverage=0.8))
    X = as_given(patients[1])
    decisions = model.decide(X, max_error=0.2)
    proba = model.predict_proba(X)
    assert said["sample"].tolist() == patients[1]["sample"].tolist()
    assert [None if pd.isna(v) else v for v in said["label"]] == decisions.label.tolist()
    assert said["reason"].tolist() == decisions.reason.tolist()
    # As many digits as a float has; float32 of the network knows fewer, in another batch.
    np.testing.assert_allclose(said[["probability_ill", "probability_well"]], proba, rtol=1e-9)
    np.testing.assert_allclose(said["familiarity"], model.familiarity(X), rtol=1e-9)
    sets = model.predict_set(X, coverage=0.8)
    assert [None if pd.isna(text) else text for text in said["set"]] == [
        None if reason == "unfamiliar" else "; ".join(model.classes_[row])
        for row, reason in zip(sets, decisions.reason, strict=True)
    ]
    ids = model.record_.ids[model.neighbors(X, k=3)[0]]
    assert said["examples"].tolist() == ["; ".join(row) for row in ids]
    assert (found.n, sum(found.counts.values())) == (len(X), len(X))


def test_predict_table__does_not_depend_on_its_parts(model, folder, monkeypatch):
    whole = predict(model, folder)[1]
    monkeypatch.setattr(predicting_module, "_ROWS", 3)
    pd.testing.assert_frame_equal(predict(model, folder)[1], whole, rtol=1e-9)


def test_predict_table__columns_are_found_by_name_and_the_others_named(model, folder, patients):
    whole = predict(model, folder)[1]
    table = patients[1][["smoker", "seen", "sample", "marker", "age", "site"]].assign(extra=1)
    table.to_csv(folder / "other.csv", index=False)
    found, said = predict(model, folder, "other.csv")
    pd.testing.assert_frame_equal(said, whole, rtol=1e-9)
    assert any("not used" in note and "'extra'" in note for note in found.notes)
    table.drop(columns=["age"]).rename(columns={"site": "Site"}).to_csv(folder / "less.csv", index=False)
    with pytest.raises(InvalidInputError, match=r"lacks 2 of the 5 columns.*'age', 'site'"):
        predict(model, folder, "less.csv")
    table.rename(columns={"site": "Site"}).to_csv(folder / "renamed.csv", index=False)
    with pytest.raises(InvalidInputError, match="did you mean 'Site'"):
        predict(model, folder, "renamed.csv")


def test_predict_table__new_categories_are_named(model, folder, patients):
    patients[1].assign(site="Jena").to_csv(folder / "jena.csv", index=False)
    found, said = predict(model, folder, "jena.csv")
    assert any(
        "'site' has values that were never seen in training, such as 'Jena' (20 rows)" in n
        for n in found.notes
    )
    with pytest.warns(UserWarning, match="X holds values that no training example had"):
        expected = model.predict_proba(as_given(patients[1].assign(site="Jena")))
    np.testing.assert_allclose(said["probability_ill"], expected[:, 0], rtol=1e-9)


def test_predict_table__a_value_of_another_sort_is_named_and_nothing_written(model, folder, patients):
    table = patients[1].astype({"age": str})
    table.loc[7, "age"] = "old"
    table.to_csv(folder / "wrong.csv", index=False)
    with pytest.raises(InvalidInputError, match="row 8, column 'age': 'old' is no number"):
        predict(model, folder, "wrong.csv", name="absent.csv")
    assert not list(folder.glob("*absent*"))


@pytest.mark.parametrize("suffix", ["xlsx", "parquet", "tsv"])
def test_predict_table__does_not_depend_on_the_format(model, folder, patients, suffix):
    if suffix == "xlsx":
        patients[1].to_excel(folder / "new.xlsx", index=False)
    elif suffix == "parquet":
        patients[1].to_parquet(folder / "new.parquet")
    else:
        patients[1].to_csv(folder / "new.tsv", sep="\t", index=False)
    name = "p.parquet" if suffix == "parquet" else "p.csv"
    said = predict(model, folder, f"new.{suffix}", name=name)[1]
    pd.testing.assert_frame_equal(said, predict(model, folder)[1], rtol=1e-9)


def test_predict_table__of_a_model_from_a_file(model, folder):
    again = pnca.load(pnca.save(model, folder / "model.pnca", overwrite=True))
    assert again.source_ == model.source_
    pd.testing.assert_frame_equal(predict(again, folder)[1], predict(model, folder)[1], rtol=1e-9)
    lean = pnca.load(pnca.save(model, folder / "lean.pnca", overwrite=True, store="predictive"))
    assert predict(lean, folder)[1]["examples"].str.fullmatch(r"\d+; \d+; \d+").all()


def test_predict_table__of_a_model_that_was_fitted_in_python(model, folder, patients):
    own = PNCAClassifier(n_particles=2, max_epochs=5, experts=["linear"], random_state=0)
    own.fit(as_given(patients[0]), patients[0]["diagnosis"], groups=patients[0]["patient"])
    assert source_of(own).sorts == model.source_.sorts
    said = predict(own, folder)[1]
    assert said["row"].tolist() == list(range(1, 21))
    np.testing.assert_allclose(
        said["probability_ill"], predict(model, folder)[1]["probability_ill"], rtol=1e-9
    )


def test_predict_table__of_categories_that_are_intervals(tmp_path):
    rng = np.random.default_rng(0)
    ages = pd.Series(rng.integers(20, 80, 60))
    X = pd.DataFrame({"age": pd.cut(ages, [0, 40, 60, 100]), "marker": rng.normal(size=60)})
    own = PNCAClassifier(n_particles=2, max_epochs=5, experts=["linear"], random_state=0)
    own.fit(X, np.where(ages + 20 * X["marker"] > 50, "ill", "well"))
    X.to_csv(tmp_path / "new.csv", index=False)
    again = pnca.load(pnca.save(own, tmp_path / "m.pnca"))
    found, said = predict(again, tmp_path)
    np.testing.assert_allclose(said["probability_ill"], own.predict_proba(X)[:, 0], rtol=1e-6)
    assert not [note for note in found.notes if "never seen" in note]
    X.assign(age=["(100, 120]", *X["age"].astype(str)[1:]]).to_csv(tmp_path / "other.csv", index=False)
    found, _ = predict(again, tmp_path, "other.csv")
    assert any(
        "'age' has values that were never seen in training, such as '(100, 120]'" in n for n in found.notes
    )


def test_predict_table__of_columns_whose_names_are_no_text(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({0: rng.normal(size=40), 1: rng.choice(["a", "b"], 40)})
    own = PNCAClassifier(n_particles=2, max_epochs=5, experts=["linear"], random_state=0)
    own.fit(X, np.where(X[0] > 0, "ill", "well"))
    X.to_csv(tmp_path / "new.csv", index=False)
    _, said = predict(own, tmp_path)
    np.testing.assert_allclose(said["probability_ill"], own.predict_proba(X)[:, 0], rtol=1e-6)


def test_predict_table__of_images_is_refused(folder):
    images = PNCAClassifier(n_particles=2, max_epochs=2, random_state=0)
    images.fit(np.random.default_rng(0).random((12, 4, 4)), np.arange(12) % 2)
    with pytest.raises(InvalidInputError, match="not fitted on a table"):
        predict(images, folder)


def test_labels__that_are_numbers_stay_some(folder):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(30)})
    model = PNCAClassifier(n_particles=2, max_epochs=2, experts=["linear"], random_state=0)
    model.fit(X, np.array([3, 11, 7] * 10))
    X.to_csv(folder / "a.csv", index=False)
    said = predict(model, folder, "a.csv", Settings(max_error=0.5, n_examples=0), name="p.parquet")[1]
    assert list(said.columns) == [
        "row", "label", "reason", "confidence", "familiarity", "set",
        "probability_3", "probability_7", "probability_11",
    ]  # fmt: skip


def test_sets__of_classes_with_semicolons_are_quoted(folder):
    rng = np.random.default_rng(0)
    model = PNCAClassifier(n_particles=2, max_epochs=2, experts=["linear"], random_state=0)
    model.fit(rng.random((30, 1)), np.array(["a;b", "c"] * 15))
    sets = Answers(model, Settings(coverage=0.99)).frame(rng.random((5, 1)))["set"]
    assert set(sets.dropna()) <= {'"a;b"; c', '"a;b"', "c"}
    assert '"a;b"; c' in set(sets)
    assert json.loads('"a;b"') == "a;b"


def test_drift__of_a_sample_is_that_of_all_where_all_are_kept(model, patients):
    answers = Answers(model)
    X = as_given(patients[1])
    groups = patients[1]["patient"].to_numpy()
    for rows in (slice(0, 7), slice(7, 20)):
        answers.frame(X.iloc[rows], groups[rows])
    found, expected = answers.drift(), model.drift(X, groups=groups)
    assert (found.n, found.p_value, found.columns) == (expected.n, expected.p_value, expected.columns)
    assert drift_note(found, 20) == ""


def test_drift__is_seen_in_what_is_unlike_the_training_rows(model, patients):
    answers = Answers(model)
    answers.frame(as_given(patients[1]).assign(marker=50.0, age=500.0))
    note = drift_note(answers.drift(), 20)
    assert "less familiar" in note
    assert "marker" in note


def test_sample__is_bounded_and_every_input_is_as_likely():
    sample = _Sample()
    for start in range(0, 20_000, 500):
        numbers = np.arange(start, start + 500.0)
        sample.add(numbers[:, None], numbers, None)
    assert len(sample.inputs) == len(set(sample.evidence)) == 2000
    np.testing.assert_array_equal(sample.inputs[:, 0], sample.evidence)
    # The mean of 2,000 of 0..19,999 has a standard deviation of 122.
    assert abs(sample.evidence.mean() - 9999.5) < 5 * 122


def test_answers__settings_that_cannot_be_met(model):
    with pytest.raises(InvalidInputError, match="60 training examples; 61"):
        Answers(model, Settings(n_examples=61))
    with pytest.raises(InvalidInputError, match="coverage"):
        Answers(model, Settings(coverage=1.5))


@pytest.mark.parametrize(
    "change",
    [
        {"target": 1},
        {"sorts": {"marker": "nonsense"}},
        {"sorts": []},
        {"holes": "x"},
        {"id": ["sample"]},
        {"more": 1},
    ],
)
def test_source__that_was_forged_is_refused(model, change):
    content = content_of(model)
    forged = json.loads(json.dumps(content.model))
    forged["attributes"]["source_"]["TableSource"] |= change
    with pytest.raises(MalformedError):
        model_of(content._replace(model=forged), "cpu", None)
    model_of(content, "cpu", None)
