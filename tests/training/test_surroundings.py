from contextlib import contextmanager

import numpy as np
import pytest

import pnca
from pnca.exceptions import InvalidInputError
from pnca.training.loop import Surroundings, surroundings
from pnca.training.shards import PROCESSES, Shards


class Second(Shards):
    """The second of two ranks, which hears what the first says."""

    rank, size = 1, 2

    def __init__(self, said=""):
        self.said, self.told = said, []

    def exchange(self, text):
        return [self.said, text]

    def seed(self, common):
        return common + 1000

    @contextmanager
    def together(self, describe):
        yield
        self.told.append(describe())


def test_surroundings__are_those_of_the_caller_s_blocks(tmp_path):
    assert surroundings() == Surroundings(None, None)
    shards = Second()
    token = PROCESSES.set(shards)
    with pnca.checkpoints(tmp_path):
        first, second = surroundings(), surroundings()
    PROCESSES.reset(token)
    assert first.shards is shards
    assert first.checkpoint.shards is shards
    assert [around.checkpoint.path.name for around in (first, second)] == [
        "fit-001.safetensors",
        "fit-002.safetensors",
    ]
    assert surroundings() == Surroundings(None, None)


def test_random_state__is_the_first_rank_s_where_none_is_given():
    around = Surroundings(shards=Second(said="17"))
    assert around.random_state(None).randint(2**31) == np.random.RandomState(17).randint(2**31)
    given = np.random.RandomState(5)
    assert around.random_state(given) is given
    assert around.random_state(3).randint(2**31) == np.random.RandomState(3).randint(2**31)


def test_random_state__draws_nothing_from_a_user_s_generator(tmp_path):
    given = np.random.RandomState(5)
    with pnca.checkpoints(tmp_path):
        surroundings().random_state(given)
    assert given.randint(2**31) == np.random.RandomState(5).randint(2**31)


def test_seed__is_a_rank_s_own():
    assert Surroundings().seed(7) == 7
    assert Surroundings(shards=Second()).seed(7) == 1007


def test_agreement__compares_the_fit_with_the_other_ranks_and_the_checkpoint(tmp_path):
    calls = []

    def identity():
        calls.append(1)
        return {"X": "a"}

    shards = Second()
    token = PROCESSES.set(shards)
    with pnca.checkpoints(tmp_path):
        around = surroundings()
        with around.agreement() as identify:
            identify(identity)
    PROCESSES.reset(token)
    assert shards.told[-1] == {"X": "a"}
    assert around.checkpoint._fingerprints == {"X": "a"}
    assert len(calls) == 1  # fingerprints of all data take time
    assert around.wrappers(None) == [around.checkpoint.around]


def test_agreement__passes_an_error_on():
    with pytest.raises(InvalidInputError, match="bad data"), Surroundings().agreement():
        raise InvalidInputError("bad data")


def test_agreement__in_one_process_without_a_checkpoint_needs_no_fingerprint():
    def identity():
        raise AssertionError

    with Surroundings().agreement() as identify:
        identify(identity)


@pytest.mark.parametrize(("caption", "n_bars"), [(None, 0), ("NCA", 1)])
def test_wrappers__a_progress_bar_is_shown_by_the_first_rank_only(caption, n_bars):
    assert len(Surroundings().wrappers(caption)) == n_bars
    second = Second()
    assert Surroundings(shards=second).wrappers(caption) == []
