"""The names of a table's columns."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pnca.exceptions import InvalidInputError

#: Columns that a table may have: with more, rows and columns were taken for each other.
MOST_COLUMNS = 100_000


def check_names(header: Sequence[Any], path: Path) -> tuple[str, ...]:
    """The names of a header, without spaces around; one that is missing is called by its place."""
    if len(header) > MOST_COLUMNS:
        raise InvalidInputError(
            f"{path} has {len(header):,} columns, of {MOST_COLUMNS:,} at most: rows are examples, so it "
            "may lie on its side."
        )
    texts = ["" if name is None else str(name).strip() for name in header]
    if not any(texts):
        raise InvalidInputError(f"{path}: the first line names no columns.")
    names = tuple(name or f"column {place}" for place, name in enumerate(texts, start=1))
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        places = [str(place) for place, name in enumerate(names, start=1) if name == doubled[0]]
        raise InvalidInputError(
            f"{path}: columns {' and '.join(places[:3])} are both called {doubled[0]!r}: rename one."
        )
    return names


def column_of(name: str, names: Sequence[str], path: Path, role: str, others: Collection[str] = ()) -> str:
    """A name that is among those of the table; the error for another one says which is near.

    ``others`` are columns that are known to be something else.
    """
    if name in names:
        return name
    free = [other for other in names if other not in others]
    near = difflib.get_close_matches(name, free, n=1) or [n for n in free if n.lower() == name.lower()]
    hint = f"did you mean {near[0]!r}?" if near else f"there are {_enumerated(names)}."
    raise InvalidInputError(f"{path} has no column {name!r} ({role}): {hint}")


def _enumerated(names: Sequence[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
