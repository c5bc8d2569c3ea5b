"""Cells: one model on one draw, kept as one line of a file."""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pnca
from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.files import write_text
from pnca_studies.experiments.cells import fingerprint
from pnca_studies.experiments.json_text import check_shape, parse_json
from pnca_studies.experiments.store import RUN_FILE

#: Raised when what is done with a draw changes: cells of an older protocol are no longer found.
PROTOCOL = 1
SUFFIX = ".jsonl"
_KEY = "key"
#: Parts of the library that decide what the default predicts.
_METHOD = (
    *("accelerated", "maths", "models", "networks", "training"),
    *("calibration/temperature.py", "estimators/pnca.py", "estimators/neighbour.py"),
)
_SHAPE = {
    **dict.fromkeys(("study", "data", "size", "model", _KEY, "code", "machine", "device"), str),
    "draw": int,
    "n": int,
    "temperature": float,
    "seconds": {str: float},
    "measures": {str: {str: (float, [float])}},
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model on one draw of a data set."""

    study: str = "benchmark"  # or "choices"
    data: str
    size: str
    draw: int  # seed of the draw and of the model
    model: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)  # of PNCA's arguments

    def columns(self) -> dict[str, Any]:
        """Return what identifies the cell in a table."""
        return {key: getattr(self, key) for key in ("study", "data", "size", "draw", "model")}

    def key(self) -> str:
        """Return a fingerprint of what decides the result, but for the code and the machine."""
        return fingerprint(self.columns(), dict(self.changes), PROTOCOL)


Line = dict[str, Any]


class CellFile:
    """A file with one line for each cell that was computed; what is there is not computed again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[Line]:
        """Read the cells, of equal ones the last; a last line that was cut off is left out."""
        return list({line[_KEY]: line for line in read_lines([self.path], missing_ok=True)}.values())

    def append(self, line: Line) -> None:
        """Add a cell; the line is complete or, if the process is killed meanwhile, recognised as cut off."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(line, allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def tidy(self, dropped: Iterable[str] = ()) -> None:
        """Write the file anew without what was cut off, what was computed twice, and cells of these keys."""
        if self.path.exists():
            keep = set(dropped)
            kept = [json.dumps(line) for line in self.lines() if line[_KEY] not in keep]
            write_text(self.path, "".join(f"{text}\n" for text in kept))


def read_lines(paths: Sequence[Path], *, missing_ok: bool = False) -> Iterator[Line]:
    """Read the cells of files, or of all such files of folders."""
    for path in paths:
        files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not missing_ok and not (files and all(file.is_file() for file in files)):
            raise MissingDataError(f"{path} holds no cells: name a file or a folder of `pnca benchmark`.")
        for file in files:
            if file.is_file():
                yield from _lines_of(file)


def _lines_of(path: Path) -> Iterator[Line]:
    text = path.read_text(encoding="utf-8", errors="replace")
    whole, _, _ = text.rpartition("\n")  # what has no end of line was cut off
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            found = parse_json(line)
            check_shape(found, _SHAPE, "it")
        except ValueError as error:
            raise CorruptDataError(
                f"Line {number} of {path} is not a cell of this benchmark ({error}): delete the line, and "
                "the next run computes it again."
            ) from error
        yield found


def is_of_cells(path: Path) -> bool:
    """Tell whether a path is a file or a folder of cells, and not the folder of another run."""
    if not path.is_dir():
        return path.suffix == SUFFIX
    return not (path / RUN_FILE).exists() and any(path.glob(f"*{SUFFIX}"))


@cache
def code_fingerprint() -> str:
    """Hash the code that decides what the default predicts, without its comments and docstrings."""
    root = Path(pnca.__file__).parent
    parts = [root / part for part in _METHOD]
    files = sorted(path for part in parts for path in ([part] if part.is_file() else part.rglob("*.py")))
    return fingerprint([_code(path) for path in files])


def _code(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body.pop(0)
    return ast.dump(tree)


def check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that there are not."""
    known = list(known)
    if unknown := [name for name in names if name not in known]:
        raise InvalidInputError(f"Unknown {kind} {unknown}; known are {', '.join(known)}.")
