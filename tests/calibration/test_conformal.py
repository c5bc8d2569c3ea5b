"""Conformal p-values against loops, and against what they promise in thousands of draws."""

import numpy as np
import pytest

from pnca.calibration.conformal import (
    class_p_values,
    conformal_p_values,
    held_out_p_values,
    members,
    prediction_sets,
    unit_weights,
)


def loop_p_value(calibration, score, groups):
    names = sorted(set(groups))
    total = 1.0
    for name in names:
        own = [s for s, g in zip(calibration, groups, strict=True) if g == name]
        total += sum(s <= score for s in own) / len(own)
    return total / (len(names) + 1)


def tied(n, seed):
    rng = np.random.RandomState(seed)
    return rng.randint(8, size=n).astype(float), rng.randint(5, size=n)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("has_groups", [False, True])
def test_p_values__are_those_of_a_loop(seed, has_groups):
    calibration, groups = tied(17, seed)
    scores = np.linspace(-1, 8, 19)
    names = groups if has_groups else np.arange(17)
    expected = [loop_p_value(calibration, s, names) for s in scores]
    found = conformal_p_values(calibration, scores, groups if has_groups else None)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_held_out_p_values__leave_the_own_group_out(seed):
    scores, groups = tied(17, seed)
    n_groups = len(set(groups))
    for names, found in (
        (groups, held_out_p_values(scores, groups)),
        (np.arange(17), held_out_p_values(scores)),
    ):
        n_groups = len(set(names))
        for i in range(17):
            others = names != names[i]
            expected = loop_p_value(scores[others], scores[i], names[others]) * n_groups / (n_groups + 1)
            assert found[i] == pytest.approx(expected, abs=1e-12)


def test_held_out_p_values__lie_above_a_level_where_scores_lie_above_one_order_statistic():
    scores = np.random.RandomState(0).normal(size=99)
    for level in (0.01, 0.05, 0.105, 0.5):
        new_at = conformal_p_values(scores, scores + 1e-9)  # a new input just above each
        is_above = held_out_p_values(scores) >= level - 1e-9
        cut = np.sort(scores)[(~is_above).sum() - 1] if (~is_above).any() else -np.inf
        assert np.array_equal(is_above, scores > cut)
        assert np.array_equal(new_at >= level - 1e-9, scores >= cut)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_p_values__of_exchangeable_scores_are_uniform(n):
    rng = np.random.RandomState(n)
    scores = rng.normal(size=(4000, n + 1))
    p = np.array([conformal_p_values(row[:-1], row[-1:])[0] for row in scores])
    counts = np.bincount(np.round(p * (n + 1)).astype(int) - 1, minlength=n + 1)
    # Each of the n + 1 values is as likely: a chi-squared of n degrees of freedom, five deviations above.
    expected = 4000 / (n + 1)
    assert ((counts - expected) ** 2 / expected).sum() < n + 5 * np.sqrt(2 * n)


def grouped_draw(rng, n_groups):
    """Scores of groups of one to nine members that share an effect, and of one member of a new group."""
    sizes = rng.randint(1, 10, size=n_groups)
    effects = rng.normal(size=n_groups + 1)
    groups = np.repeat(np.arange(n_groups), sizes)
    # Larger groups have lower scores, so that counting examples is not the same as counting groups.
    shift = np.append(-0.3 * sizes, -0.3 * rng.randint(1, 10))
    scores = effects[groups] + shift[groups] + 0.3 * rng.normal(size=len(groups))
    return scores, groups, effects[-1] + shift[-1] + 0.3 * rng.normal()


def test_p_values__of_groups_hold_where_counting_examples_does_not():
    rng = np.random.RandomState(0)
    by_group, by_example = [], []
    for _ in range(3000):
        scores, groups, new = grouped_draw(rng, 8)
        by_group.append(conformal_p_values(scores, np.array([new]), groups)[0])
        by_example.append(conformal_p_values(-scores, np.array([-new]))[0])
    for level in (0.12, 0.2, 0.4):
        margin = 3.5 * np.sqrt(level * (1 - level) / 3000)
        assert (np.array(by_group) <= level).mean() <= level + margin
    assert (np.array(by_example) <= 0.05).mean() > 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 3000)


def test_unit_weights__of_a_group_sum_to_one():
    groups = np.array([3, 1, 3, 3, 9])
    weights = unit_weights(5, groups)
    assert [weights[rows].sum() for rows in members(groups)] == pytest.approx([1, 1, 1])


def test_class_p_values__compare_with_the_class_alone_or_with_all():
    rng = np.random.RandomState(0)
    own, labels, scores = rng.normal(size=30), np.arange(30) % 3, rng.normal(size=(5, 3))
    found = class_p_values(own, labels, scores)
    for c in range(3):
        expected = [(1 + (own[labels == c] <= s).sum()) / 11 for s in scores[:, c]]
        np.testing.assert_allclose(found[:, c], expected)
    of_all = class_p_values(own, labels, scores, by_class=False)
    np.testing.assert_allclose(of_all, conformal_p_values(own, scores))


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("is_tied", [False, True])
def test_prediction_sets__hold_the_class_as_often_as_promised_and_not_much_more(coverage, is_tied):
    rng = np.random.RandomState(0)
    hits = []
    for _ in range(1200):
        proba = rng.dirichlet(np.ones(3), size=31)
        if is_tied:
            proba = np.round(proba, 1)
        labels = np.array([rng.choice(3, p=p / p.sum()) for p in proba])
        of_truth = proba[np.arange(31), labels]
        p_values = class_p_values(of_truth[:30], labels[:30], proba[30:], by_class=False)
        hits.append(prediction_sets(p_values, proba[30:].argmax(axis=1), coverage)[0, labels[30]])
    margin = 3.5 * np.sqrt(coverage * (1 - coverage) / 1200)
    assert np.mean(hits) >= coverage - margin
    if not is_tied and coverage > 0.5:  # at one half the most probable class alone is right more often
        assert np.mean(hits) <= coverage + 1 / 31 + margin


def test_prediction_sets__are_never_empty_and_full_with_too_few_examples():
    few = np.array([0.9, 0.9, 0.9])
    p_values = class_p_values(few, np.array([0, 1, 1]), np.array([[0.1, 0.2]]), by_class=False)
    assert prediction_sets(p_values, np.array([1]), 0.9).tolist() == [[True, True]]
    assert prediction_sets(p_values, np.array([1]), 0.5).tolist() == [[False, True]]


@pytest.mark.parametrize("seed", range(5))
def test_p_values_and_sets__are_those_of_crepes(seed):
    """An implementation of its own, of all examples together and class by class; scores have ties."""
    crepes = pytest.importorskip("crepes")
    rng = np.random.RandomState(seed)
    own, labels = rng.randint(9, size=60).astype(float), np.r_[0, 1, 2, rng.randint(3, size=57)]
    scores = rng.randint(-1, 10, size=(40, 3)).astype(float)
    common = crepes.ConformalClassifier().fit(-own)
    expected = common.predict_p(-scores, smoothing=False)
    np.testing.assert_allclose(class_p_values(own, labels, scores, by_class=False), expected)
    best = scores.argmax(axis=1)
    sets = common.predict_set(-scores, confidence=0.8, smoothing=False).astype(bool)
    sets[np.arange(40), best] = True  # ours always have the most probable class
    np.testing.assert_array_equal(prediction_sets(expected, best, 0.8), sets)
    by_class = crepes.ConformalClassifier().fit(-own, bins=labels)
    for c in range(3):
        one = by_class.predict_p(-scores[:, [c]], bins=np.full(40, c), smoothing=False)[:, 0]
        np.testing.assert_allclose(class_p_values(own, labels, scores)[:, c], one)
