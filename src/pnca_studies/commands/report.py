"""``pnca report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pnca.exceptions import InvalidInputError
from pnca_studies.commands.options import Formats
from pnca_studies.commands.running import say, say_what_is_missing

if TYPE_CHECKING:
    from rich.console import Console

    from pnca_studies.reports.run import Written
    from pnca_studies.reports.tables import Table as Markdown


def report(
    results: Annotated[
        list[Path], typer.Argument(help="Folders that `pnca reproduce` or `pnca benchmark` wrote.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Write one Markdown document about all of them, with its figures beside it."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Of the benchmark: how many draws are planned.", show_default="5"),
    ] = None,
    format: Formats = None,
) -> None:
    """Redraw tables and figures from a run's files, without fitting anything.

    Several folders of cells of the benchmark make one document, and so do several with --choices; other runs
    cannot be in it.
    """
    from rich.console import Console

    from pnca_studies.experiments.benchmark.cells import is_of_cells
    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.reproduction import write_reproduction
    from pnca_studies.reports.run import write_report

    console = Console()
    if any(is_of_cells(path) for path in results):
        say(console, f"Written {_of_cells(results, out, trials)}.")
        return
    formats = [kind.value for kind in format or ()]
    folders = [RunFolder.open(path) for path in results]
    for folder in folders:
        say_what_is_missing(console, folder)
    if out is not None:
        say(console, f"Written {write_reproduction(folders, out, formats=formats)}.")
        return
    for folder in folders:
        folder.write_tables()
        print_report(console, write_report(folder, formats))


def _of_cells(paths: list[Path], out: Path | None, n_draws: int | None) -> Path:
    """Write the document about cells of the benchmark, or of the choices."""
    from pnca_studies.experiments.benchmark import N_DRAWS
    from pnca_studies.experiments.benchmark.cells import read_lines
    from pnca_studies.reports.benchmark import write_benchmark
    from pnca_studies.reports.method import write_method

    studies = {line["study"] for line in read_lines(paths)}
    if len(studies) > 1:
        raise InvalidInputError(
            f"These are cells of {' and '.join(sorted(studies))}, which have documents of their own: "
            "name folders of one."
        )
    write, name = (write_method, "method.md") if studies == {"choices"} else (write_benchmark, "benchmark.md")
    beside = paths[0] if paths[0].is_dir() else paths[0].parent
    return write(paths, out or beside / name, n_draws=n_draws or N_DRAWS)


def print_report(console: Console, written: Written) -> None:
    """Show the first table of each section with its notes; the report has the rest."""
    for section in written.sections:
        for given in section.tables[:1]:
            print_table(console, section.title, given)
            for note in section.notes:
                say(console, note)
    say(console, f"\nWritten to {written.folder.resolve()}:")
    for path in written.files:
        say(console, f"  {path.relative_to(written.folder)}")


def print_table(console: Console, title: str, given: Markdown) -> None:
    """Show a table, or its Markdown where the terminal is too narrow: rich would cut numbers off."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    table = Table(title=f"\n{title}", caption=given.caption or None, box=box.SIMPLE_HEAD)
    for i, heading in enumerate(given.headings):
        table.add_column(heading.replace(" ", "\n"), justify="right" if i else "left", no_wrap=True)
    for row in given.rows:
        table.add_row(*row)
    wide = console.options.update(width=10_000)
    fits = Measurement.get(console, wide, table).maximum <= console.width
    about = f"{given.caption}\n\n" if given.caption else "\n"
    console.print(table) if fits else say(console, f"\n{title}\n{about}{given.markdown()}")
