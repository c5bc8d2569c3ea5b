"""Tables over several data sets: means, ranks, and tests against the default."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca_studies.experiments.benchmark.models import CONSTANT, LOGISTIC, PNCA, RANKED
from pnca_studies.reports.benchmark.measures import (
    ACCURACY,
    AUROC,
    ECE,
    FIT,
    NLL,
    NLL_AS_IS,
    OUT_OF_FOLD,
    PREDICT,
    Measure,
)
from pnca_studies.reports.benchmark.results import Place, Results
from pnca_studies.reports.benchmark.statistics import Comparison, compare, mean_ranks
from pnca_studies.reports.benchmark.writing import bold, seconds
from pnca_studies.reports.tables import NOTHING, Table, number

FloatArray = NDArray[np.float64]
_RANKED = (NLL, NLL_AS_IS, ACCURACY, AUROC, ECE)
_TESTED = (NLL, ACCURACY, AUROC)


class Group(NamedTuple):
    """Data sets, and the classifiers that are complete on all of them; the default comes first."""

    results: Results
    places: list[Place]
    models: list[str]

    @classmethod
    def of(cls, results: Results, places: Sequence[Place]) -> "Group":
        """The group of some places."""
        return cls(results, list(places), results.complete(places))

    @property
    def is_known(self) -> bool:
        """Whether there is anything to compare: the default, and another model."""
        return PNCA in self.models and len(self.models) > 1

    @property
    def rivals(self) -> list[str]:
        """The other models."""
        return [model for model in self.models if model != PNCA]

    def means(self, measure: Measure) -> FloatArray:
        """Means (data sets, models) on the data sets where every model has the measure."""
        found = self.results.means(self.places, self.models, measure)
        kept: FloatArray = found[np.isfinite(found).all(axis=1)]
        return kept

    def ranks(self, measure: Measure) -> dict[str, float]:
        """Mean rank of each model; nothing if no data set has the measure."""
        means = self.means(measure)
        if not len(means):
            return {}
        ranks = mean_ranks(means, more=measure.more)
        return {model: float(rank) for model, rank in zip(self.models, ranks, strict=True)}

    def tests(self, measure: Measure) -> dict[str, Comparison]:
        """The default against each other model."""
        means = self.means(measure)
        if not len(means):
            return {}
        return dict(zip(self.rivals, compare(means, more=measure.more), strict=True))

    def median_seconds(self, model: str, measure: Measure = FIT) -> float:
        """Median over the data sets of a model's seconds."""
        return float(np.median([self.results.mean(place, model, measure) for place in self.places]))


def ranks_table(group: Group) -> str:
    """Mean and mean rank of every complete model in every measure, the best in NLL first."""
    ranks = {measure: group.ranks(measure) for measure in _RANKED}
    means = {measure: group.means(measure).mean(axis=0) for measure in _RANKED if ranks[measure]}
    rows = []
    for model in sorted(group.models, key=lambda model: ranks[NLL][model]):
        k = group.models.index(model)
        cells = [f"{number(means[m][k])} ({number(ranks[m][model], 2)})" for m in means]
        rows.append([bold(model), *cells, *_seconds(group, model)])
    headings = ["model", *(f"{m.name} (rank)" for m in means), "fit s", "temperature s", "predict s"]
    return Table(headings=headings, rows=rows).markdown()


def _seconds(group: Group, model: str) -> list[str]:
    return [
        seconds(found) if np.isfinite(found := group.median_seconds(model, measure)) else NOTHING
        for measure in (FIT, OUT_OF_FOLD, PREDICT)
    ]


def tests_table(group: Group) -> str:
    """On how many data sets the default is better than each rival and worse, and Holm's p."""
    tests = {measure: group.tests(measure) for measure in _TESTED}
    rows = [[rival, *(_in_words(tests[measure].get(rival)) for measure in _TESTED)] for rival in group.rivals]
    headings = ["rival", *(f"{measure.name}: better / worse, p" for measure in _TESTED)]
    return Table(headings=headings, rows=rows).markdown()


def _in_words(found: Comparison | None) -> str:
    if found is None:
        return NOTHING
    text = f"{found.n_better} / {found.n_worse}, {number(found.p)}"
    return f"**{text}**" if found.is_loss() else text


def every_place_table(group: Group) -> str:
    """NLL of the default at each place, beside the rival that is best there and the constant answer."""
    rows = []
    for place in group.places:
        best = group.results.best(place, NLL, [model for model in group.rivals if model != CONSTANT])
        difference = group.results.difference(place, best, NLL) if best else None
        line, constant = (group.results.mean(place, model, NLL) for model in (LOGISTIC, CONSTANT))
        ours = group.results.mean(place, PNCA, NLL)
        of_best = f"{number(group.results.mean(place, best, NLL))} ({best})" if best else NOTHING
        of_difference = NOTHING if difference is None else str(difference)
        row = [place[0], number(ours), of_best, of_difference, number(line), number(ours / constant, 2)]
        rows.append(row)
    headings = ["data", PNCA, "best rival there", "difference (95 %)", LOGISTIC, "over class shares'"]
    return Table(headings=headings, rows=rows).markdown()


def losses(group: Group, measures: Sequence[Measure] = _TESTED) -> dict[Measure, list[str]]:
    """Rivals that are better than the default in a measure, and not by luck."""
    return {
        measure: [rival for rival, found in group.tests(measure).items() if found.is_loss()]
        for measure in measures
    }


def common(groups: Sequence[Group]) -> list[str]:
    """Rivals that are complete in all of some groups, those that are most often ahead in NLL first."""
    ranks: list[Mapping[str, float]] = [group.ranks(NLL) for group in groups]
    there = [
        model for model in RANKED if model not in (PNCA, CONSTANT) and all(model in given for given in ranks)
    ]
    return sorted(there, key=lambda model: sum(given[model] for given in ranks))
