"""What a benchmark writes and the report reads: one record a figure, beside what it is compared with."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca.files import make_folder, write_json


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Something measured, or published, that a figure is divided by.

    Attributes
    ----------
    name : str
        What it is.
    seconds, memory_gib, value : float or None
        Its time, its peak memory, or another number of the same unit as the record's.
    source : str
        Where the number comes from if it was not measured in the same run.
    """

    name: str
    seconds: float | None = None
    memory_gib: float | None = None
    value: float | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound on one number of a record.

    Attributes
    ----------
    text : str
        The bound in words.
    quantity : str
        ``"seconds"``, ``"memory_gib"``, ``"value"``, ``"over_floor"`` (seconds divided by the floor's) or
        ``"speedup"`` (the alternative's seconds divided by ours).
    of : str
        Name of the floor or alternative that is meant; by default the first.
    at_most, at_least : float or None
        The bound.
    met : bool or None
        A verdict reached elsewhere; used only where there is no bound to compute it from.
    """

    text: str
    quantity: str = "seconds"
    of: str = ""
    at_most: float | None = None
    at_least: float | None = None
    met: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure.

    Attributes
    ----------
    name : str
        What was measured.
    n, m, d, c : int or None
        Points, particles, latent dimensions, classes.
    device : str
        Where it ran.
    seconds, low, high : float or None
        Median time and the quartiles of the repetitions.
    repeats : int
        How many there were.
    memory_gib : float or None
        Peak memory.
    value, unit : float or None, str
        Another number, such as an accuracy or rows a second.
    alternatives, floors : sequence of Reference
        What it is compared with; what it cannot be faster than.
    targets : sequence of Target
        What it should reach.
    series, sweep : str
        For growth: which curve this is a point of, and the letter that varies.
    note : str
        What one must know to read the number.
    """

    name: str
    n: int | None = None
    m: int | None = None
    d: int | None = None
    c: int | None = None
    device: str = "cpu"
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: int = 1
    memory_gib: float | None = None
    value: float | None = None
    unit: str = ""
    alternatives: tuple[Reference, ...] = ()
    floors: tuple[Reference, ...] = ()
    targets: tuple[Target, ...] = ()
    series: str = ""
    sweep: str = ""
    note: str = ""

    def speedup(self, of: str = "") -> float | None:
        """Time of an alternative divided by ours; None if one of them is not known."""
        return _ratio(_find(self.alternatives, of), self, inverse=True)

    def over_floor(self, of: str = "") -> float | None:
        """Our time divided by that of a floor; None if one of them is not known."""
        return _ratio(_find(self.floors, of), self, inverse=False)

    def verdict(self, target: Target) -> bool | None:
        """Whether a target is met; None if that cannot be said."""
        measured = {
            "seconds": self.seconds,
            "memory_gib": self.memory_gib,
            "value": self.value,
            "over_floor": self.over_floor(target.of),
            "speedup": self.speedup(target.of),
        }
        if target.quantity not in measured:
            raise InvalidInputError(
                f"{self.name}: unknown quantity {target.quantity!r}; known are {', '.join(measured)}."
            )
        if target.at_most is None and target.at_least is None:
            return target.met
        number = measured[target.quantity]
        if number is None:
            return None
        is_small = target.at_most is None or number <= target.at_most
        is_large = target.at_least is None or number >= target.at_least
        return is_small and is_large


@dataclass(frozen=True, kw_only=True)
class Results:
    """The records of one run of one benchmark, and the machine they come from."""

    benchmark: str
    environment: Mapping[str, Any]
    records: tuple[Record, ...]
    skipped: tuple[Mapping[str, str], ...] = field(default=())  # name and reason

    def write(self, path: Path) -> Path:
        """Write them as JSON, all or nothing."""
        make_folder(path.parent)
        return write_json(path, {**asdict(self), "records": [_without_blanks(r) for r in self.records]})


def read_results(path: Path) -> Results:
    """Read a file of results.

    Parameters
    ----------
    path : Path
        Written by :meth:`Results.write`, or a bare list of records. In a record ``alternative``, ``floor``
        and ``target`` may stand for a list of one; keys that are not known are left out.

    Returns
    -------
    Results
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(content, list):
        content = {"records": content}
    return Results(
        benchmark=content.get("benchmark", path.stem),
        environment=content.get("environment", content.get("machine", {})),
        records=tuple(_read_record(entry, path.name) for entry in content.get("records", [])),
        skipped=tuple(content.get("skipped", ())),
    )


def _read_record(entry: Mapping[str, Any], file: str) -> Record:
    if "name" not in entry:
        raise InvalidInputError(f"{file}: a record has no name; its keys are {sorted(entry)}.")
    parts = {
        "alternatives": tuple(_known(Reference, part) for part in _listed(entry, "alternative")),
        "floors": tuple(_known(Reference, part) for part in _listed(entry, "floor")),
        "targets": tuple(_known(Target, part) for part in _listed(entry, "target")),
    }
    return _known(Record, {**entry, **parts})


def _listed(entry: Mapping[str, Any], name: str) -> Iterable[Mapping[str, Any]]:
    """What stands under a name: in the plural a list, in the singular one, or nothing."""
    found = entry.get(f"{name}s", entry.get(name))
    found = [] if found is None else found
    return found if isinstance(found, list | tuple) else [found]


def _known(kind: Any, values: Mapping[str, Any]) -> Any:
    names = {f.name for f in fields(kind)}
    return kind(**{key: value for key, value in values.items() if key in names})


def _find(references: tuple[Reference, ...], name: str) -> Reference | None:
    if not name:
        return references[0] if references else None
    return next((reference for reference in references if reference.name == name), None)


def _ratio(reference: Reference | None, record: Record, *, inverse: bool) -> float | None:
    """Ours over theirs, or theirs over ours: in seconds, or in values of something that is a rate."""
    if reference is None:
        return None
    ours, theirs = record.seconds, reference.seconds
    if ours is None or theirs is None:
        # More of a rate is better, as less of a time is.
        ours, theirs, inverse = record.value, reference.value, not inverse
    if not ours or not theirs or min(ours, theirs) <= 0:  # a difference of two noisy times may be negative
        return None
    return theirs / ours if inverse else ours / theirs


def _without_blanks(record: Record) -> dict[str, Any]:
    entries = asdict(record).items()
    return {key: value for key, value in entries if value is not None and not _is_empty(value)}


def _is_empty(value: object) -> bool:
    return isinstance(value, str | tuple) and not value
