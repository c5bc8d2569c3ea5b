"""What a fitted model can promise, from its training examples out of fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pnca.calibration.arguments import check_min_familiarity
from pnca.calibration.decisions import decide
from pnca.estimators.decisions import held_out_of
from pnca.evaluation import negative_log_likelihood, share_interval
from pnca.reports.words import percent

#: Shares of wrong answers for which it is said how many answers are given, and the confidence of that.
MAX_ERRORS, CONFIDENCE = (0.05, 0.1), 0.9


@dataclass(frozen=True, kw_only=True)
class Promises:
    """What the training examples say of a model by which none of them was learnt."""

    n_examples: int
    n_groups: int | None  # None where no groups were named
    accuracy: float
    accuracy_interval: tuple[float, float]  # of 95 %
    nll: float  # mean negative log-likelihood, in nats
    nll_of_shares: float  # of the class shares alone
    answered: Mapping[float, int]  # by the share of wrong answers that is allowed
    needed: Mapping[float, int]  # examples (groups) without a mistake that each takes at least
    confidence: float
    min_familiarity: float

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found = asdict(self)
        shares = {name: {f"{s:g}": n for s, n in found[name].items()} for name in ("answered", "needed")}
        return found | shares | {"accuracy_interval": [*self.accuracy_interval], "lines": self.lines()}

    def lines(self) -> list[str]:
        """Say it in five lines."""
        low, high = self.accuracy_interval
        of_groups = "" if self.n_groups is None else f" in {self.n_groups} groups"
        unknown = "inputs from elsewhere (another device, laboratory or population)"
        if self.n_groups is None:
            unknown += (
                "; if several rows are of one patient or sample, name them (--group): these figures are too "
                "optimistic"
            )
        return [
            f"Accuracy: {percent(self.accuracy)} ({percent(low)} to {percent(high)}) of "
            f"{self.n_examples} examples{of_groups}, out of fold.",
            f"Probabilities: NLL {self.nll:.3f} nats, against {self.nll_of_shares:.3f} of the class "
            "shares alone.",
            "Answers, with confidence "
            + f"{self.confidence:g}".removeprefix("0")
            + ": "
            + "; ".join(self._answers(share) for share in self.answered)
            + ".",
            f"Familiarity: inputs below {self.min_familiarity:.2g} are not answered; these are about "
            f"{100 * self.min_familiarity:.2g} % of inputs like the training examples.",
            f"Not known: {unknown}.",
        ]

    def _answers(self, share: float) -> str:
        n, wrong = self.answered[share], f"at most {100 * share:g} % wrong"
        if n:
            return f"{wrong} for {n} of {self.n_examples} ({percent(n / self.n_examples)})"
        units = "examples" if self.n_groups is None else "groups"
        needed = f"{self.needed[share]} {units} answered without a mistake, or more with few"
        return f"{wrong} for none (it takes {needed})"


def promises_of(model: Any) -> Promises:  # noqa: ANN401
    """What a fitted PNCAClassifier promises.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted with folds.

    Returns
    -------
    Promises

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pnca import PNCAClassifier
    >>> promises = promises_of(PNCAClassifier(random_state=0).fit(*load_iris(return_X_y=True)))
    >>> promises.lines()[0][:9], promises.n_examples
    ('Accuracy:', 150)
    """
    held_out, classes = held_out_of(model), model.classes_
    shares = np.bincount(held_out.labels, minlength=len(classes)) / len(held_out.labels)
    least = check_min_familiarity(None, held_out.n_units)
    thresholds = {
        share: decide(
            held_out.proba[:1],
            held_out.evidence[:1],
            held_out,
            classes,
            max_error=share,
            confidence=CONFIDENCE,
            min_familiarity=least,
        ).promises[None]
        for share in MAX_ERRORS
    }
    correct = held_out.proba.argmax(axis=1) == held_out.labels
    accuracy, low, high = share_interval(correct, held_out.groups)
    return Promises(
        n_examples=len(held_out.labels),
        n_groups=None if held_out.groups is None else held_out.n_units,
        accuracy=accuracy,
        accuracy_interval=(low, high),
        nll=negative_log_likelihood(held_out.labels, held_out.proba),
        nll_of_shares=float(-np.log(shares[held_out.labels]).mean()),
        answered={
            share: 0 if found.value is None else found.n_answered for share, found in thresholds.items()
        },
        needed={share: found.n_needed for share, found in thresholds.items()},
        confidence=CONFIDENCE,
        min_familiarity=least,
    )
