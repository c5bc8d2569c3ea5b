"""Looking for what is suspicious in the training examples, and saying it in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.calibration.audit import KINDS, Audit, Finding
from pnca.calibration.conformal import FloatArray, IntArray, held_out_p_values
from pnca.calibration.decisions import HeldOut
from pnca.calibration.duplicates import MOST_COMPARED, clusters, near_duplicates
from pnca.calibration.labels import doubted_labels
from pnca.calibration.suspicious import (
    ColumnValues,
    copies,
    deciders,
    identifier,
    is_constant,
    names_groups,
)

#: Kinds of findings that are about columns.
OF_COLUMNS = ("identifier", "decider", "copy", "constant", "unused")
_OF_PAIRS = ("shared", "repeated", "contradiction")
#: Fewer examples (groups) of a class are few; a class so many times as frequent as another is an imbalance.
_FEW, _IMBALANCE = 10, 10
#: Interquartile ranges below the lower quartile of the evidence beyond which an example is far out.
_FAR = 5.0
_MOST_NAMED = 6


class Audited(NamedTuple):
    """What is known of the training examples."""

    held_out: HeldOut
    folds: IntArray  # (n,)
    classes: NDArray[Any]  # (c,)
    names: NDArray[Any] | None = None  # (n,), ids; None: rows
    group_names: NDArray[Any] | None = None  # (n,)
    columns: list[ColumnValues] | None = None  # None where inputs have none, or are not kept
    scaled: FloatArray | None = None  # (n, q)

    def named(self, rows: IntArray) -> tuple[Any, ...]:
        """Ids of examples, or their rows."""
        return tuple(rows.tolist() if self.names is None else self.names[rows].tolist())

    def shown(self, rows: IntArray) -> str:
        """Them, as a sentence begins."""
        what = "Row" if self.names is None else "Example"
        names = [repr(name) for name in self.named(rows)]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:_MOST_NAMED])}{more}"

    def label(self, c: int) -> str:
        """A class in a sentence."""
        return repr(self.classes.tolist()[c])


def audit(audited: Audited, notes: tuple[str, ...] = ()) -> Audit:
    """Look for all that is suspicious in training examples.

    Parameters
    ----------
    audited : Audited
        The examples.
    notes : tuple of str
        Why some of it is not there.

    Returns
    -------
    Audit
    """
    missing = (OF_COLUMNS if audited.columns is None else ()) + (_OF_PAIRS if audited.scaled is None else ())
    missing += ("shared", "one group") if audited.held_out.groups is None else ()
    findings = [*_labels(audited), *_classes(audited), *_far_out(audited)]
    named: dict[int, Finding] = {}
    if audited.columns is not None:
        pairs = ((j, _identifier(audited, column)) for j, column in enumerate(audited.columns))
        named = {j: finding for j, finding in pairs if finding is not None}
        findings += [*named.values(), *_columns(audited, audited.columns, set(named))]
    if audited.scaled is not None:
        compared = _without(audited.scaled, audited.columns, set(named))
        findings += _pairs(audited, compared) if compared.shape[1] else ()
        if len(compared) > MOST_COMPARED:
            notes = (*notes, f"Of more than {MOST_COMPARED} examples only equal ones are paired")
    order = {kind: place for place, kind in enumerate(KINDS)}
    findings.sort(key=lambda finding: (order[finding.kind], -finding.strength))
    looked_for = tuple(kind for kind in KINDS if kind not in missing)
    return Audit(tuple(findings), len(audited.folds), looked_for, notes)


def _labels(audited: Audited) -> Iterator[Finding]:
    proba, _, labels, _ = audited.held_out
    for row, given, other, believed in zip(*doubted_labels(proba, labels), strict=True):
        rows = np.array([row])
        yield Finding(
            "doubted label",
            audited.named(rows),
            1 - float(given),
            "probability out of fold that the label is another",
            f"{audited.shown(rows)} has the label {audited.label(labels[row])}, which a model "
            f"not trained on it gives a probability of {_probability(given)}, and {audited.label(other)} one "
            f"of {_probability(believed)}.",
            "Look at the case: is the label wrong, or the case unusual?",
        )


def _classes(audited: Audited) -> Iterator[Finding]:
    labels, groups = audited.held_out.labels, audited.held_out.groups
    n_classes, what = len(audited.classes), "examples" if groups is None else "groups"
    units = labels[:, None] if groups is None else np.unique(np.stack([labels, groups], axis=1), axis=0)
    counts = np.bincount(units[:, 0], minlength=n_classes)
    for c, count in enumerate(counts.tolist()):
        name = (audited.classes.tolist()[c],)
        if groups is not None and count == 1:
            yield Finding(
                "one group",
                name,
                1.0,
                "share of the class in its largest group",
                f"All examples of class {audited.label(c)} are of one group: nothing shows whether the model "
                "knows the class or the group.",
                "Add groups with that class, or leave it out.",
            )
        elif count < _FEW:
            yield Finding(
                "few examples",
                name,
                1 - count / _FEW,
                f"share that is lacking to {_FEW} {what}",
                f"Class {audited.label(c)} has {count} {what}: what is known of it out of fold is a matter "
                "of luck.",
                f"Label more of it, or merge it with another class; {_FEW} are the least.",
            )
    sizes = np.bincount(labels, minlength=n_classes)
    if sizes.max() >= _IMBALANCE * sizes.min():
        least, most = int(sizes.argmin()), int(sizes.argmax())
        yield Finding(
            "imbalance",
            (audited.classes.tolist()[least], audited.classes.tolist()[most]),
            float(sizes[most] / sizes.sum()),
            "share of the most frequent class",
            f"Class {audited.label(most)} has {sizes[most]} examples and {audited.label(least)} has "
            f"{sizes[least]}: accuracy and limits of all answers together hide the rare class.",
            "Read results by class; decide with max_error by class, and with priors if use differs.",
        )


def _far_out(audited: Audited) -> Iterator[Finding]:
    evidence, groups = audited.held_out.evidence, audited.held_out.groups
    low, high = np.quantile(evidence, [0.25, 0.75])
    p_values = held_out_p_values(evidence, groups)
    rows = np.flatnonzero(evidence < low - _FAR * (high - low))
    for row in rows[np.argsort(evidence[rows], kind="stable")]:
        at = np.array([row])
        yield Finding(
            "far out",
            audited.named(at),
            1 - float(p_values[row]),
            "share of the examples with more evidence out of fold",
            f"{audited.shown(at)} is far from all others: its evidence is "
            f"{(low - evidence[row]) / (high - low):.0f} interquartile ranges below the lower quartile.",
            "Look for a wrong unit, a failed measurement, or a case of another kind.",
        )


def _pairs(audited: Audited, scaled: FloatArray) -> Iterator[Finding]:
    found = near_duplicates(scaled)
    labels, groups, n = audited.held_out.labels, audited.held_out.groups, len(scaled)
    closeness = np.zeros(n)
    for side in found.rows.T:
        np.maximum.at(closeness, side, 1 - found.ratios)
    repeated = []
    for rows in clusters(found.rows, n):
        strength = float(closeness[rows].min())
        alike = "equal" if strength == 1 else "almost equal"
        if len(np.unique(labels[rows])) > 1:
            names = ", ".join(audited.label(c) for c in np.unique(labels[rows]).tolist())
            yield _pair_finding(
                "contradiction",
                audited.named(rows),
                strength,
                f"{audited.shown(rows)} are {alike} and have different labels ({names}).",
                "Correct the labels, or accept that these columns cannot tell the cases apart.",
            )
        if groups is not None and len(np.unique(groups[rows])) > 1:
            of_groups = "" if audited.group_names is None else _names(np.unique(groups[rows]), audited)
            yield _pair_finding(
                "shared",
                audited.named(rows),
                strength,
                f"{audited.shown(rows)} are {alike} and belong to different groups{of_groups}: "
                "folds that keep groups together are no longer independent.",
                "Give them one group, or leave the copies out.",
            )
        elif groups is None and len(np.unique(audited.folds[rows])) > 1:
            repeated.append(rows)
    if repeated:
        yield _repeated(audited, repeated)


def _pair_finding(kind: str, what: tuple[Any, ...], strength: float, sentence: str, advice: str) -> Finding:
    meaning = "one if equal, less by the distance relative to that of the tenth neighbour"
    return Finding(kind, what, strength, meaning, sentence, advice)


def _repeated(audited: Audited, repeated: list[IntArray]) -> Finding:
    rows = np.concatenate(repeated)
    return Finding(
        "repeated",
        audited.named(rows),
        len(rows) / len(audited.folds),
        "share of the examples that have a duplicate in another fold",
        f"{audited.shown(rows)} are equal or almost equal, in {len(repeated)} set{'s' * (len(repeated) > 1)} "
        "that different folds share: figures out of fold are too optimistic.",
        "Are groups missing? If they are of one patient or sample each, pass groups= (--group) to fit; leave "
        "plain copies out. With coarse columns different cases may be equal.",
    )


def _without(scaled: FloatArray, columns: list[ColumnValues] | None, named: set[int]) -> FloatArray:
    """Rows without identifiers, which tell equal examples apart."""
    if columns is None or not named:
        return scaled
    parts = [np.full(column.places.shape[1], j not in named) for j, column in enumerate(columns)]
    return scaled[:, np.concatenate(parts)]


def _columns(audited: Audited, columns: list[ColumnValues], named: set[int]) -> Iterator[Finding]:
    for j, column in enumerate(columns):
        if j in named:
            continue
        if not column.places.shape[1]:
            yield _column_finding(
                "unused",
                column.name,
                "no value occurs twice, or all are missing: the model does not use it",
                "Leave it out, or turn it into numbers or categories that repeat.",
            )
        elif is_constant(column):
            yield _column_finding(
                "constant",
                column.name,
                "all examples have the same value: nothing can be learnt from it",
                "Leave it out; if it varies in use, inputs with other values will be unfamiliar.",
            )
    for j, first in copies(columns):
        yield _column_finding(
            "copy",
            columns[j].name,
            f"it says the same as {columns[first].name!r}, which counts twice in every distance",
            "Leave one of the two out.",
        )
    proba, _, labels, _ = audited.held_out
    for j, decider in deciders(columns, labels, audited.folds, proba).items():
        yield Finding(
            "decider",
            (columns[j].name,),
            decider.auroc,
            "AUROC out of fold of the column alone",
            f"Column {columns[j].name!r} alone tells the classes apart (AUROC {decider.auroc:.3f} out of "
            f"fold; the next best column has {decider.next_best:.2f}), and the others add nothing: that is "
            "suspicious, not wrong.",
            "Is it known before the label is? If it was written down after the diagnosis, leave it out.",
        )


def _identifier(audited: Audited, column: ColumnValues) -> Finding | None:
    found = None
    if column.places.shape[1] and audited.held_out.groups is not None:
        found = names_groups(column, audited.held_out.groups)
    if found is None and column.kind in ("number", "duration") and column.places.shape[1] == 1:
        found = identifier(column.places[:, 0], column.name)
    if found is None:
        return None
    why = {
        "row order": "whole numbers that change in one direction with every row",
        "no repetition": "whole numbers that hardly repeat, unlike measured values of their range",
        "name": "whole numbers that are all different, and a name that says so",
        "even spacing": "all different and evenly spaced",
        "group": "one value for each group and no other",
    }[found.reason]
    return Finding(
        "identifier",
        (column.name,),
        1 - found.probability,
        "one minus the probability that a measured column looks so",
        f"Column {column.name!r} looks like an identifier ({why}): new inputs have numbers that no training "
        "example has, which makes every one of them unfamiliar, and folds cannot show it.",
        "Leave it out, and pass it to fit as ids= (--id) or groups= (--group).",
    )


def _column_finding(kind: str, name: Any, why: str, advice: str) -> Finding:  # noqa: ANN401
    return Finding(kind, (name,), 1.0, "one: there is no doubt", f"Column {name!r}: {why}.", advice)


def _names(groups: IntArray, audited: Audited) -> str:
    """Names of groups in a sentence."""
    assert audited.held_out.groups is not None
    assert audited.group_names is not None
    rows = [int(np.flatnonzero(audited.held_out.groups == group)[0]) for group in groups]
    return f" ({', '.join(repr(name) for name in audited.group_names[rows].tolist()[:_MOST_NAMED])})"


def _probability(value: float) -> str:
    return f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
