"""One page for each question: tables, images, features, foreign inputs, unseen classes, time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pnca_studies.experiments.benchmark.catalogue import DATA_SETS, FOREIGN, GROUPS, UNSEEN
from pnca_studies.experiments.benchmark.measures import SURE
from pnca_studies.experiments.benchmark.models import PNCA, RANKED
from pnca_studies.reports.benchmark.figures import critical_difference_figure
from pnca_studies.reports.benchmark.groups import Group, every_place_table, ranks_table, tests_table
from pnca_studies.reports.benchmark.measures import (
    ACCURACY,
    AUGRC,
    AUROC,
    BRIER,
    ECE,
    ECE_AS_IS,
    FIT,
    NLL,
    NLL_AS_IS,
    OUT_OF_FOLD,
    PREDICT,
    Measure,
    told,
    wrong_above,
)
from pnca_studies.reports.benchmark.results import Place, Results
from pnca_studies.reports.benchmark.writing import (
    Writers,
    bold,
    columns_table,
    counted,
    listed,
    marked,
    measure_columns,
    on_gpu,
    seconds,
    share,
)
from pnca_studies.reports.figures import save_figure
from pnca_studies.reports.tables import NOTHING, Table, mean, mean_sd, number
from pnca_studies.rivals import SCORES

_SIZES = {"100": "100 rows", "half": "half of the rows"}
_PARTS = ("final tables", "tuning tables")
_DIFFERENCES = (NLL, ACCURACY)
_IN_SHORT = (NLL, ACCURACY, AUROC, ECE)
_OF_ONE: Writers = {
    **dict.fromkeys((ACCURACY, AUROC, NLL), mean_sd),
    **dict.fromkeys((NLL_AS_IS, BRIER, ECE, ECE_AS_IS, AUGRC), mean),
    **dict.fromkeys((FIT, OUT_OF_FOLD, PREDICT), seconds),
}
_FOREIGN_TEXT = f"""\
*Wrong above .9*: the share of foreign inputs that is answered wrong with more than {number(SURE, 1)}
confidence; of inputs that belong to no class every answer is wrong. *OoD AUROC*: the probability that a
foreign input has a lower score than a test input; the score is the model's evidence if it has one, else its
confidence. The scores at the end of a table are no classifiers. Answers are those after temperature
scaling. Sorted by the first column.
"""
_TIME_TEXT = """\
Seconds of one core (CPU time), medians over data sets of means over draws; {mark}seconds on a GPU are
seconds on the wall and marked. *Fit* is with the tuning of a model's own. *Temperature* is what it takes to
predict out of fold: models that cross-validate themselves keep these predictions, any other is fitted again
in three folds. *Predict* is for all test inputs of a draw, foreign ones included. Machines: {machines}.
"""

Body = list[str]


def tables_page(results: Results, folder: Path, link: str) -> Body:
    """Show ranks, tests and every table, for the tables on which nothing was set first."""
    lines: Body = []
    for part in _PARTS:
        for size, words in _SIZES.items():
            lines += _ranked(results, results.of_group(part, size=size), f"{part}, {words}", folder, link)
    for place in results.of_group("small data sets"):
        lines += one_place(results, place)
    return lines


def _ranked(results: Results, places: Sequence[Place], title: str, folder: Path, link: str) -> Body:
    """Ranks over places, a diagram of them, tests, and each place."""
    group, about = Group.of(results, places), GROUPS.get(title.partition(",")[0], "")
    lines = [f"## {title[0].upper()}{title[1:]}", "", f"{about[0].upper()}{about[1:]}." if about else "", ""]
    left_out = [model for model in results.planned(places) if model not in group.models]
    if not group.is_known:
        return [*lines, "No other model has every cell that PNCA has here: there is nothing to rank.", ""]
    if left_out:
        lines += [f"Not complete, and left out: {listed(left_out)}.", ""]
    lines += [ranks_table(group), ""]
    if len(group.models) > 2:
        name = f"ranks_{title.replace(', ', '_').replace(' ', '_')}.svg"
        figure = critical_difference_figure(group.means(NLL), group.models, f"Mean ranks in NLL: {title}")
        save_figure(figure, folder / name)
        lines += [f"![Critical differences]({link}/{name})", ""]
    lines += ["On how many data sets the default is better and worse; **bold**: worse, not by luck.", ""]
    return [*lines, tests_table(group), "", "NLL on each of them:", "", every_place_table(group), ""]


def one_place(results: Results, place: Place) -> Body:
    """Every measure of every model at one data set and size, and differences from the default."""
    models = [model for model in results.models(place) if model in RANKED]
    if not models:
        return []
    nll = {model: results.mean(place, model, NLL) for model in models}
    models = sorted(models, key=lambda model: nll[model])
    n_draws = max(len(results.values(place, model, FIT)) for model in models)
    fewer = [m for m in models if m not in results.complete([place])]
    note = f"Mean ± standard deviation over {counted(n_draws, 'draw')}. {DATA_SETS[place[0]].about}."
    if fewer:
        note += f" Fewer draws than planned: {listed(fewer)}."
    columns = measure_columns(results, place, models, _OF_ONE)
    if PNCA in models:
        for measure in _DIFFERENCES:
            found = [
                NOTHING if model == PNCA else marked(results.difference(place, model, measure), measure)
                for model in models
            ]
            columns[f"PNCA less it: {measure.name}"] = found
    table = columns_table("model", [bold(model) for model in models], columns)
    return [f"## {title_of(place)}", "", note, "", table, ""]


def title_of(place: Place) -> str:
    """Write a data set and its size."""
    size = _SIZES["half"] if place[1] == "half" else f"n = {place[1]}"
    return place[0] if place[1] == "folds" else f"{place[0]}, {size}"


def summary_tables(results: Results, most: int = 6) -> list[tuple[str, Table]]:
    """The main means at the first places there are, for a terminal: a title and a table each."""
    found = []
    for place in results.places[:most]:
        models = [model for model in results.models(place) if model in RANKED]
        columns = {
            measure.name: [number(results.mean(place, model, measure)) for model in models]
            for measure in _IN_SHORT
        }
        rows = [list(row) for row in zip(models, *columns.values(), strict=True)]
        found.append((title_of(place), Table(headings=["model", *columns], rows=rows)))
    return found


def images_page(results: Results, folder: Path, link: str) -> Body:
    """Show the digits of MNIST, and the foreign inputs there."""
    return _places_and_foreign(results, "images")


def features_page(results: Results, folder: Path, link: str) -> Body:
    """Show the features of chest X-rays."""
    return _places_and_foreign(results, "features")


def _places_and_foreign(results: Results, group: str) -> Body:
    lines: Body = []
    for place in results.of_group(group):
        lines += one_place(results, place)
        for test_set in FOREIGN:
            lines += _foreign(results, [place], test_set, f"{title_of(place)}: {test_set}", level=3)
    return lines


def foreign_page(results: Results, folder: Path, link: str) -> Body:
    """Show what is answered of a unit error, and of another site."""
    lines: Body = [_FOREIGN_TEXT]
    for part in _PARTS:
        for size, words in _SIZES.items():
            places = results.of_group(part, size=size)
            lines += _foreign(results, places, "unit error", f"Unit error: {part}, {words}")
    for place in results.of_group(*_PARTS, "small data sets", "features"):
        lines += _foreign(results, [place], "other site", f"Other site: {title_of(place)}")
    return lines


def unseen_page(results: Results, folder: Path, link: str) -> Body:
    """Show what is answered of inputs of a class that was left out."""
    lines: Body = [_FOREIGN_TEXT]
    places = results.of_group("unseen classes")
    lines += _foreign(results, places, "unseen class", "All tables with three classes or more")
    for place in results.of_group("small data sets", "unseen classes"):
        name = title_of((place[0].removesuffix(UNSEEN), place[1]))
        lines += _foreign(results, [place], "unseen class", name)
    return lines


def _foreign(results: Results, places: Sequence[Place], test_set: str, title: str, *, level: int = 2) -> Body:
    """Show models by what they answer of a foreign test set, averaged over places that have it."""
    sure, apart = wrong_above(test_set), told(test_set)
    there = [place for place in places if np.isfinite(results.mean(place, PNCA, sure))]
    complete = results.complete(there, [*RANKED, *SCORES])
    if PNCA not in complete:
        return []
    by_model: dict[str, Mapping[Measure, float]] = {
        model: {
            m: float(results.means(there, [model], m).mean())
            for m in (sure, apart, told(test_set, "confidence"))
        }
        for model in complete
    }
    order = sorted(complete, key=lambda m: (m in SCORES, by_model[m][sure], -by_model[m][apart]))
    rows = [
        [
            bold(model),
            share(by_model[model][sure]),
            *(number(by_model[model][m]) for m in (apart, told(test_set, "confidence"))),
        ]
        for model in order
    ]
    of_all = f" Means over {counted(len(there), 'data set')}." if len(there) > 1 else ""
    text = f"{FOREIGN[test_set][0].upper()}{FOREIGN[test_set][1:]}.{of_all}"
    headings = ["model", "wrong above .9", "OoD AUROC", "by confidence"]
    return [f"{'#' * level} {title}", "", text, "", Table(headings=headings, rows=rows).markdown(), ""]


def time_page(results: Results, folder: Path, link: str) -> Body:
    """Show what models cost."""
    machines = dict.fromkeys(line["machine"].partition(";")[0] for line in results.kept)
    lines: Body = [_TIME_TEXT.format(mark="", machines=listed(list(machines)))]
    for group in GROUPS:
        for size in dict.fromkeys(size for _, size in results.of_group(group)):
            places = results.of_group(group, size=size)
            models = results.complete(places, [*RANKED, *SCORES])
            if not models:
                continue
            found = Group(results, places, models)
            costs = {model: found.median_seconds(model) for model in models}
            rows = []
            for model in sorted(models, key=lambda m: costs[m]):
                mark = " (GPU)" if any(on_gpu(results, place, model) for place in places) else ""
                others = [found.median_seconds(model, m) for m in (OUT_OF_FOLD, PREDICT)]
                rows.append([bold(model) + mark, *map(_or_nothing, (costs[model], *others))])
            table = Table(headings=["model", "fit", "temperature", "predict"], rows=rows).markdown()
            words = _SIZES.get(size, "" if size == "folds" else f"n = {size}")
            lines += [f"## {', '.join(filter(None, [group.capitalize(), words]))}", "", table, ""]
    return lines


def _or_nothing(value: float) -> str:
    return seconds(value) if np.isfinite(value) else NOTHING


def per_size_tables(results: Results) -> Body:
    """Every measure at every table and size, for the appendix."""
    lines: Body = []
    for place in results.of_group(*_PARTS, "unseen classes"):
        lines += one_place(results, place)
    return lines
