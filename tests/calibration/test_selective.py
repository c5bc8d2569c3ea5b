"""Thresholds that are certified: p-values against loops, and the promise in thousands of draws."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from pnca.calibration.selective import (
    betting_p_values,
    binomial_p_values,
    certified_threshold,
    examples_needed,
)

MAX_ERROR, CONFIDENCE = 0.05, 0.9


@pytest.mark.parametrize(("max_error", "confidence"), [(0.05, 0.9), (0.01, 0.95), (0.2, 0.5), (0.9, 0.1)])
def test_examples_needed__are_the_fewest_that_show_it(max_error, confidence):
    n = examples_needed(max_error, confidence)
    assert (1 - max_error) ** n <= 1 - confidence + 1e-9
    assert n == 1 or (1 - max_error) ** (n - 1) > 1 - confidence


@pytest.mark.parametrize("share", [None, 0.5])
def test_examples_needed__beyond_what_anyone_has_are_a_number_still(share):
    assert examples_needed(5e-324, 0.9, share) == examples_needed(1e-300, 0.9, share) == 10**15


def test_betting_p_values__are_numbers_where_rounding_exceeds_the_range_of_the_sums():
    is_wrong, max_error = np.random.RandomState(0).uniform(size=120) < 0.5, 1 - 2**-53
    p_values = betting_p_values((is_wrong - max_error) / 3, np.arange(120) // 3, max_error)
    assert ((p_values >= 0) & (p_values <= 1)).all()


def test_binomial_p_values__are_the_tail():
    errors, n = np.array([0.0, 2.0, 7.0]), np.array([10.0, 40.0, 40.0])
    expected = [binom.cdf(e, k, 0.1) for e, k in zip(errors, n, strict=True)]
    np.testing.assert_allclose(binomial_p_values(errors, n, 0.1), expected)


def test_betting_p_values__are_those_of_a_loop():
    rng = np.random.RandomState(0)
    groups = rng.randint(4, size=12)
    size = np.bincount(groups, minlength=4)[groups]
    excess = (rng.randint(2, size=12) - 0.1) / size
    expected = []
    for k in range(1, 13):
        sums = np.bincount(groups[:k], weights=excess[:k], minlength=4)
        capital = np.mean([np.prod(1 - bet / 0.9 * sums) for bet in (0.25, 0.5, 0.75, 0.99)])
        expected.append(min(1, 1 / capital))
    np.testing.assert_allclose(betting_p_values(excess, groups, 0.1), expected)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_betting_p_values__of_sums_that_are_not_below_zero_are_seldom_small(share):
    rng = np.random.RandomState(0)
    wrong = rng.uniform(size=(4000, 60)) < MAX_ERROR
    excess = share * (wrong - MAX_ERROR)
    p = np.array([betting_p_values(row, np.arange(60), MAX_ERROR)[-1] for row in excess])
    for level in (0.1, 0.3):
        assert (p <= level).mean() <= level


def test_threshold__all_right_answers_are_all_answered():
    found = certified_threshold(np.linspace(0.4, 1, 45), np.zeros(45, dtype=bool), MAX_ERROR, CONFIDENCE)
    assert (found.value, found.n_answered, found.error) == (0.4, 45, 0.0)


def test_threshold__with_one_example_too_few_nothing_is_certified():
    found = certified_threshold(np.linspace(0.4, 1, 44), np.zeros(44, dtype=bool), MAX_ERROR, CONFIDENCE)
    assert (found.value, found.n_needed, found.n_independent) == (None, 45, 44)


def test_threshold__nothing_at_all_certifies_nothing():
    found = certified_threshold(np.empty(0), np.empty(0, dtype=bool), MAX_ERROR, CONFIDENCE)
    assert found.value is None
    assert math.isnan(found.error)


def test_threshold__lies_between_distinct_confidences():
    confidences = np.repeat([0.9, 0.8, 0.7], 30)
    is_wrong = np.repeat([False, False, True], 30)
    found = certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE)
    assert (found.value, found.n_answered) == (0.8, 60)


@pytest.mark.parametrize("n_wrong", [0, 1, 5, 12])
def test_threshold__is_the_least_confidence_that_was_counted(n_wrong):
    """Of answers that are less certain nothing is known, and they may be of a class that was never seen."""
    rng = np.random.RandomState(0)
    confidences = rng.uniform(0.6, 1, size=200)
    is_wrong = confidences <= np.sort(confidences)[n_wrong - 1] if n_wrong else np.zeros(200, dtype=bool)
    found = certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE)
    assert found.value == np.sort(confidences)[-found.n_answered] >= 0.6


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_threshold__only_the_order_of_confidences_counts(scale):
    rng = np.random.RandomState(0)
    confidences, is_wrong = rng.uniform(size=300), np.arange(300) < 3
    a = certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE)
    b = certified_threshold(confidences**2 * scale, is_wrong, MAX_ERROR, CONFIDENCE)
    assert a.n_answered == b.n_answered > 250
    assert b.value == pytest.approx(a.value**2 * scale)


def test_threshold__of_groups_of_one_is_that_of_examples_and_the_order_of_rows_is_of_no_matter():
    rng = np.random.RandomState(0)
    confidences, is_wrong = rng.uniform(size=100), rng.uniform(size=100) < 0.01
    order = rng.permutation(100)
    expected = certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE)
    by_group = certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE, groups=order)
    shuffled = certified_threshold(confidences[order], is_wrong[order], MAX_ERROR, CONFIDENCE)
    assert expected == by_group == shuffled


# The promise: in at most a share 1 - CONFIDENCE of the draws more than MAX_ERROR of the answers are wrong.


def rising(u):
    return 0.5 * u**4


def flat(u):
    return np.full_like(u, 0.055)


def step(u):
    return np.where(u < 0.5, 0.04, 0.2)


def bad_top(u):
    return np.where(u < 0.1, 0.1, 0.052)


GRID = np.linspace(0, 1, 20_001)[1:]


def broken(choose, rate, n, n_draws, seed=0):
    """Share of draws whose threshold breaks the promise, and mean share of inputs that are answered."""
    rng = np.random.RandomState(seed)
    risks = rate(GRID).cumsum() / np.arange(1, len(GRID) + 1)
    is_broken, answered = [], []
    for _ in range(n_draws):
        u = rng.uniform(size=n)  # one minus confidence
        value = choose(1 - u, rng.uniform(size=n) < rate(u))
        share = 0.0 if value is None else 1 - value
        answered.append(share)
        is_broken.append(share > 0 and risks[math.ceil(share * len(GRID)) - 1] > MAX_ERROR + 1e-9)
    return np.mean(is_broken), np.mean(answered)


def certified(confidences, is_wrong):
    return certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE).value


def plausible(confidences, is_wrong):
    """The lowest threshold that looks good enough: what is not to be done."""
    order = np.argsort(-confidences)
    risks = is_wrong[order].cumsum() / np.arange(1, len(order) + 1)
    good = np.flatnonzero(risks <= MAX_ERROR)
    return confidences[order][good[-1]] if len(good) else None


def uncorrected(confidences, is_wrong):
    """The lowest threshold whose own test rejects, of all that are tried."""
    order = np.argsort(-confidences)
    n = np.arange(1, len(order) + 1)
    p = binom.cdf(is_wrong[order].cumsum(), n, MAX_ERROR)
    good = np.flatnonzero(p <= 1 - CONFIDENCE)
    return confidences[order][good[-1]] if len(good) else None


@pytest.mark.parametrize("n", [60, 200, 400])
@pytest.mark.parametrize("rate", [rising, flat, step, bad_top])
def test_threshold__breaks_its_promise_as_seldom_as_it_says(rate, n):
    share, _ = broken(certified, rate, n, 400)
    assert share <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 400)


@pytest.mark.parametrize(("choose", "rate"), [(plausible, flat), (plausible, rising), (uncorrected, flat)])
def test_promise__wrong_methods_would_be_seen(choose, rate):
    share, _ = broken(choose, rate, 200, 800)
    assert share > 0.1 + 3 * np.sqrt(0.1 * 0.9 / 800)


@pytest.mark.parametrize(("n", "least"), [(60, 0.1), (120, 0.4), (250, 0.6), (1000, 0.7)])
def test_threshold__answers_many_where_that_is_safe(n, least):
    _, answered = broken(certified, rising, n, 100)
    assert answered > least  # .81 would be answered if the error rates were known


def of_groups(choose, n_groups, size, n_draws):
    """The same with groups that are wrong together."""
    rng, is_broken = np.random.RandomState(0), []
    for _ in range(n_draws):
        groups = np.repeat(np.arange(n_groups), size)
        u = rng.uniform(size=len(groups))
        is_wrong = (rng.uniform(size=n_groups) < 0.055)[groups]  # all answers of a group, or none
        value = choose(1 - u, is_wrong, groups)
        is_broken.append(value is not None)  # .055 of the answers above any threshold are wrong
    return np.mean(is_broken)


def test_threshold__of_groups_holds_where_counting_examples_does_not():
    def by_group(confidences, is_wrong, groups):
        return certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE, groups=groups).value

    def by_example(confidences, is_wrong, groups):
        return certified(confidences, is_wrong)

    assert of_groups(by_group, 60, 10, 300) <= 0.1
    assert of_groups(by_example, 60, 10, 300) > 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)


def test_threshold__with_weights_promises_for_the_weighted_population():
    rng, is_broken, plain_is_broken = np.random.RandomState(0), [], []
    for _ in range(300):
        # A class that is rare here and as frequent as the other in use is wrong twice in twenty answers.
        is_rare = rng.uniform(size=400) < 0.2
        is_wrong = rng.uniform(size=400) < np.where(is_rare, 0.1, 0.01)  # in use .055 are wrong
        confidences, weights = rng.uniform(size=400), np.where(is_rare, 1.0, 0.25)
        weighted = certified_threshold(confidences, is_wrong, MAX_ERROR, CONFIDENCE, weights=weights)
        is_broken.append(weighted.value is not None)
        plain_is_broken.append(certified(confidences, is_wrong) is not None)
    assert np.mean(is_broken) <= 0.1
    assert np.mean(plain_is_broken) > 0.3


def test_threshold__weights_and_groups_still_answer_many():
    rng, answered = np.random.RandomState(0), {"weights": [], "groups": []}
    for _ in range(50):
        u = rng.uniform(size=1000)
        is_wrong = rng.uniform(size=1000) < rising(u)
        for name, arguments in (
            ("weights", {"weights": np.where(np.arange(1000) % 2, 1.0, 0.4)}),
            ("groups", {"groups": np.arange(1000) // 5}),
        ):
            found = certified_threshold(1 - u, is_wrong, MAX_ERROR, CONFIDENCE, **arguments)
            answered[name].append(0 if found.value is None else 1 - found.value)
    assert np.mean(answered["weights"]) > 0.6
    assert np.mean(answered["groups"]) > 0.4


def test_threshold__probability_of_a_broken_promise_is_exact_for_few_examples():
    # 45 examples of one confidence: certified without a mistake alone, of probability .95 ** 45 at the bound.
    n = 45
    outcomes = [np.arange(n) < k for k in (0, 1, 2)]
    values = [certified_threshold(np.full(n, 0.8), wrong, MAX_ERROR, CONFIDENCE).value for wrong in outcomes]
    assert values == [0.8, None, None]
    assert binom.pmf(0, n, MAX_ERROR) <= 0.1 < binom.pmf(0, n - 1, MAX_ERROR)
