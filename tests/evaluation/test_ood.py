import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnca.evaluation import ood_aupr, ood_auroc, ood_fpr95
from pnca.exceptions import InvalidInputError

SEEDS = range(5)
METRICS = [ood_auroc, ood_aupr, ood_fpr95]
SCORES = st.lists(st.integers(-4, 4), min_size=1, max_size=25)


def slow_auroc(scores_in, scores_out):
    wins = sum((o > i) + 0.5 * (o == i) for i in scores_in for o in scores_out)
    return wins / (len(scores_in) * len(scores_out))


def slow_aupr(scores_in, scores_out):
    area, last_recall = 0.0, 0.0
    for threshold in sorted({*scores_in, *scores_out}, reverse=True):
        caught, flagged = sum(o >= threshold for o in scores_out), sum(i >= threshold for i in scores_in)
        recall = caught / len(scores_out)
        area += (recall - last_recall) * caught / (caught + flagged)
        last_recall = recall
    return area


def slow_fpr95(scores_in, scores_out):
    for threshold in sorted({*scores_in, *scores_out}, reverse=True):
        # Whole numbers, so that exactly 95 % is not a matter of rounding.
        if 100 * sum(o >= threshold for o in scores_out) >= 95 * len(scores_out):
            return sum(i >= threshold for i in scores_in) / len(scores_in)
    raise AssertionError("the lowest score catches every outlier")


SLOW = {ood_auroc: slow_auroc, ood_aupr: slow_aupr, ood_fpr95: slow_fpr95}


def overlapping_scores(seed, decimals):
    rng = np.random.default_rng(seed)
    scores_in, scores_out = rng.normal(0, 1, size=50), rng.normal(1, 1, size=40)
    return scores_in.round(decimals), scores_out.round(decimals)


@pytest.mark.parametrize("decimals", [8, 0], ids=["distinct", "tied"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("metric", METRICS)
def test_metric__matches_slow_loop(metric, seed, decimals):
    scores = overlapping_scores(seed, decimals)
    assert metric(*scores) == pytest.approx(SLOW[metric](*scores), rel=1e-12)


@given(scores_in=SCORES, scores_out=SCORES)
def test_metrics__match_slow_loops_on_any_ties(scores_in, scores_out):
    for metric in METRICS:
        assert metric(scores_in, scores_out) == pytest.approx(SLOW[metric](scores_in, scores_out), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__unchanged_by_order_of_rows(metric):
    scores_in, scores_out = overlapping_scores(0, 1)
    rng = np.random.default_rng(1)
    shuffled = metric(rng.permutation(scores_in), rng.permutation(scores_out))
    assert shuffled == pytest.approx(metric(scores_in, scores_out), rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__unchanged_by_increasing_transformation(metric):
    scores_in, scores_out = overlapping_scores(2, 1)
    assert metric(np.exp(scores_in), np.exp(scores_out)) == metric(scores_in, scores_out)


@pytest.mark.parametrize("metric", METRICS)
def test_metric__is_a_python_float(metric):
    assert type(metric(*overlapping_scores(0, 8))) is float


@pytest.mark.parametrize(
    ("metric", "separated", "reversed_order"),
    # Reversed, both inliers come before the first outlier: precisions 1/3 and 2/4, each for half the recall.
    [(ood_auroc, 1.0, 0.0), (ood_aupr, 1.0, 5 / 12), (ood_fpr95, 0.0, 1.0)],
)
def test_metric__extremes(metric, separated, reversed_order):
    assert metric([0, 1], [2, 3]) == pytest.approx(separated)
    assert metric([2, 3], [0, 1]) == pytest.approx(reversed_order)


@pytest.mark.parametrize(("metric", "expected"), [(ood_auroc, 0.5), (ood_aupr, 0.25), (ood_fpr95, 1.0)])
def test_metric__constant_scores(metric, expected):
    assert metric(np.zeros(6), np.zeros(2)) == pytest.approx(expected)


@pytest.mark.parametrize(("metric", "expected"), [(ood_auroc, 1.0), (ood_aupr, 1.0), (ood_fpr95, 0.0)])
def test_metric__one_example_of_each(metric, expected):
    assert metric([0.2], [0.7]) == expected


def test_auroc__swapping_sides_gives_the_complement():
    scores_in, scores_out = overlapping_scores(3, 0)
    assert ood_auroc(scores_out, scores_in) == pytest.approx(1 - ood_auroc(scores_in, scores_out))


def test_auroc__negated_evidence_puts_outliers_on_top():
    evidence_in, evidence_out = np.array([5.0, 4.0, 6.0]), np.array([1.0, 2.0])
    assert ood_auroc(-evidence_in, -evidence_out) == 1.0


def test_fpr95__may_miss_exactly_one_outlier_in_twenty():
    # Catching 19 of 20 is 95 %; the twentieth, lowest of all, need not be caught.
    scores_out = np.concatenate([np.full(19, 5.0), [0.0]])
    assert ood_fpr95([1.0, 2.0, 6.0, 3.0], scores_out) == 0.25


def test_fpr95__must_catch_all_of_nineteen():
    # Catching 18 of 19 is only 94.7 %.
    scores_out = np.concatenate([np.full(18, 5.0), [0.0]])
    assert ood_fpr95([1.0, 2.0, 6.0, -1.0], scores_out) == 0.75


def test_fpr95__threshold_may_lie_inside_a_straight_stretch_of_the_roc_curve():
    # Each score holds one inlier and one outlier, so that the ROC curve is a single straight line.
    assert ood_fpr95(np.arange(20), np.arange(20)) == 0.95


def test_fpr95__inliers_tied_with_the_threshold_are_flagged():
    assert ood_fpr95([1.0, 1.0, 0.0, 0.0], [1.0]) == 0.5


@pytest.mark.parametrize("metric", METRICS)
def test_metric__infinite_scores_rank_at_the_ends(metric):
    infinite = metric([-np.inf, 0.0, 1.0], [0.5, np.inf, np.inf])
    assert infinite == metric([-9.0, 0.0, 1.0], [0.5, 9.0, 9.0])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], r": Found array with 0 sample\(s\)"),
        ([[0.1], [0.2]], r" has shape \(2, 1\): pass a one-dimensional array"),
        ([0.1, np.nan], " contains NaN"),
        (["far"], ": could not convert string to float"),
    ],
)
def test_metrics__refuse_unusable_scores(scores, message):
    for metric in METRICS:
        with pytest.raises(InvalidInputError, match="scores_in" + message):
            metric(scores, [1.0])
        with pytest.raises(InvalidInputError, match="scores_out" + message):
            metric([1.0], scores)
