"""How a record and its numbers are written in the cells of a table."""

import math
import re
from collections.abc import Iterable

from records import Record, Reference

NOTHING = "-"


def measured(record: Record) -> str:
    """A record's time with its spread, or its other number, or both."""
    parts = []
    if record.seconds is not None:
        has_spread = record.low is not None and record.high is not None and record.repeats > 1
        spread = f" ({duration(record.low)} to {duration(record.high)})" if has_spread else ""
        parts.append(duration(record.seconds) + spread)
    if record.value is not None:
        parts.append(f"{quantity(record.value)} {record.unit}".strip())
    return ", ".join(parts) or NOTHING


def duration(seconds: float) -> str:
    """Write a time with three digits.

    Examples
    --------
    >>> duration(0.02514), duration(1.234), duration(300), duration(-0.0012)
    ('25.1 ms', '1.23 s', '5.00 min', '-1.20 ms')
    """
    for unit, factor, least in (("min", 60.0, 120.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3)):
        if abs(seconds) >= least:
            return f"{three_digits(seconds / factor)} {unit}"
    return f"{three_digits(seconds / 1e-6)} µs"


def memory(gib: float) -> str:
    """Write an amount of memory.

    Examples
    --------
    >>> memory(1.5), memory(0.25)
    ('1.50 GiB', '256 MiB')
    """
    return f"{gib:.2f} GiB" if gib >= 1 else f"{three_digits(1024 * gib)} MiB"


def quantity(value: float) -> str:
    """Write any other number with three digits, and thousands apart.

    Examples
    --------
    >>> quantity(12345.6), quantity(0.1234), quantity(2e-5)
    ('12,346', '.123', '2e-05')
    """
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if 0 < size < 1e-3 else _number(value, 3 if size < 1 else 2)


def three_digits(value: float | None) -> str:
    """Three digits that count, without an exponent.

    Examples
    --------
    >>> three_digits(0.01234), three_digits(1.5), three_digits(1234.5), three_digits(None)
    ('.0123', '1.50', '1234', '-')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    return "0" if value == 0 else _number(value, max(0, 2 - math.floor(math.log10(abs(value)))))


def _number(value: float, digits: int) -> str:
    """A number without a zero before the point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def against(record: Record, reference: Reference) -> str:
    """An alternative, and how many times as long it takes."""
    ratio, amount = ratio_of(record.speedup(reference.name)), amount_of(reference, record)
    if not ratio:
        return f"{reference.name} ({amount})"
    if record.seconds is not None and reference.seconds is not None:
        return f"{reference.name} takes {ratio}as long ({amount})"
    return f"{ratio}{reference.name} ({amount})"


def over(record: Record, reference: Reference) -> str:
    """How many times as long as a floor the record takes."""
    return f"{ratio_of(record.over_floor(reference.name))}{reference.name} ({amount_of(reference, record)})"


def amount_of(reference: Reference, record: Record) -> str:
    """The numbers of a reference, in the unit of the record, and their source."""
    parts = [] if reference.seconds is None else [duration(reference.seconds)]
    parts += [] if reference.memory_gib is None else [memory(reference.memory_gib)]
    parts += [] if reference.value is None else [f"{quantity(reference.value)} {record.unit}".strip()]
    return ", ".join([*parts, *filter(None, [reference.source])]) or NOTHING


def ratio_of(ratio: float | None) -> str:
    """A ratio as the beginning of a phrase; nothing if it is not known."""
    return "" if ratio is None else f"{three_digits(ratio)} times "


def lines(parts: Iterable[str]) -> str:
    """Lines of one cell."""
    return "<br>".join(parts) or NOTHING
