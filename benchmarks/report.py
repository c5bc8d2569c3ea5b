"""Write docs/performance.md and its figures from the result files in a folder; measures nothing."""

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from exponents import GrowthLaw, growth_law
from pnca.exceptions import InvalidInputError
from pnca.files import make_folder, write_text
from pnca_studies.reports.style import new_figure, styles_for, tidy_axes
from pnca_studies.reports.tables import NOTHING, Table, check_document, number
from records import Record, Reference, Results, Target, read_results
from sections import SECTIONS, Section

_INTRODUCTION = """\
# Performance

A time stands beside one of something else, measured in the same run and in turn with it unless the line says
otherwise, and beside the least it could be where that can be measured. Times are medians; the range is that
of the middle half of the repetitions. Ratios and verdicts are computed from the result files.

Made by

```sh
{commands}
python benchmarks/report.py {folder} --out {document}
```

on the code and the machine that the result file names, with nothing else running. `--device cuda` takes the
fits and the growth to a GPU; `gpu_small.py` and `gpu_masses.py` need one. `positive_kernel.py` and
`mnist_scale.py` look for MNIST and notMNIST in the folder `PNCA_DATA_DIR`, `cpu_masses.py` for KeOps.
"""
#: Characters of a note beside the name.
_LONGEST_NOTE = 60
_VERDICTS = {True: "met", False: "not met", None: "cannot be said"}
_AXES = {"n": "points n", "m": "particles m", "d": "latent dimensions d", "c": "classes c"}


def write_report(folder: Path, document: Path) -> Path:
    """Write the document, and its figures into a folder of the same name beside it.

    Parameters
    ----------
    folder : Path
        Result files; those that are missing are named in the document.
    document : Path
        A file name ending in ``.md``.

    Returns
    -------
    Path
        The document.
    """
    check_document(document)
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is not a folder of result files.")
    found = read_folder(folder)
    make_folder(document.parent)
    extra = [_unknown(name) for name in found if name not in {section.name for section in SECTIONS}]
    sections = (*SECTIONS, *extra)
    pages = [_introduction(folder, document, found)]
    for section in sections:
        pages.append(_page(section, found.get(section.name, []), document))
    pages.append(_shortfalls(sections, found))
    return write_text(document, "\n".join(pages))


def read_folder(folder: Path) -> dict[str, list[Results]]:
    """Read all result files.

    Parameters
    ----------
    folder : Path
        Where they are.

    Returns
    -------
    dict of str to list of Results
        By name of the section: ``small_fits_cuda.json`` belongs to ``small_fits``.
    """
    names = [section.name for section in SECTIONS]
    found: dict[str, list[Results]] = {}
    for path in sorted(folder.glob("*.json")):
        owner = next(
            (name for name in names if path.stem == name or path.stem.startswith(f"{name}_")), path.stem
        )
        found.setdefault(owner, []).append(read_results(path))
    return found


def record_table(records: Iterable[Record]) -> Table:
    """A row a record: the figure, its ratio to alternatives and floors, its targets and verdicts.

    Short notes stand beside the name, numbers for long ones: see :func:`long_notes`.

    Parameters
    ----------
    records : iterable of Record
        What was measured.

    Returns
    -------
    Table
    """
    records = list(records)
    notes = long_notes(records)
    headings = ["what", "n", "m", "d", "measured", "memory", "against", "over the floor", "target", "verdict"]
    rows = [
        [
            record.name + _mark(record, notes),
            *(f"{size:,}" if size is not None else NOTHING for size in (record.n, record.m, record.d)),
            measured(record),
            NOTHING if record.memory_gib is None else memory(record.memory_gib),
            _lines(_against(record, reference) for reference in record.alternatives),
            _lines(_over(record, reference) for reference in record.floors),
            _lines(target.text for target in record.targets),
            _lines(f"**{_VERDICTS[record.verdict(target)]}**" for target in record.targets),
        ]
        for record in records
    ]
    kept = [0, *(k for k in range(1, len(headings)) if any(row[k] != NOTHING for row in rows))]
    return Table(
        caption="", headings=[headings[k] for k in kept], rows=[[row[k] for k in kept] for row in rows]
    )


def long_notes(records: Iterable[Record]) -> dict[str, list[str]]:
    """Notes that would make a table unreadable, and the records that they are about.

    Parameters
    ----------
    records : iterable of Record
        Of one table.

    Returns
    -------
    dict of str to list of str
        Names and sizes by note, in the order of the table.
    """
    notes: dict[str, list[str]] = {}
    for record in records:
        if len(record.note) > _LONGEST_NOTE:
            size = "" if record.n is None else f", n = {record.n:,}"
            notes.setdefault(record.note, []).append(record.name + size)
    return notes


def _mark(record: Record, notes: dict[str, list[str]]) -> str:
    """A note in parentheses, or the number of a long one."""
    if record.note in notes:
        return f" <sup>{1 + list(notes).index(record.note)}</sup>"
    return f" ({record.note})" if record.note else ""


def measured(record: Record) -> str:
    """A record's time with its spread, or its other number, or both."""
    parts = []
    if record.seconds is not None:
        spread = ""
        if record.low is not None and record.high is not None and record.repeats > 1:
            spread = f" ({duration(record.low)} to {duration(record.high)})"
        parts.append(duration(record.seconds) + spread)
    if record.value is not None:
        parts.append(f"{quantity(record.value)} {record.unit}".strip())
    return ", ".join(parts) or NOTHING


def duration(seconds: float) -> str:
    """Write a time with three digits.

    Examples
    --------
    >>> duration(0.02514), duration(1.234), duration(300), duration(-0.0012)
    ('25.1 ms', '1.23 s', '5.00 min', '-1.20 ms')
    """
    size = abs(seconds)
    for unit, factor in (("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if size >= (2 * factor if unit == "min" else factor):
            return f"{_three_digits(seconds / factor)} {unit}"
    return f"{_three_digits(seconds / 1e-6)} µs"


def memory(gib: float) -> str:
    """Write an amount of memory.

    Examples
    --------
    >>> memory(1.5), memory(0.25)
    ('1.50 GiB', '256 MiB')
    """
    return f"{gib:.2f} GiB" if gib >= 1 else f"{_three_digits(1024 * gib)} MiB"


def quantity(value: float) -> str:
    """Write any other number with three digits, and thousands apart.

    Examples
    --------
    >>> quantity(12345.6), quantity(0.1234), quantity(2e-5)
    ('12,346', '.123', '2e-05')
    """
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if 0 < size < 1e-3 else number(value, 3 if size < 1 else 2)


def fitted_laws(records: Sequence[Record]) -> list[tuple[str, str, GrowthLaw | None, GrowthLaw | None]]:
    """Exponents of the curves in growth records.

    Parameters
    ----------
    records : sequence of Record
        With ``series`` and ``sweep``.

    Returns
    -------
    list of (series, sweep, law of time, law of memory)
    """
    laws = []
    for series, sweep in dict.fromkeys((r.series, r.sweep) for r in records if r.sweep):
        points = [r for r in records if (r.series, r.sweep) == (series, sweep)]
        of = [
            growth_law(
                [getattr(r, sweep) for r in points if getattr(r, field)],
                [getattr(r, field) for r in points if getattr(r, field)],
            )
            for field in ("seconds", "memory_gib")
        ]
        laws.append((series, sweep, of[0], of[1]))
    return laws


def _introduction(folder: Path, document: Path, found: Mapping[str, Sequence[Results]]) -> str:
    commands = "\n".join(
        f"python benchmarks/{section.name}.py {options}--out {folder}/{section.name}.json"
        for section in SECTIONS
        for options in _options(section, found.get(section.name, []))
    )
    return _INTRODUCTION.format(commands=commands, folder=folder, document=document.as_posix())


def _options(section: Section, results: Sequence[Results]) -> list[str]:
    """Of each run what its file says; of one that is not there yet, what to start with."""
    given = [result.environment.get("options") for result in results]
    return [section.options if options is None else f"{options} " for options in given] or [section.options]


def _page(section: Section, results: Sequence[Results], document: Path) -> str:
    lines = [f"## {section.title}", "", *([section.words, ""] if section.words else [])]
    if section.asked:
        lines += [f"Asked for: {section.asked}.", ""]
    if not results:
        lines += [f"Not measured: there is no `{section.name}.json`.", ""]
    for result in results:
        if any(record.sweep for record in result.records):
            lines += _growth(result, document)
        plain = [record for record in result.records if not record.sweep]
        if plain:
            lines += [record_table(plain).markdown(), "", *_listed(long_notes(plain))]
        lines += [f"- {left_out['name']} was skipped: {left_out['reason']}." for left_out in result.skipped]
        lines += ["", _provenance(result), ""]
    return "\n".join(lines)


def _listed(notes: dict[str, list[str]]) -> list[str]:
    """Long notes, numbered as in the table; with the name of the record where there is one only."""
    lines = [
        f"{k}. {f'{names[0]}: ' if len(names) == 1 else ''}{note}."
        for k, (note, names) in enumerate(notes.items(), start=1)
    ]
    return [*lines, ""] if lines else []


def _provenance(result: Results) -> str:
    about = result.environment
    if not about:
        return "*The file does not say on which machine.*"
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    parts = [
        str(about.get("gpu") or about.get("processor") or "machine not named"),
        f"{about['cores']} cores" if about.get("cores") else "",
        f"{about['threads']} torch thread{'s' if about['threads'] != 1 else ''}"
        if about.get("threads")
        else "",
        f"load {about['load_average']}" if about.get("load_average") is not None else "",
        versions,
        f"commit {about['commit']}" if about.get("commit") else "",
        str(about.get("date", ""))[:10],
        str(about.get("note", "")),
    ]
    toy = " **Toy sizes: not a measurement.**" if about.get("is_tiny") else ""
    return f"*{'; '.join(part for part in parts if part)}.*{toy}"


def _growth(result: Results, document: Path) -> list[str]:
    laws = fitted_laws(result.records)
    rows = [
        [series, sweep, _law(of_time), _end(of_time), _law(of_memory), _end(of_memory)]
        for series, sweep, of_time, of_memory in laws
    ]
    headings = ["cost", "against", "time, exponent", "at the end", "memory, exponent", "at the end"]
    lines = [Table(caption="", headings=headings, rows=rows).markdown(), ""]
    device = "_cuda" if any(r.device.startswith("cuda") for r in result.records) else ""
    for field, words in (("seconds", "time"), ("memory_gib", "memory")):
        name = f"growth_{words}{device}.png"
        _plot(result.records, field, words, document.parent / document.stem / name)
        lines += [f"![Growth of {words}]({document.stem}/{name})", ""]
    return lines


def _plot(records: Sequence[Record], field: str, words: str, path: Path) -> None:
    """A panel a letter, a line a curve, both axes logarithmic."""
    sweeps = list(dict.fromkeys(record.sweep for record in records if record.sweep))
    figure = new_figure(3.2 * len(sweeps), 3.4, layout="constrained")
    panels = figure.subplots(1, len(sweeps), squeeze=False)[0]
    styles = styles_for(dict.fromkeys(record.series for record in records if record.sweep))
    for panel, sweep in zip(panels, sweeps, strict=True):
        for series, style in styles.items():
            points = sorted(
                (getattr(r, sweep), getattr(r, field))
                for r in records
                if (r.series, r.sweep) == (series, sweep) and getattr(r, field)
            )
            if points:
                panel.plot(*zip(*points, strict=True), label=series, **style.line_options())
        panel.set(xscale="log", yscale="log", xlabel=_AXES.get(sweep, sweep))
        ticks = sorted({getattr(r, sweep) for r in records if r.sweep == sweep})
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
        panel.minorticks_off()
        tidy_axes(panel)
    panels[0].set_ylabel("seconds" if words == "time" else "peak memory, GiB")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    make_folder(path.parent)
    figure.savefig(path, dpi=130)


def _shortfalls(sections: Sequence[Section], found: dict[str, list[Results]]) -> str:
    lines = ["## What falls short", ""]
    n_met, n_judged = 0, 0
    for section in sections:
        for result in found.get(section.name, []):
            for record in result.records:
                for target in record.targets:
                    verdict = record.verdict(target)
                    n_judged += 1
                    n_met += verdict is True
                    if verdict is not True:
                        lines.append(
                            f"- {record.name}: {target.text}, {_VERDICTS[verdict]}{_reached(record, target)}."
                        )
    for section in sections:
        if not any(result.records for result in found.get(section.name, [])):
            lines.append(f"- {section.title}: not measured ({section.asked}).")
    lines.insert(2, f"{n_met} of {n_judged} targets that were measured are met.\n")
    return "\n".join(lines) + "\n"


def _reached(record: Record, target: Target) -> str:
    """What a record came to instead, in the words of its table, beside what the target names or the first."""

    def meant(references: Sequence[Reference]) -> Sequence[Reference]:
        return [r for r in references if r.name == target.of] if target.of else references[:1]

    parts = [measured(record)]
    parts += [_over(record, floor) for floor in meant(record.floors)]
    parts += [_against(record, alternative) for alternative in meant(record.alternatives)]
    return f" ({'; '.join(parts)})"


def _against(record: Record, reference: Reference) -> str:
    ratio, amount = _ratio(record.speedup(reference.name)), _amount(reference, record)
    if ratio == NOTHING:
        return f"{reference.name} ({amount})"
    if record.seconds is not None and reference.seconds is not None:
        return f"{reference.name} takes {ratio} as long ({amount})"
    return f"{ratio} {reference.name} ({amount})"


def _over(record: Record, reference: Reference) -> str:
    ratio, amount = _ratio(record.over_floor(reference.name)), _amount(reference, record)
    return f"{'' if ratio == NOTHING else ratio + ' '}{reference.name} ({amount})"


def _amount(reference: Reference, record: Record) -> str:
    parts = [] if reference.seconds is None else [duration(reference.seconds)]
    parts += [] if reference.memory_gib is None else [memory(reference.memory_gib)]
    parts += [] if reference.value is None else [f"{quantity(reference.value)} {record.unit}".strip()]
    return ", ".join([*parts, *([reference.source] if reference.source else [])]) or NOTHING


def _ratio(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{_three_digits(ratio)} times"


def _three_digits(value: float) -> str:
    """Three digits that count, without an exponent.

    Examples
    --------
    >>> _three_digits(0.01234), _three_digits(1.5), _three_digits(1234.5)
    ('.0123', '1.50', '1234')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NOTHING
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return number(value, digits)


def _law(law: GrowthLaw | None) -> str:
    if law is None:
        return NOTHING
    return f"{law.exponent:.2f}" + ("" if math.isnan(law.error) else f" ± {law.error:.2f}")


def _end(law: GrowthLaw | None) -> str:
    return NOTHING if law is None else f"{law.at_end:.2f}"


def _lines(parts: Iterable[str]) -> str:
    return "<br>".join(parts) or NOTHING


def _unknown(name: str) -> Section:
    return Section(name=name, title=name.replace("_", " ").capitalize(), words="", asked="")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="Folder of result files.")
    parser.add_argument("--out", type=Path, default=Path("docs/performance.md"), help="Document to write.")
    chosen = parser.parse_args(arguments)
    print(f"written to {write_report(chosen.results, chosen.out)}")


if __name__ == "__main__":
    main()
