"""Run a grid of fits and show its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from pnca_studies.experiments.grid import Engine
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.experiments.study import Study


def run_and_show(console: Console, study: Study[Any, Any], folder: RunFolder, engine: Engine) -> int:
    """Run a study and return how many fits failed; end the command if it is stopped or if all fail."""
    from pnca_studies.commands.watch import Display
    from pnca_studies.experiments.study import run_study

    at_once = "on the scheduler's workers" if engine.scheduler else f"{engine.jobs} at a time"
    say(console, f"{len(study.cells)} fits, {at_once}; results go to {folder.path.resolve()}.")
    display = Display(console, study.headline, len(study.cells))
    try:
        with display.shown():
            failed = run_study(
                study,
                folder,
                engine,
                watch=lambda outcome, done, total: display.finished(
                    study.stem(outcome.cell), outcome.result, done, total
                ),
                resumed=display.resumed,
            )
    except KeyboardInterrupt:
        say(console, f"\nStopped. Finished fits are kept in {folder.path}: continue with --resume.")
        raise typer.Exit(130) from None
    if failed:
        say(console, f"\n{len(failed)} of {len(study.cells)} fits failed (run.json has the whole errors):")
        for outcome in failed:
            reason = (outcome.error or "").strip().splitlines()[-1]
            say(console, f"  {study.stem(outcome.cell)}: {reason}")
    if len(failed) == len(study.cells):
        raise typer.Exit(1)
    return len(failed)


def say(console: Console, text: str) -> None:
    """Print text as it is: brackets in a path are no markup, and a long line is the terminal's to wrap."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
