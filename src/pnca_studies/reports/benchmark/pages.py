"""Pages of the document: ranks, a table for every data set, differences, losses."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pnca_studies.experiments.contenders import CONTENDERS, TRIVIAL
from pnca_studies.experiments.covid import N_FOLDS
from pnca_studies.reports.benchmark.measures import (
    ABOVE,
    ACCURACY,
    AUGRC,
    AUROC,
    BRIER,
    BY_CONFIDENCE,
    BY_OWN,
    ECE,
    ECE_SCALED,
    FIT,
    FPR95,
    NLL,
    NLL_SCALED,
    PREDICT,
    ROTATED,
    ROTATED_AUGRC,
    Measure,
)
from pnca_studies.reports.benchmark.results import COVID, FIRST_SIZE, IMAGES, PNCA, Place, Results
from pnca_studies.reports.benchmark.runs import is_gpu
from pnca_studies.reports.benchmark.writing import GPU_MARK, bold, folded, listed, marked, mean, seconds
from pnca_studies.reports.tables import NOTHING, Table, mean_sd, number, per_cent

_RANKED_BY = (NLL, NLL_SCALED, ACCURACY, BRIER, ECE, BY_OWN, BY_CONFIDENCE)
_DIFFERENCES = (ACCURACY, NLL, NLL_SCALED, BY_OWN)
_LOSSES = (ACCURACY, NLL, NLL_SCALED, ECE, BY_OWN)
#: A longer list of losses is folded.
_LONG_LIST = 15
#: Of more models that have fewer draws, only the number is said.
_FEW_NAMES = 3

_RANKS_TEXT = """\
## Mean ranks

Models are ranked at each n by their means over common draws; 1 is the best, and equals share a rank. Ranks
are averaged over n within a data set, then over data sets: {data_sets}. Measures of foreign inputs are
ranked where there are such. Only models that took part everywhere are ranked; the trivial scores are no
classifiers and are not.
"""
_DIFFERENCES_TEXT = """\
## Paired differences

PNCA less the other at n = {n}, or at the smallest n where there is no such: the mean over common draws and
its 95 % interval. **Bold**: the interval says that PNCA is better. *Italic*: that it is worse. Where scaled,
both are.
"""
_LOSSES_TEXT = """\
## Where PNCA loses

PNCA against every other model, on every data set at every n: a win or a loss if the whole interval is on one
side of zero, else a tie. The trivial scores count in OoD AUROC. Comparisons with fewer than two common draws
are left out.
"""
_COLUMNS: dict[Measure, Callable[[NDArray[np.float64]], str]] = {
    ACCURACY: mean_sd,
    AUROC: mean_sd,
    NLL: mean_sd,
    NLL_SCALED: mean_sd,
    BRIER: mean,
    ECE: mean,
    ECE_SCALED: mean,
    AUGRC: mean,
    ROTATED: mean,
    ROTATED_AUGRC: mean,
    BY_CONFIDENCE: mean,
    BY_OWN: mean,
    FPR95: mean,
    ABOVE: lambda values: per_cent(values, 2),
    FIT: seconds,
    PREDICT: seconds,
}


def ranks_page(results: Results) -> str:
    """Rank the models over all data sets that they took part in.

    Parameters
    ----------
    results : Results
        Of the runs.

    Returns
    -------
    str
        Markdown.
    """
    places, models = results.ranked()
    ranked = set(models)
    left_out = {model for place in places for model in results.rivals(place)} - ranked
    if len(models) < 2:
        return "## Mean ranks\n\nNo other model took part wherever PNCA did: there is nothing to rank.\n"
    lines = [_RANKS_TEXT.format(data_sets=listed(list(dict.fromkeys(data for data, _ in places))))]
    if left_out:
        lines += [f"Left out for want of fits: {listed(sorted(left_out, key=CONTENDERS.index))}.", ""]
    lines += [_rank_table(results, places, models), ""]
    first, there = results.ranked(first_size_only=True)
    if len(there) > len(models):
        sizes = listed([f"{data} {n}" for data, n in first])
        lines += [
            f"More of them have fits at one number of training examples: {sizes}. Ranked there alone:",
            "",
            _rank_table(results, first, there),
            "",
        ]
    images = [place for place in results.places if place[0] == IMAGES and PNCA in results.models(place)]
    takers = [model for model in results.models(*images) if model not in TRIVIAL] if images else []
    if len(takers) > 1:
        lines += [
            f"{IMAGES} is not among them, because only networks that learn from augmented images take part. "
            "Ranked by itself:",
            "",
            _rank_table(results, images, takers),
            "",
        ]
    return "\n".join(lines)


def _rank_table(results: Results, places: Sequence[Place], models: Sequence[str]) -> str:
    ranks = {measure.name: results.mean_ranks(places, models, measure) for measure in _RANKED_BY}
    by_nll = ranks[NLL.name]
    rows = [
        [bold(model), *(number(given.get(model), 2) for given in ranks.values())]
        for model in sorted(models, key=lambda model: by_nll.get(model, np.inf))
    ]
    return Table(caption="", headings=["model", *ranks], rows=rows).markdown()


def tables_page(results: Results) -> str:
    """Show every measure of every model, a table for each data set and n.

    Parameters
    ----------
    results : Results
        Of the runs.

    Returns
    -------
    str
        Markdown.
    """
    lines = ["## Every data set", "", "Sorted by NLL.", ""]
    for data, sizes in results.sizes().items():
        lines += [f"### {data}", ""]
        for i, n in enumerate(sizes):
            text = f"{_repetitions(results, (data, n))}\n\n{_data_set_table(results, (data, n))}\n"
            lines.append(text if i == 0 else folded(f"n = {n}", text))
    return "\n".join(lines)


def _data_set_table(results: Results, place: Place) -> str:
    models = sorted(results.models(place), key=lambda m: _nan_last(results.mean(place, m, NLL)))
    columns = {}
    for measure, write in _COLUMNS.items():
        cells = [write(results.array(place, model, measure)) for model in models]
        if any(cell != NOTHING for cell in cells):
            columns[measure.name] = cells
    if FIT.name in columns:
        marks = [GPU_MARK if is_gpu(results.devices(place, model)) else "" for model in models]
        columns[FIT.name] = [cell + mark for cell, mark in zip(columns[FIT.name], marks, strict=True)]
    rows = [[bold(model), *cells] for model, *cells in zip(models, *columns.values(), strict=True)]
    return Table(caption="", headings=["model", *columns], rows=rows).markdown()


def _nan_last(value: float) -> float:
    return value if np.isfinite(value) else np.inf


def _repetitions(results: Results, place: Place) -> str:
    """Over how many draws the means are taken, and who has fewer."""
    counts = {model: len(results.values(place, model, FIT)) for model in results.models(place)}
    most = max(counts.values())
    what = f"{most} draw{'s' * (most != 1)}"
    if place[0] == COVID:
        n_partitions = 1 + max(results.draws(place)) // N_FOLDS
        what = f"{most} fold{'s' * (most != 1)} of {n_partitions} partition{'s' * (n_partitions != 1)}"
    fewer = [f"{model} {count}" for model, count in counts.items() if count < most]
    if len(fewer) > _FEW_NAMES:
        fewer = [f"{len(fewer)} of {len(counts)} models, at least {min(counts.values())}"]
    note = f" (fewer: {', '.join(fewer)})" if fewer else ""
    return f"n = {place[1]}, mean ± standard deviation over {what}{note}."


def differences_page(results: Results) -> str:
    """Compare PNCA with each other model, draw by draw.

    Parameters
    ----------
    results : Results
        Of the runs.

    Returns
    -------
    str
        Markdown.
    """
    lines = [_DIFFERENCES_TEXT.format(n=FIRST_SIZE)]
    for data, sizes in results.sizes().items():
        place = (data, sizes[0])
        others = [model for model in results.models(place) if model != PNCA]
        columns = {
            measure.name: [marked(results.difference(place, model, measure), measure) for model in others]
            for measure in _DIFFERENCES
        }
        columns = {name: cells for name, cells in columns.items() if any(cell != NOTHING for cell in cells)}
        if columns:
            rows = list(map(list, zip(others, *columns.values(), strict=True)))
            table = Table(caption="", headings=["PNCA less", *columns], rows=rows).markdown()
            lines += [f"### {data}: differences at n = {place[1]}", "", table, ""]
    return "\n".join(lines)


def losses_page(results: Results) -> str:
    """Count wins, ties and losses, and list the losses.

    Parameters
    ----------
    results : Results
        Of the runs.

    Returns
    -------
    str
        Markdown.
    """
    counts = {measure: Counter[str]() for measure in _LOSSES}
    losses = []
    for place in results.places:
        others = [model for model in results.models(place) if model != PNCA]
        for measure in _LOSSES:
            for rival in others:
                found = results.difference(place, rival, measure)
                side = found.side(measure) if found else ""
                counts[measure][side] += 1
                if side == "loss":
                    losses.append([place[0], str(place[1]), rival, measure.name, str(found)])
    rows = [
        [measure.name, *(str(given[side]) for side in ("win", "tie", "loss"))]
        for measure, given in counts.items()
    ]
    lines = [
        _LOSSES_TEXT,
        Table(caption="", headings=["measure", "wins", "ties", "losses"], rows=rows).markdown(),
        "",
    ]
    if not losses:
        return "\n".join([*lines, "No loss.", ""])
    headings = ["data", "n", "other", "measure", "PNCA less the other"]
    table = Table(caption="", headings=headings, rows=losses).markdown() + "\n"
    is_long = len(losses) > _LONG_LIST
    return "\n".join([*lines, folded(f"The {len(losses)} losses", table) if is_long else table])
