"""The folder of a run: one file per cell, written when the cell is done, and tidy tables made from them.

::

    run.json        settings, seeds, versions, hardware, data, failures
    cells/*.npz     predictions of one fit each, with its settings and timing
    results.jsonl   one row per cell and test set: what was fitted, and its measures
    timings.jsonl   one row per cell; apart, so that results.jsonl does not depend on the machine's load

No file holds a pickle.
"""

import hashlib
import json
import os
import platform
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pnca import __version__
from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.files import prepare_folder, write_atomically, write_json, write_text
from pnca_studies.experiments.answers import Answers

RUN_FILE = "run.json"
_RUN_KEYS = {
    *("study", "options", "protocol", "seeds", "versions", "hardware", "engine"),
    *("cells", "failed", "sessions"),
}
_PARTS = ("compact", "labels", "evidence")

# What numpy, zipfile and json raise for a file that is cut short, altered or something else.
_UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, EOFError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CellResult:
    """The result of one cell."""

    columns: dict[str, Any]  # what identifies the cell in the tidy table
    answers: Mapping[str, Answers]  # by test set; empty if only the record was read
    measures: dict[str, dict[str, float | None]]  # by test set, as from answers.measure
    details: dict[str, Any] = field(default_factory=dict)  # arguments, seconds, warnings; ready for JSON

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of the tidy table per test set."""
        return [{**self.columns, "test_set": name, **values} for name, values in self.measures.items()]


def fingerprint(*contents: Any) -> str:  # noqa: ANN401
    """Hash arrays (shape, type and values), missing arrays (None) or JSON to twelve hexadecimal digits."""
    digest = hashlib.sha256()
    for content in contents:
        if isinstance(content, np.ndarray):
            # Shape and type too, so that no two lists of arrays run together to the same bytes.
            digest.update(f"{content.shape} {content.dtype};".encode())
            digest.update(np.ascontiguousarray(content).tobytes())
        elif content is None:
            digest.update(b"none;")
        else:
            digest.update(json.dumps(content, sort_keys=True, allow_nan=False).encode())
    return digest.hexdigest()[:12]


def write_cell(path: Path, result: CellResult) -> Path:
    """Write a result as an npz file, all of it or nothing."""
    record = {"columns": result.columns, "measures": result.measures, "details": result.details}
    arrays: dict[str, Any] = {"record": np.array(json.dumps(record, allow_nan=False))}
    for name, answers in result.answers.items():
        for part in _PARTS:
            if (values := getattr(answers, part)) is not None:
                arrays[f"{name}/{part}"] = values
    if any(array.dtype.hasobject for array in arrays.values()):  # numpy below 2.1 has no switch for it
        raise ValueError("An array of objects would be pickled.")

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)

    return write_atomically(path, write)


def read_cell(path: Path, test_sets: Collection[str] | None = None) -> CellResult:
    """Read what :func:`write_cell` wrote, with the predictions on these test sets (None: on all)."""
    try:
        # Opened here: given a name, numpy would leave a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            record = json.loads(str(file["record"]))
            parts: dict[str, dict[str, Any]] = {}
            for key in file.files:
                name, _, part = key.rpartition("/")
                if part != "record" and (test_sets is None or name in test_sets):
                    parts.setdefault(name, {})[part] = file[key]
        answers = {name: Answers(**given) for name, given in parts.items()}
        return CellResult(answers=answers, **record)
    except _UNREADABLE as error:
        raise CorruptDataError(
            f"{path} is not a complete result ({error}); continue the run with --resume."
        ) from error


class RunFolder:
    """The folder of a run: ``run.json`` and the files of its cells."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, *, resume: bool) -> "RunFolder":
        """Make the folder of a new run or, to resume it, open that of an earlier one."""
        cls.check(path, resume=resume)
        return cls(prepare_folder(path, marker=RUN_FILE))

    @staticmethod
    def check(path: str | Path, *, resume: bool) -> None:
        """Refuse a folder with an earlier run that is not to be resumed; nothing is written."""
        if (Path(path) / RUN_FILE).exists() and not resume:
            raise InvalidInputError(
                f"{path} holds an earlier run: continue it with --resume, or name another folder."
            )

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """Open the folder of an earlier run, to report on it."""
        if not (Path(path) / RUN_FILE).exists():
            raise MissingDataError(
                f"{path} holds no {RUN_FILE}: name the folder that `pnca reproduce ... --out` wrote."
            )
        return cls(path)

    def begin(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Write ``run.json`` of a run that starts or resumes, and return it; earlier cells stay listed."""
        run = {**content, "failed": {}, "sessions": []}
        if (self.path / RUN_FILE).exists():
            earlier = self.read_run()
            if earlier["study"] != content["study"]:
                raise InvalidInputError(
                    f"{self.path} holds a run of {earlier['study']}, not of {content['study']}: name another "
                    "folder."
                )
            others = [stem for stem in earlier["cells"] if stem not in set(content["cells"])]
            run["sessions"] = earlier["sessions"]
            run["cells"] = [*content["cells"], *(stem for stem in others if self.find(stem) is not None)]
        self.write_run(run)
        return run

    def write_run(self, content: Mapping[str, Any]) -> None:
        """Write ``run.json``."""
        write_json(self.path / RUN_FILE, content)

    def read_run(self) -> dict[str, Any]:
        """Read ``run.json``."""
        try:
            run: dict[str, Any] = json.loads((self.path / RUN_FILE).read_text(encoding="utf-8"))
            absent = sorted(_RUN_KEYS - run.keys())
        except (OSError, ValueError, AttributeError) as error:
            raise CorruptDataError(f"{self.path / RUN_FILE} cannot be read ({error}).") from error
        if absent:
            raise CorruptDataError(f"{self.path / RUN_FILE} is not of a run of this tool: it lacks {absent}.")
        return run

    def write(self, stem: str, result: CellResult) -> None:
        """Write the file of a cell."""
        path = self._cell_path(stem)
        path.parent.mkdir(exist_ok=True)
        write_cell(path, result)

    def find(self, stem: str) -> CellResult | None:
        """Read the file of a cell; None if it is missing or incomplete, so that the cell is run again."""
        try:
            return read_cell(self._cell_path(stem))
        except CorruptDataError:
            return None

    def results(self, test_sets: Collection[str] | None = None) -> Iterator[CellResult]:
        """Read the finished cells in the order of the grid, with predictions on these test sets."""
        for path in map(self._cell_path, self.read_run()["cells"]):
            if path.exists():
                yield read_cell(path, test_sets)

    def n_done(self) -> int:
        """Count the finished cells."""
        return sum(self._cell_path(stem).exists() for stem in self.read_run()["cells"])

    def rows(self) -> list[dict[str, Any]]:
        """Return the tidy table: one row per cell and test set."""
        return [row for result in self.results(test_sets=()) for row in result.rows()]

    def write_tables(self) -> None:
        """Write ``results.jsonl`` and ``timings.jsonl`` from the cells."""
        results = list(self.results(test_sets=()))
        write_json_lines(self.path / "results.jsonl", [row for r in results for row in r.rows()])
        write_json_lines(
            self.path / "timings.jsonl", [{**r.columns, **r.details["seconds"]} for r in results]
        )

    def _cell_path(self, stem: str) -> Path:
        return self.path / "cells" / f"{stem}.npz"


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write one JSON object per line, all of them or nothing; a NaN is an error, for JSON has none."""
    return write_text(
        path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    )


def versions() -> dict[str, str]:
    """Return the versions of what decides the numbers."""
    packages = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "python": platform.python_version(),
        "pnca": __version__,
        **{name: version(name) for name in packages},
    }


def hardware() -> dict[str, Any]:
    """Describe the machine that the run was started on."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
    }


def _processor() -> str:
    """Return the name of the processor, which Linux has only in a file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
