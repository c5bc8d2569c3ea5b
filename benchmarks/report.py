"""Write docs/performance.md and its figures from the result files in a folder; measures nothing.

The prose is in performance.template.md, where ``{{ name }}`` stands for the tables of ``name.json``.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from cells import NOTHING, against, amount_of, lines, measured, memory, over, three_digits
from pnca.exceptions import InvalidInputError, PncaError
from pnca.files import make_folder, write_text
from pnca_studies.reports.style import new_figure, styles_for, tidy_axes
from records import Record, Reference, Results, Target, read_results

TEMPLATE = Path(__file__).with_name("performance.template.md")
#: Rows of the first table: a record, and the one it is put beside, by default its own first reference.
SUMMARY = Path(__file__).with_name("performance.summary.csv")
#: Characters of a note beside the name; a longer one stands below the table.
_LONGEST_NOTE = 60
_VERDICTS = {True: "met", False: "not met", None: "cannot be said"}
_AXES = {"n": "points n", "m": "particles m", "d": "latent dimensions d", "c": "classes c"}
#: Names in result files of earlier versions.
_RENAMED = {
    "kappa, recorded": "kappa, in a CUDA graph",
    "recording the step, once a fit": "capturing the step, once a fit",
    "each step started from Python": "each step launched from Python",
}


def write_report(folder: Path, document: Path) -> Path:
    """Write the document, and its figures into a folder of the same name beside it."""
    if document.suffix != ".md":
        raise InvalidInputError(f"{document.name} must end in .md: the document is Markdown.")
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is not a folder of result files.")
    text = TEMPLATE.read_text(encoding="utf-8")
    names = re.findall(r"{{ (\w+) }}", text)
    found = read_folder(folder, names)
    make_folder(document.parent)
    for name in found:
        if name not in names:
            text += f"\n## {name.replace('_', ' ').capitalize()}\n\n{{{{ {name} }}}}\n"
    sections = re.findall(r"^## (.+)$[^{]*{{ (\w+) }}", text, flags=re.MULTILINE)
    titles = {name: title for title, name in sections if name != "shortfalls"}
    parts = {name: "\n".join(_page(name, found.get(name, []), document)) for name in titles}
    parts |= {
        "summary": markdown(summary(found), n_names=3),
        "shortfalls": "\n".join(_shortfalls(titles, found)),
    }
    text = re.sub(r"{{ (\w+) }}", lambda match: parts[match[1]], text)
    for old, new in _RENAMED.items():
        text = text.replace(old, new)
    return write_text(document, text)


def read_folder(folder: Path, names: Sequence[str]) -> dict[str, list[Results]]:
    """Read all result files, by the name they belong to: ``small_fits_cuda.json`` to ``small_fits``."""
    found: dict[str, list[Results]] = {}
    for path in sorted(folder.glob("*.json")):
        owners = [name for name in names if path.stem == name or path.stem.startswith(f"{name}_")]
        found.setdefault(owners[0] if owners else path.stem, []).append(read_results(path))
    return found


def summary(found: Mapping[str, Sequence[Results]]) -> pd.DataFrame:
    """The costs that matter most, each beside a reference or another record of the same run."""
    rows = []
    for task, benchmark, name, n, beside in pd.read_csv(SUMMARY, sep=";", dtype=str).fillna("").to_numpy():
        for result in found.get(benchmark, ()):
            records = [*result.records, *filter(None, map(_predictions, result.records))]
            known = {record.name: record for record in records if str(record.n or "") == n}
            if name in known:
                machine = result.environment.get("gpu") or f"{result.environment.get('cores')} CPU cores"
                rows.append([task, machine, *_summary_cells(known[name], known.get(beside))])
    return pd.DataFrame(rows, columns=["task", "machine", "baseline", "pnca", "baseline takes", "ratio"])


def _summary_cells(record: Record, other: Record | None) -> list[str]:
    floors = [replace(floor, name=f"floor: {floor.name}") for floor in record.floors]
    references = [*record.alternatives, *floors]
    if other is not None:
        name = other.name.removeprefix("predictions: ")
        references = [Reference(name=name, seconds=other.seconds, value=other.value)]
    record = replace(record, alternatives=references, low=None)
    if not references:
        return [NOTHING, measured(record), NOTHING, NOTHING]
    amount = amount_of(references[0], record)
    return [references[0].name, measured(record), amount, three_digits(record.speedup())]


def _predictions(record: Record) -> Record | None:
    """The predictions that the note of a fit tells about."""
    told = re.search(r"predictions in (\S+) s", record.note)
    return Record(name=f"predictions: {record.name}", n=record.n, seconds=float(told[1])) if told else None


def markdown(table: pd.DataFrame, n_names: int = 1) -> str:
    """Write a table as Markdown, so many columns of names on the left and numbers on the right."""
    rule = "|" + "---|" * n_names + "--:|" * (len(table.columns) - n_names)
    lines = ["| " + " | ".join(cells) + " |" for cells in (table.columns, *table.to_numpy().tolist())]
    return "\n".join([lines[0], rule, *lines[1:]])


def record_table(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each record: the figure, its ratio to alternatives and floors, its targets and verdicts.

    Short notes stand beside the name, numbers for long ones: see :func:`long_notes`.
    """
    notes = list(long_notes(records))
    rows = [
        {
            "what": record.name + _mark(record.note, notes),
            **{size: NOTHING if (k := getattr(record, size)) is None else f"{k:,}" for size in "nmd"},
            "measured": measured(record),
            "memory": NOTHING if record.memory_gib is None else memory(record.memory_gib),
            "against": lines(against(record, reference) for reference in record.alternatives),
            "over the floor": lines(over(record, reference) for reference in record.floors),
            "target": lines(target.text for target in record.targets),
            "verdict": lines(f"**{_VERDICTS[record.verdict(target)]}**" for target in record.targets),
        }
        for record in records
    ]
    table = pd.DataFrame(rows)
    return table.loc[:, (table != NOTHING).any()]


def long_notes(records: Iterable[Record]) -> dict[str, list[str]]:
    """Names and sizes of the records by each note that would make a table unreadable."""
    notes: dict[str, list[str]] = {}
    for record in records:
        if len(record.note) > _LONGEST_NOTE:
            size = "" if record.n is None else f", n = {record.n:,}"
            notes.setdefault(record.note, []).append(record.name + size)
    return notes


def _mark(note: str, notes: Sequence[str]) -> str:
    """A note in parentheses, or the number of a long one."""
    if note in notes:
        return f" <sup>{1 + notes.index(note)}</sup>"
    return f" ({note})" if note else ""


class GrowthLaw(NamedTuple):
    """A line through logarithms."""

    exponent: float
    error: float  # standard; NaN with two points
    at_end: float  # slope between the last two sizes, where the part that grows fastest shows most

    def cells(self) -> list[str]:
        """The exponent with its error, and that at the end."""
        error = "" if np.isnan(self.error) else f" ± {self.error:.2f}"
        return [f"{self.exponent:.2f}{error}", f"{self.at_end:.2f}"]


def growth_law(sizes: Iterable[float], costs: Iterable[float]) -> GrowthLaw | None:
    """Fit log cost = a + b log size by least squares; None with fewer than two sizes that have a cost.

    Examples
    --------
    >>> round(growth_law([1, 2, 4], [3, 12, 48]).exponent, 6)
    2.0
    """
    points = sorted((size, cost) for size, cost in zip(sizes, costs, strict=True) if cost and cost > 0)
    if len({size for size, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points, dtype=np.float64)).T
    last = np.flatnonzero(np.diff(x) > 0)[-1]
    at_end = float((y[last + 1] - y[last]) / (x[last + 1] - x[last]))
    if len(x) == 2:
        return GrowthLaw(at_end, float("nan"), at_end)
    (slope, _), covariance = np.polyfit(x, y, 1, cov=True)
    return GrowthLaw(float(slope), float(np.sqrt(covariance[0, 0])), at_end)


def _page(name: str, results: Sequence[Results], document: Path) -> list[str]:
    """Tables, figures, notes and provenance of the files of one name."""
    if not results:
        return [f"Not measured: there is no `{name}.json`."]
    page = []
    for result in results:
        if points := [record for record in result.records if record.sweep]:
            page += _growth(points, document)
        if plain := [record for record in result.records if not record.sweep]:
            page += [markdown(record_table(plain)), ""]
            page += [
                f"{k}. {f'{names[0]}: ' if len(names) == 1 else ''}{note}."
                for k, (note, names) in enumerate(long_notes(plain).items(), start=1)
            ]
        page += [f"- {left_out['name']} was skipped: {left_out['reason']}." for left_out in result.skipped]
        page += ["", _provenance(result), ""]
    return page[:-1]


def _provenance(result: Results) -> str:
    about = result.environment
    threads = about.get("threads")
    parts = [
        about.get("gpu") or about.get("processor") or "machine not named",
        f"{about['cores']} cores" if about.get("cores") else "",
        f"{threads} torch thread{'s' if threads != 1 else ''}" if threads else "",
        f"load {about['load_average']}" if about.get("load_average") is not None else "",
        ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items()),
        f"commit {about['commit']}" if about.get("commit") else "",
        str(about.get("date", ""))[:10],
        about.get("note", ""),
    ]
    toy = " **Toy sizes: not a measurement.**" if about.get("is_tiny") else ""
    name, options = result.benchmark, about.get("options", "")
    command = f"python benchmarks/{name}.py {options} --out benchmarks/results/{name}.json"
    return f"*`{command.replace('  ', ' ')}`: {'; '.join(filter(None, parts))}.*{toy}"


def _growth(points: Sequence[Record], document: Path) -> list[str]:
    """Exponents of every curve, and a figure each for time and memory."""
    frame = pd.DataFrame(points)
    rows = []
    for (series, sweep), curve in frame.groupby(["series", "sweep"], sort=False):
        laws = [growth_law(curve[sweep], curve[field]) for field in ("seconds", "memory_gib")]
        rows.append(
            [series, sweep, *(cell for law in laws for cell in (law.cells() if law else [NOTHING] * 2))]
        )
    headings = ["cost", "against", "time, exponent", "at the end", "memory, exponent", "at the end"]
    page = [markdown(pd.DataFrame(rows, columns=headings)), ""]
    device = "_cuda" if frame["device"].str.startswith("cuda").any() else ""
    for field, words, label in (("seconds", "time", "seconds"), ("memory_gib", "memory", "peak memory, GiB")):
        path = document.parent / document.stem / f"growth_{words}{device}.png"
        _plot(frame, field, label, path)
        page += [f"![Growth of {words}]({document.stem}/{path.name})", ""]
    return page


def _plot(frame: pd.DataFrame, field: str, label: str, path: Path) -> None:
    """A panel a letter, a line a curve, both axes logarithmic."""
    from matplotlib.ticker import LogLocator

    sweeps = frame["sweep"].unique()
    figure = new_figure(3.2 * len(sweeps), 3.4, layout="constrained")
    panels = figure.subplots(1, len(sweeps), squeeze=False, sharey=True)[0]
    styles = styles_for(frame["series"].unique())
    for panel, sweep in zip(panels, sweeps, strict=True):
        points = frame[frame["sweep"] == sweep].sort_values(sweep, kind="stable")
        for series, curve in points[points[field] > 0].groupby("series", sort=False):
            panel.plot(curve[sweep], curve[field], label=series, **styles[series].line_options())
        panel.set(xscale="log", yscale="log", xlabel=_AXES.get(sweep, sweep))
        ticks = sorted(points[sweep].unique())
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
        panel.minorticks_off()
        tidy_axes(panel)
    panels[0].set_ylabel(label)
    panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels[0].yaxis.set_major_formatter("{x:g}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    make_folder(path.parent)
    figure.savefig(path, dpi=130)


def _shortfalls(titles: Mapping[str, str], found: Mapping[str, Sequence[Results]]) -> list[str]:
    """Targets that are not met and files that are missing."""
    judged = [
        (record, target, record.verdict(target))
        for name in titles
        for result in found.get(name, ())
        for record in result.records
        for target in record.targets
    ]
    missed = [
        f"- {record.name}: {target.text}, {_VERDICTS[verdict]} ({_reached(record, target)})."
        for record, target, verdict in judged
        if not verdict
    ]
    missing = [
        f"- {title}: not measured."
        for name, title in titles.items()
        if not any(result.records for result in found.get(name, ()))
    ]
    n_met = len(judged) - len(missed)
    return [f"{n_met} of {len(judged)} targets that were measured are met.", "", *missed, *missing]


def _reached(record: Record, target: Target) -> str:
    """What a record came to instead, in the words of its table, beside what the target names or the first."""

    def meant(references: Sequence[Reference]) -> Sequence[Reference]:
        return [r for r in references if r.name == target.of] if target.of else references[:1]

    floors = [over(record, floor) for floor in meant(record.floors)]
    return "; ".join([measured(record), *floors, *(against(record, r) for r in meant(record.alternatives))])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="Folder of result files.")
    parser.add_argument("--out", type=Path, default=Path("docs/performance.md"), help="Document to write.")
    chosen = parser.parse_args(arguments)
    try:
        print(f"written to {write_report(chosen.results, chosen.out)}")
    except (PncaError, OSError) as error:
        sys.exit(f"report.py: {error}")


if __name__ == "__main__":
    main()
