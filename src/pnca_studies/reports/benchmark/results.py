"""The cells of one or several runs, and what is asked of them."""

from collections.abc import Iterable, Sequence

import numpy as np

from pnca.evaluation import bootstrap_interval
from pnca_studies.experiments.contenders import CONTENDERS, TRIVIAL
from pnca_studies.reports.benchmark.measures import FIT, SECONDS, Interval, Measure
from pnca_studies.reports.frame import Row, make_frame, pd

#: The model that the documents are about.
PNCA = "PNCA"
MNIST, IMAGES, COVID = "MNIST", "MNIST images", "COVID"
#: Each data set: its inputs, and its out-of-distribution inputs.
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


def is_gpu(devices: Iterable[str]) -> bool:
    """Whether a GPU is among some devices, such as ``"cpu"`` and ``"cuda"``."""
    return any(device.startswith("cuda") for device in devices)


class Results:
    """Rows of one or several runs by data set, training examples, model and test set.

    A fit has a row a test set and one with its seconds and its device; ``models`` says who may have taken
    part, in the order in which they are shown.
    """

    def __init__(self, rows: Iterable[Row], models: Sequence[str] = CONTENDERS) -> None:
        frame = make_frame(sorted(rows, key=lambda row: row["draw"]))
        keys = ["data", "n_train", "model", "test_set"]
        groups = frame.groupby(keys).indices if len(frame) else {}
        self._order = tuple(models)
        self._columns = frame.set_index("draw") if len(frame) else frame
        self._positions = {((data, int(n)), model, name): at for (data, n, model, name), at in groups.items()}
        places = {place for place, _, _ in self._positions}
        names = [*ABOUT, *sorted({data for data, _ in places} - ABOUT.keys())]
        self.places = sorted(places, key=lambda place: (names.index(place[0]), place[1]))

    def sizes(self) -> dict[str, list[int]]:
        """Numbers of training examples by data set; the one that is shown first comes first."""
        found: dict[str, list[int]] = {}
        for data, n_train in self.places:
            found.setdefault(data, []).append(n_train)
        return {data: sorted(sizes, key=lambda n: (n != FIRST_SIZE, n)) for data, sizes in found.items()}

    def models(self, *places: Place) -> list[str]:
        """Who took part in all of some places."""
        there = [{model for place, model, _ in self._positions if place == wanted} for wanted in places]
        return [model for model in self._order if all(model in models for models in there)]

    def baselines(self, place: Place) -> list[str]:
        """Who else classifies there."""
        return [model for model in self.models(place) if model != PNCA and model not in TRIVIAL]

    def draws(self, place: Place) -> set[int]:
        """The draws that any model has."""
        return {draw for model in self.models(place) for draw in self.values(place, model, FIT).index}

    def devices(self, place: Place, model: str) -> list[str]:
        """Where each fit of a model was trained."""
        return list(self.column(place, model, SECONDS, "device"))

    def column(self, place: Place, model: str, test_set: str, name: str) -> pd.Series:
        """What a model has in a column on a test set, by draw; empty if there is nothing."""
        at = self._positions.get((place, model, test_set), [])
        if not len(at) or name not in self._columns:
            return pd.Series(dtype=float)
        return self._columns[name].iloc[at].dropna()

    def values(self, place: Place, model: str, measure: Measure) -> pd.Series:
        """A measure by draw, where it exists; as a classifier a trivial score does not."""
        column = measure.column
        if "{own}" in column:
            column = column.format(own=self._own_score(place, model))
        if model in TRIVIAL and measure.test_set != SECONDS and not column.endswith("_evidence"):
            return pd.Series(dtype=float)
        return self.column(place, model, measure.test_set, column).astype(float)

    def mean(self, place: Place, model: str | None, measure: Measure) -> float:
        """Mean of a measure over draws; NaN where there is none."""
        return float("nan") if model is None else float(self.values(place, model, measure).mean())

    def best(self, place: Place, measure: Measure, among: Sequence[str] | None = None) -> str | None:
        """The model with the best mean, of the baselines or of those given; None if none has the measure."""
        models = self.baselines(place) if among is None else among
        means = {model: self.mean(place, model, measure) for model in models}
        known = {model: mean for model, mean in means.items() if np.isfinite(mean)}
        return (max if measure.more else min)(known, key=lambda model: known[model], default=None)

    def difference(self, place: Place, other: str, measure: Measure, *, of: str = PNCA) -> Interval | None:
        """PNCA, or another, less a model over the draws that both have; None if they share none."""
        common = (self.values(place, of, measure) - self.values(place, other, measure)).dropna()
        return Interval(*bootstrap_interval(common)) if len(common) else None

    def mean_ranks(
        self, places: Sequence[Place], models: Sequence[str], measure: Measure
    ) -> dict[str, float]:
        """Mean rank of each model, from 1 for the best: over n within a data set, then over data sets.

        Models are ranked by their means over the draws that all of them have; equal ones share a rank.
        """
        by_data: dict[str, list[pd.Series]] = {}
        for place in places:
            values = {model: self.values(place, model, measure) for model in models}
            common = pd.DataFrame(values).dropna()
            if len(common):
                # The last digits of a mean depend on the order of its terms; they break no tie.
                ranks = common.mean().round(12).rank(ascending=not measure.more)
                by_data.setdefault(place[0], []).append(ranks)
        if not by_data or len(models) < 2:
            return {}
        ranks = pd.DataFrame([pd.DataFrame(given).mean() for given in by_data.values()]).mean()
        return {str(model): float(rank) for model, rank in ranks.items()}

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
        confidence, evidence = (
            self.column(place, model, "ood", f"ood_auroc_{score}").mean()
            for score in ("confidence", "evidence")
        )
        return "evidence" if evidence > confidence else "confidence"  # NaN is not above anything
