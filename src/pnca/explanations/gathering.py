"""From the arrays of a ledger to cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca import columns as tables
from pnca.calibration.decisions import Decisions
from pnca.explanations.case import (
    LINE,
    NAMED,
    NOBODY,
    OTHERS,
    Agreement,
    Column,
    Decision,
    Example,
    Explanation,
    Explanations,
    Source,
    Usual,
)
from pnca.explanations.inputs import Looks, Typical
from pnca.explanations.ledger import Ledger
from pnca.record import is_table

FloatArray = NDArray[np.float64]

_OF_LAST_STEP = (
    "What is unusual is shown by the columns that the last step of the pipeline gets, in its units."
)


def gathered(
    ledger: Ledger,
    source: Source,
    looks: Looks,
    X: Any,  # noqa: ANN401
    usual: list[Usual] | None,
    decisions: Decisions | None = None,
    names: list[Any] | None = None,
) -> Explanations:
    """A case for each input of X (n, ...), with their familiarities and decisions, if they are known.

    ``names`` (n,) are what the cases are called.
    """
    n = len(ledger.rows)
    named, decided = (
        names or n * [None],
        n * [None] if decisions is None else _decided(decisions, ledger, source),
    )
    given = looks.shown(X, range(n))
    examples = _examples(ledger, source, looks)
    typical = looks.typical(source.record)
    return Explanations(
        Explanation(
            row=i,
            classes=source.classes,
            proba=ledger.proba[i],
            parts=_parts(ledger, i),
            examples=examples[i],
            agreement=_agreement(ledger, i),
            usual=None if usual is None else usual[i],
            deviations=None if ledger.deviations is None else float(ledger.deviations[i]),
            given=given[i],
            names=looks.names,
            source=source,
            decision=decided[i],
            name=named[i],
            **_unusual(ledger, looks, given[i], typical, i),
        )
        for i in range(n)
    )


def in_other_columns(
    found: Explanations,
    X: Any,  # noqa: ANN401
    record: Any | None,  # noqa: ANN401
    names: list[Any] | None,
) -> Explanations:
    """The same cases by the rows of X that a pipeline was given, and of its record (N, ...) if that is known.

    ``names`` are those of the columns that the pipeline's last step gets. Where they are those of X, what is
    unusual is shown by the values of X, too.
    """
    looks = looks_of(X)
    if not looks.parts or found[0].is_picture:
        return found
    given = looks.shown(_as_rows(X), [case.row for case in found])
    rows = sorted({example.row for case in found for example in case.examples})
    shown = [None] * len(rows) if record is None else looks.shown(_as_rows(record), rows)
    of_examples = dict(zip(rows, shown, strict=True))
    is_same = names is not None and list(map(str, looks.names)) == list(map(str, names))
    typical = [Typical()] * len(looks.parts)
    if record is not None:
        typical = looks.typical(replace(found[0].source.record, inputs=_as_rows(record)))
    source = found[0].source
    if not is_same:
        source = replace(source, notes=(*source.notes, _OF_LAST_STEP))
    return Explanations(
        replace(
            case,
            source=source,
            given=own,
            names=looks.names,
            examples=tuple(example._replace(given=of_examples[example.row]) for example in case.examples),
            columns=_by_values(case, looks, own, typical) if is_same else _by_names(case, names),
        )
        for case, own in zip(found, given, strict=True)
    )


def _by_values(
    case: Explanation, looks: Looks, given: tuple[Any, ...], typical: list[Typical]
) -> tuple[Column, ...]:
    """The columns of a case with other names, values and what is typical of them, place by place."""
    places = {repr(name): place for place, name in enumerate(case.names)}
    found = []
    for column in case.columns:
        place = places[repr(column.name)]
        value, low, high = typical[place]
        others = {"value": given[place], "typical": value, "low": low, "high": high}
        found.append(column._replace(name=looks.names[place], **others))
    return tuple(found)


def _by_names(case: Explanation, names: list[Any] | None) -> tuple[Column, ...]:
    """The columns of a case with other names, if there are as many."""
    if names is None or len(names) != len(case.names):
        return case.columns
    of = dict(zip(map(repr, case.names), names, strict=True))
    return tuple(column._replace(name=of[repr(column.name)]) for column in case.columns)


def looks_of(X: Any) -> Looks:  # noqa: ANN401
    """How rows of a table or an array are shown that no model has looked at."""
    if is_table(X):
        return Looks(tuple(tables.Column(name=name, kind="given") for name in X.columns))
    sides = np.shape(_as_rows(X))
    n_columns = sides[1] if len(sides) == 2 else 0
    return Looks(tuple(tables.Column(name=name, kind="given") for name in range(n_columns)))


def _as_rows(X: Any) -> Any:  # noqa: ANN401
    return X if is_table(X) or isinstance(X, np.ndarray) else np.asarray(X)


def _parts(ledger: Ledger, i: int) -> dict[str, FloatArray]:
    arrays = {NAMED: ledger.named, OTHERS: ledger.others, LINE: ledger.line, NOBODY: ledger.nobody}
    return {name: part[i] for name, part in arrays.items() if name != LINE or ledger.has_line}


def _examples(ledger: Ledger, source: Source, looks: Looks) -> list[tuple[Example, ...]]:
    record = source.record
    rows = np.unique(ledger.rows).tolist()
    shown = [None] * len(rows) if record.inputs is None else looks.shown(record.inputs, rows)
    given = dict(zip(rows, shown, strict=True))
    ids = None if record.ids is None else record.ids.tolist()
    labels = record.labels.tolist()

    def of_case(i: int) -> tuple[Example, ...]:
        return tuple(
            Example(
                row=row,
                id=None if ids is None else ids[row],
                label=labels[row],
                share=float(ledger.shares[i, place]),
                distance=None if ledger.distances is None else float(ledger.distances[i, place]),
                given=given[row],
            )
            for place, row in enumerate(ledger.rows[i].tolist())
        )

    return [of_case(i) for i in range(len(ledger.rows))]


def _decided(decisions: Decisions, ledger: Ledger, source: Source) -> list[Any]:
    """The decision of each case, with the limits of its class or of all."""
    by_class = None not in decisions.promises
    broken = decisions.why_not
    found = []
    for place, best in enumerate(ledger.proba.argmax(axis=1).tolist()):
        limited = source.classes.tolist()[best] if by_class else None
        promise = decisions.promises[limited]
        found.append(
            Decision(
                label=decisions.label[place],
                reason=str(decisions.reason[place]),
                threshold=promise.value,
                max_error=promise.max_error,
                of_class=by_class,
                probability=decisions.probability,
                min_familiarity=decisions.min_familiarity,
                why=broken.get(limited, ""),
            )
        )
    return found


def _agreement(ledger: Ledger, i: int) -> Agreement:
    members = ledger.members[:, i]
    return Agreement(
        n_members=len(members),
        votes=np.bincount(members.argmax(axis=1), minlength=members.shape[1]),
        low=members.min(axis=0),
        high=members.max(axis=0),
        experts={name: said[i] for name, said in ledger.experts.items()},
    )


def _unusual(ledger: Ledger, looks: Looks, given: Any, typical: list[Typical], i: int) -> dict[str, Any]:  # noqa: ANN401
    residuals, squares = (None if part is None else part[i] for part in (ledger.residuals, ledger.squares))
    if not looks.parts or looks.shape is not None:
        return {"columns": (), "maps": looks.maps(residuals, squares, ledger.unit)}
    of_class = None if ledger.class_parts is None else ledger.class_parts[i]
    columns = looks.unusual(given, typical, residuals, squares, ledger.unit, of_class)
    return {"columns": columns, "maps": {}}
