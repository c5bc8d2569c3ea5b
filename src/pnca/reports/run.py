"""The report of one run: its tables, its figures, and a page that holds them together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pnca.experiments.store import RunFolder
from pnca.files import write_text
from pnca.reports.sections import Section, make_sections


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a report consists of.

    Attributes
    ----------
    folder : Path
        Where it is.
    files : list of Path
        What was written.
    sections : list of Section
        Its tables and figures.
    """

    folder: Path
    files: list[Path]
    sections: list[Section]


def write_report(folder: RunFolder) -> Written:
    """Draw every table and figure of a run from its files.

    Parameters
    ----------
    folder : RunFolder
        The run.

    Returns
    -------
    Written
        Figures in ``figures/``, each table as Markdown and LaTeX, and ``report.md`` with all of them.
    """
    figures = folder.path / "figures"
    figures.mkdir(exist_ok=True)
    sections = make_sections(folder, figures)
    files = [path for section in sections for path in section.figures]
    for section in sections:
        for i, table in enumerate(section.tables):
            stem = folder.path / (section.name if i == 0 else f"{section.name}_{i + 1}")
            files.append(write_text(stem.with_suffix(".md"), f"{table.caption}\n\n{table.markdown()}\n"))
            files.append(write_text(stem.with_suffix(".tex"), table.latex()))
    run = folder.read_run()
    pages = [
        f"# Reproduction: {run['study']}\n",
        *(s.markdown(folder.path) for s in sections),
        provenance(run),
    ]
    files.append(write_text(folder.path / "report.md", "\n".join(pages)))
    return Written(folder=folder.path, files=files, sections=sections)


def provenance(run: Mapping[str, Any]) -> str:
    """Say how a run was made, as Markdown.

    Parameters
    ----------
    run : mapping
        The content of ``run.json``.

    Returns
    -------
    str
    """
    hardware, versions = run["hardware"], run["versions"]
    n_cells, computed = len(run["cells"]), run.get("cells_computed", 0)
    lines = [
        "## How these numbers were made",
        "",
        f"- `pnca reproduce {run['study']}`: {n_cells} fits; {run['engine']['jobs']} at a time, one thread "
        f"each ({run['engine']['name']} engine).",
        f"- Seeds: {run['seeds']}.",
        f"- {hardware['processor']}, {hardware['cores']} cores, {hardware['system']}.",
        "- " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
    ]
    if computed == n_cells:
        lines.append(f"- {run['seconds'] / 60:.1f} minutes in all.")
    if run["failed"]:
        lines.append(f"- **{len(run['failed'])} fits failed**; `run.json` has their errors.")
    return "\n".join(lines) + "\n"
