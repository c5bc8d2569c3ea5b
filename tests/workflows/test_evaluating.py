"""Evaluations of fitted models: what is predicted, what is counted apart, and what a report gathers."""

import numpy as np
import pandas as pd
import pytest

import pnca
from pnca.exceptions import InvalidInputError
from pnca.tables import open_table
from pnca.workflows.cases import cases_of_table, ood_cases_of_table
from pnca.workflows.evaluating import Evaluating

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")


@pytest.fixture
def written(tmp_path, patients):
    """Write new patients, changed, and open the table."""

    def call(name="test.csv", **columns):
        patients[1].assign(**columns).to_csv(tmp_path / name, index=False, na_rep="NA")
        return open_table(tmp_path / name)

    return call


def test_evaluation__of_cases_is_that_of_python(model, patients, written):
    evaluating = Evaluating(model, max_error=0.3)
    found = evaluating.evaluation(cases_of_table(model, written()))
    X = patients[1][list(model.feature_names_in_)]
    proba = model.predict_proba(X)
    np.testing.assert_allclose(found.said.proba, proba)
    labels = np.searchsorted(model.classes_, patients[1]["diagnosis"])
    assert found.accuracy.value == pytest.approx((proba.argmax(axis=1) == labels).mean())
    decisions = model.decide(X, max_error=0.3)
    assert found.said.reason.tolist() == decisions.reason.tolist()
    np.testing.assert_allclose(found.said.familiarity, model.familiarity(X))
    assert found.n_groups == patients[1]["patient"].nunique()


def test_evaluation__out_of_fold_is_that_of_the_fit(model):
    found = Evaluating(model, max_error=0.3).evaluation()
    np.testing.assert_allclose(found.said.proba, model.oof_proba_)
    assert found.is_out_of_fold
    assert found.n_groups == len(np.unique(model.groups_))
    answered = (found.said.reason == "answered").sum()
    assert answered == (found.promise.n_answered if found.promise.value is not None else 0)


def test_evaluation__unknown_labels_are_counted_apart(model, patients, written):
    labels = patients[1]["diagnosis"].where(np.arange(20) > 2, "new <b>")
    evaluating = Evaluating(model)
    cases = cases_of_table(model, written(diagnosis=labels))
    found = evaluating.evaluation(cases)
    assert (found.n, found.unknown.n) == (17, 3)
    assert found.unknown_classes == {"new <b>": 3}
    assert len(evaluating._names(cases)) == 17
    with pytest.raises(InvalidInputError, match="None of the labels in column 'diagnosis'"):
        cases_of_table(model, written(diagnosis="other"))


def test_evaluation__of_one_class_has_no_auroc(model, written):
    found = Evaluating(model).evaluation(cases_of_table(model, written(diagnosis="ill")))
    assert np.isnan(found.auroc)
    assert found.as_dict()["auroc"] is None
    assert found.by_class[1].recall is None


def test_evaluation__training_rows_among_the_cases_are_named(model, folder, written):
    evaluating = Evaluating(model)
    evaluating.evaluation(cases_of_table(model, open_table(folder / "train.csv")))
    assert any("60 of 60 cases in train.csv equal a training example" in note for note in evaluating.notes)
    assert any("30 of 30 groups" in note for note in evaluating.notes)
    clean = Evaluating(model)
    clean.evaluation(cases_of_table(model, written()))
    assert not clean.notes


def test_evaluation__without_groups_or_record_says_so(model, patients, tmp_path):
    patients[1].drop(columns="patient").to_csv(tmp_path / "t.csv", index=False, na_rep="NA")
    path = pnca.save(model, tmp_path / "m.pnca", store="predictive")
    stored = pnca.load(path)
    evaluating = Evaluating(stored)
    found = evaluating.evaluation(cases_of_table(stored, open_table(tmp_path / "t.csv")))
    assert found.n_groups is None
    assert any("these cases have none" in note for note in evaluating.notes)
    assert any("could not be looked for" in note for note in evaluating.notes)
    report = evaluating.report(path, found, None, None, checksums={})
    assert report.cases == {}


def test_report__shows_evidence_and_no_patient(model, patients, written, tmp_path):
    from html_pages import Page
    from pnca.reports.pages import report_html

    path = pnca.save(model, tmp_path / "m.pnca")
    evaluating = Evaluating(model, max_error=0.3)
    strange = written("other.csv", marker=50.0)
    cases = cases_of_table(model, written(marker=patients[1]["marker"] - 1))
    ood = ood_cases_of_table(model, strange)
    found = evaluating.evaluation(cases, ood)
    report = evaluating.report(path, found, cases, ood, checksums={"test.csv": "0" * 64})
    assert set(report.cases) == set(
        [*found.confident_mistakes(3).tolist(), *found.least_familiar(3).tolist()]
    )
    for row, shown in report.cases.items():
        np.testing.assert_allclose(shown.case.proba, found.said.proba[row], atol=1e-9)
    text = report_html(report)
    page = Page(text)
    assert not page.all("script", "link", "iframe")
    assert not pd.Series(text).str.contains(r"\bP\d\d\b", regex=True).any()  # names of groups
    for name in report.names[sorted(report.cases)]:
        assert name in text  # names that the user asked for
    assert report.checksums["m.pnca"] in text


def test_report__out_of_fold_says_what_its_evidence_is(model, tmp_path):
    from pnca.reports.pages import report_html

    path = pnca.save(model, tmp_path / "m.pnca")
    evaluating = Evaluating(model)
    report = evaluating.report(path, evaluating.evaluation(), None, None, checksums={})
    for row, shown in report.cases.items():  # the case is the example itself, and is left out of it
        X = model.record_.inputs.iloc[[row]]
        np.testing.assert_allclose(shown.case.proba, model.predict_proba(X)[0], atol=1e-9)
        (case,) = model.explain(X)
        expected = case.without([model.record_.ids[row]]).after[0]
        np.testing.assert_allclose(shown.without_itself, expected)
    text = report_html(report)
    assert "learnt from this example too" in text
    assert "A separate test set says more" in text
    assert report.names[0] == "S000"
