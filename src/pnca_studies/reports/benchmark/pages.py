"""Pages of the document: ranks, a table for every data set, differences, losses."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

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
)
from pnca_studies.reports.benchmark.results import COVID, FIRST_SIZE, IMAGES, PNCA, Place, Results
from pnca_studies.reports.benchmark.writing import (
    Writers,
    bold,
    columns_table,
    counted,
    folded,
    listed,
    marked,
    measure_columns,
    seconds,
)
from pnca_studies.reports.tables import NOTHING, Table, mean, mean_sd, number, per_cent

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
are averaged over n within a data set, then over data sets: {data_sets}. OoD measures are ranked on the data
sets that have OoD inputs. Only classifiers that took part everywhere are ranked, so the trivial scores are
not.
"""
_DIFFERENCES_TEXT = """\
## Paired differences

PNCA minus the other at n = {n}, or at the smallest n if it is not there: the mean over common draws and its
95 % interval. **Bold**: the interval says that PNCA is better. *Italic*: that it is worse. Scaled means that
both are.
"""
_LOSSES_TEXT = """\
## Where PNCA loses

PNCA against every other model, on every data set at every n: a win or a loss if the whole interval is on one
side of zero, else a tie. The trivial scores count in OoD AUROC. Comparisons with fewer than two common draws
are left out.
"""
_SHORTLY = (ACCURACY, NLL, NLL_SCALED, ECE, BY_OWN)
_COLUMNS: Writers = {
    **dict.fromkeys((ACCURACY, AUROC, NLL, NLL_SCALED), mean_sd),
    **dict.fromkeys((BRIER, ECE, ECE_SCALED, AUGRC, ROTATED, ROTATED_AUGRC), mean),
    **dict.fromkeys((BY_CONFIDENCE, BY_OWN, FPR95), mean),
    ABOVE: partial(per_cent, digits=2),
    **dict.fromkeys((FIT, PREDICT), seconds),
}


def ranks_page(results: Results) -> str:
    """Rank the models over all data sets that they took part in."""
    places, models = results.ranked()
    if len(models) < 2:
        return "## Mean ranks\n\nNo other model took part wherever PNCA did: there is nothing to rank.\n"
    lines = [_RANKS_TEXT.format(data_sets=listed(list(dict.fromkeys(data for data, _ in places))))]
    if left_out := {model for place in places for model in results.baselines(place)} - set(models):
        lines += [f"Left out because fits are missing: {listed(sorted(left_out, key=CONTENDERS.index))}.", ""]
    lines += [_rank_table(results, places, models), ""]
    first, there = results.ranked(first_size_only=True)
    if len(there) > len(models):
        sizes = listed([f"{data} {n}" for data, n in first])
        text = f"More of them have fits at one number of training examples: {sizes}. Ranked there alone:"
        lines += [text, "", _rank_table(results, first, there), ""]
    images = [place for place in results.places if place[0] == IMAGES and PNCA in results.models(place)]
    takers = [model for model in results.models(*images) if model not in TRIVIAL] if images else []
    if len(takers) > 1:
        text = (
            f"{IMAGES} is not among them, because only networks that learn from augmented images take part. "
            "Ranked by itself:"
        )
        lines += [text, "", _rank_table(results, images, takers), ""]
    return "\n".join(lines)


def _rank_table(results: Results, places: Sequence[Place], models: Sequence[str]) -> str:
    ranks = {measure.name: results.mean_ranks(places, models, measure) for measure in _RANKED_BY}
    by_nll = ranks[NLL.name]
    rows = [
        [bold(model), *(number(given.get(model), 2) for given in ranks.values())]
        for model in sorted(models, key=lambda model: by_nll.get(model, np.inf))
    ]
    return Table(headings=["model", *ranks], rows=rows).markdown()


def tables_page(results: Results) -> str:
    """Show every measure of every model, a table for each data set and n."""
    lines = ["## Every data set", "", "Sorted by NLL.", ""]
    for data, sizes in results.sizes().items():
        lines += [f"### {data}", ""]
        for i, n in enumerate(sizes):
            text = f"{_repetitions(results, (data, n))}\n\n{_data_set_table(results, (data, n))}\n"
            lines.append(text if i == 0 else folded(f"n = {n}", text))
    return "\n".join(lines)


def _data_set_table(results: Results, place: Place) -> str:
    nll = {model: results.mean(place, model, NLL) for model in results.models(place)}
    models = sorted(nll, key=lambda model: nll[model] if np.isfinite(nll[model]) else np.inf)
    return columns_table("model", list(map(bold, models)), measure_columns(results, place, models, _COLUMNS))


def _repetitions(results: Results, place: Place) -> str:
    """Over how many draws the means are taken, and who has fewer."""
    counts = {model: len(results.values(place, model, FIT)) for model in results.models(place)}
    most = max(counts.values())
    what = counted(most, "draw")
    if place[0] == COVID:
        n_partitions = 1 + max(results.draws(place)) // N_FOLDS
        what = f"{counted(most, 'fold')} of {counted(n_partitions, 'partition')}"
    fewer = [f"{model} {count}" for model, count in counts.items() if count < most]
    if len(fewer) > _FEW_NAMES:
        fewer = [f"{len(fewer)} of {len(counts)} models, at least {min(counts.values())}"]
    note = f" (fewer: {', '.join(fewer)})" if fewer else ""
    return f"n = {place[1]}, mean ± standard deviation over {what}{note}."


def summary_tables(results: Results) -> list[tuple[str, Table]]:
    """The main means of each data set at its first size, for a terminal: a title and a table each."""
    found = []
    for data, sizes in results.sizes().items():
        place = (data, sizes[0])
        models = results.models(place)
        columns = {m.name: [mean(results.values(place, model, m)) for model in models] for m in _SHORTLY}
        kept = {name: cells for name, cells in columns.items() if set(cells) - {NOTHING}}
        rows = [list(row) for row in zip(models, *kept.values(), strict=True)]
        n_draws = counted(len(results.draws(place)), "draw")
        title = f"{data}, {sizes[0]} training examples, means of {n_draws}"
        found.append((title, Table(headings=["model", *kept], rows=rows)))
    return found


def differences_page(results: Results) -> str:
    """Compare PNCA with each other model, draw by draw."""
    lines = [_DIFFERENCES_TEXT.format(n=FIRST_SIZE)]
    for data, sizes in results.sizes().items():
        place = (data, sizes[0])
        others = [model for model in results.models(place) if model != PNCA]
        columns = {
            measure.name: [marked(results.difference(place, model, measure), measure) for model in others]
            for measure in _DIFFERENCES
        }
        if any(set(cells) - {NOTHING} for cells in columns.values()):
            table = columns_table("PNCA minus", others, columns)
            lines += [f"### {data}: differences at n = {place[1]}", "", table, ""]
    return "\n".join(lines)


def losses_page(results: Results) -> str:
    """Count wins, ties and losses, and list the losses."""
    counts = {measure: Counter[str]() for measure in _LOSSES}
    losses = []
    for place in results.places:
        others = [model for model in results.models(place) if model != PNCA]
        for measure in _LOSSES:
            for other in others:
                found = results.difference(place, other, measure)
                side = found.side(measure) if found else ""
                counts[measure][side] += 1
                if side == "loss":
                    losses.append([place[0], str(place[1]), other, measure.name, str(found)])
    rows = [
        [measure.name, *(str(given[side]) for side in ("win", "tie", "loss"))]
        for measure, given in counts.items()
    ]
    lines = [_LOSSES_TEXT, Table(headings=["measure", "wins", "ties", "losses"], rows=rows).markdown(), ""]
    if not losses:
        return "\n".join([*lines, "No loss.", ""])
    headings = ["data", "n", "other", "measure", "PNCA minus the other"]
    table = Table(headings=headings, rows=losses).markdown() + "\n"
    is_long = len(losses) > _LONG_LIST
    return "\n".join([*lines, folded(f"The {len(losses)} losses", table) if is_long else table])
