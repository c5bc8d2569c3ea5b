"""What a model remembers of the files that it was fitted on, so that others can be read alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table: which column was what, and how its values were read."""

    target: str
    sorts: Mapping[str, str]  # of each input column, in their order; see pnca.tables.values
    id: str | None = None  # the column that names examples
    group: str | None = None  # the column that says which belong together
    holes: tuple[str, ...] = field(default=())  # further texts that stand for a missing value
