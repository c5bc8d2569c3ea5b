"""How a run ends: with all fits, with some, with none, or by the user."""

import io
import os
import shlex
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from pnca_studies.commands.running import run_and_show, say
from pnca_studies.experiments.grid import Engine, Outcome, WorkersLostError

FOLDER = SimpleNamespace(path=Path("some[bold]folder"))


def run(monkeypatch, run_study, n_cells=2, engine=None):
    """Run a study of which nothing is known but its cells; returns what the command returned or raised."""
    monkeypatch.setattr("pnca_studies.experiments.study.run_study", run_study)
    study = SimpleNamespace(name="mnist", cells=range(n_cells), headline=[], stem=lambda cell: f"cell-{cell}")
    console = Console(file=io.StringIO(), width=40)
    try:
        end = run_and_show(console, study, FOLDER, engine or Engine(jobs=3), {"--models": "DNN,PNCA (paper)"})
    except typer.Exit as error:
        end = error
    return end, console.file.getvalue()


def failing(*cells):
    errors = [Outcome(cell=cell, error=f"Traceback\n  line\nValueError: number {cell}\n") for cell in cells]
    return lambda *_, **__: errors


def test_run__says_how_many_fits_and_where(monkeypatch):
    end, said = run(monkeypatch, failing())
    assert end == 0
    assert said == f"2 fits, 3 at a time; results go to {FOLDER.path.resolve()}.\n"
    cluster = Engine(name="dask", scheduler="tcp://host:8786")
    assert "on the scheduler's workers" in run(monkeypatch, failing(), engine=cluster)[1]


def test_run__failures_are_counted_and_named_with_the_last_line_of_the_error(monkeypatch):
    end, said = run(monkeypatch, failing(1))
    assert end == 1
    assert "1 of 2 fits failed" in said
    assert "  cell-1: ValueError: number 1\n" in said
    assert "Traceback" not in said


def test_run__without_a_single_fit_the_command_fails(monkeypatch):
    end, said = run(monkeypatch, failing(0, 1))
    assert end.exit_code == 1
    assert "cell-0" in said
    assert "cell-1" in said


def test_run__stopped_by_the_user_says_how_to_continue(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    end, said = run(monkeypatch, interrupted)
    assert end.exit_code == 130
    (line,) = [line for line in said.splitlines() if line.startswith("  pnca")]
    assert shlex.split(line) == [
        *("pnca", "reproduce", "mnist", "--models", "DNN,PNCA (paper)"),
        *("--out", str(FOLDER.path.resolve()), "--resume"),
    ]


def test_run__sigterm_is_as_ctrl_c(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)

    def terminated(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    end, said = run(monkeypatch, terminated)
    assert end.exit_code == 143
    assert "Stopped. Finished fits are kept. Continue with:\n  pnca reproduce mnist" in said
    assert signal.getsignal(signal.SIGTERM) is before


def test_run__lost_workers_say_how_to_continue_too(monkeypatch):
    def lost(*_, **__):
        raise WorkersLostError("The workers died")

    with pytest.raises(WorkersLostError):
        run(monkeypatch, lost)


def test_say__prints_text_as_it_is():
    console = Console(file=io.StringIO(), width=20, force_terminal=True)
    say(console, text := "a path with [red]brackets[/red] and a line longer than the terminal")
    assert console.file.getvalue() == text + "\n"
