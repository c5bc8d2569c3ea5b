"""One document about several runs: every claim of the paper, then every table and figure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca.files import make_folder, write_text
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.claims import CLAIMS, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, judge
from pnca_studies.reports.run import command, provenance
from pnca_studies.reports.sections import make_sections
from pnca_studies.reports.tables import check_document

_ORDER = ("mnist", "covid", "ablation")
_INTRODUCTION = """\
# The paper, reproduced

*Probabilistic Neighbourhood Component Analysis: Sample Efficient Uncertainty Estimation in Deep Learning*
(Mallick, Dwivedi, Kailkhura, Joshi, Han). Every table and figure on the real data, with the paper's numbers
beside ours, and each of its claims put to a test whose criterion is written beside it.

Made by

```sh
{commands}
pnca report {folders} --out {document}
```

`PNCA (paper)` is the paper's model{ours}. `BNN` is SVGD as Liu and Wang define it, `BNN as published` has the
reversed sign of the authors' code; the paper's one BNN is compared with both. The settings are in
`experiments/*.toml`; where the authors' text and code differ, `docs/design.md` says which was taken.
"""


def write_reproduction(folders: Sequence[RunFolder], document: Path, formats: Sequence[str] = ()) -> Path:
    """Write the document about one run a study, with its figures in a folder of the same name beside it."""
    check_document(document)
    runs = {folder.read_run()["study"]: folder for folder in folders}
    if len(runs) < len(folders):
        raise InvalidInputError("Two of these folders hold runs of the same study; name one of each.")
    figures = make_folder(document.parent / document.stem)
    studies = [name for name in _ORDER if name in runs]
    sections = {study: make_sections(runs[study], figures, formats) for study in studies}
    headings = {section.title for made in sections.values() for section in made}
    pages = [
        _introduction([runs[study].read_run() for study in studies], document),
        _claims_page(runs, headings),
    ]
    for study in studies:
        pages += [section.markdown(document.parent) for section in sections[study]]
        made = provenance(runs[study].read_run(), len(runs[study].finished()))
        pages.append(made.replace("## How", f"## {study}: how"))
    return write_text(document, "\n".join(pages))


def _introduction(runs: Sequence[Mapping[str, Any]], document: Path) -> str:
    return _INTRODUCTION.format(
        commands="\n".join(f"{command(run)} --data-dir DATA" for run in runs),
        folders=" ".join(f"pnca-{run['study']}" for run in runs),
        document=document.as_posix(),
        ours=" and `PNCA` is `PNCAClassifier()` as it is now"
        if any("PNCA" in run["models"] for run in runs)
        else "; `PNCAClassifier()` as it is now is in `docs/benchmark.md`",
    )


def _claims_page(runs: Mapping[str, RunFolder], headings: Collection[str]) -> str:
    verdicts = [judge(claim, runs) for claim in CLAIMS]
    counts = Counter(verdict.status for verdict in verdicts)
    total = ", ".join(f"{counts[status]} {status}" for status in (CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE))
    lines = ["## The claims", "", f"Of {len(CLAIMS)}: {total}.", ""]
    for i, (claim, verdict) in enumerate(zip(CLAIMS, verdicts, strict=True), start=1):
        lines += [
            f"{i}. **{claim.text}** ({claim.source})  ",
            f"   **{verdict.status.capitalize()}.** {verdict.finding}  ",
            f"   *Criterion:* {claim.criterion} *Shown in:* {_link(claim.exhibit, headings)}.",
            "",
        ]
    lines += [
        "Proposition 1, the functional gradient, is checked against finite differences in",
        "`tests/maths/test_pnca.py`.",
        "",
    ]
    return "\n".join(lines)


def _link(heading: str, headings: Collection[str]) -> str:
    """Link to a section of this document, if it has one of that name, as Markdown viewers make anchors."""
    if heading not in headings:
        return heading
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -")
    return f"[{heading}](#{kept.replace(' ', '-')})"
