"""Columns that look like identifiers, copies or leaks, and measured ones that do not."""

import math

import numpy as np
import pytest

from pnca.calibration.suspicious import (
    ColumnValues,
    alone,
    copies,
    deciders,
    identifier,
    is_constant,
    mean_auroc,
    names_groups,
    probability_of_few_repetitions,
)


def number(name, values):
    return ColumnValues(name, "number", np.asarray(values, dtype=float).reshape(len(values), -1))


def category(name, codes):
    return ColumnValues(name, "category", np.eye(int(np.max(codes)) + 1)[codes])


def test_identifier__numbers_of_rows_are_one():
    rng = np.random.RandomState(0)
    assert identifier(np.arange(30.0)).reason == "row order"
    assert identifier(-5 * np.arange(30.0)).reason == "row order"
    assert identifier(1e6 + rng.permutation(60)).reason == "no repetition"
    assert identifier(rng.permutation(30) / 7).reason == "even spacing"
    repeated = 100 + rng.permutation(200).astype(float)
    repeated[3] = repeated[4]  # a single pair
    assert identifier(repeated).reason == "no repetition"
    assert identifier(repeated).probability < 1e-3


def test_identifier__measured_values_are_none():
    rng = np.random.RandomState(0)
    assert identifier(rng.normal(size=50)) is None
    assert identifier(np.sort(rng.normal(size=50))) is None
    assert identifier(rng.randint(20, 90, size=50).astype(float)) is None  # ages
    assert identifier(np.sort(rng.randint(20, 90, size=50)).astype(float)) is None
    assert identifier(rng.randint(1, 10**9, size=50).astype(float)) is None  # all different by chance
    assert identifier(np.arange(9.0)) is None
    assert identifier(np.full(50, 3.0)) is None
    assert identifier(np.append(np.arange(20.0), np.nan)) is None


def test_identifier__is_as_seldom_wrong_as_it_says():
    rng = np.random.RandomState(0)
    found = [identifier(rng.randint(3000, size=100).astype(float)) for _ in range(2000)]
    # P(no repetition) is exp(-1.65) here, far from the limit.
    assert found == [None] * 2000
    assert probability_of_few_repetitions(100, 3000, 0) == pytest.approx(math.exp(-1.65))


def test_probability_of_few_repetitions__is_that_of_draws():
    rng = np.random.RandomState(0)
    pairs = []
    for _ in range(4000):
        counts = np.bincount(rng.randint(500, size=40))
        pairs.append((counts * (counts - 1) // 2).sum())
    for r in (0, 1, 2):
        share = np.mean(np.array(pairs) <= r)
        assert probability_of_few_repetitions(40, 500, r) == pytest.approx(share, abs=0.03)


def test_names_groups__one_value_a_group():
    groups = np.repeat(np.arange(15), 3)
    assert names_groups(number("patient", 500 + groups), groups).reason == "group"
    assert names_groups(category("patient", groups), groups).reason == "group"
    ages = np.random.RandomState(0).randint(40, 60, size=15)[groups]
    assert names_groups(number("age", ages), groups) is None
    assert names_groups(category("sex", groups % 2), groups) is None
    assert names_groups(number("row", np.arange(45)), groups) is None  # several values a group
    assert names_groups(number("patient", groups[:9]), groups[:9]) is None  # too few groups


def test_copies__in_other_units_or_names():
    rng = np.random.RandomState(0)
    x, codes = rng.normal(size=60), rng.randint(3, size=60)
    columns = [
        number("x", x),
        number("of another spread", x + 0.01 * rng.normal(size=60)),
        number("falling, in single precision", (4 - 1e3 * x).astype(np.float32)),
        category("colour", codes),
        category("colour's code", np.array([2, 0, 1])[codes]),
        number("constant", np.ones(60)),
        number("another constant", np.ones(60)),
        ColumnValues("with holes", "number", np.column_stack([x, codes == 0])),
    ]
    assert copies(columns) == [(2, 0), (4, 3)]


def test_copies__of_two_balanced_values_whatever_is_rounded():
    half = np.arange(40) % 2 * 1.0
    assert copies([number("a", half), number("b", 0.3 - 0.1 * half)]) == [(1, 0)]


def test_is_constant__but_what_is_left_out_is_not():
    assert is_constant(number("a", [2, 2, 2]))
    assert not is_constant(number("a", [2, 2, 3]))
    assert not is_constant(ColumnValues("text", "left out", np.empty((3, 0))))


def test_mean_auroc__is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    rng = np.random.RandomState(0)
    labels, proba = rng.randint(3, size=90), rng.dirichlet(np.ones(3), size=90).round(1)
    expected = np.mean([roc_auc_score(labels == c, proba[:, c]) for c in range(3)])
    assert mean_auroc(proba, labels) == pytest.approx(expected)


def test_alone__is_out_of_fold():
    rng = np.random.RandomState(0)
    labels, folds = rng.randint(2, size=60), np.arange(60) % 5
    noise = rng.normal(size=(60, 1))
    before = alone(noise, labels, folds, 2)
    other = np.where(folds == 0, 1 - labels, labels)
    assert np.array_equal(alone(noise, other, folds, 2)[folds == 0], before[folds == 0])
    assert mean_auroc(before, labels) < 0.75


def test_deciders__a_leak_is_one_and_good_columns_are_none():
    rng = np.random.RandomState(0)
    labels, folds = np.arange(120) % 2, np.arange(120) % 7 % 5
    weak = [number(j, labels + 1.5 * rng.normal(size=120)) for j in range(3)]
    leak = number("outcome", labels + 0.01 * rng.normal(size=120))
    proba = np.stack([1 - labels, labels], axis=1) * 0.8 + 0.1
    found = deciders([*weak, leak], labels, folds, proba)
    assert list(found) == [3]
    assert found[3].auroc > 0.99
    assert found[3].next_best < 0.9
    # A copy does not excuse it; another column that is as good does: the task is easy.
    twice = number("its copy", 5 * leak.places)
    assert list(deciders([*weak, leak, twice], labels, folds, proba)) == [3, 4]
    good = number("another", labels + 0.02 * rng.normal(size=120))
    assert deciders([*weak, leak, good], labels, folds, proba) == {}
