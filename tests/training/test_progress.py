from contextlib import suppress

import pytest
from rich.progress import Progress

from models import make, noisy
from pnca.training import progress
from pnca.training.loop import announced, silent
from pnca.training.progress import bar, progress_bar
from pnca.training.shards import Shards
from training.quadratic import run


def test_train__is_quiet_without_a_progress_bar(capsys):
    run(max_epochs=2)
    assert capsys.readouterr().out == ""


def test_progress_bar__shows_caption_epochs_and_loss(capsys):
    run(max_epochs=2, wrappers=[progress_bar("my model")])
    shown = capsys.readouterr().out
    assert "my model" in shown
    assert "2/2" in shown
    assert "loss" in shown
    assert "accuracy 1.000" in shown


def test_bar__counts_steps_and_says_how_things_stand(capsys):
    with bar("embedding", 10) as advance:
        advance()
        advance(9, "well")
    shown = capsys.readouterr().out
    assert "embedding" in shown
    assert "10/10" in shown
    assert "well" in shown


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_bar__is_closed_by_errors(error, monkeypatch):
    closed, original = [], Progress.stop
    monkeypatch.setattr(Progress, "stop", lambda self: [closed.append(self), original(self)])
    with suppress(error), bar("embedding", 2):
        raise error
    (progress,) = closed
    assert not progress.live.is_started


def test_fit__shows_every_phase_to_its_end(capsys):
    make("PNCA", max_epochs=4, n_folds=2, verbose=True).fit(*noisy())
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = {" ".join(line[: len(line) // 2]): line for line in lines if line}
    counts = {line[0]: next(word for word in line if "/" in word) for line in shown.values()}
    # Three snapshots at fifteen bandwidths; forty examples.
    assert counts == {"PNCAClassifier": "4/4", "choosing": "45/45", "out": "40/40", "embedding": "40/40"}


def test_fit__makes_no_bar_unless_it_is_verbose(monkeypatch):
    monkeypatch.setattr(progress, "bar", lambda *_: 1 / 0)
    make("PNCA", max_epochs=4, n_folds=2).fit(*noisy())


def test_announced__by_the_rank_that_prints():
    second = Shards()
    second.rank = 1
    assert (announced(None), announced(Shards()), announced(second)) == (bar, bar, silent)
