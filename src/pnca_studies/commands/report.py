"""``pnca report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    format: Formats = None,
) -> None:
    """Redraw tables and figures from a run's files, without fitting anything.

    Several runs of the benchmark make one document, and so do several with --choices; other runs cannot be
    in it.
    """
    from rich.console import Console

    from pnca_studies.experiments.store import RunFolder
    from pnca_studies.reports.benchmark import write_benchmark
    from pnca_studies.reports.method import write_method
    from pnca_studies.reports.reproduction import write_reproduction
    from pnca_studies.reports.run import write_report

    console = Console()
    formats = [kind.value for kind in format or ()]
    folders = [RunFolder.open(path) for path in results]
    studies = [folder.read_run()["study"] for folder in folders]
    for folder in folders:
        say_what_is_missing(console, folder)
    documents = {"benchmark": (write_benchmark, "benchmark.md"), "choices": (write_method, "method.md")}
    if out is not None:
        kind = next((name for name in documents if name in studies), None)
        write = documents[kind][0] if kind else write_reproduction
        more = {} if kind else {"formats": formats}
        say(console, f"Written {write(folders, out, **more)}.")
        return
    for folder, study in zip(folders, studies, strict=True):
        folder.write_tables()
        if study in documents:
            write, name = documents[study]
            say(console, f"Written {write([folder], folder.path / name)}.")
        else:
            print_report(console, write_report(folder, formats))


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
