import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pnca.exceptions import InvalidInputError
from pnca.training.batches import partnered_batches, shuffled_batches


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
