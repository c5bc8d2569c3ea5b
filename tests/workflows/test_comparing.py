"""Models compared on a table: the same folds, groups kept together, holes, categories and dates."""

import numpy as np
import pytest

from pnca.estimators import PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca.reports.comparison import DEFAULT, LOGISTIC, SHARES
from pnca.workflows import baselines, comparing


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small models: this is not about how good they are."""
    monkeypatch.setattr(baselines, "_N_TREES", 10)
    monkeypatch.setattr(baselines, "_PENALTIES", (1.0,))
    few = {"n_particles": 2, "max_epochs": 3, "experts": ["linear"]}
    original = PNCAClassifier.__init__

    def init(self, **options):
        original(self, **few | options)

    monkeypatch.setattr(
        "pnca.estimators.PNCAClassifier", type("Small", (PNCAClassifier,), {"__init__": init})
    )


def test_compare__every_model_predicts_every_example_once(labelled, monkeypatch):
    seen = {}
    original = comparing.compare_predictions

    def remember(predictions, labels, folds, *others, **options):
        seen.update(predictions=predictions, labels=labels, folds=folds, groups=options["groups"])
        return original(predictions, labels, folds, *others, **options)

    monkeypatch.setattr(comparing, "compare_predictions", remember)
    stages = []
    found = comparing.compare_on(labelled, n_folds=3, n_repeats=1, stage=stages.append)
    assert found.failed == {}
    assert [model.name for model in found.models] == [
        DEFAULT, LOGISTIC, "random forest", "gradient boosting", "calibrated SVM", SHARES,
    ]  # fmt: skip
    for proba in seen["predictions"].values():
        np.testing.assert_allclose(proba.sum(axis=2), 1)
    groups, (folds,) = seen["groups"], seen["folds"]
    assert all(len(set(folds[groups == group])) == 1 for group in np.unique(groups))
    assert found.n_groups == 30
    assert len(stages) == 3 * 6
    assert found.of(LOGISTIC).nll < found.of(SHARES).nll


def test_compare__a_baseline_that_fails_is_named(labelled, monkeypatch):
    def broken(*_):
        raise ValueError("no\nsuch luck")

    monkeypatch.setattr(
        comparing,
        "baselines",
        lambda: [baselines.Baseline("odd", broken), baselines.Baseline(SHARES, baselines._shares, False)],
    )
    found = comparing.compare_on(labelled, n_folds=2, n_repeats=1)
    assert found.failed == {"odd": "no such luck"}
    assert [model.name for model in found.models] == [DEFAULT, SHARES]


def test_compare__of_too_few_groups_is_refused(labelled):
    with pytest.raises(InvalidInputError, match="There are 30 groups, and 20 folds need 40"):
        comparing.compare_on(labelled, n_folds=20)


def test_baselines__tables_as_numbers_and_texts(labelled):
    columns = baselines.columns_of(labelled.source.sorts, ("age",))
    assert columns.categories == ["age", "site", "smoker"]
    assert columns.numbers == ["marker", "seen"]
    table = baselines.as_numbers_and_texts(labelled.X, columns)
    assert table["seen"].between(19_000, 21_000).all()
    assert table["marker"].isna().sum() == labelled.X["marker"].isna().sum()
    assert set(table["smoker"]) == {"True", "False"}


def test_baselines__temperature_softens_what_is_too_sure():
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=80)})
    labels = (X["a"].to_numpy() + 2 * rng.normal(size=80) > 0).astype(np.int64)
    forest = next(r for r in baselines.baselines() if r.name == "random forest")
    columns = baselines.Columns(["a"], [])
    options = {"n_classes": 3, "seed": 0}
    proba = baselines.fit_predict(forest, columns, X, labels, X, **options)
    plain = forest.candidates(columns, 0, [])[0].fit(X, labels).predict_proba(X)
    assert proba.max(axis=1).mean() < plain.max(axis=1).mean()
    assert (proba[:, 2] < 0.01).all()  # a class that it has not seen
