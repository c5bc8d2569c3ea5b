"""What models are compared by, and how sure a difference between two of them is."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pnca_studies.experiments.benchmark.catalogue import TEST
from pnca_studies.experiments.benchmark.measures import AS_IS
from pnca_studies.reports.tables import signed

#: Differences of fewer draws have no interval.
LEAST_DRAWS = 5
#: The test set under which the seconds of a cell are kept.
SECONDS = "seconds"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number that models are compared by; ``{own}`` in its column is confidence or evidence."""

    name: str
    test_set: str = TEST
    column: str
    more: bool = False  # is better


NLL = Measure(name="NLL", column="nll")
NLL_AS_IS = Measure(name="NLL as is", test_set=f"{TEST}{AS_IS}", column="nll")
ACCURACY = Measure(name="accuracy", column="accuracy", more=True)
AUROC = Measure(name="AUROC", column="auroc", more=True)
BRIER = Measure(name="Brier", column="brier")
ECE = Measure(name="ECE", column="ece")
ECE_AS_IS = Measure(name="ECE as is", test_set=f"{TEST}{AS_IS}", column="ece")
AUGRC = Measure(name="AUGRC", column="augrc")
ROTATED_AUGRC = Measure(name="rotated AUGRC", test_set="rotated", column="augrc")
FIT = Measure(name="fit s", test_set=SECONDS, column="fit")
PREDICT = Measure(name="predict s", test_set=SECONDS, column="predict")
OUT_OF_FOLD = Measure(name="temperature s", test_set=SECONDS, column="out of fold")


def wrong_above(test_set: str) -> Measure:
    """Share of a test set that is answered wrong with more than .9 confidence."""
    return Measure(name="wrong above .9", test_set=test_set, column="wrong_above")


def told(test_set: str, by: str = "{own}") -> Measure:
    """AUROC with which a foreign test set is told from the test rows."""
    name = "OoD AUROC" if by == "{own}" else f"OoD AUROC by {by}"
    return Measure(name=name, test_set=test_set, column=f"auroc_{by}", more=True)


class Interval(NamedTuple):
    """A mean difference, one model less another, and the ends of its interval."""

    mean: float
    low: float
    high: float

    def side(self, measure: Measure) -> str:
        """``"win"``, ``"tie"`` or ``"loss"`` by the side of zero it is on; nothing if that is not known."""
        if not np.isfinite(self.low):
            return ""
        if self.low <= 0 <= self.high:
            return "tie"
        return "win" if (self.low > 0) == measure.more else "loss"

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return signed(self.mean)
        # An end that is not zero shall not look like it.
        near = min(abs(self.low), abs(self.high))
        digits = next((d for d in (3, 4, 5) if near == 0 or round(near, d) > 0), 6)
        return f"{signed(self.mean, digits)} ({signed(self.low, digits)} to {signed(self.high, digits)})"
