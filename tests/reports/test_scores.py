"""Numbers of a report against scikit-learn, and against plain counting."""

import json

import numpy as np
import pytest
from sklearn import metrics

from pnca.calibration.decisions import ANSWERED
from pnca.evaluation import expected_calibration_error, share_interval
from reports.conftest import evaluated


def test_evaluate__measures_are_those_of_scikit_learn(evaluation):
    e, proba = evaluation, evaluation.said.proba
    assert e.accuracy.value == pytest.approx(metrics.accuracy_score(e.labels, e.named))
    assert e.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(e.labels, e.named))
    assert e.nll == pytest.approx(metrics.log_loss(e.labels, proba))
    assert e.auroc == pytest.approx(metrics.roc_auc_score(e.labels, proba, multi_class="ovr"))
    np.testing.assert_array_equal(e.confusion, metrics.confusion_matrix(e.labels, e.named))
    precision, recall, _, support = metrics.precision_recall_fscore_support(e.labels, e.named)
    assert [scores.recall.value for scores in e.by_class] == pytest.approx(recall)
    assert [scores.precision.value for scores in e.by_class] == pytest.approx(precision)
    assert [scores.n for scores in e.by_class] == support.tolist()
    assert e.accuracy_of_shares == pytest.approx((e.labels == 1).mean())


def test_evaluate__bins_add_up_to_the_calibration_error(evaluation):
    e = evaluation
    gaps = sum(b.n * abs(b.accuracy.value - b.confidence) for b in e.bins) / e.n
    assert gaps == pytest.approx(expected_calibration_error(e.labels, e.said.proba))
    assert sum(b.n for b in e.bins) == e.n
    assert all(b.low <= b.confidence <= b.high for b in e.bins)


def test_evaluate__answers_are_counted(evaluation):
    e = evaluation
    answered = e.said.reason == ANSWERED
    assert 0 < e.point.n_answered == answered.sum() < e.n
    assert e.point.n_wrong == (answered & (e.named != e.labels)).sum()
    assert e.point.error.value == pytest.approx(e.point.n_wrong / e.point.n_answered)
    assert sum(e.reasons.values()) == e.n
    assert sum(scores.n_answered for scores in e.by_class) == e.point.n_answered
    assert sum(scores.n_wrong for scores in e.by_class) == e.point.n_wrong


def test_evaluate__ood_inputs_are_told_by_evidence(evaluation):
    e = evaluation
    scores = -np.concatenate([e.said.evidence, e.ood.said.evidence])
    is_ood = np.repeat([0, 1], [e.n, e.ood.n])
    assert e.ood.auroc == pytest.approx(metrics.roc_auc_score(is_ood, scores))
    assert e.ood.auroc > 0.9
    assert e.unknown.n == 5


def test_evaluate__intervals_count_groups():
    groups = np.arange(120) // 6
    e = evaluated(groups=groups)
    assert e.n_groups == 20
    assert e.accuracy == pytest.approx(share_interval(e.named == e.labels, groups))
    assert evaluated().n_groups is None


def test_evaluate__of_one_class_has_no_auroc_and_no_recall_of_the_others():
    from pnca.reports.scores import class_scores

    e = evaluated()
    rows = e.labels == 0
    scores = class_scores(e.said.of(rows), e.labels[rows], np.array(["a", "b", "c"]))
    assert scores[1].recall is None
    assert scores[0].n == rows.sum()


def test_evaluate__mistakes_and_unfamiliar_inputs_are_in_order(evaluation):
    e = evaluation
    rows = e.confident_mistakes(5)
    assert e.is_wrong[rows].all()
    assert (np.diff(e.said.proba[rows].max(axis=1)) <= 0).all()
    others = np.setdiff1d(np.flatnonzero(e.is_wrong), rows)
    assert e.said.proba[others].max() <= e.said.proba[rows[-1]].max()
    assert e.least_familiar(1)[0] == e.said.evidence.argmin()


def test_evaluation__is_json(evaluation):
    found = json.loads(json.dumps(evaluation.as_dict(), allow_nan=False))
    assert found["answers"]["n_answered"] == evaluation.point.n_answered
    assert found["ood"]["n"] == 30
    assert found["unknown_classes"] == {"<i>oak</i>": 4, "fir": 1}
    assert evaluated(max_error=0.001).as_dict()["answers"]["error"] is None
