"""The first screen: when to use the default, when not, and what it costs, all computed from the cells."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pnca_studies.experiments.benchmark.catalogue import TEST
from pnca_studies.experiments.benchmark.models import GATED, LOGISTIC, PNCA
from pnca_studies.reports.benchmark.figures import risk_coverage_figure
from pnca_studies.reports.benchmark.groups import Group, common, losses
from pnca_studies.reports.benchmark.measures import ACCURACY, AUROC, NLL, Measure, wrong_above
from pnca_studies.reports.benchmark.results import Place, Results
from pnca_studies.reports.benchmark.statistics import compare
from pnca_studies.reports.benchmark.writing import bold, counted, listed, seconds, share
from pnca_studies.reports.figures import save_figure
from pnca_studies.reports.tables import NOTHING, Table, number

FINAL, UNSEEN = "final tables", "unseen classes"
_N_RIVALS = 5
_UNSEEN, _UNIT = wrong_above("unseen class"), wrong_above("unit error")
_LOSS, _SURELY = "**", "‡"
_TOO_FEW = (
    "Too few cells are there to say when to use the default: no other model has all of the final tables.\n"
)
_NOTE = """\
The five rivals are those with the best mean ranks in NLL among the {n} classifiers that are complete on the
final tables. **Bold**: better than the default. {mark}: and not by luck (Wilcoxon's test over the data sets
at .05, corrected by Holm for {n_rivals} rivals). NLL is after temperature scaling, for every model. *Unseen
class* and *unit error*: the share of such inputs that is answered wrong with more than .9 confidence, an
unseen class of the tables with three or more, and a column times ten in the final tables. *CPU s*: median
seconds of one core for one fit, with 100 rows and with half of the rows.
"""


def first_screen(results: Results, folder: Path, link: str) -> str:
    """Write it, and draw its figure into a folder that the document links to."""
    small, large = (Group.of(results, results.of_group(FINAL, size=size)) for size in ("100", "half"))
    if not (small.is_known and large.is_known):
        return _TOO_FEW
    rivals = common([small, large])[:_N_RIVALS]
    unseen = _foreign_places(results, UNSEEN, _UNSEEN)
    lines = [
        f"**Use it** {_use(small, large, rivals, unseen)}",
        f"**Do not use it** {_do_not(small, large)}",
        f"**It costs** {_costs(small, large)}",
    ]
    note = _NOTE.format(n=len(small.models), mark=_SURELY, n_rivals=len(rivals))
    parts = ["\n\n".join(lines), "", _table(small, large, rivals, unseen), "", note]
    if (figure := _figure(results, small, rivals, folder)) is not None:
        parts += [f"![Risk by coverage]({link}/{figure.name})", ""]
    return "\n".join(parts)


def _foreign_places(results: Results, group: str, measure: Measure) -> list[Place]:
    """Places of a group where the default has the measure."""
    return [p for p in results.of_group(group) if np.isfinite(results.mean(p, PNCA, measure))]


def _use(small: Group, large: Group, rivals: Sequence[str], unseen: Sequence[Place]) -> str:
    ranks, best, is_first = [], [], []
    for group in (small, large):
        found = group.ranks(NLL)
        rival = min(group.rivals, key=lambda model: found[model])
        ranks.append(number(found[PNCA], 1))
        best.append(f"{number(found[rival], 1)} ({rival})")
        is_first.append(found[PNCA] <= found[rival])
    text = (
        f"on {len(small.places)} tables on which nothing was set, its mean rank in NLL among "
        f"{counted(len(small.models), 'classifier')} is {ranks[0]} with 100 rows and {ranks[1]} with half of "
        f"the rows; the best rival's is {best[0]} and {best[1]}."
    )
    said, is_cautious = _about_unseen(small.results, rivals, unseen)
    cases = ["for small tables"] * any(is_first) + ["where inputs may be foreign"] * is_cautious
    return f"{' and '.join(cases) or 'for neither likelihood nor caution, by these cells'}: {text}{said}"


def _about_unseen(results: Results, rivals: Sequence[str], unseen: Sequence[Place]) -> tuple[str, bool]:
    """Say what is answered of unseen classes, and whether the five rivals are sure more often."""
    complete = results.complete(unseen)
    if PNCA not in complete:
        return "", False
    shares = {model: _mean(results, unseen, model, _UNSEEN) for model in complete}
    others = [model for model in dict.fromkeys([*rivals[:1], *GATED]) if model in shares]
    said = listed([f"{model} {share(shares[model])}" for model in others])
    text = f" Of inputs of an unseen class it is sure and wrong about {share(shares[PNCA])}"
    known = [shares[model] for model in rivals if model in shares]
    return f"{text} ({said})." if others else f"{text}.", bool(known) and shares[PNCA] < min(known)


def _do_not(small: Group, large: Group) -> str:
    parts = []
    for group, size in ((small, "100 rows"), (large, "half of the rows")):
        for measure, rivals in losses(group).items():
            if rivals:
                parts.append(
                    f"in {measure.name} with {size} {listed(rivals)} {_are(rivals)} better, not by luck"
                )
    if parts:
        text = f"where {'; '.join(parts)}."
    else:
        text = (
            "expecting to win everywhere: no rival is better in NLL, accuracy or AUROC by more than luck, but"
        )
        text += " it is not always ahead."
    behind = [(place, group) for group in (small, large) for place in group.places if _gap(group, place) > 0]
    n = len(small.places) + len(large.places)
    if behind:
        place, group = max(behind, key=lambda item: _gap(item[1], item[0]))
        best = group.results.best(place, NLL, group.rivals)
        text += (
            f" The rival that is best on a table is ahead in NLL in {len(behind)} of {n} cases, most on "
            f"{place[0]} "
            f"({'half' if place[1] == 'half' else '100 rows'}): "
            f"{number(group.results.mean(place, PNCA, NLL))} against "
            f"{number(group.results.mean(place, best, NLL))} ({best})."
        )
    else:
        text += f" No rival is ahead in NLL in any of {n} cases."
    return text


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _gap(group: Group, place: Place) -> float:
    best = group.results.best(place, NLL, group.rivals)
    return group.results.mean(place, PNCA, NLL) - group.results.mean(place, best, NLL)


def _costs(small: Group, large: Group) -> str:
    ours = [group.median_seconds(PNCA) for group in (small, large)]
    text = (
        f"{seconds(ours[0])} s of one core for a fit to 100 rows and {seconds(ours[1])} s to half of a table"
    )
    text += " (medians)"
    others = [model for model in (LOGISTIC, "CatBoost") if model in small.models and model in large.models]
    if others:
        said = [
            f"{model} takes {seconds(small.median_seconds(model))} s and "
            f"{seconds(large.median_seconds(model))} s"
            for model in others
        ]
        text += f"; {listed(said)}"
    return text + "."


def _mean(results: Results, places: Sequence[Place], model: str, measure: Measure) -> float:
    return (
        float(np.mean([results.mean(place, model, measure) for place in places])) if places else float("nan")
    )


def _table(small: Group, large: Group, rivals: Sequence[str], unseen: Sequence[Place]) -> str:
    results, models = small.results, [PNCA, *rivals]
    unit = _foreign_places(results, FINAL, _UNIT)
    columns = [
        ("NLL, 100 rows", small.places, NLL, number),
        ("NLL, half", large.places, NLL, number),
        ("accuracy, 100 rows", small.places, ACCURACY, number),
        ("accuracy, half", large.places, ACCURACY, number),
        ("AUROC, 100 rows", small.places, AUROC, number),
        ("unseen class", list(unseen), _UNSEEN, share),
        ("unit error", [place for place in unit if place[1] == "100"], _UNIT, share),
    ]
    cells = [_column(results, places, models, measure, write) for _, places, measure, write in columns]
    costs = [
        f"{seconds(small.median_seconds(model))} / {seconds(large.median_seconds(model))}" for model in models
    ]
    rows = [list(row) for row in zip(map(bold, models), *cells, costs, strict=True)]
    headings = ["model", *(name for name, *_ in columns), "CPU s"]
    return Table(headings=headings, rows=rows).markdown()


def _column(
    results: Results,
    places: Sequence[Place],
    models: Sequence[str],
    measure: Measure,
    write: Callable[[float], str],
) -> list[str]:
    """Means over places; a rival's has a mark where it is better than the default's."""
    there = [model for model in models if model in results.complete(places)]
    if PNCA not in there:
        return [NOTHING] * len(models)
    means = results.means(places, there, measure)
    means = means[np.isfinite(means).all(axis=1)]
    if not len(means):
        return [NOTHING] * len(models)
    tests = dict(zip(there[1:], compare(means, more=measure.more), strict=True))
    of = dict(zip(there, means.mean(axis=0), strict=True))
    cells = []
    for model in models:
        if model not in of:
            cells.append(NOTHING)
            continue
        is_better = model != PNCA and ((of[model] > of[PNCA]) == measure.more) and of[model] != of[PNCA]
        text = write(of[model])
        surely = _SURELY if model != PNCA and tests[model].is_loss() else ""
        cells.append(f"{_LOSS}{text}{_LOSS}{surely}" if is_better else f"{text}{surely}")
    return cells


def _figure(results: Results, small: Group, rivals: Sequence[str], folder: Path) -> Path | None:
    """Draw risk by coverage of the final tables, and with as many inputs that are foreign."""
    models = list(dict.fromkeys([PNCA, *GATED, LOGISTIC, *rivals[:2]]))
    unit = [place for place in small.places if len(results.column(place, PNCA, "unit error", "risks"))]
    unseen = [p for p in results.of_group(UNSEEN) if len(results.column(p, PNCA, "unseen class", "risks"))]
    panels = {
        "final tables, 100 rows": _lines(results, small.places, models, TEST),
        "the same and as many with a unit error": _lines(results, unit, models, "unit error"),
        "tables and as many of an unseen class": _lines(results, unseen, models, "unseen class"),
    }
    panels = {name: lines for name, lines in panels.items() if PNCA in lines and len(lines) > 1}
    if not panels:
        return None
    return save_figure(risk_coverage_figure(panels, "Wrong answers"), folder / "risk_coverage.svg")


def _lines(
    results: Results, places: Sequence[Place], models: Sequence[str], test_set: str
) -> dict[str, NDArray[np.float64]]:
    complete = results.complete(places)
    found = {model: results.risks(places, model, test_set) for model in models if model in complete}
    return {model: risks for model, risks in found.items() if len(risks)}
