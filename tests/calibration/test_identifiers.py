"""Columns that name rows or groups: what looks so, and what measured columns never do."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from pnca.calibration.suspicious import ColumnValues, identifier, names_groups, probability_of_few_repetitions

RNG = np.random.RandomState(0)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_identifier__sees_the_ways_of_numbering(n):
    numbers = np.arange(float(n))
    assert identifier(numbers + 1000).reason == "row order"
    assert identifier(5000 - 3 * numbers).reason == "row order"
    if n > 10:  # ten numbers of which none repeats are no wonder
        shuffled = np.random.RandomState(0).permutation(3 * n)[:n].astype(float)
        assert identifier(shuffled).reason == "no repetition"


def test_identifier__sees_nothing_in_measured_columns():
    rng = np.random.RandomState(0)
    for values in (rng.poisson(50, 100), rng.randint(0, 2000, 100), rng.normal(size=100), np.ones(100)):
        found = identifier(np.asarray(values, dtype=float))
        assert found is None, found
    for load in (load_iris, load_wine, load_breast_cancer, load_diabetes, load_digits):
        X = load().data
        for rows in (np.arange(len(X)), rng.permutation(len(X))[:100]):
            found = [identifier(column[rows]) for column in X.T]
            assert not any(found), load.__name__


def test_identifier__needs_numbers_and_enough_of_them():
    assert identifier(np.arange(9.0)) is None
    assert identifier(np.array([*range(20), np.nan])) is None


def test_probability_of_few_repetitions__is_that_of_birthdays():
    rng = np.random.RandomState(0)
    n_pairs = [(np.bincount(rng.randint(365, size=40)) // 2).sum() for _ in range(2000)]
    expected = np.mean(np.array(n_pairs) <= 1)
    assert probability_of_few_repetitions(40, 365, 1) == pytest.approx(expected, abs=0.05)


def test_names_groups__needs_one_value_for_each_group_and_another_for_the_next():
    groups = np.random.RandomState(0).permutation(np.repeat(np.arange(12), 3))
    named = ColumnValues("patient", "number", 100.0 + groups[:, None])
    assert names_groups(named, groups).reason == "group"
    assert names_groups(named, np.roll(groups, 1)) is None
    coded = ColumnValues("patient", "category", groups[:, None] * 1.0)
    assert names_groups(coded, groups).reason == "group"
    assert names_groups(ColumnValues("ward", "category", (groups // 2)[:, None] * 1.0), groups) is None


def test_identifier__distinct_whole_numbers_of_such_a_name():
    numbers = np.random.RandomState(0).choice(10**6, 60, replace=False).astype(float)
    assert identifier(numbers) is None
    for name in ("id", "patient_nr", "caseId", "Sample No"):
        assert identifier(numbers, name).reason == "name"
    for name in ("age", "width", "pid", 3):  # "pid" may be anything
        assert identifier(numbers, name) is None
    assert identifier(np.append(numbers[:-1], numbers[0]), "id") is None
