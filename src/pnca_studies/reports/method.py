"""One document about the method: what it computes, and what each of its choices is worth."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from pnca.files import make_folder, write_text
from pnca_studies.experiments.benchmark import N_DRAWS, choices_plan
from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, FOREIGN
from pnca_studies.experiments.benchmark.measures import AS_IS
from pnca_studies.experiments.benchmark.models import PNCA
from pnca_studies.experiments.choices import Question, load_questions
from pnca_studies.experiments.mnist import ROTATION
from pnca_studies.reports.benchmark.document import read_results
from pnca_studies.reports.benchmark.measures import (
    ACCURACY,
    ECE_AS_IS,
    FIT,
    NLL_AS_IS,
    ROTATED_AUGRC,
    Measure,
    told,
)
from pnca_studies.reports.benchmark.pages import title_of
from pnca_studies.reports.benchmark.results import Place, Results
from pnca_studies.reports.benchmark.targets import NOT_RUN
from pnca_studies.reports.benchmark.writing import (
    GPU_MARK,
    Writers,
    bold,
    columns_table,
    counted,
    folded,
    listed,
    marked,
    measure_columns,
    missing_line,
    seconds,
)
from pnca_studies.reports.tables import NOTHING, check_document, mean, per_cent

_CHOICES = """\
## The choices

Each table has **PNCA**, which is `PNCAClassifier(experts=())`, the neighbours alone, and below it the same
with one choice changed; `experiments/paper/choices.toml` has the arguments. All of them get the same draws
of n training examples and the same test inputs. Numbers are means over draws. Δ is the variant minus the
default, over the draws that both have, with its 95 % interval by Student's t from five draws on. **Bold**:
the interval says that the variant is better. *Italic*: that it is worse. Nothing corrects for the number of
comparisons: of so many, some are on one side of zero by chance. Predictions are taken as they are, without
temperature scaling.

*NLL*: mean negative log-likelihood. *ECE*: expected calibration error. *OoD AUROC*: the probability that an
out-of-distribution (OoD) input has a lower confidence, or less evidence, than a test input. *OoD above .9*:
share of OoD inputs answered with a confidence above .9. *Rotated AUGRC*: on test digits rotated by
{rotation:.0f}°, the share of answers that are given and wrong, averaged over how many are given. Higher is
better for accuracy and AUROC, lower for the others.

{data_sets}
"""
_MADE = """\
## How these numbers were made

```sh
pnca benchmark --choices --data-dir DATA --trials {draws} --out CELLS
pnca report CELLS --out {document}
```

{cells} on {machines}. *fit s* is the processor's time of one fit on one core; of a fit on a GPU, marked
{mark}, it is the time on the wall.
"""

_NLL = replace(NLL_AS_IS, name="NLL")
_COMPARED = (ACCURACY, _NLL)


def write_method(paths: Sequence[Path], path: Path, *, n_draws: int = N_DRAWS) -> Path:
    """Write the document about the method from cells of ``pnca benchmark --choices``."""
    check_document(path)
    questions = load_questions()
    variants = [name for question in questions for name in question.variants]
    results = read_results(paths, choices_plan(n_draws), [PNCA, *variants])
    pages = [
        files("pnca_studies.reports").joinpath("method.md").read_text(encoding="utf-8"),
        _CHOICES.format(rotation=ROTATION, data_sets=_data_sets(results)),
        *filter(None, [missing_line(results)]),
        *(_question_page(results, question) for question in questions),
        _MADE.format(
            draws=n_draws,
            document=path.as_posix(),
            cells=counted(len(results.kept), "cell"),
            machines=listed(list(dict.fromkeys(line["machine"] for line in results.kept))),
            mark=GPU_MARK,
        ),
    ]
    return write_text(make_folder(path.parent) / path.name, "\n".join(pages))


def _data_sets(results: Results) -> str:
    """The inputs and the OoD inputs of each data set, a line each."""
    lines = []
    for data in dict.fromkeys(data for data, _ in results.places):
        ood = _ood(results, next(place for place in results.places if place[0] == data))
        lines.append(f"- {data}: {DATA_SETS[data].about}. OoD inputs: {FOREIGN[ood] if ood else 'none'}.")
    return "\n".join(lines)


def _ood(results: Results, place: Place) -> str:
    """The test set there whose inputs belong to no class."""
    sets = ("letters", "bones", "unseen class")
    return next((name for name in sets if len(results.column(place, PNCA, name, "above"))), "")


def _question_page(results: Results, question: Question) -> str:
    lines = [f"### {question.title}", "", question.answer.strip(), ""]
    absent, seen = [], set()
    for place in results.places:
        if question.images != (DATA_SETS[place[0]].kind == "images"):
            continue
        name, there = title_of(place), results.models(place)
        if not any(variant in there for variant in question.variants):
            absent.append(name)
            continue
        table = _table(results, place, [PNCA, *question.variants]) + "\n"
        lines.append(folded(name, table) if place[0] in seen else f"**{name}**\n\n{table}")
        seen.add(place[0])
    if question.images and not any(DATA_SETS[data].kind == "images" for data, _ in results.places):
        absent.append("images")
    if absent:
        lines += [f"On {listed(absent)} {NOT_RUN}: {'; '.join(question.variants)}.", ""]
    return "\n".join(lines)


def _writers(ood: str) -> Writers:
    """Measures of a table, with those of out-of-distribution inputs where there are such."""
    of_ood: Writers = {}
    if ood:
        sure = Measure(name="OoD above .9", test_set=f"{ood}{AS_IS}", column="above")
        by = [replace(told(ood, score), test_set=f"{ood}{AS_IS}") for score in ("confidence", "evidence")]
        of_ood = {**dict.fromkeys(by, mean), sure: partial(per_cent, digits=2)}
    rotated = replace(ROTATED_AUGRC, test_set=f"rotated{AS_IS}")
    plain = dict.fromkeys((ACCURACY, _NLL, replace(ECE_AS_IS, name="ECE")), mean)
    return {**plain, **of_ood, rotated: mean, FIT: seconds}


def _table(results: Results, place: Place, models: Sequence[str]) -> str:
    n_draws = [len(results.values(place, model, FIT)) for model in models]
    columns = {"draws": [str(n) if n else NOT_RUN for n in n_draws]}
    writers = _writers(_ood(results, place))
    cells = measure_columns(results, place, models, writers)
    for measure in writers:
        columns[measure.name] = cells[measure.name]
        if measure in _COMPARED:
            columns[f"Δ {measure.name}"] = [_difference(results, place, model, measure) for model in models]
    return columns_table("variant", list(map(bold, models)), columns)


def _difference(results: Results, place: Place, variant: str, measure: Measure) -> str:
    if variant == PNCA:
        return NOTHING
    return marked(results.difference(place, PNCA, measure, of=variant), measure)
