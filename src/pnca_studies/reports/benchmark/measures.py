"""What models are compared by, and how sure a difference between two of them is."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pnca_studies.experiments.benchmark import SCALED
from pnca_studies.reports.tables import signed

#: The test set under which the seconds of a cell are kept.
SECONDS = "seconds"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number that models are compared by; ``{own}`` in its column is confidence or evidence."""

    name: str
    test_set: str
    column: str
    more: bool = False  # is better


ACCURACY = Measure(name="accuracy", test_set="test", column="accuracy", more=True)
AUROC = Measure(name="AUROC", test_set="test", column="auroc", more=True)
NLL = Measure(name="NLL", test_set="test", column="nll")
NLL_SCALED = Measure(name="NLL scaled", test_set=f"test{SCALED}", column="nll")
BRIER = Measure(name="Brier", test_set="test", column="brier")
ECE = Measure(name="ECE", test_set="test", column="ece")
ECE_SCALED = Measure(name="ECE scaled", test_set=f"test{SCALED}", column="ece")
AUGRC = Measure(name="AUGRC", test_set="test", column="augrc")
ROTATED = Measure(name="rotated accuracy", test_set="rotated", column="accuracy", more=True)
ROTATED_AUGRC = Measure(name="rotated AUGRC", test_set="rotated", column="augrc")
BY_CONFIDENCE = Measure(
    name="OoD AUROC by confidence", test_set="ood", column="ood_auroc_confidence", more=True
)
BY_EVIDENCE = Measure(name="OoD AUROC by evidence", test_set="ood", column="ood_auroc_evidence", more=True)
BY_OWN = Measure(name="OoD AUROC by own score", test_set="ood", column="ood_auroc_{own}", more=True)
FPR95 = Measure(name="FPR95", test_set="ood", column="ood_fpr95_{own}")
ABOVE = Measure(name="OoD above .9", test_set="ood", column="above_0.9")
FIT = Measure(name="fit s", test_set=SECONDS, column="fit_seconds")
PREDICT = Measure(name="predict s", test_set=SECONDS, column="predict_seconds")


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
