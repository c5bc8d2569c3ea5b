"""The live display of a run: cells done, time left, and the means so far."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeftColumn
from rich.table import Table

from pnca_studies.experiments.cells import CellResult

_HEADINGS = {"above_0.9": "> .9", "auroc": "AUROC"}
#: Columns over which a mean is taken.
_REPEATS = ("experiment", "draw", "trial", "fold")


class RunningMeans:
    """Means of some (test set, measure) pairs over the repetitions of each kind of cell."""

    def __init__(self, headline: Sequence[tuple[str, str]]) -> None:
        self.headline = list(headline)
        self.identifiers: list[str] = []
        self._values: dict[tuple[Any, ...], list[list[float]]] = {}

    def add(self, result: CellResult) -> None:
        """Count a finished cell."""
        columns = {key: value for key, value in result.columns.items() if key not in _REPEATS}
        self.identifiers = list(columns)
        values = [result.measures[test_set][measure] for test_set, measure in self.headline]
        numbers = [np.nan if value is None else float(value) for value in values]
        self._values.setdefault(tuple(columns.values()), []).append(numbers)

    def rows(self) -> Iterator[tuple[tuple[str, ...], int, list[float]]]:
        """Yield what identifies a kind of cell, how many are finished, and their means (NaN if none)."""
        for identity, values in sorted(self._values.items(), key=lambda item: item[0][:-1]):
            known = [[x for x in column if np.isfinite(x)] for column in zip(*values, strict=True)]
            means = [float(np.mean(column)) if column else np.nan for column in known]
            yield tuple(map(str, identity)), len(values), means


class Display:
    """What a run shows while it runs; a file or a pipe gets one line per cell instead."""

    def __init__(self, console: Console, headline: Sequence[tuple[str, str]], n_cells: int) -> None:
        self.console = console
        self.means = RunningMeans(headline)
        self.progress = Progress(
            TextColumn("cells"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeLeftColumn(),
            console=console,
            speed_estimate_period=3600,  # seconds: a fit can take longer than rich looks back by itself
        )
        self.task = self.progress.add_task("cells", total=n_cells)
        self._live: Live | None = None
        self._n_resumed = 0

    @contextmanager
    def shown(self) -> Iterator["Display"]:
        """Show it within the context."""
        if not self.console.is_terminal:
            yield self
            return
        # Four times a second is enough, and drawing takes time from the fits.
        with Live(self._content(), console=self.console, refresh_per_second=4) as self._live:
            yield self

    def resumed(self, result: CellResult) -> None:
        """Count a cell that was there already."""
        self.means.add(result)
        self._n_resumed += 1
        self.progress.reset(self.task, completed=self._n_resumed)  # not part of the pace of this run

    def finished(self, name: str, result: CellResult | None, done: int, total: int) -> None:
        """Count a cell that has just ended; without a result, it failed."""
        if result is not None:
            self.means.add(result)
        self.progress.update(self.task, advance=1)
        if self._live is not None:
            self._live.update(self._content())
        else:
            self.console.print(f"{done}/{total} {name}{'' if result else ': failed'}", highlight=False)

    def table(self) -> Table:
        """Return the means of the cells so far."""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for heading in self.means.identifiers:
            table.add_column(heading)
        table.add_column("fits", justify="right")
        for test_set, measure in self.means.headline:
            table.add_column(f"{test_set}\n{_HEADINGS.get(measure, measure)}", justify="right")
        for identity, n_fits, values in self.means.rows():
            table.add_row(*identity, str(n_fits), *(f"{value:.3f}" for value in values))
        return table

    def _content(self) -> Any:  # noqa: ANN401
        return Group(self.progress, self.table())  # a terminal that is too low cuts the end, the table's
