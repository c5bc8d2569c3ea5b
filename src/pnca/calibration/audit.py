"""An audit of the training examples: findings, and what to do about each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pnca.exceptions import MissingExtraError

#: What is looked for, the most harmful first, and what each is called where several are counted.
KINDS = {
    "identifier": "columns that look like identifiers",
    "shared": "examples shared between groups",
    "repeated": "repeated examples in different folds",
    "decider": "columns that decide the class alone",
    "contradiction": "equal examples with different labels",
    "doubted label": "labels that the model doubts",
    "one group": "classes of one group",
    "few examples": "classes with few examples",
    "imbalance": "classes of very different frequency",
    "far out": "examples far from all others",
    "copy": "columns that repeat another",
    "constant": "columns with one value",
    "unused": "columns that are not used",
}
#: Findings of a kind that are printed.
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """Something suspicious in the training examples.

    Attributes
    ----------
    kind : str
        One of ``pnca.calibration.audit.KINDS``.
    what : tuple
        Names of the columns or classes, or the examples: their ids, or without ids their rows.
    strength : float
        From zero to one, larger where it is worse.
    meaning : str
        What the strength is.
    sentence : str
        What was found.
    advice : str
        What to do about it.
    """

    kind: str
    what: tuple[Any, ...]
    strength: float
    meaning: str
    sentence: str
    advice: str


@dataclass(frozen=True, repr=False)
class Audit:
    """Findings about the training examples, the most harmful kind first and then the strongest.

    Attributes
    ----------
    findings : tuple of Finding
        Empty where nothing was found.
    n : int
        Training examples.
    looked_for : tuple of str
        Kinds that were looked for.
    notes : tuple of str
        What could not be looked for, and why.
    """

    findings: tuple[Finding, ...]
    n: int
    looked_for: tuple[str, ...] = tuple(KINDS)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __repr__(self) -> str:
        """All that a user reads: the summary, and up to five findings of each kind."""
        return "\n".join([f"<Audit: {self.summary()}>", *(f"- {line}" for line in self.lines())])

    def lines(self) -> list[str]:
        """Say up to five findings of each kind and what to do, a line each, and how many more there are."""
        found, counts = [], Counter[str]()
        totals = Counter(finding.kind for finding in self.findings)
        for finding in self.findings:
            counts[finding.kind] += 1
            if counts[finding.kind] <= _MOST_SHOWN:
                found.append(f"{finding.sentence} {finding.advice}")
            elif counts[finding.kind] == _MOST_SHOWN + 1:
                found.append(f"... and {totals[finding.kind] - _MOST_SHOWN} more: {KINDS[finding.kind]}.")
        return found

    def summary(self) -> str:
        """Say in a sentence what was found, or what was looked for."""
        totals = Counter(finding.kind for finding in self.findings)
        if totals:
            found = "; ".join(f"{KINDS[kind]}: {totals[kind]}" for kind in KINDS if totals[kind])
        else:
            found = "nothing found. Looked for " + ", ".join(KINDS[kind] for kind in self.looked_for)
        return ". ".join([f"of {self.n} training examples, {found}", *self.notes])

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return a pandas table with a row for each finding (``pip install 'pnca[studies]'``)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "studies") from error
        names = ("kind", "what", "strength", "meaning", "sentence", "advice")
        return pd.DataFrame([[getattr(f, name) for name in names] for f in self], columns=list(names))
