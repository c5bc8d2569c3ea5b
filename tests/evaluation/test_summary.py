import numpy as np
import pytest

import pnca.evaluation as evaluation
from pnca.evaluation import summarise
from pnca.exceptions import InvalidInputError


def test_summarise__agrees_with_each_metric(make_predictions):
    labels, probabilities = make_predictions(0)
    correct, confidence = probabilities.argmax(axis=1) == labels, probabilities.max(axis=1)
    assert summarise(labels, probabilities) == {
        "accuracy": evaluation.accuracy(labels, probabilities),
        "balanced_accuracy": evaluation.balanced_accuracy(labels, probabilities),
        "nll": evaluation.negative_log_likelihood(labels, probabilities),
        "brier": evaluation.brier_score(labels, probabilities),
        "ece": evaluation.expected_calibration_error(labels, probabilities),
        "mean_confidence": pytest.approx(confidence.mean()),
        "aurc": evaluation.aurc(correct, confidence),
        "augrc": evaluation.augrc(correct, confidence),
    }


def test_summarise__certain_and_right():
    scores = summarise([0, 1, 1], np.eye(2)[[0, 1, 1]])
    best = {
        "accuracy": 1,
        "balanced_accuracy": 1,
        "mean_confidence": 1,
        "brier": 0,
        "ece": 0,
        "aurc": 0,
        "augrc": 0,
    }
    assert {name: scores[name] for name in best} == best


def test_summarise__values_are_python_floats(make_predictions):
    assert {type(value) for value in summarise(*make_predictions(1)).values()} == {float}


def test_summarise__refuses_bad_input():
    with pytest.raises(InvalidInputError, match=r"labels, probabilities: .* inconsistent .*: \[2, 1\]"):
        summarise([0, 1], [[0.5, 0.5]])


def test_package__every_public_name_exists():
    assert all(hasattr(evaluation, name) for name in evaluation.__all__)
