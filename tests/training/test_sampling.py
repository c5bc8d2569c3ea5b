import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pnca.training.folds import Teams, assign_folds

from pnca.exceptions import InvalidInputError


def within_one(counts):
    return max(counts) - min(counts) <= 1


# Dealing examples into folds


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


# Teams


TEAMS = Teams(folds=np.array([2, 0, 1, 1, 0, 2, 2]), n_particles=5, n_per_fold=3)


def test_teams__rows_cover_all_particles_once():
    assert (TEAMS.n_folds, TEAMS.n_total) == (3, 14)
    assert TEAMS.slices[0] == TEAMS.full == slice(0, 5)
    assert TEAMS.slices[1:] == [TEAMS.without(fold) for fold in range(3)]
    rows = np.concatenate([np.arange(14)[team] for team in TEAMS.slices])
    assert rows.tolist() == list(range(14))
    assert [len(range(14)[team]) for team in TEAMS.slices] == [5, 3, 3, 3]


def test_teams__see_all_but_their_own_fold():
    sees = TEAMS.sees()
    assert sees.shape == (4, 7)
    assert sees[0].all()
    for fold in range(3):
        assert sees[1 + fold].tolist() == [other != fold for other in TEAMS.folds]
    # Every example is hidden from one team.
    assert ((~sees).sum(dim=0) == 1).all()


def test_teams__of_particles_names_the_team_of_each():
    teams = TEAMS.of_particles()
    assert teams.shape == (14,)
    for number, team in enumerate(TEAMS.slices):
        assert (teams[team] == number).all()


def test_teams__without_folds_there_is_one():
    teams = Teams(folds=None, n_particles=5)
    assert (teams.n_folds, teams.n_total, teams.slices) == (0, 5, [slice(0, 5)])
    assert teams.of_particles().tolist() == [0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="no folds"):
        teams.sees()
