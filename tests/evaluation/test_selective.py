from itertools import permutations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnca.evaluation import augrc, aurc, coverage_at_risk, risk_at_coverage
from pnca.exceptions import InvalidInputError

SEEDS = range(5)
METRICS = [aurc, augrc, risk_at_coverage, coverage_at_risk]
ROWS = st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=30)


def slow_aurc(correct_in_order):
    n = len(correct_in_order)
    return fmean(sum(not hit for hit in correct_in_order[:k]) / k for k in range(1, n + 1))


def slow_augrc(correct_in_order):
    n = len(correct_in_order)
    return fmean(sum(not hit for hit in correct_in_order[:k]) / n for k in range(1, n + 1))


def slow_risk_at_coverage(correct_in_order):
    # Four fifths, rounded up, in whole numbers.
    k = -(-4 * len(correct_in_order) // 5)
    return sum(not hit for hit in correct_in_order[:k]) / k


def slow_coverage_at_risk(correct_in_order):
    best = 0.0
    for k in range(1, len(correct_in_order) + 1):
        if sum(not hit for hit in correct_in_order[:k]) * 20 <= k:
            best = k / len(correct_in_order)
    return best


SLOW = {
    aurc: slow_aurc,
    augrc: slow_augrc,
    risk_at_coverage: slow_risk_at_coverage,
    coverage_at_risk: slow_coverage_at_risk,
}


def mean_over_orders(slow, correct, confidence):
    """Average of the plain definition over every order that is sorted by falling confidence."""
    values = []
    for order in permutations(range(len(correct))):
        ranked = [confidence[i] for i in order]
        if ranked == sorted(ranked, reverse=True):
            values.append(slow([correct[i] for i in order]))
    return fmean(values)


def distinct_rows(seed, n=80):
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(size=n)
    return rng.uniform(size=n) < confidence**0.3, confidence


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metric", METRICS)
def test_metric__matches_slow_loop_without_ties(metric, seed):
    correct, confidence = distinct_rows(seed)
    in_order = correct[np.argsort(-confidence)].tolist()
    assert metric(correct, confidence) == pytest.approx(SLOW[metric](in_order), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metric", [aurc, augrc, risk_at_coverage])
def test_metric__ties_give_the_mean_over_all_orders(metric, seed):
    rng = np.random.default_rng(seed)
    correct, confidence = (rng.uniform(size=7) < 0.6).tolist(), rng.integers(0, 3, size=7).tolist()
    expected = mean_over_orders(SLOW[metric], correct, confidence)
    assert metric(correct, confidence) == pytest.approx(expected, rel=1e-12)


@given(rows=ROWS, seed=st.integers(0, 1000))
def test_metrics__unchanged_by_order_of_rows(rows, seed):
    shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    for metric in METRICS:
        value = metric(*zip(*rows, strict=True))
        assert metric(*zip(*shuffled, strict=True)) == value


@pytest.mark.parametrize("metric", METRICS)
def test_metric__unchanged_by_increasing_transformation(metric):
    correct, confidence = distinct_rows(3)
    assert metric(correct, np.log(confidence)) == metric(correct, confidence)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__is_a_python_float(metric):
    assert type(metric(*distinct_rows(0))) is float


@pytest.mark.parametrize(
    ("metric", "all_correct", "all_wrong"),
    # All wrong, the generalised risks are 1/4, 2/4, 3/4 and 4/4.
    [(aurc, 0.0, 1.0), (augrc, 0.0, 0.625), (risk_at_coverage, 0.0, 1.0), (coverage_at_risk, 1.0, 0.0)],
)
@pytest.mark.parametrize("confidence", [[0.9, 0.8, 0.7, 0.6], [0.5, 0.5, 0.5, 0.5]], ids=["distinct", "tied"])
def test_metric__extremes(metric, all_correct, all_wrong, confidence):
    assert metric([True] * 4, confidence) == pytest.approx(all_correct)
    assert metric([False] * 4, confidence) == pytest.approx(all_wrong)


@pytest.mark.parametrize(
    ("metric", "if_right", "if_wrong"),
    [(aurc, 0.0, 1.0), (augrc, 0.0, 1.0), (risk_at_coverage, 0.0, 1.0), (coverage_at_risk, 1.0, 0.0)],
)
def test_metric__single_example(metric, if_right, if_wrong):
    assert metric([1], [0.3]) == if_right
    assert metric([0], [0.3]) == if_wrong


def test_aurc__by_hand():
    # Risks 0, 1/2, 1/3, 2/4.
    assert aurc([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6]) == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4)


def test_augrc__by_hand():
    # Generalised risks 0, 1/4, 1/4, 2/4.
    assert augrc([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6]) == pytest.approx(0.25)


def test_aurc__constant_confidence_gives_the_error_rate():
    assert aurc([1, 0, 1, 1, 0], np.ones(5)) == pytest.approx(0.4)


@pytest.mark.parametrize("metric", [aurc, augrc])
def test_area__errors_last_is_best_and_errors_first_worst(metric):
    correct, confidence = distinct_rows(4)
    best, worst = np.sort(correct)[::-1], np.sort(correct)  # hits first, errors first
    falling = np.sort(confidence)[::-1]
    assert metric(best, falling) < metric(correct, confidence) < metric(worst, falling)


@given(rows=ROWS)
def test_augrc__equals_its_pairwise_form(rows):
    """An error at rank r is counted by the k = r..n, so that AUGRC n^2 = sum over errors of n + 1 - r.

    The expected rank of a tied row is one, plus the rows above it, plus half of the others in its group.
    """
    correct, confidence = map(np.array, zip(*rows, strict=True))
    n = len(correct)
    above = (confidence[None, :] > confidence[:, None]).sum(axis=1)
    tied = (confidence[None, :] == confidence[:, None]).sum(axis=1)
    ranks = 1 + above + (tied - 1) / 2
    assert augrc(correct, confidence) == pytest.approx((n + 1 - ranks)[~correct].sum() / n**2, abs=1e-12)


def test_risk_at_coverage__rounds_the_number_kept_up():
    # 0.8 of 6 is 4.8: five are kept, the error among them.
    assert risk_at_coverage([1, 1, 1, 1, 0, 1], [6, 5, 4, 3, 2, 1]) == pytest.approx(0.2)


def test_risk_at_coverage__exact_share_is_not_rounded_up():
    # In floating point 0.55 * 100 exceeds 55.
    correct = np.arange(100) != 55
    assert risk_at_coverage(correct, -np.arange(100), coverage=0.55) == 0.0


def test_risk_at_coverage__full_coverage_gives_the_error_rate():
    correct, confidence = distinct_rows(1)
    assert risk_at_coverage(correct, confidence, coverage=1.0) == pytest.approx(1 - correct.mean())


def test_coverage_at_risk__risk_met_exactly_counts():
    # One error in twenty is 5 %, wherever it is ranked.
    correct = np.arange(20) != 0
    assert coverage_at_risk(correct, -np.arange(20)) == 1.0


def test_coverage_at_risk__may_return_to_an_acceptable_risk():
    # Risks 1, 1/2, 1/3, 1/4.
    assert coverage_at_risk([0, 1, 1, 1], [4, 3, 2, 1], risk=0.25) == 1.0


def test_coverage_at_risk__may_stop_inside_a_tied_group():
    # Two hits, then three tied rows with two errors: expected errors 2/3 among three, 4/3 among four.
    assert coverage_at_risk([1, 1, 0, 0, 1], [2, 2, 1, 1, 1], risk=1 / 3) == 0.8


def test_coverage_at_risk__risk_met_exactly_inside_a_tied_group_counts():
    # Three hits, then ten tied rows with one error: 3/10 errors among six is 5 %, in floats a bit more.
    correct, confidence = [1] * 3 + [0] + [1] * 9, [2] * 3 + [1] * 10
    assert coverage_at_risk(correct, confidence) == 6 / 13


@pytest.mark.parametrize("metric", METRICS)
def test_metric__infinite_confidence_ranks_first(metric):
    correct = [1, 0, 1, 0]
    assert metric(correct, [np.inf, 0.0, 1.0, -np.inf]) == metric(correct, [9.0, 0.0, 1.0, -9.0])


@pytest.mark.parametrize(
    ("correct", "confidence", "message"),
    [
        ([], [], r"correct: Found array with 0 sample\(s\)"),
        ([1, 0], [0.5], r"correct, confidence: .* inconsistent numbers of samples: \[2, 1\]"),
        ([2], [0.5], "correct holds values other than 0 and 1"),
        ([np.nan], [0.5], "correct holds values other than 0 and 1"),
        ([[1]], [0.5], "correct has shape"),
        (["yes"], [0.5], "correct: could not convert string to float"),
        ([1], [np.nan], "confidence contains NaN"),
        ([1], [[0.5]], "confidence has shape"),
    ],
)
def test_metrics__refuse_unusable_rows(correct, confidence, message):
    for metric in METRICS:
        with pytest.raises(InvalidInputError, match=message):
            metric(correct, confidence)


@pytest.mark.parametrize("coverage", [0.0, -0.2, 80, float("nan")])
def test_risk_at_coverage__refuses_impossible_coverage(coverage):
    with pytest.raises(InvalidInputError, match=r"coverage is .*: pass a fraction in \(0, 1\]"):
        risk_at_coverage([1], [0.5], coverage)


@pytest.mark.parametrize("risk", [-0.1, 5, float("nan")])
def test_coverage_at_risk__refuses_impossible_risk(risk):
    with pytest.raises(InvalidInputError, match=r"risk is .*: pass a fraction in \[0, 1\]"):
        coverage_at_risk([1], [0.5], risk)


def test_coverage_at_risk__risk_zero_keeps_rows_above_the_first_error():
    assert coverage_at_risk([1, 1, 0, 1], [4, 3, 2, 1], risk=0.0) == 0.5


def test_risk_coverage__is_the_curve_whose_mean_is_the_aurc():
    from pnca.evaluation import risk_coverage

    rng = np.random.default_rng(0)
    correct, confidence = rng.random(50) < 0.7, rng.integers(0, 8, 50)
    coverage, risk = risk_coverage(correct, confidence)
    assert risk.mean() == pytest.approx(aurc(correct, confidence))
    assert risk[-1] == pytest.approx(1 - correct.mean())
    assert risk[24] == pytest.approx(risk_at_coverage(correct, confidence, float(coverage[24])))
