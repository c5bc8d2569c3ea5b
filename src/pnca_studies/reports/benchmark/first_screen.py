"""The first screen: when to use the default, when not, and what it costs, all computed from the cells."""

from collections.abc import Callable, Mapping, Sequence
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
from pnca_studies.reports.benchmark.writing import bold, columns_table, counted, listed, seconds, share
from pnca_studies.reports.figures import save_figure
from pnca_studies.reports.tables import NOTHING, number

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
seconds of one core for one fit, with {sizes}.
"""


#: Groups of the final tables by how many rows there are, in words.
Groups = Mapping[str, Group]
_SIZES = {"100": "100 rows", "half": "half of the rows"}


def first_screen(results: Results, folder: Path, link: str) -> str:
    """Write it, and draw its figure into a folder that the document links to."""
    found = {words: Group.of(results, results.of_group(FINAL, size=size)) for size, words in _SIZES.items()}
    groups = {words: group for words, group in found.items() if group.is_known}
    if not groups:
        return _TOO_FEW
    rivals = common(list(groups.values()))[:_N_RIVALS]
    unseen = _foreign_places(results, UNSEEN, _UNSEEN)
    lines = [
        f"**Use it** {_use(groups, rivals, unseen)}",
        f"**Do not use it** {_do_not(groups)}",
        f"**It costs** {_costs(groups)}",
    ]
    n = min(len(group.models) for group in groups.values())
    note = _NOTE.format(n=n, mark=_SURELY, n_rivals=len(rivals), sizes=" and with ".join(groups))
    parts = ["\n\n".join(lines), "", _table(groups, rivals, unseen), "", note]
    if (figure := _figure(results, rivals, folder)) is not None:
        parts += [f"![Risk by coverage]({link}/{figure.name})", ""]
    return "\n".join(parts)


def _foreign_places(results: Results, group: str, measure: Measure) -> list[Place]:
    """Places of a group where the default has the measure."""
    return [p for p in results.of_group(group) if np.isfinite(results.mean(p, PNCA, measure))]


def _use(groups: Groups, rivals: Sequence[str], unseen: Sequence[Place]) -> str:
    ranks, best, is_first = [], [], []
    for words, group in groups.items():
        found = group.ranks(NLL)
        rival = min(group.rivals, key=lambda model: found[model])
        ranks.append(f"{number(found[PNCA], 1)} with {words}")
        best.append(f"{number(found[rival], 1)} ({rival})")
        is_first.append(found[PNCA] <= found[rival])
    one = next(iter(groups.values()))
    text = (
        f"on {len(one.places)} tables on which nothing was set, its mean rank in NLL among "
        f"{counted(len(one.models), 'classifier')} is {listed(ranks)}; the best rival's is {listed(best)}."
    )
    said, is_cautious = _about_unseen(one.results, rivals, unseen)
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


def _do_not(groups: Groups) -> str:
    parts = [
        f"in {measure.name} with {words} {listed(rivals)} {_are(rivals)} better, not by luck"
        for words, group in groups.items()
        for measure, rivals in losses(group).items()
        if rivals
    ]
    text = (
        f"where {'; '.join(parts)}."
        if parts
        else "expecting to win on every table: over all of them no rival is better in NLL, accuracy or AUROC "
        "by more than luck."
    )
    of_all = [(place, words) for words, group in groups.items() for place in group.places]
    behind = [(place, words) for place, words in of_all if _gap(groups[words], place) > 0]
    if not behind:
        return f"{text} No rival is ahead in NLL in any of {len(of_all)} cases."
    place, words = max(behind, key=lambda item: _gap(groups[item[1]], item[0]))
    group = groups[words]
    best = group.results.best(place, NLL, group.rivals)
    return (
        f"{text} The rival that is best on a table is ahead in NLL in {len(behind)} of {len(of_all)} cases, "
        f"most on {place[0]} ({words}): {number(group.results.mean(place, PNCA, NLL))} against "
        f"{number(group.results.mean(place, best, NLL))} ({best})."
    )


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _gap(group: Group, place: Place) -> float:
    best = group.results.best(place, NLL, group.rivals)
    return group.results.mean(place, PNCA, NLL) - group.results.mean(place, best, NLL)


def _costs(groups: Groups) -> str:
    ours = [f"{seconds(group.median_seconds(PNCA))} s for {words}" for words, group in groups.items()]
    text = f"{listed(ours)}, of one core and for one fit (medians)"
    others = [m for m in (LOGISTIC, "CatBoost") if all(m in group.models for group in groups.values())]
    said = [
        f"{model} takes {listed([f'{seconds(group.median_seconds(model))} s' for group in groups.values()])}"
        for model in others
    ]
    return f"{text}{'; ' * bool(said)}{listed(said) if said else ''}."


def _mean(results: Results, places: Sequence[Place], model: str, measure: Measure) -> float:
    return (
        float(np.mean([results.mean(place, model, measure) for place in places])) if places else float("nan")
    )


def _table(groups: Groups, rivals: Sequence[str], unseen: Sequence[Place]) -> str:
    results, models = next(iter(groups.values())).results, [PNCA, *rivals]
    unit = [place for place in _foreign_places(results, FINAL, _UNIT) if place[1] == "100"]
    columns = [
        (f"{measure.name}, {words}", group.places, measure, number)
        for measure in (NLL, ACCURACY, AUROC)
        for words, group in groups.items()
    ]
    foreign = [("unseen class", list(unseen), _UNSEEN, share), ("unit error", unit, _UNIT, share)]
    cells = {
        name: _column(results, places, models, measure, write)
        for name, places, measure, write in (*columns, *foreign)
    }
    cells["CPU s"] = [
        " / ".join(seconds(group.median_seconds(model)) for group in groups.values()) for model in models
    ]
    return columns_table("model", list(map(bold, models)), cells)


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


def _figure(results: Results, rivals: Sequence[str], folder: Path) -> Path | None:
    """Draw risk by coverage of the final tables, and with as many inputs that are foreign."""
    models = list(dict.fromkeys([PNCA, *GATED, LOGISTIC, *rivals[:2]]))
    small = results.of_group(FINAL, size="100")
    unit = [place for place in small if len(results.column(place, PNCA, "unit error", "risks"))]
    unseen = [p for p in results.of_group(UNSEEN) if len(results.column(p, PNCA, "unseen class", "risks"))]
    panels = {
        "final tables, 100 rows": _lines(results, small, models, TEST),
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
