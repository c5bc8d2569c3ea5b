import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnca.evaluation import accuracy, accuracy_vs_confidence, count_vs_confidence, share_above
from pnca.exceptions import InvalidInputError

SEEDS = range(5)


def slow_curves(labels, probabilities, thresholds):
    accuracies, counts = [], []
    for threshold in thresholds:
        hits = [np.argmax(p) == y for y, p in zip(labels, probabilities, strict=True) if max(p) >= threshold]
        accuracies.append(sum(hits) / len(hits) if hits else np.nan)
        counts.append(len(hits))
    return accuracies, counts


@pytest.mark.parametrize("seed", SEEDS)
def test_curves__match_slow_loop(seed, make_predictions):
    labels, probabilities = make_predictions(seed)
    thresholds = np.random.default_rng(seed).uniform(size=30)
    accuracies, counts = slow_curves(labels, probabilities, thresholds)
    np.testing.assert_allclose(accuracy_vs_confidence(labels, probabilities, thresholds).values, accuracies)
    np.testing.assert_array_equal(count_vs_confidence(probabilities, thresholds).values, counts)


def test_curves__default_thresholds_are_the_written_decimals(make_predictions):
    labels, probabilities = make_predictions(0)
    for curve in (accuracy_vs_confidence(labels, probabilities), count_vs_confidence(probabilities)):
        assert len(curve.thresholds) == 21
        # 0.15 and 0.35 are those that multiplying by a step of 0.05 misses.
        assert {0.0, 0.05, 0.15, 0.35, 0.9, 1.0} <= set(curve.thresholds.tolist())
        assert curve.values.shape == (21,)


def test_curves__start_with_all_examples(make_predictions):
    labels, probabilities = make_predictions(1)
    assert accuracy_vs_confidence(labels, probabilities).values[0] == accuracy(labels, probabilities)
    assert count_vs_confidence(probabilities).values[0] == len(labels)


def test_curves__confidence_on_the_threshold_is_kept():
    probabilities = [[0.9, 0.1], [0.15, 0.85], [0.0, 1.0]]
    np.testing.assert_array_equal(count_vs_confidence(probabilities, [0.85, 0.9, 1.0]).values, [3, 2, 1])
    np.testing.assert_array_equal(
        accuracy_vs_confidence([0, 0, 1], probabilities, [0.85, 0.9, 1.0]).values, [2 / 3, 1, 1]
    )


def test_accuracy_vs_confidence__nan_where_none_is_left():
    values = accuracy_vs_confidence([0], [[0.7, 0.3]], [0.7, 0.8]).values
    np.testing.assert_array_equal(values, [1.0, np.nan])


def test_count_vs_confidence__counts_are_integers():
    assert count_vs_confidence([[0.7, 0.3]]).values.dtype.kind == "i"


def test_curves__unchanged_by_order_of_rows_and_names_of_classes(make_predictions):
    labels, probabilities = make_predictions(2)
    order, new_name = np.random.default_rng(3).permutation(len(labels)), np.array([3, 1, 0, 2])
    renamed = np.empty_like(probabilities)
    renamed[:, new_name] = probabilities
    np.testing.assert_array_equal(
        accuracy_vs_confidence(new_name[labels][order], renamed[order]).values,
        accuracy_vs_confidence(labels, probabilities).values,
    )
    np.testing.assert_array_equal(
        count_vs_confidence(renamed[order]).values, count_vs_confidence(probabilities).values
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_count_vs_confidence__never_rises(seed, n):
    probabilities = np.random.default_rng(seed).dirichlet(np.full(3, 0.1), size=n)
    counts = count_vs_confidence(probabilities).values
    assert (np.diff(counts) <= 0).all()


def test_curve__is_frozen():
    curve = count_vs_confidence([[0.7, 0.3]])
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve.values = np.zeros(21)


@pytest.mark.parametrize("seed", SEEDS)
def test_share_above__matches_slow_loop(seed, make_predictions):
    _, probabilities = make_predictions(seed)
    expected = sum(max(p) > 0.6 for p in probabilities) / len(probabilities)
    assert share_above(probabilities, 0.6) == pytest.approx(expected)


def test_share_above__is_strict():
    assert share_above([[0.9, 0.1], [0.91, 0.09], [0.1, 0.9], [1.0, 0.0]]) == 0.5


def test_share_above__nothing_exceeds_one():
    assert share_above([[1.0, 0.0]], threshold=1.0) == 0.0


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ([], r"thresholds: Found array with 0 sample\(s\)"),
        ([[0.5]], "thresholds has shape"),
        ([0.5, np.nan], "thresholds contains NaN"),
        ([0.5, 90], "thresholds range from 0.5 to 90"),
        (["high"], "thresholds: could not convert string to float"),
    ],
)
def test_curves__refuse_impossible_thresholds(thresholds, message):
    with pytest.raises(InvalidInputError, match=message):
        count_vs_confidence([[0.7, 0.3]], thresholds)
    with pytest.raises(InvalidInputError, match=message):
        accuracy_vs_confidence([0], [[0.7, 0.3]], thresholds)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_share_above__refuses_impossible_threshold(threshold):
    with pytest.raises(InvalidInputError, match=r"threshold is .*: pass a fraction in \[0, 1\]"):
        share_above([[0.7, 0.3]], threshold)
