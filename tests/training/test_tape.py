"""The substitute for CUDA graphs refuses and does what CUDA would."""

import pytest
import torch

from training.tape import TapeGraphs


def test_tape__does_nothing_until_it_is_replayed_and_then_reads_the_same_memory():
    a, total = torch.arange(3.0), torch.zeros(3)
    graph = TapeGraphs(None).capture(lambda: total.add_((a * 2).view(1, 3)[0]))
    assert total.tolist() == [0, 0, 0]
    graph.replay()
    a += 1
    graph.replay()
    assert total.tolist() == [2, 6, 10]


def test_tape__python_values_are_constants():
    values, total = [1.0], torch.zeros(())
    graph = TapeGraphs(None).capture(lambda: total.add_(values[0]))
    values[0] = 5.0
    graph.replay()
    assert total == 1


def test_tape__draws_on_in_each_replay():
    generator, drawn = torch.Generator().manual_seed(0), torch.zeros(2)
    graph = TapeGraphs(generator).capture(lambda: drawn.copy_(torch.rand(2, generator=generator)))
    same = torch.Generator().manual_seed(0)
    for _ in range(3):
        graph.replay()
        assert torch.equal(drawn, torch.rand(2, generator=same))


@pytest.mark.parametrize(
    "work", [lambda a: a.sum().item(), lambda a: a[a > 1], lambda a: a.nonzero(), lambda a: bool(a.any())]
)
def test_tape__refuses_what_waits_for_a_value(work):
    a = torch.arange(3.0)
    with pytest.raises(RuntimeError, match="not permitted when the stream is capturing"):
        TapeGraphs(None).capture(lambda: work(a))
    TapeGraphs(None).capture(lambda: a[torch.tensor([0, 2])])
