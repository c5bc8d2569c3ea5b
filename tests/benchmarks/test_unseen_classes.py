"""The benchmark of classes that were never seen runs at toy size, and its rules are those of the library."""

from pathlib import Path

import numpy as np

import unseen_classes
from models import make
from pnca.calibration.arguments import check_min_familiarity


def small(**settings):
    return make("PNCA pooled", max_epochs=2)


def test_unseen_classes__are_measured_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(unseen_classes, "PNCAClassifier", small)
    monkeypatch.delenv("PNCA_DATA_DIR", raising=False)
    found = {"iris": unseen_classes.sources()["iris"]._replace(n_draws=1, n_left_out=2)}
    monkeypatch.setattr(unseen_classes, "sources", lambda: found)
    path = tmp_path / "unseen.csv"
    unseen_classes.main(["--out", str(path)])
    n_rules = len(unseen_classes.RULES) * len(unseen_classes.MAX_ERRORS)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1 + 2 * n_rules
    text = capsys.readouterr().out
    assert text.count("| iris |") == 1
    unseen_classes.main(["--report", "--out", str(path)])
    assert capsys.readouterr().out == text


def test_rules__the_default_is_that_of_decide(monkeypatch):
    X, y = unseen_classes.load_iris(return_X_y=True)
    y = np.minimum(y, 1)  # two classes
    model = small().fit(X[::2], y[::2])
    proba = model.predict_proba(X)
    asked = unseen_classes.Asked(
        model.oof_proba_,
        model.oof_evidence_,
        model.oof_proba_.argmax(axis=1) != model.support_labels_,
        proba,
        model.evidence(X),
        proba.argmax(axis=1) != y,
        np.zeros(len(X), dtype=bool),
    )
    default = f"{check_min_familiarity(None, 1000):g}"
    for max_error in (0.05, 0.2):
        answers = unseen_classes.answered(asked, unseen_classes.RULES[default], max_error)
        assert np.array_equal(answers, model.decide(X, max_error=max_error).is_answered)
        assert answers.any()


def test_page__has_the_tables_of_the_results():
    root = Path(unseen_classes.__file__).parents[1]
    path = root / "benchmarks" / "results" / "unseen_classes.csv"
    page = (root / "docs" / "decisions.md").read_text(encoding="utf-8")
    assert all(table in page for table in unseen_classes.report(path).split("\n\n"))
