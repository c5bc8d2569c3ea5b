"""One document about the method: what it computes, and what each of its choices is worth."""

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pnca.files import make_folder, write_text
from pnca_studies.experiments.choices import Question, load_questions
from pnca_studies.experiments.mnist import ROTATION
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.benchmark.measures import (
    ABOVE,
    ACCURACY,
    BY_CONFIDENCE,
    BY_EVIDENCE,
    ECE,
    FIT,
    NLL,
    ROTATED_AUGRC,
    Measure,
)
from pnca_studies.reports.benchmark.results import ABOUT, IMAGES, PNCA, Place, Results
from pnca_studies.reports.benchmark.runs import Run, is_gpu, made_by, read_runs
from pnca_studies.reports.benchmark.targets import NOT_RUN
from pnca_studies.reports.benchmark.writing import GPU_MARK, bold, folded, listed, marked, mean, seconds
from pnca_studies.reports.tables import NOTHING, Table, check_document, per_cent

_CHOICES = """\
## The choices

Each table has **PNCA**, which is `PNCAClassifier()`, and below it the same with one choice changed;
`experiments/choices.toml` has the arguments. All of them get the same draws of n training examples and the
same test inputs. Numbers are means over draws. Δ is the variant less the default, over the draws that both
have, with its 95 % percentile bootstrap interval. **Bold**: the interval says that the variant is better.
*Italic*: that it is worse. With ten draws the intervals are somewhat narrow, and nothing corrects for the
number of comparisons: of so many, some are on one side of zero by chance.

*NLL*: mean negative log-likelihood. *ECE*: expected calibration error. *OoD AUROC*: the chance that a foreign
input has a lower confidence, or less evidence, than a familiar one. *OoD above .9*: share of foreign inputs
answered with a confidence above .9. *Rotated AUGRC*: on test digits turned by {rotation:.0f}°, the share of
answers that are given and wrong, averaged over how many are given. Of accuracy and AUROC more is better, of
all else less.

{data_sets}
"""
_MADE = """\
## How these numbers were made

- Seeds: {seeds}.
- *fit s* is one fit on a single thread, and other fits may have run beside it. A mark {mark} means that draws
  were trained on a GPU (`--device cuda`).
"""

_COLUMNS: dict[Measure, Callable[[NDArray[np.float64]], str]] = {
    ACCURACY: mean,
    NLL: mean,
    ECE: mean,
    BY_CONFIDENCE: mean,
    BY_EVIDENCE: mean,
    ABOVE: lambda values: per_cent(values, 2),
    ROTATED_AUGRC: mean,
    FIT: seconds,
}
#: The default and its variants are compared by these, draw by draw.
_COMPARED = (ACCURACY, NLL)


def write_method(folders: Sequence[RunFolder], path: Path) -> Path:
    """Write the document about the method and its choices.

    Parameters
    ----------
    folders : sequence of RunFolder
        Runs of ``pnca benchmark --choices``, whole or in parts. Of a cell that several have, the last
        folder's counts.
    path : Path
        A file name ending in ``.md``.

    Returns
    -------
    Path
        The document.

    Raises
    ------
    InvalidInputError
        If a folder holds another study, or none has a finished fit of PNCA.
    """
    check_document(path)
    questions = load_questions()
    variants = [name for question in questions for name in question.variants]
    results, runs = read_runs(folders, "choices", [PNCA, *variants])
    pages = [
        files("pnca_studies.reports").joinpath("method.md").read_text(encoding="utf-8"),
        _CHOICES.format(rotation=ROTATION, data_sets=_data_sets(results)),
        *(_question_page(results, question) for question in questions),
        _made_page(runs, path),
    ]
    return write_text(make_folder(path.parent) / path.name, "\n".join(pages))


def _data_sets(results: Results) -> str:
    """What the inputs are and what is foreign to them, a line for each data set."""
    known = [(data, *ABOUT[data]) for data in results.sizes() if data in ABOUT]
    return "\n".join(
        f"- {data}: {inputs}. Foreign inputs: {foreign or 'none'}." for data, inputs, foreign in known
    )


def _question_page(results: Results, question: Question) -> str:
    lines = [f"### {question.title}", "", question.answer.strip(), ""]
    absent = []
    for data, sizes in results.sizes().items():
        if question.images != (data == IMAGES):
            continue
        for i, n in enumerate(sizes):
            name, there = f"{data}, n = {n}", results.models((data, n))
            if not any(variant in there for variant in question.variants):
                absent.append(f"{data} (n = {n})")
                continue
            table = _table(results, (data, n), [PNCA, *question.variants]) + "\n"
            lines.append(folded(name, table) if i else f"**{name}**\n\n{table}")
    if question.images and IMAGES not in results.sizes():
        absent.append(IMAGES)
    if absent:
        lines += [f"On {listed(absent)} {NOT_RUN}: {'; '.join(question.variants)}.", ""]
    return "\n".join(lines)


def _table(results: Results, place: Place, models: Sequence[str]) -> str:
    n_draws = [len(results.array(place, model, FIT)) for model in models]
    columns = {"draws": [str(n) if n else NOT_RUN for n in n_draws]}
    for measure, write in _COLUMNS.items():
        columns[measure.name] = [write(results.array(place, model, measure)) for model in models]
        if measure in _COMPARED:
            columns[f"Δ {measure.name}"] = [_difference(results, place, model, measure) for model in models]
    columns[FIT.name] = [
        cell + GPU_MARK * is_gpu(results.devices(place, model))
        for cell, model in zip(columns[FIT.name], models, strict=True)
    ]
    shown = {name: cells for name, cells in columns.items() if any(cell != NOTHING for cell in cells)}
    rows = [[bold(model), *cells] for model, *cells in zip(models, *shown.values(), strict=True)]
    return Table(caption="", headings=["variant", *shown], rows=rows).markdown()


def _difference(results: Results, place: Place, variant: str, measure: Measure) -> str:
    if variant == PNCA:
        return NOTHING
    return marked(results.difference(place, PNCA, measure, of=variant), measure)


def _made_page(runs: Sequence[Run], path: Path) -> str:
    seeds = " / ".join(dict.fromkeys(str(run.record["seeds"]) for run in runs))
    return _MADE.format(seeds=seeds, mark=GPU_MARK) + "\n" + made_by(runs, path)
