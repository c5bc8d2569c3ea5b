"""What a model promises is what its training examples say out of fold."""

import json

import numpy as np
import pytest

import pnca
from pnca.evaluation import share_interval
from pnca.exceptions import InvalidInputError
from pnca.workflows import about_model, promises_of


def test_promises__are_those_of_decide(model):
    promises = promises_of(model)
    truth = model.support_labels_
    assert promises.accuracy == (model.oof_proba_.argmax(axis=1) == truth).mean()
    assert promises.nll == pytest.approx(-np.log(model.oof_proba_[np.arange(60), truth]).mean())
    shares = np.bincount(truth) / 60
    assert promises.nll_of_shares == pytest.approx(-(shares * np.log(shares)).sum())
    assert (promises.n_examples, promises.n_groups) == (60, 30)
    decisions = model.decide(model.record_.inputs, max_error=0.1)
    threshold = decisions.promises[None]
    assert promises.answered[0.1] == (0 if threshold.value is None else threshold.n_answered)
    assert promises.min_familiarity == decisions.min_familiarity


def test_promises__are_said_in_five_lines(model):
    lines = promises_of(model).lines()
    assert [line.split(":")[0].split(",")[0] for line in lines] == [
        "Accuracy", "Probabilities", "Answers", "Familiarity", "Not known"
    ]  # fmt: skip
    assert "30 groups" in lines[0]
    assert "for none (it takes 71 groups answered without a mistake, or more with few)" in lines[2]


def test_promises__without_folds_there_are_none(labelled):
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=2, n_folds=None, experts=(), random_state=0)
    model.fit(labelled.X, labelled.y)
    with pytest.raises(InvalidInputError, match="n_folds=None"):
        promises_of(model)


def test_share_interval__groups_of_one_are_none():
    correct = np.arange(50) % 7 > 0
    # All but the factor G / (G - 1) of a variance that is estimated.
    assert share_interval(correct, np.arange(50)) == pytest.approx(share_interval(correct), abs=0.002)


def test_share_interval__of_groups_that_agree_is_that_of_the_groups():
    correct = np.arange(20) % 4 > 0
    copies, groups = np.repeat(correct, 5), np.repeat(np.arange(20), 5)
    # But for the same factor.
    assert share_interval(copies, groups)[1:] == pytest.approx(share_interval(correct)[1:], abs=0.01)
    low, high = share_interval(np.ones(100), np.repeat(np.arange(10), 10))[1:]
    assert (low, high) == pytest.approx(share_interval(np.ones(10))[1:])


def test_about_model__is_json_and_names_the_columns(model, folder):
    path = pnca.save(model, folder / "about.pnca", overwrite=True)
    about = about_model(path)
    assert json.loads(json.dumps(about)) == about
    assert about["columns"][0] == "marker: number, with holes"
    assert about["classes"] == {
        "ill": int((model.support_labels_ == 0).sum()),
        "well": int(model.support_labels_.sum()),
    }
    assert about["source"] == {"target": "diagnosis", "id": "sample", "group": "patient"}
    assert about["settings"] == {
        "n_particles": 2,
        "max_epochs": 5,
        "experts": "['linear']",
        "random_state": 0,
    }
    import hashlib

    assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
