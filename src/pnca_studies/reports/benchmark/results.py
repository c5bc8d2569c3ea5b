"""The cells of a benchmark, and what is asked of them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.evaluation import paired_interval
from pnca_studies.experiments.benchmark.catalogue import DATA_SETS
from pnca_studies.experiments.benchmark.cells import Cell, Line
from pnca_studies.experiments.benchmark.models import MODELS, PNCA, RANKED
from pnca_studies.reports.benchmark.measures import LEAST_DRAWS, SECONDS, Interval, Measure
from pnca_studies.rivals import SCORES

FloatArray = NDArray[np.float64]
#: A data set and a size.
Place = tuple[str, str]


class Results:
    """Cells by data set, size, draw and model, beside the cells that were planned.

    A model is complete at a place if it has every draw that is planned there.
    """

    def __init__(self, lines: Iterable[Line], plan: Sequence[Cell], models: Sequence[str] = MODELS) -> None:
        wanted = {cell.key(): cell for cell in plan}
        self.lines = list({line["key"]: line for line in lines}.values())
        kept = [line for line in self.lines if line["key"] in wanted]
        self.kept, self.n_planned = kept, len(wanted)
        there = {line["key"] for line in kept}
        self.missing = [cell for key, cell in wanted.items() if key not in there]
        self._order = tuple(models)
        self._planned = {(cell.data, cell.size, cell.model): 0 for cell in plan}
        for cell in plan:
            self._planned[cell.data, cell.size, cell.model] += 1
        self._cells: dict[tuple[Place, str], list[Line]] = {}
        for line in sorted(kept, key=lambda line: line["draw"]):
            self._cells.setdefault(((line["data"], line["size"]), line["model"]), []).append(line)
        self._means: dict[tuple[Place, str, Measure], float] = {}

    @cached_property
    def places(self) -> list[Place]:
        """Where there is any cell, in the order of the catalogue."""
        there = {place for place, _ in self._cells}
        return [place for place in _all_places() if place in there]

    def of_group(self, *groups: str, size: str | None = None) -> list[Place]:
        """Planned places of some groups of data sets."""
        planned = {(data, planned) for data, planned, _ in self._planned}
        return [
            place
            for place in _all_places()
            if place in planned and DATA_SETS[place[0]].group in groups and size in (None, place[1])
        ]

    def planned(self, places: Sequence[Place], among: Sequence[str] = RANKED) -> list[str]:
        """Models of which a cell is planned in any of some places."""
        return [model for model in among if any((*place, model) in self._planned for place in places)]

    def models(self, *places: Place) -> list[str]:
        """Who has a cell in all of some places."""
        return [model for model in self._order if all((place, model) in self._cells for place in places)]

    def complete(self, places: Sequence[Place], among: Sequence[str] = RANKED) -> list[str]:
        """Models that have every planned draw in all of some places."""
        return [
            model
            for model in among
            if places
            and all(
                0 < self._planned.get((*place, model), 0) <= len(self._cells.get((place, model), []))
                for place in places
            )
        ]

    def column(self, place: Place, model: str, test_set: str, name: str) -> dict[int, Any]:
        """What a model has in a column on a test set, by draw; empty if there is nothing."""
        found = {line["draw"]: _entry(line, test_set, name) for line in self._cells.get((place, model), [])}
        return {draw: value for draw, value in found.items() if value is not None}

    def values(self, place: Place, model: str, measure: Measure) -> dict[int, float]:
        """A measure by draw, where it exists; as a classifier a score does not."""
        column = measure.column
        if "{own}" in column:
            column = column.format(own=self._own_score(place, model, measure.test_set))
        is_told = column.endswith("_evidence") or measure.test_set == SECONDS
        if model in SCORES and not is_told:
            return {}
        return self.column(place, model, measure.test_set, column)

    def mean(self, place: Place, model: str | None, measure: Measure) -> float:
        """Mean of a measure over draws; NaN where there is none."""
        if model is None:
            return float("nan")
        if (place, model, measure) not in self._means:
            values = list(self.values(place, model, measure).values())
            self._means[place, model, measure] = float(np.mean(values)) if values else float("nan")
        return self._means[place, model, measure]

    def means(self, places: Sequence[Place], models: Sequence[str], measure: Measure) -> FloatArray:
        """Means over the draws: (places, models)."""
        return np.array([[self.mean(place, model, measure) for model in models] for place in places])

    def best(self, place: Place, measure: Measure, among: Sequence[str] | None = None) -> str | None:
        """The model with the best mean of those that are complete, or of those given; None if none has it."""
        models = [m for m in self.complete([place]) if m != PNCA] if among is None else among
        means = {model: self.mean(place, model, measure) for model in models}
        known = {model: mean for model, mean in means.items() if np.isfinite(mean)}
        return (max if measure.more else min)(known, key=lambda model: known[model], default=None)

    def difference(self, place: Place, other: str, measure: Measure, *, of: str = PNCA) -> Interval | None:
        """PNCA, or another, less a model over the draws that both have; None if they share none.

        The interval is Student's; of fewer than five draws there is none.
        """
        one, two = self.values(place, of, measure), self.values(place, other, measure)
        common = np.array([one[draw] - two[draw] for draw in one if draw in two])
        if not len(common):
            return None
        if len(common) < LEAST_DRAWS:
            return Interval(float(common.mean()), float("nan"), float("nan"))
        return Interval(*paired_interval(common, np.zeros(len(common))))

    def risks(self, places: Sequence[Place], model: str, test_set: str) -> FloatArray:
        """Risks by coverage, averaged over draws and then over places; empty if a place has none."""
        found = []
        for place in places:
            given = self.column(place, model, test_set, "risks")
            if not len(given):
                return np.empty(0)
            found.append(np.mean(list(given.values()), axis=0))
        return np.mean(found, axis=0) if found else np.empty(0)

    def _own_score(self, place: Place, model: str, test_set: str) -> str:
        """Evidence, of a model that has it; chosen by what it tells, a score would be chosen too late."""
        return "evidence" if len(self.column(place, model, test_set, "auroc_evidence")) else "confidence"


def _all_places() -> Iterator[Place]:
    for data_set in DATA_SETS.values():
        for size in data_set.sizes:
            yield data_set.name, size


def _entry(line: Line, test_set: str, name: str) -> Any:  # noqa: ANN401
    """What a cell has in a column; seconds go by the name of their phase, on whatever device."""
    if test_set != SECONDS:
        return line["measures"].get(test_set, {}).get(name)
    return line[name] if name == "device" else line["seconds"].get(name, line["seconds"].get(f"GPU {name}"))
