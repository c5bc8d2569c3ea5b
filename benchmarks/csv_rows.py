"""Studies as files of rows: one for each fit, so that a run can be continued."""

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a file, or none if it is not there."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def make_missing(
    path: Path, keys: Sequence[str], tasks: Iterable[tuple[Any, ...]], make: Callable[..., dict[str, Any]]
) -> None:
    """Append a row for each task (the values of the keys) of which the file has none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {tuple(row[key] for key in keys) for row in read(path)}
    for task in tasks:
        if tuple(map(str, task)) in known:
            continue
        row, is_new = make(*task), not path.exists()
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            if is_new:
                writer.writeheader()
            writer.writerow(row)
