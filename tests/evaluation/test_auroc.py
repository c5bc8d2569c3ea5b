"""AUROC against scikit-learn and a loop over pairs; what examples contribute, and its interval."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pnca.evaluation import auroc, auroc_contributions, mean_interval


def draw(seed, n=60, c=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, c, n)
    logits = rng.normal(size=(n, c)) + 1.5 * np.eye(c)[labels]
    proba = np.exp(logits).round(1) + 0.01  # rounded, so that there are ties
    return labels, proba / proba.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(5))
def test_auroc__is_that_of_scikit_learn(seed):
    labels, proba = draw(seed)
    expected = roc_auc_score(labels, proba, multi_class="ovr")
    assert auroc(labels, proba) == pytest.approx(expected, abs=1e-12)
    labels, proba = draw(seed, c=2)
    assert auroc(labels, proba) == pytest.approx(roc_auc_score(labels, proba[:, 1]), abs=1e-12)


def test_auroc__leaves_out_classes_without_examples_and_is_not_known_of_one():
    labels, proba = draw(0, c=2)
    wider = np.column_stack([proba * 0.9, np.full(len(proba), 0.1)])
    assert auroc(labels, wider) == pytest.approx(auroc(labels, proba), abs=1e-12)
    assert np.isnan(auroc(np.zeros(3, dtype=int), proba[:3]))


def test_contributions__have_the_variance_of_the_area():
    areas, errors = [], []
    for seed in range(300):
        labels, proba = draw(seed, n=80, c=2)
        contributions = auroc_contributions(labels, proba)
        assert contributions.mean() == pytest.approx(auroc(labels, proba))
        areas.append(contributions.mean())
        errors.append(contributions.std(ddof=1) / np.sqrt(len(labels)))
    # The estimated standard error is that of the areas over draws, to a tenth.
    assert np.mean(errors) == pytest.approx(np.std(areas), rel=0.1)


def test_mean_interval__of_groups_is_that_of_the_groups_sums():
    values, groups = np.array([1.0, 1.0, 3.0, 5.0, 6.0, 6.0]), np.array(["a", "a", "b", "b", "c", "c"])
    own = mean_interval(values)
    mean, low, high = mean_interval(values, groups)
    # Groups of equal size: the interval of their three means.
    from pnca.evaluation import paired_interval

    np.testing.assert_allclose((mean, low, high), paired_interval(np.array([1.0, 4.0, 6.0]), np.zeros(3)))
    assert own[0] == mean
    assert own[2] < high
    assert np.isnan(mean_interval([1.0])[1])
    np.testing.assert_allclose(own, paired_interval(values, np.zeros(6)))
