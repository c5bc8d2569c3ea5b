import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from pnca.calibration import apply_temperature, fit_temperature
from pnca.exceptions import InvalidInputError


def labelled_logits(seed, n=20_000, c=5):
    """Logits, and labels drawn from their softmax: perfectly calibrated."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, c))
    labels = (softmax(logits, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return logits, labels


def nll(log_probabilities, labels):
    return -log_probabilities[np.arange(len(labels)), labels].mean()


@pytest.mark.parametrize("temperature", [0.2, 0.5, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("seed", range(3))
def test_fit__recovers_the_temperature_by_which_logits_were_multiplied(seed, temperature):
    logits, labels = labelled_logits(seed)
    # 20,000 labels fix the temperature to about 1 %, whatever its value.
    assert fit_temperature(logits * temperature, labels) == pytest.approx(temperature, rel=0.02)


def test_fit__is_no_worse_than_any_temperature_of_a_grid():
    logits, labels = labelled_logits(3, n=50)
    scaled = log_softmax(4 * logits, axis=1)
    best = nll(apply_temperature(scaled, fit_temperature(scaled, labels)), labels)
    grid = np.geomspace(0.05, 20, 400)
    assert best <= min(nll(apply_temperature(scaled, t), labels) for t in grid) + 1e-9


def test_fit__logits_and_log_probabilities_give_the_same():
    logits, labels = labelled_logits(4, n=200)
    shifted = logits + np.arange(200)[:, None]
    normalised = fit_temperature(log_softmax(logits, axis=1), labels)
    assert fit_temperature(shifted, labels) == pytest.approx(normalised, rel=1e-6)


def test_fit__stays_within_its_range():
    unsure = np.log([[0.6, 0.4], [0.4, 0.6]])
    always_right, always_wrong = [0, 1], [1, 0]
    assert fit_temperature(unsure, always_right) == pytest.approx(0.05, rel=1e-3)
    assert fit_temperature(unsure, always_wrong) == pytest.approx(20, rel=1e-3)


def test_fit__one_impossible_example_does_not_decide_alone():
    logits, labels = labelled_logits(5, n=5000)
    values = log_softmax(logits, axis=1)
    values[0] = -np.inf
    values[0, (labels[0] + 1) % 5] = 0.0
    temperature = fit_temperature(values, labels)
    assert 1 < temperature < 1.2
    assert np.isfinite(nll(apply_temperature(values, temperature), labels))


def test_apply__is_the_formula():
    logits, _ = labelled_logits(6, n=20)
    expected = np.log(softmax(logits, axis=1) ** (1 / 2.5))
    expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(apply_temperature(logits, 2.5), expected, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
def test_apply__keeps_the_order_and_normalises(temperature):
    logits, _ = labelled_logits(7, n=500)
    scaled = apply_temperature(logits, temperature)
    assert (scaled.argsort(axis=1) == logits.argsort(axis=1)).all()
    np.testing.assert_allclose(np.exp(scaled).sum(axis=1), 1, atol=1e-12)


def test_apply__impossible_counts_as_minus_100():
    scaled = apply_temperature([[0.0, -np.inf]], 20.0)
    np.testing.assert_allclose(scaled[0, 1] - scaled[0, 0], -5)


def test_inputs__are_left_as_they_were():
    values, labels = log_softmax(labelled_logits(8, n=10)[0], axis=1), np.zeros(10, dtype=int)
    values.setflags(write=False)
    labels.setflags(write=False)
    apply_temperature(values, fit_temperature(values, labels))


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (np.zeros(3), [0, 0, 0], "log_probabilities: Expected 2D array, got 1D array"),
        (np.zeros((0, 2)), [], r"log_probabilities: .* 0 sample\(s\) \(shape=\(0, 2\)\)"),
        (np.zeros((1, 0)), [0], r"log_probabilities: .* 0 feature\(s\)"),
        ([["a", "b"]], [0], "log_probabilities: could not convert string to float"),
        ([[0.0, np.nan]], [0], "Row 0 .* no finite maximum"),
        ([[0.0, 0.0], [-np.inf, -np.inf]], [0, 0], "Row 1 .* no finite maximum"),
        (np.zeros((2, 2)), [0], "each of the 2 examples"),
        (np.zeros((1, 2)), [0.0], "dtype float64"),
        (np.zeros((1, 2)), [2], "column numbers 0 to 1"),
        (np.zeros((1, 2)), [-1], "column numbers 0 to 1"),
    ],
)
def test_fit__bad_input_is_refused(values, labels, message):
    with pytest.raises(InvalidInputError, match=message):
        fit_temperature(values, labels)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_apply__bad_temperature_is_refused(temperature):
    with pytest.raises(InvalidInputError, match=r"temperature is .*: pass a number from"):
        apply_temperature([[0.0, 0.0]], temperature)
