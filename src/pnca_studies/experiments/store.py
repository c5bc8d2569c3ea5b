"""The folder of a run: one file per cell, written when the cell is done, and tidy tables made from them.

::

    run.json        options, settings, seeds, versions, hardware, data, failures, and a digest of all that
    cells/*.npz     predictions of one fit each, with its settings, timing and digests
    results.jsonl   one row per cell and test set: what was fitted, and its measures
    timings.jsonl   one row per cell; apart, so that results.jsonl does not depend on the machine's load

No file holds a pickle.
"""

import json
import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pnca import __version__
from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError, PncaError
from pnca.files import (
    LOCK,
    make_folder,
    open_to_read,
    own_folder,
    prepare_folder,
    write_json,
    write_text,
)
from pnca_studies.experiments.cells import CellResult, fingerprint, read_cell, write_cell
from pnca_studies.experiments.json_text import check_shape, parse_json

RUN_FILE, _CELLS = "run.json", "cells"
_MAX_RUN_BYTES = 1 << 26  # a benchmark of 6,600 fits takes a megabyte
_RUN_SHAPE = {
    "study": str,
    "options": {
        "trials": (int, None),
        "train_sizes": ([int], None),
        "models": ([str], None),
        "quick": bool,
    },
    "protocol": {"data?": {str: object}, "test_sets?": {str: object}, "temperature_folds?": [int]},
    "seeds": str,
    "models?": {str: {str: object}},
    "versions": {str: str},
    "hardware": {"processor": str, "cores": (int, None), "system": str},
    "engine": {"name": str, "jobs": int, "scheduler": (str, None)},
    "cells": {str: (str, None)},
    "failed": {str: (str, None)},
    "sessions": [{"fits": int, "seconds": float}],
    "command?": {str: (bool, int, str)},
}
#: What must stay as it is for the fits of two sessions to be of one run.
_LASTING = ("options", "protocol", "versions")


class RunFolder:
    """The folder of a run: ``run.json`` and the files of its cells."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        #: What is wrong with the file of a cell, by cell, of those that were looked at.
        self.damaged: dict[str, str] = {}
        self._whole: set[str] = set()
        self._outlines: dict[str, str | None] = {}

    @classmethod
    def create(cls, path: str | Path, *, resume: bool) -> "RunFolder":
        """Make the folder of a new run or, to resume it, open that of an earlier one."""
        cls.check(path, resume=resume)
        has_cells_alone = resume and not cls(path).has_run
        return cls(prepare_folder(path, marker=_CELLS if has_cells_alone else RUN_FILE))

    @staticmethod
    def check(path: str | Path, *, resume: bool) -> None:
        """Refuse a folder that is in use, has a run that is not to be resumed, or none that is to be."""
        folder, has_run = Path(path), RunFolder(path).has_run
        if (folder / LOCK).exists():
            with own_folder(folder):
                pass
        if not resume and has_run:
            raise InvalidInputError(
                f"{path} holds an earlier run: continue it with --resume, or name another folder."
            )
        if resume and not (has_run or (folder / _CELLS).is_dir()):
            raise MissingDataError(
                f"{path} holds no run to continue: name the folder of one, or leave --resume out to start it."
            )

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """Open the folder of an earlier run, to report on it."""
        if not (folder := cls(path)).has_run:
            raise MissingDataError(
                f"{path} holds no {RUN_FILE}: name the folder that `pnca reproduce ... --out` wrote."
            )
        return folder

    @property
    def has_run(self) -> bool:
        """Whether there is a ``run.json``; a run whose own was deleted, because it was damaged, has cells."""
        return (self.path / RUN_FILE).exists()

    def begin(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Write ``run.json`` of a run that starts or resumes, and return it; earlier cells stay listed.

        The folder must be the caller's own: what a process that was killed left half written is removed.
        """
        run = {**_as_json(content), "failed": {}, "sessions": []}
        if self.has_run:
            earlier = self.recall(run["study"])
            self._check_same(earlier, run)
            others = {stem: of for stem, of in earlier["cells"].items() if stem not in run["cells"]}
            run["sessions"] = earlier["sessions"]
            run["cells"] |= {stem: of for stem, of in others.items() if self.find(stem) is not None}
        for stem in run["cells"]:
            if (path := self._cell_path(stem)).is_dir():
                raise InvalidInputError(f"{path} is a folder, where a result belongs: move it away.")
        for unfinished in (*self.path.glob(f"{_CELLS}/.*.npz.*.tmp"), *self.path.glob(f".{RUN_FILE}.*.tmp")):
            unfinished.unlink(missing_ok=True)
        self.write_run(run)
        make_folder(self.path / _CELLS, "move away what is there")
        return run

    def recall(self, *studies: str) -> dict[str, Any]:
        """Read ``run.json`` of a run that is to be continued, and refuse one of other studies than these."""
        run = self.read_run()
        if run["study"] not in studies:
            wanted = " or ".join(studies)
            raise InvalidInputError(
                f"{self.path} holds a run of {run['study']}, not of {wanted}: name another folder."
            )
        return run

    def _check_same(self, earlier: Mapping[str, Any], run: Mapping[str, Any]) -> None:
        """Refuse to mix two runs: their fits could not be compared, and none would be found again."""
        if different := [
            f"{key} ({', '.join(names)})" for key in _LASTING if (names := _different(earlier[key], run[key]))
        ]:
            raise InvalidInputError(
                f"{self.path} holds a run with other {' and other '.join(different)}: continue it with "
                "those, or name another folder."
            )

    def write_run(self, content: Mapping[str, Any]) -> None:
        """Write ``run.json``."""
        content = _as_json(content)
        write_json(self.path / RUN_FILE, {**content, "digest": fingerprint(content)})
        self._outlines = _outlines(content["cells"])

    def read_run(self) -> dict[str, Any]:
        """Read ``run.json``; its cells are names with the outline of each, None where that is not known."""
        path = self.path / RUN_FILE
        try:
            with open_to_read(path) as file:
                content = file.read(_MAX_RUN_BYTES + 1)
            if len(content) > _MAX_RUN_BYTES:
                raise ValueError("it is too long")
            run: dict[str, Any] = parse_json(content)
            check_shape(run, {str: object})
            if run.pop("digest", None) not in (None, fingerprint(run)):
                raise ValueError("its content does not have the digest that was written with it")
            run = {"models": {}, **run, "cells": _outlines(run.get("cells"))}
            check_shape(run, _RUN_SHAPE)
            if wrong := [stem for stem in run["cells"] if Path(stem).name != stem or "\0" in stem]:
                raise ValueError(f"{wrong[0]!r} cannot be the name of a cell")
        except PncaError:
            raise
        except (OSError, ValueError) as error:
            raise CorruptDataError(
                f"{path} is not of a run of this tool, or damaged ({error}). Finished fits are kept: delete "
                "it, and give the command of the run again, with all of its options and --resume."
            ) from error
        self._outlines = run["cells"]
        return run

    def write(self, stem: str, result: CellResult) -> None:
        """Write the file of a cell."""
        path = self._cell_path(stem)
        path.parent.mkdir(exist_ok=True)
        write_cell(path, result)
        self.damaged.pop(stem, None)
        self._whole.add(stem)

    def find(self, stem: str) -> CellResult | None:
        """Read the file of a cell; None if it is missing or, as ``damaged`` then says, not whole."""
        path = self._cell_path(stem)
        if not os.path.lexists(path):
            return None
        try:
            result = read_cell(path, expected=self._outlines.get(stem))
        except PncaError as error:
            self.damaged[stem] = str(error)
            return None
        self._whole.add(stem)
        return result

    def results(self, test_sets: Collection[str] | None = None) -> Iterator[CellResult]:
        """Read the cells that are whole, in the order of the grid, with predictions on these test sets."""
        for stem in self.finished():
            yield read_cell(self._cell_path(stem), test_sets)

    def finished(self) -> list[str]:
        """Name the cells that are whole; each file is checked once."""
        cells = self.read_run()["cells"]
        return [stem for stem in cells if stem in self._whole or self.find(stem) is not None]

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
        return self.path / _CELLS / f"{stem}.npz"


def _as_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return content as it is after it was written and read."""
    read: dict[str, Any] = json.loads(json.dumps(content, allow_nan=False))
    return read


def _outlines(cells: Any) -> Any:  # noqa: ANN401
    """The outline of each cell by name; versions 0.1 and 0.2 listed names alone."""
    is_list = isinstance(cells, list) and all(isinstance(stem, str) for stem in cells)
    return dict.fromkeys(cells) if is_list else cells


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Name the entries in which two mappings differ."""
    return [name for name in dict.fromkeys([*one, *other]) if one.get(name) != other.get(name)]


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
