"""One document about the method: what it computes, and what each of its choices is worth."""

from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

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
from pnca_studies.reports.benchmark.runs import Run, made_by, read_runs
from pnca_studies.reports.benchmark.targets import NOT_RUN
from pnca_studies.reports.benchmark.writing import (
    GPU_MARK,
    Writers,
    bold,
    columns_table,
    folded,
    listed,
    marked,
    measure_columns,
    seconds,
)
from pnca_studies.reports.tables import NOTHING, check_document, mean, per_cent

_CHOICES = """\
## The choices

Each table has **PNCA**, which is `PNCAClassifier(experts=())`, the neighbours alone, and below it the same
with one choice changed; `experiments/paper/choices.toml` has the arguments. All of them get the same draws
of n training examples and the same test inputs. Numbers are means over draws. Δ is the variant minus the
default, over the draws that both have, with its 95 % percentile bootstrap interval. **Bold**: the interval
says that the variant is better. *Italic*: that it is worse. With ten draws the intervals are somewhat
narrow, and nothing corrects for the number of comparisons: of so many, some are on one side of zero by
chance.

*NLL*: mean negative log-likelihood. *ECE*: expected calibration error. *OoD AUROC*: the probability that an
out-of-distribution (OoD) input has a lower confidence, or less evidence, than a test input. *OoD above .9*:
share of OoD inputs answered with a confidence above .9. *Rotated AUGRC*: on test digits rotated by
{rotation:.0f}°, the share of answers that are given and wrong, averaged over how many are given. Higher is
better for accuracy and AUROC, lower for the others.

{data_sets}
"""
_MADE = """\
## How these numbers were made

- Seeds: {seeds}.
- *fit s* is one fit on a single thread, and other fits may have run beside it. A mark {mark} means that draws
  were trained on a GPU (`--device cuda`).
"""

_COLUMNS: Writers = {
    **dict.fromkeys((ACCURACY, NLL, ECE, BY_CONFIDENCE, BY_EVIDENCE), mean),
    ABOVE: partial(per_cent, digits=2),
    ROTATED_AUGRC: mean,
    FIT: seconds,
}
#: The default and its variants are compared by these, draw by draw.
_COMPARED = (ACCURACY, NLL)


def write_method(folders: Sequence[RunFolder], path: Path) -> Path:
    """Write the document about the method from runs of ``pnca benchmark --choices``, whole or in parts."""
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
    """The inputs and the OoD inputs of each data set, a line each."""
    known = [(data, *ABOUT[data]) for data in results.sizes() if data in ABOUT]
    return "\n".join(f"- {data}: {inputs}. OoD inputs: {ood or 'none'}." for data, inputs, ood in known)


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
    n_draws = [len(results.values(place, model, FIT)) for model in models]
    columns = {"draws": [str(n) if n else NOT_RUN for n in n_draws]}
    cells = measure_columns(results, place, models, _COLUMNS)
    for measure in _COLUMNS:
        columns[measure.name] = cells[measure.name]
        if measure in _COMPARED:
            columns[f"Δ {measure.name}"] = [_difference(results, place, model, measure) for model in models]
    return columns_table("variant", list(map(bold, models)), columns)


def _difference(results: Results, place: Place, variant: str, measure: Measure) -> str:
    if variant == PNCA:
        return NOTHING
    return marked(results.difference(place, PNCA, measure, of=variant), measure)


def _made_page(runs: Sequence[Run], path: Path) -> str:
    seeds = " / ".join(dict.fromkeys(str(run.record["seeds"]) for run in runs))
    return _MADE.format(seeds=seeds, mark=GPU_MARK) + "\n" + made_by(runs, path)
