import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnca.evaluation import (
    accuracy,
    balanced_accuracy,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
)
from pnca.exceptions import InvalidInputError

SEEDS = range(5)
METRICS = [accuracy, balanced_accuracy, negative_log_likelihood, brier_score, expected_calibration_error]


def slow_accuracy(labels, probabilities):
    return sum(np.argmax(p) == y for y, p in zip(labels, probabilities, strict=True)) / len(labels)


def slow_balanced_accuracy(labels, probabilities):
    recalls = []
    for k in set(labels.tolist()):
        members = [i for i in range(len(labels)) if labels[i] == k]
        recalls.append(sum(np.argmax(probabilities[i]) == k for i in members) / len(members))
    return sum(recalls) / len(recalls)


def slow_negative_log_likelihood(labels, probabilities):
    return -sum(math.log(p[y]) for y, p in zip(labels, probabilities, strict=True)) / len(labels)


def slow_brier_score(labels, probabilities):
    total = 0.0
    for y, p in zip(labels, probabilities, strict=True):
        for k in range(len(p)):
            total += (p[k] - (1.0 if k == y else 0.0)) ** 2
    return total / len(labels)


def slow_expected_calibration_error(labels, probabilities, n_bins=15):
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        inside = [i for i, p in enumerate(probabilities) if low < max(p) <= high]
        if inside:
            hit_rate = sum(np.argmax(probabilities[i]) == labels[i] for i in inside) / len(inside)
            confidence = sum(max(probabilities[i]) for i in inside) / len(inside)
            total += len(inside) / len(labels) * abs(hit_rate - confidence)
    return total


SLOW = {
    accuracy: slow_accuracy,
    balanced_accuracy: slow_balanced_accuracy,
    negative_log_likelihood: slow_negative_log_likelihood,
    brier_score: slow_brier_score,
    expected_calibration_error: slow_expected_calibration_error,
}


def two_class(confidences):
    """Rows that predict column 0 with the given confidences."""
    confidences = np.asarray(confidences, dtype=np.float64)
    return np.column_stack([confidences, 1 - confidences])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metric", METRICS)
def test_metric__matches_slow_loop(metric, seed, make_predictions):
    labels, probabilities = make_predictions(seed)
    # Sums of sixty float64 terms agree to about 1e-14 whatever their order.
    assert metric(labels, probabilities) == pytest.approx(SLOW[metric](labels, probabilities), rel=1e-12)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 20, 100])
def test_ece__matches_slow_loop_for_any_number_of_bins(n_bins, make_predictions):
    labels, probabilities = make_predictions(11, n=200)
    expected = slow_expected_calibration_error(labels, probabilities, n_bins)
    assert expected_calibration_error(labels, probabilities, n_bins) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__unchanged_by_order_of_rows(metric, make_predictions):
    labels, probabilities = make_predictions(0)
    order = np.random.default_rng(1).permutation(len(labels))
    assert metric(labels[order], probabilities[order]) == pytest.approx(
        metric(labels, probabilities), rel=1e-12
    )


@pytest.mark.parametrize("metric", METRICS)
def test_metric__unchanged_by_renaming_classes(metric, make_predictions):
    labels, probabilities = make_predictions(0)
    new_name = np.array([2, 0, 3, 1])
    renamed = np.empty_like(probabilities)
    renamed[:, new_name] = probabilities
    assert metric(new_name[labels], renamed) == pytest.approx(metric(labels, probabilities), rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__accepts_float32(metric, make_predictions):
    labels, probabilities = make_predictions(3)
    # float32 keeps about seven digits.
    expected = metric(labels, probabilities)
    assert metric(labels, probabilities.astype(np.float32)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__is_a_python_float(metric, make_predictions):
    assert type(metric(*make_predictions(0))) is float


@pytest.mark.parametrize(
    ("metric", "all_correct", "all_wrong"),
    [
        (accuracy, 1.0, 0.0),
        (balanced_accuracy, 1.0, 0.0),
        (brier_score, 0.0, 2.0),
        (expected_calibration_error, 0.0, 1.0),
    ],
)
def test_metric__extremes_of_certain_predictions(metric, all_correct, all_wrong):
    labels = np.array([0, 1, 2, 1])
    assert metric(labels, np.eye(3)[labels]) == all_correct
    assert metric(labels, np.eye(3)[(labels + 1) % 3]) == all_wrong


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (accuracy, 1.0),
        (balanced_accuracy, 1.0),
        (negative_log_likelihood, math.log(2)),
        (brier_score, 0.25 + 0.0625 + 0.0625),
        (expected_calibration_error, 0.5),
    ],
)
def test_metric__single_example_by_hand(metric, expected):
    assert metric([1], [[0.25, 0.5, 0.25]]) == pytest.approx(expected, rel=1e-12)


def test_accuracy__tie_goes_to_leftmost_class():
    assert accuracy([0, 1], [[0.5, 0.5], [0.5, 0.5]]) == 0.5


def test_balanced_accuracy__by_hand_with_rare_class():
    # Recalls: three of four for class 0, none of one for class 1.
    probabilities = two_class([0.9, 0.8, 0.7, 0.2, 0.6])
    assert balanced_accuracy([0, 0, 0, 0, 1], probabilities) == pytest.approx(0.375)


def test_balanced_accuracy__classes_without_examples_do_not_count():
    probabilities = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]
    assert balanced_accuracy([0, 0], probabilities) == 0.5


def test_nll__zero_probability_costs_machine_precision():
    cost = negative_log_likelihood([1], [[1.0, 0.0]])
    assert cost == pytest.approx(-math.log(np.finfo(np.float64).eps), rel=1e-12)
    assert cost == pytest.approx(36.04, abs=0.01)


def test_nll__zero_probability_costs_the_same_in_float32():
    assert negative_log_likelihood([1], np.array([[1, 0]], dtype=np.float32)) == pytest.approx(
        36.04, abs=0.01
    )


def test_nll__certain_and_right_costs_nothing():
    # One minus the machine precision, to which log_loss clips, costs 2.2e-16 nats.
    assert negative_log_likelihood([0, 1], np.eye(2)) == pytest.approx(0.0, abs=1e-15)


def test_nll__labels_of_one_class():
    expected = -(math.log(0.9) + math.log(0.4)) / 2
    assert negative_log_likelihood([0, 0], two_class([0.9, 0.4])) == pytest.approx(expected)


def test_nll__rounding_in_row_sums_is_divided_out():
    assert negative_log_likelihood([0], [[0.50002, 0.50002]]) == pytest.approx(math.log(2), rel=1e-12)


def test_brier__uniform_prediction_by_hand():
    # (1 - 1/c)^2 + (c - 1) / c^2 = 1 - 1/c.
    assert brier_score([0, 3], np.full((2, 4), 0.25)) == pytest.approx(0.75)


def test_ece__confidence_one_falls_in_last_bin():
    # A miss at 1.0 and a hit at 0.95 share the last bin, so that their gaps -1 and +0.05 offset each other.
    assert expected_calibration_error([1, 0], two_class([1.0, 0.95])) == pytest.approx(0.95 / 2)


@pytest.mark.parametrize("n_bins", [15, 20])
def test_ece__bin_edge_belongs_to_bin_on_its_left(n_bins):
    for b in range(n_bins // 2 + 1, n_bins):
        edge = b / n_bins
        just_below, just_above = np.nextafter(edge, 0), np.nextafter(edge, 1)
        # A miss and a hit offset each other when they share a bin, and add up when they do not.
        shared, apart = (1 - 2 * edge) / 2, 0.5
        with_left = expected_calibration_error([1, 0], two_class([just_below, edge]), n_bins)
        with_right = expected_calibration_error([1, 0], two_class([edge, just_above]), n_bins)
        assert with_left == pytest.approx(abs(shared), abs=1e-12)
        assert with_right == pytest.approx(apart, abs=1e-12)


def test_ece__low_confidences_of_many_classes_are_binned():
    # Uniform over 20 classes: confidence 0.05 lies in the first bin, and 1/20 of the rows are right.
    labels = np.arange(20)
    assert expected_calibration_error(labels, np.full((20, 20), 0.05)) == pytest.approx(0.0, abs=1e-12)


def test_ece__one_bin_is_the_gap_between_accuracy_and_mean_confidence():
    assert expected_calibration_error(
        [0, 0, 1, 0], two_class([0.6, 0.7, 0.8, 0.9]), n_bins=1
    ) == pytest.approx(0.0)


def test_ece__weights_bins_by_their_share():
    # Three hits at 0.9 (gap 0.1) and one miss at 0.6 (gap 0.6): 0.75 * 0.1 + 0.25 * 0.6.
    assert expected_calibration_error([0, 0, 0, 1], two_class([0.9, 0.9, 0.9, 0.6])) == pytest.approx(0.225)


@pytest.mark.parametrize("n_bins", [0, -3, 2.5, "15"])
def test_ece__refuses_impossible_number_of_bins(n_bins):
    with pytest.raises(InvalidInputError, match=r"n_bins is .*: pass a whole number"):
        expected_calibration_error([0], [[0.5, 0.5]], n_bins)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), c=st.integers(2, 6))
def test_metrics__stay_in_their_range(seed, n, c):
    rng = np.random.default_rng(seed)
    # A concentration this small yields exact zeros and ones too.
    probabilities, labels = rng.dirichlet(np.full(c, 0.02), size=n), rng.integers(0, c, size=n)
    assert 0 <= accuracy(labels, probabilities) <= 1
    assert 0 <= balanced_accuracy(labels, probabilities) <= 1
    assert 0 <= negative_log_likelihood(labels, probabilities) < 36.05
    assert 0 <= brier_score(labels, probabilities) <= 2 + 1e-12
    assert 0 <= expected_calibration_error(labels, probabilities) <= 1 + 1e-12


@given(seed=st.integers(0, 2**32 - 1), n_bins=st.integers(1, 40))
def test_ece__at_least_the_gap_between_accuracy_and_mean_confidence(seed, n_bins):
    rng = np.random.default_rng(seed)
    probabilities, labels = rng.dirichlet(np.ones(3), size=25), rng.integers(0, 3, size=25)
    gap = abs(accuracy(labels, probabilities) - probabilities.max(axis=1).mean())
    assert expected_calibration_error(labels, probabilities, n_bins) >= gap - 1e-12


@pytest.mark.parametrize("metric", METRICS)
def test_metric__refuses_labels_outside_the_columns(metric):
    with pytest.raises(InvalidInputError, match="pass column numbers 0 to 1"):
        metric([2], [[0.5, 0.5]])
