"""What the commands that run a grid of fits share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import typer

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from rich.console import Console

    from pnca_studies.experiments.grid import Engine
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.experiments.study import Options, Study


def make_engine(name: str, jobs: int | None, scheduler: str | None) -> Engine:
    """Say who computes, and refuse at once what cannot work.

    Parameters
    ----------
    name : str
        ``"local"`` or ``"dask"``.
    jobs : int, optional
        Fits at a time; by default one a core.
    scheduler : str, optional
        Address of a Dask scheduler.

    Returns
    -------
    Engine
    """
    from pnca_studies.experiments.grid import Engine, check_engine

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    engine = Engine(name=name, jobs=jobs or cores, scheduler=scheduler)
    check_engine(engine)
    return engine


def make_options(trials: int | None, train_sizes: str | None, models: str | None, *, quick: bool) -> Options:
    """Read the options that every grid has.

    Parameters
    ----------
    trials : int, optional
        Draws, or partitions.
    train_sizes, models : str, optional
        Separated by commas.
    quick : bool
        A small run.

    Returns
    -------
    Options
    """
    from pnca_studies.experiments.study import Options

    return Options(
        trials=trials,
        train_sizes=None if train_sizes is None else whole_numbers(train_sizes),
        models=None if models is None else words(models),
        quick=quick,
    )


def run_and_show(console: Console, plan: Study[Any, Any], folder: RunFolder, who: Engine) -> int:
    """Run a study and show how far it is; end the command if it is stopped or if every fit fails.

    Parameters
    ----------
    console : Console
        Where to show it.
    plan : Study
        The grid.
    folder : RunFolder
        Where results go.
    who : Engine
        Who computes.

    Returns
    -------
    int
        Number of fits that failed.
    """
    from pnca_studies.commands.watch import Display
    from pnca_studies.experiments.study import run_study

    at_once = "on the scheduler's workers" if who.scheduler else f"{who.jobs} at a time"
    say(console, f"{len(plan.cells)} fits, {at_once}; results go to {folder.path.resolve()}.")
    display = Display(console, plan.headline, len(plan.cells))
    try:
        with display.shown():
            failed = run_study(
                plan,
                folder,
                who,
                watch=lambda outcome, done, total: display.finished(
                    plan.stem(outcome.cell), outcome.result, done, total
                ),
                resumed=display.resumed,
            )
    except KeyboardInterrupt:
        say(console, f"\nStopped. Finished fits are kept in {folder.path}: continue with --resume.")
        raise typer.Exit(130) from None
    if failed:
        say(console, f"\n{len(failed)} of {len(plan.cells)} fits failed (run.json has the whole errors):")
        for outcome in failed:
            reason = (outcome.error or "").strip().splitlines()[-1]
            say(console, f"  {plan.stem(outcome.cell)}: {reason}")
    if len(failed) == len(plan.cells):
        raise typer.Exit(1)
    return len(failed)


def say(console: Console, text: str) -> None:
    """Print text as it is: brackets in a path are no markup, and a long line is the terminal's to wrap.

    Parameters
    ----------
    console : Console
        Where.
    text : str
        What.
    """
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def words(text: str) -> tuple[str, ...]:
    """Split names at commas.

    Parameters
    ----------
    text : str
        Such as ``"DNN, PNCA"``.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> words("DNN, PNCA")
    ('DNN', 'PNCA')
    """
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise InvalidInputError(f"Expected names separated by commas, but found {text!r}.")
    return found


def whole_numbers(text: str) -> tuple[int, ...]:
    """Split whole numbers at commas.

    Parameters
    ----------
    text : str
        Such as ``"100,200"``.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> whole_numbers("100,200")
    (100, 200)
    """
    try:
        return tuple(int(word) for word in words(text))
    except ValueError:
        raise InvalidInputError(f"Expected whole numbers such as 100,200, but found {text!r}.") from None
