"""Doubted labels against a loop, and on labels whose flips are known."""

import numpy as np
import pytest

from pnca.calibration.labels import doubted_labels, self_confidence


def slow(proba, labels):
    """The two conditions, an example at a time."""
    n_classes, found = proba.shape[1], []
    typical = []
    for c in range(n_classes):
        own = [proba[i, c] for i in range(len(labels)) if labels[i] == c]
        typical.append(sum(own) / len(own) if own else 1.0)
    for i, y in enumerate(labels):
        k = max(range(n_classes), key=lambda c: proba[i, c])
        if k != y and proba[i, y] <= 0.3 * typical[y] and proba[i, k] >= 0.8 * typical[k]:
            found.append((proba[i, y], i))
    return [i for _, i in sorted(found)]


def noisy(rng, n, n_classes, sharpness):
    """Probabilities that labels follow, but for those of a tenth."""
    truth = rng.randint(n_classes, size=n)
    logits = rng.normal(size=(n, n_classes)) + sharpness * np.eye(n_classes)[truth]
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = truth.copy()
    labels[: n // 10] = (truth[: n // 10] + 1) % n_classes
    return proba, labels


@pytest.mark.parametrize("sharpness", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("seed", range(3))
def test_doubted_labels__are_those_of_the_loop(seed, sharpness):
    proba, labels = noisy(np.random.RandomState(seed), 80, 4, sharpness)
    found = doubted_labels(proba, labels)
    assert found.rows.tolist() == slow(proba, labels)
    assert np.array_equal(found.given, proba[found.rows, labels[found.rows]])
    assert np.array_equal(found.others, proba[found.rows].argmax(axis=1))
    assert np.array_equal(found.believed, proba[found.rows].max(axis=1))


def test_doubted_labels__flips_are_found_where_classes_are_apart():
    proba, labels = noisy(np.random.RandomState(0), 400, 3, 8.0)
    found = set(doubted_labels(proba, labels).rows.tolist())
    assert len(found & set(range(40))) >= 36
    assert len(found - set(range(40))) <= 4


def test_doubted_labels__hard_examples_are_not_doubted():
    rng = np.random.RandomState(0)
    p = rng.uniform(0.3, 0.7, size=500)  # labels are drawn from the probabilities: nothing is wrong
    labels = (rng.uniform(size=500) < p).astype(int)
    assert len(doubted_labels(np.stack([1 - p, p], axis=1), labels).rows) == 0


def test_doubted_labels__do_not_depend_on_the_names_of_classes():
    proba, labels = noisy(np.random.RandomState(1), 60, 3, 5.0)
    order = np.array([2, 0, 1])
    renamed = doubted_labels(proba[:, order], np.argsort(order)[labels])
    assert np.array_equal(renamed.rows, doubted_labels(proba, labels).rows)


def test_self_confidence__of_a_class_without_examples_is_one():
    assert self_confidence(np.full((2, 3), 1 / 3), np.array([0, 0])).tolist() == [1 / 3, 1, 1]
