"""The report of one run: its tables, its figures, and a page that holds them together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pnca.files import make_folder, write_text
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.sections import Section, make_sections


@dataclass(frozen=True, kw_only=True)
class Written:
    """A report: its folder, the files written there, and its tables and figures."""

    folder: Path
    files: list[Path]
    sections: list[Section]


def write_report(folder: RunFolder, formats: Sequence[str] = ()) -> Written:
    """Write a run's figures, each of its tables as Markdown and LaTeX, and ``report.md`` with all of them.

    Figures are PNG, and beside that in further ``formats``: svg, pdf.
    """
    figures = make_folder(folder.path / "figures")
    sections = make_sections(folder, figures, formats)
    files = [
        path.with_suffix(f".{kind}")
        for section in sections
        for path in section.figures
        for kind in dict.fromkeys(["png", *formats])
    ]
    for section in sections:
        for i, table in enumerate(section.tables):
            stem = folder.path / (section.name if i == 0 else f"{section.name}_{i + 1}")
            files.append(write_text(stem.with_suffix(".md"), f"{table.caption}\n\n{table.markdown()}\n"))
            files.append(write_text(stem.with_suffix(".tex"), table.latex()))
    run = folder.read_run()
    pages = [
        f"# Reproduction: {run['study']}\n",
        *(s.markdown(folder.path) for s in sections),
        provenance(run, len(folder.finished())),
    ]
    files.append(write_text(folder.path / "report.md", "\n".join(pages)))
    return Written(folder=folder.path, files=files, sections=sections)


def command(run: Mapping[str, Any]) -> str:
    """The command that made the run of a ``run.json``, without its folders."""
    options = run["options"]
    words = ["pnca reproduce", run["study"]]
    words += ["--quick"] if options["quick"] else []
    words += [f"--trials {options['trials']}"] if options["trials"] else []
    words += ["--train-sizes " + ",".join(map(str, options["train_sizes"]))] if options["train_sizes"] else []
    words += [f"--models '{','.join(options['models'])}'"] if options["models"] else []
    return " ".join(words)


def provenance(run: Mapping[str, Any], n_done: int) -> str:
    """Say as Markdown how the run of a ``run.json`` was made."""
    hardware, versions, n_cells = run["hardware"], run["versions"], len(run["cells"])
    done = "" if n_done == n_cells else f" **{n_done} of them are done.**"
    lines = [
        "## How these numbers were made",
        "",
        f"- `{command(run)}`: {n_cells} fits, one thread each.{done}",
        f"- Seeds: {run['seeds']}.",
        f"- {hardware['processor']}, {hardware['cores']} cores, {hardware['system']}.",
        "- " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
    ]
    sessions = run["sessions"]
    if sum(session["fits"] for session in sessions) == n_cells:
        minutes = sum(session["seconds"] for session in sessions) / 60
        engine = run["engine"]
        who = "the workers of a scheduler" if engine["scheduler"] else f"{engine['jobs']} at a time"
        lines.append(f"- {minutes:.1f} minutes, {who} ({engine['name']} engine).")
    if run["failed"]:
        lines.append(f"- **{len(run['failed'])} fits failed**; `run.json` has their errors.")
    return "\n".join(lines) + "\n"
