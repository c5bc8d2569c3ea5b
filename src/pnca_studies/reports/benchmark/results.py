"""The cells of one or several runs, and what is asked of them."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pnca.evaluation import bootstrap_interval
from pnca_studies.experiments.contenders import CONTENDERS, TRIVIAL
from pnca_studies.reports.benchmark.measures import FIT, SECONDS, Interval, Measure
from pnca_studies.reports.frame import Frame, Row

#: The model that the documents are about.
PNCA = "PNCA"
MNIST, IMAGES, COVID = "MNIST", "MNIST images", "COVID"
#: Each data set: its inputs, and what is foreign to it.
ABOUT = {
    MNIST: ("digits as rows of 784 pixels", "notMNIST letters"),
    IMAGES: ("digits as images, seen shifted, turned and resized at random", "notMNIST letters"),
    COVID: ("features of chest X-rays, by patient", "bone X-rays"),
    "digits": ("digits of 8 by 8 pixels", "of a class held out, another in each draw"),
    "breast cancer": ("30 measurements of cells", ""),
    "wine": ("13 chemical measurements", "of a class held out, another in each draw"),
    "iris": ("4 measurements of flowers", "of a class held out, another in each draw"),
}
#: The number of training examples that is shown first everywhere.
FIRST_SIZE = 100

#: A data set and a number of training examples.
Place = tuple[str, int]


class Results:
    """The cells of one or several runs, by data set, training examples, model and test set.

    Parameters
    ----------
    rows : iterable of mapping
        One a cell and test set, and one a cell with its seconds and its device.
    models : sequence of str
        Who may have taken part, in the order in which they are shown.
    """

    def __init__(self, rows: Iterable[Row], models: Sequence[str] = CONTENDERS) -> None:
        self._order = tuple(models)
        groups: dict[tuple[Place, str, str], list[Row]] = {}
        for row in rows:
            place = (row["data"], row["n_train"])
            groups.setdefault((place, row["model"], row["test_set"]), []).append(row)
        self._frames = {key: Frame(given) for key, given in groups.items()}
        names = [*ABOUT, *sorted({data for (data, _), _, _ in groups} - ABOUT.keys())]
        self.places = sorted({place for place, _, _ in groups}, key=lambda p: (names.index(p[0]), p[1]))

    def sizes(self) -> dict[str, list[int]]:
        """Numbers of training examples by data set; the one that is shown first comes first."""
        found: dict[str, list[int]] = {}
        for data, n_train in self.places:
            found.setdefault(data, []).append(n_train)
        return {data: sorted(sizes, key=lambda n: (n != FIRST_SIZE, n)) for data, sizes in found.items()}

    def models(self, *places: Place) -> list[str]:
        """Who took part in all of some places."""
        there = [{model for place, model, _ in self._frames if place == wanted} for wanted in places]
        return [model for model in self._order if all(model in models for models in there)]

    def rivals(self, place: Place) -> list[str]:
        """Who else classifies there."""
        return [model for model in self.models(place) if model != PNCA and model not in TRIVIAL]

    def draws(self, place: Place) -> set[int]:
        """The draws that any model has."""
        return {draw for model in self.models(place) for draw in self.values(place, model, FIT)}

    def devices(self, place: Place, model: str) -> set[str]:
        """Where a model was trained."""
        return {row["device"] for row in self.frame(place, model, SECONDS)}

    def frame(self, place: Place, model: str, test_set: str) -> Frame:
        """The rows of a model on a test set."""
        return self._frames.get((place, model, test_set), Frame([]))

    def values(self, place: Place, model: str, measure: Measure) -> dict[int, float]:
        """A measure by draw, where it exists; as a classifier a trivial score does not."""
        column = measure.column
        if "{own}" in column:
            column = column.format(own=self._own_score(place, model))
        if model in TRIVIAL and measure.test_set != SECONDS and not column.endswith("_evidence"):
            return {}
        given = self.frame(place, model, measure.test_set).by_repetition(column)
        return {draw: value for (draw,), value in given.items() if np.isfinite(value)}

    def array(self, place: Place, model: str, measure: Measure) -> NDArray[np.float64]:
        """A measure in each draw."""
        return np.array(list(self.values(place, model, measure).values()))

    def mean(self, place: Place, model: str, measure: Measure) -> float:
        """Mean of a measure over draws; NaN where there is none."""
        values = self.array(place, model, measure)
        return float(values.mean()) if len(values) else float("nan")

    def best(self, place: Place, measure: Measure, among: Sequence[str] | None = None) -> str | None:
        """The model with the best mean, of the rivals or of those given; None if none has the measure."""
        means = {m: self.mean(place, m, measure) for m in (self.rivals(place) if among is None else among)}
        known = {model: mean for model, mean in means.items() if np.isfinite(mean)}
        if not known:
            return None
        return (max if measure.more else min)(known, key=lambda model: known[model])

    def difference(self, place: Place, rival: str, measure: Measure, *, of: str = PNCA) -> Interval | None:
        """PNCA, or another, less a rival over the draws that both have; None if they share none."""
        ours, theirs = (self.values(place, model, measure) for model in (of, rival))
        common = [ours[draw] - theirs[draw] for draw in sorted(ours.keys() & theirs.keys())]
        return Interval(*bootstrap_interval(common)) if common else None

    def mean_ranks(
        self, places: Sequence[Place], models: Sequence[str], measure: Measure
    ) -> dict[str, float]:
        """Mean rank of each model, from 1 for the best: over n within a data set, then over data sets.

        Models are ranked by their means over the draws that all of them have; equal ones share a rank.
        """
        by_data: dict[str, list[NDArray[np.float64]]] = {}
        for place in places:
            values = [self.values(place, model, measure) for model in models]
            common = sorted(set.intersection(*map(set, values))) if values else []
            if common:
                means = np.array([np.mean([given[draw] for draw in common]) for given in values])
                # The last digits of a mean depend on the order of its terms; they break no tie.
                ranks = rankdata(np.round(-means if measure.more else means, 12))
                by_data.setdefault(place[0], []).append(ranks)
        if not by_data or len(models) < 2:
            return {}
        ranks = np.mean([np.mean(given, axis=0) for given in by_data.values()], axis=0)
        return dict(zip(models, map(float, ranks), strict=True))

    def ranked(self, *, first_size_only: bool = False) -> tuple[list[Place], list[str]]:
        """Where PNCA took part and all could, and the classifiers that took part in all of it.

        Everywhere, or at the size of each data set that is shown first.
        """
        first = {(data, sizes[0]) for data, sizes in self.sizes().items()}
        wanted = [p for p in self.places if p in first] if first_size_only else self.places
        places = [p for p in wanted if p[0] != IMAGES and PNCA in self.models(p)]
        return places, [m for m in self.models(*places) if m not in TRIVIAL] if places else []

    def _own_score(self, place: Place, model: str) -> str:
        if model in TRIVIAL:
            return "evidence"
        given = self.frame(place, model, "ood")
        confidence, evidence = (given.mean(f"ood_auroc_{score}") for score in ("confidence", "evidence"))
        return "evidence" if evidence > confidence else "confidence"  # NaN is not above anything
