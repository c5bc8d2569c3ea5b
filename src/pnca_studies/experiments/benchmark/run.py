"""Compute the cells that a file does not have yet."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from pnca.files import own_folder
from pnca_studies.experiments.benchmark.cells import SUFFIX, Cell, CellFile, code_fingerprint
from pnca_studies.experiments.benchmark.sources import load_sources
from pnca_studies.experiments.benchmark.work import Bench, run_cell, this_machine
from pnca_studies.experiments.grid import Engine, Outcome, run_cells


def run_benchmark(
    cells: Sequence[Cell],
    folder: Path,
    engine: Engine,
    *,
    data_dir: Path | None = None,
    download: bool = False,
    device: str = "cpu",
    renew: bool = False,
    said: Callable[[str], None] = lambda text: None,
    watch: Callable[[Outcome[Cell], int, int], None] = lambda outcome, done, total: None,
) -> list[Outcome[Cell]]:
    """Compute the missing cells, add each at once to the file of its group, and return those that failed.

    With ``renew``, cells that were computed with other code of the method are computed again.
    """
    sources, missing = load_sources(dict.fromkeys(cell.data for cell in cells), data_dir, download=download)
    for reason in missing:
        said(f"Left out: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    with own_folder(folder):
        files = {
            name: CellFile(folder / file_name(source.data_set.group)) for name, source in sources.items()
        }
        there: dict[str, str] = {}
        for file in {file.path: file for file in files.values()}.values():
            file.tidy()
            there |= {line["key"]: line["code"] for line in file.lines()}
        wanted = [cell for cell in cells if cell.data in sources]
        todo = [
            cell
            for cell in wanted
            if cell.key() not in there or (renew and there[cell.key()] != code_fingerprint())
        ]
        said(f"{len(wanted) - len(todo)} of {len(wanted)} cells are in {folder} already.")
        bench, failed = Bench(sources=sources, device=device, machine=this_machine()), []
        with closing(run_cells(todo, run_cell, bench, engine)) as outcomes:
            for done, outcome in enumerate(outcomes, 1):
                if outcome.result is None:
                    failed.append(outcome)
                else:
                    files[outcome.cell.data].append(outcome.result.details["line"])
                watch(outcome, done, len(todo))
        for file in {file.path: file for file in files.values()}.values():
            file.tidy()
    return failed


def file_name(group: str) -> str:
    """Return the name of the file for the cells of a group."""
    return group.replace(" ", "_") + SUFFIX
