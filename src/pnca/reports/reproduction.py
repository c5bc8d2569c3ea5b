"""One document about several runs: every claim of the paper, then every table and figure."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pnca.exceptions import InvalidInputError
from pnca.experiments.store import RunFolder
from pnca.files import write_text
from pnca.reports.claims import CLAIMS, CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE, judge
from pnca.reports.run import provenance
from pnca.reports.sections import make_sections

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

`PNCA (paper)` is the paper's model, `PNCA` is `PNCAClassifier()` as it is now, `BNN` is SVGD as Liu and Wang
define it, and `BNN as published` has the reversed sign of the authors' code. In the claims, `BNN` stands for
the paper's. The settings are in `experiments/*.toml`; where the authors' text and code differ,
[design.md](design.md) says which was taken.
"""


def write_reproduction(folders: Sequence[RunFolder], document: Path) -> Path:
    """Write the document, and its figures into a folder of the same name beside it.

    Parameters
    ----------
    folders : sequence of RunFolder
        One a study.
    document : Path
        A file name ending in ``.md``.

    Returns
    -------
    Path
        The document.
    """
    if document.suffix != ".md":
        raise InvalidInputError(f"{document.name} must end in .md: the document is Markdown.")
    runs = {folder.read_run()["study"]: folder for folder in folders}
    if len(runs) < len(folders):
        raise InvalidInputError("Two of these folders hold runs of the same study; name one of each.")
    figures = document.parent / document.stem
    figures.mkdir(parents=True, exist_ok=True)
    studies = [name for name in _ORDER if name in runs]
    pages = [_introduction(studies, document), _claims_page(runs)]
    for study in studies:
        pages += [section.markdown(document.parent) for section in make_sections(runs[study], figures)]
        pages.append(provenance(runs[study].read_run()).replace("## How", f"## {study}: how"))
    return write_text(document, "\n".join(pages))


def _introduction(studies: Sequence[str], document: Path) -> str:
    return _INTRODUCTION.format(
        commands="\n".join(f"pnca reproduce {study} --data-dir DATA" for study in studies),
        folders=" ".join(f"pnca-{study}" for study in studies),
        document=f"docs/{document.name}",
    )


def _claims_page(runs: dict[str, RunFolder]) -> str:
    verdicts = [judge(claim, runs) for claim in CLAIMS]
    counts = Counter(verdict.status for verdict in verdicts)
    total = ", ".join(f"{counts[status]} {status}" for status in (CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE))
    lines = ["## The claims", "", f"Of {len(CLAIMS)}: {total}.", ""]
    for i, (claim, verdict) in enumerate(zip(CLAIMS, verdicts, strict=True), start=1):
        lines += [
            f"{i}. **{claim.text}** ({claim.source})  ",
            f"   **{verdict.status.capitalize()}.** {verdict.finding}  ",
            f"   *Criterion:* {claim.criterion} *Shown in:* {claim.exhibit}.",
            "",
        ]
    lines += [
        "Proposition 1, the functional gradient, is checked against finite differences in",
        "`tests/maths/test_pnca.py`.",
        "",
    ]
    return "\n".join(lines)
