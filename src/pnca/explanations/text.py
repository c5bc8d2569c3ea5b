"""A case as text, for a terminal."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pnca.calibration.decisions import UNFAMILIAR
from pnca.record import is_missing

if TYPE_CHECKING:
    from pnca.explanations.case import Decision, Example, Explanation, Explanations, WhatIf

#: Columns that are listed, cases that are printed, letters of a value.
MOST_COLUMNS, MOST_CASES, MOST_LETTERS = 6, 3, 24
#: What columns are compared with: the other columns of the input, the named examples, the nearest class.
UNLIKE = ("unlike the others", "unlike the examples", "unlike any class")
#: Letters of a line, where that can be chosen.
_WIDTH = 100
#: Classes whose parts are listed; of more the least probable are added up.
_MOST_CLASSES = 10
#: Letters of the name of a column, and of that of a case, which may be a path.
_MOST_IN_NAMES, MOST_IN_CASES = 40, 100


def case_text(case: Explanation) -> str:
    """The case in about thirty lines."""
    said = sentences(case)
    blocks = [
        heading(case),
        *(["\n".join(_wrapped(sentence) for sentence in said)] if said else []),
        in_columns(*parts_table(case)),
        _examples_text(case),
    ]
    if case.columns:
        blocks.append(in_columns(*columns_table(case)))
    blocks += [_wrapped(note) for note in case.notes]
    return "\n\n".join(blocks)


def heading(case: Explanation) -> str:
    """What the case is called, what is most probable, and whether that is no answer."""
    called = str(case.row if case.number is None else case.number)
    if case.name is not None:
        place = "" if case.number is None else f" (row {called})"
        called = f"{short(case.name, MOST_IN_CASES)}{place}"
    text = f"Case {called}: predicted {short(case.label)}, probability {decimal(case.proba[case.best])}"
    is_open = case.decision is not None and not case.decision.is_answered
    return f"{text}, not answered" if is_open else text


def cases_text(cases: Explanations) -> str:
    """The first cases, and how many there are."""
    shown = [case_text(case) for case in cases[:MOST_CASES]]
    if len(cases) > MOST_CASES:
        shown.append(f"... and {len(cases) - MOST_CASES} more cases: print(explanations[{MOST_CASES}])")
    return "\n\n\n".join(shown)


def what_if_text(found: WhatIf) -> str:
    """What the answers are with and without a change."""
    lines = [f"What if: {found.change}"]
    for before, after in zip(found.before, found.after, strict=True):
        a, b = int(before.argmax()), int(after.argmax())
        old, new = (short(found.classes.tolist()[place]) for place in (a, b))
        lines.append(f"  {old} {decimal(before[a])} -> {new} {decimal(after[b])}")
    from pnca.explanations.case import HELD_FIXED

    return "\n".join([*lines, f"  {HELD_FIXED}"])


def sentences(case: Explanation) -> list[str]:
    """What is said in words: decision, familiarity, agreement, distance from the principal subspace."""
    found = [] if case.decision is None else [decision_sentence(case, case.decision)]
    if (usual := case.usual) is not None:
        n_less = round(usual.familiarity * (usual.n_units + 1)) - 1
        found.append(
            f"Familiarity {decimal(usual.familiarity)}: {n_less or 'none'} of {usual.n_units} {usual.units} "
            "had as little evidence out of fold."
        )
    agreement, name = case.agreement, short(case.label)
    if agreement.n_members > 1:
        low, high = decimal(agreement.low[case.best]), decimal(agreement.high[case.best])
        n_same = agreement.same(case.best)
        found.append(
            f"Agreement: {n_same} of {agreement.n_members} particles name {name}, with probabilities of it "
            f"from {low} to {high}."
        )
    if agreement.experts:
        said = [f"{expert} {decimal(p[case.best])}" for expert, p in agreement.experts.items()]
        found.append(f"Experts give {name}: {', '.join(said)}.")
    if case.deviations is not None:
        found.append(
            f"Distance from the principal subspace: {case.deviations:+.1f} standard deviations from the "
            "typical one; five in six training inputs are below +1."
        )
    if new := [short(column.name) for column in case.columns if column.is_new]:
        found.append(f"Values that no training example had: {', '.join(new)}.")
    return found


def decision_sentence(case: Explanation, decision: Decision) -> str:
    """Whether the model answers, and why."""
    answers = f"the answers {short(case.label)}" if decision.of_class else "all answers"
    promise = f"at most {100 * decision.max_error:.2g} % of {answers} are wrong"
    promise += f", with confidence {decimal(decision.probability).rstrip('0')}"
    if decision.is_answered:
        return f"Decision: answered {short(decision.label)}. For inputs like the training examples {promise}."
    if decision.reason == UNFAMILIAR:
        familiarity = "" if case.usual is None else decimal(case.usual.familiarity)
        below = _below(familiarity, decimal(decision.min_familiarity).rstrip("0"))
        return f"Decision: not answered, because familiarity {below} (unfamiliar)."
    if decision.threshold is None:
        return f"Decision: not answered (cannot promise). {decision.why}."
    below = _below(decimal(case.proba[case.best]), decimal(decision.threshold))
    return f"Decision: not answered, because probability {below} (ambiguous). From there on {promise}."


def _below(value: str, limit: str) -> str:
    return f"{value} is {'just ' * (value == limit)}below {limit}"


def parts_table(case: Explanation) -> tuple[list[str], list[list[str]]]:
    """What the probability of each class consists of: head and rows."""
    names, order = list(map(short, case.classes.tolist())), np.arange(len(case.classes))
    if len(order) > _MOST_CLASSES:
        order = np.argsort(-case.proba, kind="stable")
    shown, rest = np.split(order, [min(len(order), _MOST_CLASSES)])

    def row(name: str, part: Any) -> list[str]:  # noqa: ANN401
        return [name, *map(decimal, part[shown]), *([decimal(part[rest].sum())] if len(rest) else [])]

    head = ["carried by", *(names[c] for c in shown), *([f"{len(rest)} others"] if len(rest) else [])]
    return head, [*(row(*part) for part in case.parts.items()), row("sum", case.proba)]


def examples_table(case: Explanation, most: int = MOST_COLUMNS) -> tuple[list[str], list[list[str]]]:
    """The examples that carry most: head and rows, with the columns that matter most."""
    has_values = any(isinstance(example.given, tuple) for example in case.examples)
    picked = places_of(case)[:most] if has_values else []
    head = ["training example", "label", "share", "distance", *(short(case.names[place]) for place in picked)]
    rows = [
        [
            name_of(example),
            short(example.label),
            decimal(example.share),
            "" if example.distance is None else f"{example.distance:.2f}",
            *(short(example.given[place]) for place in picked),
        ]
        for example in case.examples
    ]
    own = ["this case", "", "", "", *(short(case.given[place]) for place in picked)]
    return head, [*rows, own] if picked else rows


def columns_table(case: Explanation, most: int = MOST_COLUMNS) -> tuple[list[str], list[list[str]]]:
    """The most unusual columns: head and rows."""
    head = ["column", "value", "typical", "range", *UNLIKE]
    rows = [
        [
            short(column.name, _MOST_IN_NAMES),
            short(column.value) + " (new)" * column.is_new,
            short(column.typical),
            "" if column.low is None else f"{short(column.low)} to {short(column.high)}",
            part_text(column.residual, column.residual_share, is_signed=column.low is not None),
            part_text(column.distance, column.distance_share),
            "" if column.class_share is None else f"{round(100 * column.class_share)} %",
        ]
        for column in case.columns[:most]
    ]
    known = [place for place, values in enumerate(zip(*rows, strict=True)) if any(values)]
    return [head[place] for place in known], [[row[place] for place in known] for row in rows]


def places_of(case: Explanation) -> list[int]:
    """Places of its columns in the table, the most unusual first; then those of which nothing is said."""
    places = {repr(name): place for place, name in enumerate(case.names)}
    first = [places[repr(column.name)] for column in case.columns if repr(column.name) in places]
    return first + [place for place in places.values() if place not in first]


def name_of(example: Example) -> str:
    """The id of an example, or its row."""
    return short(example.id) if example.id is not None else f"row {example.row}"


def part_text(deviations: float | None, share: float | None, *, is_signed: bool = False) -> str:
    """Standard deviations, and the share in all columns: ``+2.1 sd (40 %)``.

    >>> part_text(-0.04, 0.1)
    '0.0 sd (10 %)'
    """
    if deviations is None or share is None:
        return ""
    return f"{round(deviations, 1) + 0.0:{'+' * is_signed}.1f} sd ({100 * share:.0f} %)"


def short(value: Any, most: int = MOST_LETTERS) -> str:  # noqa: ANN401
    """A value in few letters, on one line.

    >>> short(0.123456), short("a" * 30), short(None)
    ('0.1235', 'aaaaaaaaaaaaaaaaaaaaaaa…', 'missing')
    """
    if is_missing(value):
        return "missing"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}" if abs(value) < 1e15 or not np.isfinite(value) else f"{value:.3e}"
    if isinstance(value, datetime.datetime):
        value = value.date() if value.time() == datetime.time() and value.tzinfo is None else value
    text = " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def decimal(share: float) -> str:
    """A probability with three digits; what is smaller is not called zero.

    >>> decimal(0.25), decimal(0.0), decimal(1e-5), decimal(0.99999)
    ('.250', '0', '<.001', '>.999')
    """
    if share <= 0:
        return "0"
    if share >= 1:
        return "1"
    if share < 0.0005:
        return "<.001"
    return f"{share:.3f}".removeprefix("0") if share < 0.9995 else ">.999"


def _examples_text(case: Explanation) -> str:
    """The examples with as many columns as a line has room for."""
    texts = (in_columns(*examples_table(case, most)) for most in range(MOST_COLUMNS, -1, -1))
    fitting = (text for text in texts if max(map(len, text.splitlines())) <= _WIDTH)
    return next(fitting, in_columns(*examples_table(case, 0)))


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def in_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in columns as wide as they must be, the first to the left."""
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    shown = []
    for line in lines:
        first, *others = (
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        shown.append("  " + "  ".join([first, *others]).rstrip())
    return "\n".join(shown)
