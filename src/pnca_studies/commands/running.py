"""Run a grid of fits and show its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from pnca.interfaces.stopping import exit_code, terminable
from pnca_studies.commands.remembering import Given, how_to_continue, remembered

if TYPE_CHECKING:
    from rich.console import Console

    from pnca_studies.experiments.grid import Engine
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.experiments.study import Study


def run_and_show(
    console: Console, study: Study[Any, Any], folder: RunFolder, engine: Engine, options: Given
) -> int:
    """Run a study and return how many fits failed; end the command if it is stopped or if all fail.

    ``options`` are those of the command line, which the folder remembers.
    """
    from pnca.exceptions import WorkersLostError
    from pnca_studies.commands.watch import Display
    from pnca_studies.experiments.study import run_study

    at_once = "on the scheduler's workers" if engine.scheduler else f"{engine.jobs} at a time"
    say(console, f"{len(study.cells)} fits, {at_once}; results go to {folder.path.resolve()}.")
    display = Display(console, study.headline, len(study.cells))
    kept = f"Finished fits are kept. Continue with:\n  {how_to_continue(study.name, folder.path, options)}"
    try:
        with terminable(), display.shown():
            failed = run_study(
                study,
                folder,
                engine,
                command=options,
                watch=lambda outcome, done, total: display.finished(
                    study.stem(outcome.cell), outcome.result, done, total
                ),
                resumed=display.resumed,
                damaged=lambda reason: say(console, f"Computed again: {reason}"),
            )
    except KeyboardInterrupt as error:
        say(console, f"\nStopped. {kept}")
        raise typer.Exit(exit_code(error)) from None
    except WorkersLostError:
        say(console, f"\n{kept}")
        raise
    if failed:
        say(console, f"\n{len(failed)} of {len(study.cells)} fits failed (run.json has the whole errors):")
        for outcome in failed:
            reason = (outcome.error or "").strip().splitlines()[-1]
            say(console, f"  {study.stem(outcome.cell)}: {reason}")
    if len(failed) == len(study.cells):
        raise typer.Exit(1)
    return len(failed)


def say_what_is_missing(console: Console, folder: RunFolder) -> None:
    """Say which results a report had to leave out, and how many fits are yet to be done."""
    run, finished = folder.read_run(), set(folder.finished())
    if not (missing := [stem for stem in run["cells"] if stem not in finished]):
        return
    for stem in missing:
        if stem in folder.damaged:
            say(console, f"Left out: {folder.damaged[stem]}")
    say(
        console,
        f"{folder.path}: {len(missing)} of {len(run['cells'])} fits are missing. Continue with:\n  "
        f"{how_to_continue(run['study'], folder.path, remembered(run))}",
    )


def say(console: Console, text: str) -> None:
    """Print text as it is: brackets in a path are no markup, and a long line is the terminal's to wrap."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
