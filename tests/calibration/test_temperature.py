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
    best = nll(apply_temperature(scaled, fit_temperature(scaled, labels, spread=None)), labels)
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
    assert fit_temperature(unsure, always_right, spread=None) == pytest.approx(0.05, rel=1e-3)
    assert fit_temperature(unsure, always_wrong, spread=None) == pytest.approx(20, rel=1e-3)


@pytest.mark.parametrize("spread", [0.2, 0.5, 2.0])
def test_fit__of_one_pair_is_where_likelihood_and_prior_pull_alike(spread):
    # -log p = log(1 + exp(-m / T)) falls in log T by (m / T) / (1 + exp(m / T)), the prior by -log T / s^2.
    margin = 2.0
    temperature = fit_temperature([[margin, 0.0]], [0], spread=spread)
    pull = margin / temperature / (1 + np.exp(margin / temperature))
    assert pull == pytest.approx(-np.log(temperature) / spread**2, rel=1e-4)


def test_fit__a_hundred_without_a_mistake_do_not_make_the_next_mistake_ruinous():
    rng = np.random.default_rng(0)
    margins = rng.uniform(1.0, 4.0, size=(100, 1))
    held_out, labels = np.hstack([margins, -margins]) / 2, np.zeros(100, dtype=int)
    new = log_softmax(np.array([[-1.0, 1.0]]), axis=1)
    assert nll(apply_temperature(new, fit_temperature(held_out, labels, spread=None)), [0]) > 30
    assert nll(apply_temperature(new, fit_temperature(held_out, labels)), [0]) < 5


def test_fit__the_prior_fades_as_examples_grow_in_number():
    logits, labels = labelled_logits(9, n=20_000)
    found = []
    for n in (20, 200, 2000, 20_000):
        alone, with_prior = (fit_temperature(4 * logits[:n], labels[:n], spread=s) for s in (None, 0.5))
        assert 1 < with_prior < alone
        found.append(np.log(alone / with_prior))
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.001


def test_fit__weights_are_relative_and_zero_leaves_one_out():
    logits, labels = labelled_logits(10, n=40)
    expected = fit_temperature(3 * logits[:30], labels[:30])
    weights = np.r_[np.full(30, 7.0), np.zeros(10)]
    assert fit_temperature(3 * logits, labels, weights) == pytest.approx(expected, rel=1e-6)


def test_fit__of_two_minima_takes_the_lower_one():
    # Hardly sure and always right: the likelihood alone falls to the end of the range, beyond a ridge.
    scores, labels = np.tile([[0.01, -0.01]], (100, 1)), np.zeros(100, dtype=int)

    def cost(temperature):
        own = nll(apply_temperature(scores, temperature), labels)
        return 100 * own + np.log(temperature) ** 2 / (2 * 0.5**2)

    found = fit_temperature(scores, labels)
    assert found > 0.5
    assert cost(found) <= min(cost(t) for t in np.geomspace(0.05, 20, 500)) + 1e-9
    assert cost(0.05) < cost(0.1)  # the other minimum


@pytest.mark.parametrize("spread", [0, -1.0, np.nan, np.inf, "wide"])
def test_fit__a_spread_that_is_none_is_refused(spread):
    with pytest.raises(InvalidInputError, match=r"spread is .*: pass a positive number, or None"):
        fit_temperature([[0.0, 1.0]], [0], spread=spread)


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
