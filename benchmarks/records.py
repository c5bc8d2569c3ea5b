"""What a benchmark writes and the report reads: one record per figure, with what it is compared with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca.files import make_folder, write_json


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What a figure is divided by: a baseline of the same run, or a number whose ``source`` is named."""

    name: str
    seconds: float | None = None
    memory_gib: float | None = None
    value: float | None = None  # in the unit of the record
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound on one number of a record, or on its ratio to the reference ``of`` (by default the first)."""

    text: str
    quantity: str = "seconds"  # or memory_gib, value, over_floor (ours / floor), speedup (alternative / ours)
    of: str = ""
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure: median and quartiles of its time, its peak memory, or another number and its unit."""

    name: str
    n: int | None = None  # points
    m: int | None = None  # particles
    d: int | None = None  # latent dimensions
    c: int | None = None  # classes
    device: str = "cpu"
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: int = 1
    memory_gib: float | None = None
    value: float | None = None
    unit: str = ""
    alternatives: Sequence[Reference] = ()
    floors: Sequence[Reference] = ()
    targets: Sequence[Target] = ()
    series: str = ""  # for growth: the curve that this is a point of
    sweep: str = ""  # and the letter that varies along it
    note: str = ""

    def speedup(self, of: str = "") -> float | None:
        """Time of an alternative divided by ours; None if one of them is not known."""
        return self._ratio(self.alternatives, of, above="theirs")

    def over_floor(self, of: str = "") -> float | None:
        """Our time divided by that of a floor; None if one of them is not known."""
        return self._ratio(self.floors, of, above="ours")

    def verdict(self, target: Target) -> bool | None:
        """Whether a target is met; None if that cannot be said."""
        ratios = {"over_floor": self.over_floor, "speedup": self.speedup}
        plain = ("seconds", "memory_gib", "value")
        if target.quantity not in (*plain, *ratios):
            known = ", ".join((*plain, *ratios))
            raise InvalidInputError(f"{self.name}: unknown quantity {target.quantity!r}; known are {known}.")
        is_plain = target.quantity in plain
        number = getattr(self, target.quantity) if is_plain else ratios[target.quantity](target.of)
        if number is None or (target.at_most is None and target.at_least is None):
            return None
        is_small = target.at_most is None or number <= target.at_most
        return is_small and (target.at_least is None or number >= target.at_least)

    def _ratio(self, references: Sequence[Reference], of: str, above: str) -> float | None:
        """Ratio of seconds; or of values, which are rates: more of them is better, as less of a time is."""
        found = next((reference for reference in references if of in ("", reference.name)), None)
        if found is None:
            return None
        ours, theirs = self.seconds, found.seconds
        if ours is None or theirs is None:
            ours, theirs = found.value, self.value
        if (
            not ours or not theirs or min(ours, theirs) <= 0
        ):  # a difference of two noisy times may be negative
            return None
        return theirs / ours if above == "theirs" else ours / theirs


@dataclass(frozen=True, kw_only=True)
class Results:
    """The records of one run of one benchmark, and the machine they come from."""

    benchmark: str
    environment: Mapping[str, Any]
    records: tuple[Record, ...]
    skipped: tuple[Mapping[str, str], ...] = ()  # name and reason

    def write(self, path: Path) -> Path:
        """Write them as JSON, all or nothing."""
        make_folder(path.parent)
        records = [
            {key: value for key, value in asdict(record).items() if value or isinstance(value, int | float)}
            for record in self.records
        ]
        return write_json(path, {**asdict(self), "records": records})


def read_results(path: Path) -> Results:
    """Read a file that :meth:`Results.write` has written; keys that are not known are left out."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Results(
            benchmark=content["benchmark"],
            environment=content["environment"],
            records=tuple(_read_record(entry) for entry in content["records"]),
            skipped=tuple(content["skipped"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(f"{path} is not a file of benchmark results: {error!r}.") from error


def _read_record(entry: Mapping[str, Any]) -> Record:
    kinds = {"alternatives": Reference, "floors": Reference, "targets": Target}
    parts = {name: tuple(_known(kind, part) for part in entry.get(name, ())) for name, kind in kinds.items()}
    return _known(Record, {**entry, **parts})


def _known(kind: Any, values: Mapping[str, Any]) -> Any:
    names = {field.name for field in fields(kind)}
    return kind(**{key: value for key, value in values.items() if key in names})
