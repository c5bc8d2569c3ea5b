import numpy as np
import pytest

from pnca.evaluation._validation import check_labels_and_probabilities, check_probabilities
from pnca.exceptions import InvalidInputError


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 0.5], r"probabilities has shape \(\d+,\): pass one row per example"),
        ([[1.0], [1.0]], r"probabilities has shape \(2, 1\): .* one column per class"),
        ([[[0.5, 0.5]]], r"probabilities has shape \(1, 1, 2\)"),
        (np.empty((0, 3)), r"probabilities: Found array with 0 sample\(s\)"),
        ([[0.5, np.nan]], "probabilities: Input contains NaN"),
        ([[np.inf, 0.0]], "probabilities: Input contains infinity"),
        ([[1.2, -0.2]], "range from -0.2 to 1.2: pass values between 0 and 1"),
        ([[0.5, 0.5], [0.5, 0.4]], "row 1 sum to 0.9: normalise each row"),
        ([[0.5, 0.5002]], "row 0 sum to 1.0002"),
        ([[0.5, 0.5], [1.0]], "probabilities: .* inhomogeneous shape"),
        ([["a", "b"]], "probabilities: could not convert string to float: 'a'"),
    ],
)
def test_check_probabilities__refuses(probabilities, message):
    with pytest.raises(InvalidInputError, match=message):
        check_probabilities(probabilities)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], r"labels, probabilities: .* inconsistent numbers of samples: \[1, 2\]"),
        ([], r"labels: Found array with 0 sample\(s\)"),
        ([[0], [1]], r"labels has shape \(2, 1\)"),
        ([0, 2], "labels range from 0 to 2, but probabilities has 2 columns: pass column numbers 0 to 1"),
        ([-1, 0], "labels range from -1 to 0"),
        ([0.0, np.nan], "labels has dtype float64: pass the integer column number"),
        (["cat", "dog"], "labels has dtype .*searchsorted"),
        ([True, False], "labels has dtype bool"),
    ],
)
def test_check_labels__refuses(labels, message):
    with pytest.raises(InvalidInputError, match=message):
        check_labels_and_probabilities(labels, [[0.5, 0.5], [0.2, 0.8]])


def test_check_probabilities__clips_rounding_without_touching_the_input():
    given = np.array([[1.00001, -0.00001]])
    np.testing.assert_array_equal(check_probabilities(given), [[1.0, 0.0]])
    np.testing.assert_array_equal(given, [[1.00001, -0.00001]])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_check_labels__accepts_any_integer_type(dtype):
    labels, _ = check_labels_and_probabilities(np.array([1, 0], dtype=dtype), [[0.5, 0.5], [0.2, 0.8]])
    np.testing.assert_array_equal(labels, [1, 0])


def test_check_probabilities__accepts_float32_softmax_of_many_classes():
    logits = np.random.default_rng(0).normal(size=(50, 1000)).astype(np.float32)
    weights = np.exp(logits)
    softmax = weights / weights.sum(axis=1, keepdims=True)
    assert check_probabilities(softmax).dtype == np.float64
