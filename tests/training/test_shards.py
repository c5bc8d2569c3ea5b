"""What a rank computes and sends; tests with real process groups are in test_distributed.py."""

import pytest
import torch

from pnca.training.shards import ONE_PROCESS, ProcessShards, _different


def ranks(size):
    """The ranks of a group of this size, without a connection."""
    for rank in range(size):
        shards = ProcessShards.__new__(ProcessShards)
        shards.rank, shards.size = rank, size
        yield shards


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 4, 6, 61])
def test_rows__of_all_ranks_are_each_row_once(n, size):
    parts = [torch.arange(n)[shards.rows(n)] for shards in ranks(size)]
    assert torch.cat(parts).tolist() == list(range(n))
    # All but the last that has any are of one size, which gathering counts on.
    share = -(-n // size)
    assert [len(part) for part in parts] == [min(share, max(n - share * rank, 0)) for rank in range(size)]


def test_own__is_a_rank_s_rows_along_a_dimension():
    rows = torch.arange(10).view(2, 5)
    first, second = (shards.own(rows, dim=1).tolist() for shards in ranks(2))
    assert first == [[0, 1, 2], [5, 6, 7]]
    assert second == [[3, 4], [8, 9]]
    assert [shards.own(rows).shape for shards in ranks(3)] == [(1, 5), (1, 5), (0, 5)]


def test_seed__differs_between_ranks_and_is_the_common_one_in_the_first():
    seeds = [shards.seed(7) for shards in ranks(3)]
    assert seeds[0] == 7
    # No seed of another fit, of which there are 2 ** 31, is that of a rank.
    assert min(seeds[1:]) >= 2**31
    assert len(set(seeds)) == 3


def test_one_process__has_nobody_to_tell():
    assert (ONE_PROCESS.rank, ONE_PROCESS.size, ONE_PROCESS.is_first) == (0, 1, True)
    assert ONE_PROCESS.exchange("a") == ["a"]
    assert ONE_PROCESS.broadcast(b"a") == b"a"
    assert ONE_PROCESS.broadcast(None) is None
    assert ONE_PROCESS.stack(torch.ones(3)).shape == (1, 3)
    with pytest.raises(MemoryError), ONE_PROCESS.together(dict):
        raise MemoryError


def test_different__names_what_differs_and_what_is_missing():
    assert _different(["a=1\nb=2", "a=1\nb=3", "a=1\nc=4"]) == ["b", "c"]
    assert _different(["a=x=y", "a=x=y"]) == []
