import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pnca.exceptions import InvalidInputError
from pnca.training.sampling import (
    FoldModels,
    assign_folds,
    partnered_batches,
    row_order,
    shuffled_batches,
    spread_rows,
)


def within_one(counts):
    return max(counts) - min(counts) <= 1


# Batches


@pytest.mark.parametrize(("n", "size"), [(10, 3), (10, 10), (10, 50), (10, None), (1, 1)])
def test_shuffled_batches__hold_each_example_once(n, size):
    batches = shuffled_batches(n, size, np.random.RandomState(0))
    assert sorted(np.concatenate(batches)) == list(range(n))
    assert all(len(batch) <= (size or n) for batch in batches)


def test_shuffled_batches__differ_between_epochs():
    rng = np.random.RandomState(0)
    first, second = shuffled_batches(50, 10, rng), shuffled_batches(50, 10, rng)
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(2, 30), min_size=2, max_size=5),
    size=st.integers(10, 40),
    seed=st.integers(0, 9),
)
def test_partnered_batches__leave_nobody_alone(counts, size, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    batches = partnered_batches(labels, size, np.random.RandomState(seed))
    assert sorted(np.concatenate(batches)) == list(range(len(labels)))
    for batch in batches:
        present = np.bincount(labels[batch], minlength=len(counts))
        assert not (present == 1).any()


def test_partnered_batches__spread_each_class_evenly():
    labels = np.repeat([0, 1], [40, 20])
    batches = partnered_batches(labels, 20, np.random.RandomState(0))
    assert all(19 <= len(batch) <= 21 for batch in batches)


def test_partnered_batches__too_small_for_the_classes_says_what_to_use():
    with pytest.raises(InvalidInputError, match="batch_size >= 6"):
        partnered_batches(np.repeat([0, 1, 2], 5), 4, np.random.RandomState(0))


# Rows at random


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_order__is_that_of_lexsort(dtype):
    rng = np.random.RandomState(0)
    for scale in (1.0, 1e-30, 1e30):
        X = (scale * np.round(rng.normal(size=(300, 2, 2)), 1)).astype(dtype)
        labels = rng.randint(-2, 3, size=300)
        columns = [labels, *X.reshape(300, 4).T[::-1]]
        assert np.array_equal(row_order(X, labels), np.lexsort(columns))
        assert np.array_equal(row_order(np.asfortranarray(X), labels), np.lexsort(columns))


def test_row_order__has_one_zero_and_keeps_equal_rows_as_they_are():
    assert row_order(np.array([0.0, -0.0, 0.0, -1.0])).tolist() == [3, 0, 1, 2]
    assert row_order(np.zeros((3, 2)), np.array([1, 0, 1])).tolist() == [1, 0, 2]


@pytest.mark.parametrize(("n", "n_picked"), [(10, 4), (4, 10), (5, 5)])
def test_spread_rows__are_distinct_and_ascending_and_always_the_same(n, n_picked):
    rows = spread_rows(n, n_picked)
    assert len(rows) == min(n, n_picked)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert 0 <= rows.min() <= rows.max() < n
    assert rows.tolist() == spread_rows(n, n_picked).tolist()


def test_spread_rows__do_not_follow_the_order_of_a_file():
    # Halves of a sorted file, or every other row, would be told apart from 1,000 rows at random.
    rows = spread_rows(1000, 500)
    assert 200 < (rows < 500).sum() < 300
    assert 200 < (rows % 2 == 0).sum() < 300


# Folds


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=2, max_size=60),
    n_folds=st.integers(2, 8),
    seed=st.integers(0, 99),
)
def test_assign_folds__deals_all_examples_and_each_class_evenly(labels, n_folds, seed):
    labels = np.array(labels)
    folds = assign_folds(labels, n_folds, np.random.RandomState(seed))
    n_made = min(n_folds, len(labels))
    assert folds.shape == labels.shape
    assert set(folds) == set(range(n_made))
    assert within_one(np.bincount(folds))
    for label in np.unique(labels):
        assert within_one(np.bincount(folds[labels == label], minlength=n_made))


def test_assign_folds__is_random_and_repeatable():
    labels = np.arange(40) % 2
    first, again, other = (assign_folds(labels, 5, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@settings(max_examples=60, deadline=None)
@given(
    examples=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=4, max_size=60),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_assign_folds__never_splits_a_group(examples, n_folds, seed):
    labels, groups = np.array(examples).T
    labels = np.unique(labels, return_inverse=True)[1]
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        return
    folds = assign_folds(labels, n_folds, np.random.RandomState(seed), groups)  # warnings are errors here
    assert set(folds) == set(range(min(n_folds, n_groups)))
    for group in np.unique(groups):
        assert len(set(folds[groups == group])) == 1


def test_assign_folds__groups_are_dealt_by_class():
    # Forty groups of three, each of one class; five folds can have eight of each.
    groups = np.repeat(np.arange(40), 3)
    labels = groups % 4
    folds = assign_folds(labels, 5, np.random.RandomState(0), groups)
    for label in range(4):
        assert np.bincount(folds[labels == label]).tolist() == [6] * 5


def test_assign_folds__fewer_groups_than_folds_make_fewer_folds():
    groups = np.array([7, 7, 3, 3, 3, 9])
    folds = assign_folds(np.array([0, 1, 0, 1, 1, 0]), 5, np.random.RandomState(0), groups)
    assert sorted(set(folds)) == [0, 1, 2]


def test_assign_folds__fewer_examples_than_folds_make_fewer_folds():
    assert sorted(assign_folds(np.array([0, 1, 0]), 5, np.random.RandomState(0))) == [0, 1, 2]


@pytest.mark.parametrize("n_rare", [1, 2, 4])
def test_assign_folds__classes_rarer_than_the_folds_are_dealt_with_the_others(n_rare):
    labels = np.r_[np.zeros(10), np.ones(10), np.full(n_rare, 2)].astype(int)
    groups = np.arange(20 + n_rare)  # each its own
    for of_examples in (None, groups):
        folds = assign_folds(labels, 5, np.random.RandomState(0), of_examples)
        assert sorted(set(folds)) == [0, 1, 2, 3, 4]
        for label in (0, 1):
            # Grouped, the rare examples count as those of the most frequent class.
            assert np.bincount(folds[labels == label], minlength=5).min() >= 1


def test_assign_folds__one_group_cannot_be_held_out():
    with pytest.raises(InvalidInputError, match=r"one group.*leave groups out"):
        assign_folds(np.arange(6) % 2, 3, np.random.RandomState(0), np.zeros(6, dtype=int))


# Full model and fold models


MODELS = FoldModels(folds=np.array([2, 0, 1, 1, 0, 2, 2]), n_particles=5, n_per_fold=3)


def test_fold_models__rows_cover_all_particles_once():
    assert (MODELS.n_folds, MODELS.n_total) == (3, 14)
    assert MODELS.slices[0] == MODELS.full == slice(0, 5)
    assert MODELS.slices[1:] == [MODELS.without(fold) for fold in range(3)]
    rows = np.concatenate([np.arange(14)[model] for model in MODELS.slices])
    assert rows.tolist() == list(range(14))
    assert [len(range(14)[model]) for model in MODELS.slices] == [5, 3, 3, 3]


def test_fold_models__are_trained_on_all_but_their_own_fold():
    trained_on = MODELS.trained_on()
    assert trained_on.shape == (4, 7)
    assert trained_on[0].all()
    for fold in range(3):
        assert trained_on[1 + fold].tolist() == [other != fold for other in MODELS.folds]
    # Every example is held out by one model.
    assert ((~trained_on).sum(dim=0) == 1).all()


def test_fold_models__of_particles_names_the_model_of_each():
    models = MODELS.of_particles()
    assert models.shape == (14,)
    for number, rows in enumerate(MODELS.slices):
        assert (models[rows] == number).all()


def test_fold_models__kinds_alternate_so_that_each_model_has_as_many_of_each():
    models = FoldModels(folds=MODELS.folds, n_particles=6, n_per_fold=4, n_kinds=2)
    for rows in models.slices:
        assert models.kinds()[rows].tolist() == [0, 1] * (len(models.kinds()[rows]) // 2)
    assert set(MODELS.kinds().tolist()) == {0}


def test_fold_models__without_folds_there_is_the_full_model_only():
    models = FoldModels(folds=None, n_particles=5)
    assert (models.n_folds, models.n_total, models.slices) == (0, 5, [slice(0, 5)])
    assert models.of_particles().tolist() == [0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="no folds"):
        models.trained_on()
