"""The file of a cell: the predictions of one fit, its record, and digests of both.

It is an npz archive. ``record`` is JSON: what was fitted, its measures and details, the name of the cell, and
the digest of every array; ``digest`` is that of the record. Each test set has arrays ``NAME/compact``,
``NAME/labels`` and ``NAME/evidence``, the last two where there are such. Files of versions 0.1 and 0.2 have
no digests; as a digest can be computed anew, names, shapes and numbers are checked in every file.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, PncaError
from pnca.files import write_atomically
from pnca_studies.arrays import ArrayHeader, Expected, read_headers, read_npz
from pnca_studies.experiments.answers import LEAST_LOG_ODDS, Answers
from pnca_studies.experiments.json_text import check_shape, parse_json

_ADVICE = "continue the run with --resume"
_RECORD, _DIGEST = "record", "digest"
_PARTS = {"compact": np.float16, "labels": np.uint8, "evidence": np.float32}
# Far above what a cell needs: ten log-odds of 18,724 letters, a record of a few thousand characters.
_MAX_RECORD_BYTES, _MAX_ARRAY_BYTES = 1 << 24, 1 << 26
_RECORD_SHAPE = {
    "columns": {str: (str, float)},
    "measures": {str: {str: (float, None)}},
    "details": {
        "seconds": {str: float},
        "device?": str,
        "mean_parameter_kernel_sum?": float,
    },
    "cell?": str,
    "arrays?": {str: str},
}


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


def outline(columns: Mapping[str, Any], test_sets: Mapping[str, int], *, with_answers: bool) -> str:
    """Hash what a complete result has: its columns, the lengths of its test sets, and whether predictions."""
    return fingerprint(columns, test_sets, with_answers)


def write_cell(path: Path, result: CellResult) -> Path:
    """Write a result as an npz file, all of it or nothing; ``path`` names the cell."""
    arrays: dict[str, NDArray[Any]] = {
        f"{name}/{part}": values
        for name, answers in result.answers.items()
        for part in _PARTS
        if (values := getattr(answers, part)) is not None
    }
    if any(array.dtype.hasobject for array in arrays.values()):  # numpy below 2.1 has no switch for it
        raise ValueError("An array of objects would be pickled.")
    record = {
        "columns": result.columns,
        "measures": result.measures,
        "details": result.details,
        "cell": path.stem,
        "arrays": {key: fingerprint(values) for key, values in arrays.items()},
    }
    text = json.dumps(record, allow_nan=False)
    content: dict[str, Any] = {_RECORD: np.array(text), _DIGEST: np.array(fingerprint(text)), **arrays}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **content)

    return write_atomically(path, write)


def read_cell(
    path: Path, test_sets: Collection[str] | None = None, *, expected: str | None = None
) -> CellResult:
    """Read what :func:`write_cell` wrote, with the predictions on these test sets (None: on all).

    What is damaged, incomplete or of another cell is an error that names the file. ``expected`` is the
    :func:`outline` that the result must have.
    """
    headers = read_headers(path, advice=_ADVICE)
    with _naming(path):
        record = _read_record(path, headers)
        result = CellResult(answers={}, **{key: record[key] for key in ("columns", "measures", "details")})
        lengths = _lengths(result)
        shapes = _shapes(lengths, headers)
        if expected not in (None, outline(result.columns, lengths, with_answers=bool(shapes))):
            raise ValueError("it is of another cell, or lacks test sets of the study")
        digests = record.get("arrays")
        if digests is not None and digests.keys() != shapes.keys():
            raise ValueError("its arrays are not those of its record")
        wanted = {
            key: form
            for key, form in shapes.items()
            if test_sets is None or key.rpartition("/")[0] in test_sets
        }
        parts: dict[str, dict[str, Any]] = {}
        for key, values in (read_npz(path, wanted, advice=_ADVICE) if wanted else {}).items():
            if digests is not None and digests[key] != fingerprint(values):
                raise ValueError(f"{key!r} does not have the digest that was written with it")
            name, _, part = key.rpartition("/")
            parts.setdefault(name, {})[part] = values
        answers = {name: Answers(**given) for name, given in parts.items()}
        for name, given in answers.items():
            _check_numbers(name, given)
        return CellResult(
            columns=result.columns, answers=answers, measures=result.measures, details=result.details
        )


def readable(columns: Mapping[str, Any]) -> str:
    """What identifies a cell, as the beginning of the name of its file."""
    words = "-".join(str(value) for value in columns.values())
    return "".join(c if c.isalnum() or c in "-." else "_" for c in words)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn what is wrong with the content of a file into an error that names it."""
    try:
        yield
    except PncaError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptDataError(f"{path} is not a complete result ({error}): {_ADVICE}.") from error


def _read_record(path: Path, headers: Mapping[str, ArrayHeader]) -> dict[str, Any]:
    """Read the record, and check its digest, its shape and whose it is."""
    names = [name for name in (_RECORD, _DIGEST) if name in headers or name == _RECORD]
    single = Expected(shape=(), max_bytes=_MAX_RECORD_BYTES)
    texts = {
        name: str(text) for name, text in read_npz(path, dict.fromkeys(names, single), advice=_ADVICE).items()
    }
    if _DIGEST in texts and texts[_DIGEST] != fingerprint(texts[_RECORD]):
        raise ValueError("its record does not have the digest that was written with it")
    record: dict[str, Any] = parse_json(texts[_RECORD])
    check_shape(record, _RECORD_SHAPE, "its record")
    if ("arrays" in record) != (_DIGEST in texts) or ("cell" in record) != (_DIGEST in texts):
        raise ValueError("its record lacks digests")
    # Of a file without its name, only the readable part can be compared.
    if path.stem != record.get("cell", path.stem):
        raise ValueError(f"it is the result of {record['cell']}")
    if "cell" not in record and not path.stem.startswith(readable(record["columns"])):
        raise ValueError("it is the result of another cell")
    return record


def _lengths(result: CellResult) -> dict[str, int]:
    """How many examples each test set has, by the record."""
    lengths = {name: given["n"] for name, given in result.measures.items()}
    if not lengths or not all(type(n) is int and n > 0 for n in lengths.values()):
        raise ValueError("its record does not say how long its test sets are")
    return lengths  # type: ignore[return-value]


def _shapes(lengths: Mapping[str, int], headers: Mapping[str, ArrayHeader]) -> dict[str, Expected]:
    """What each array of predictions must be; none, or some for every test set."""
    keys = [key for key in headers if key not in (_RECORD, _DIGEST)]
    if not keys:
        return {}  # measures alone
    if unknown := sorted(set(keys) - {f"{name}/{part}" for name in lengths for part in _PARTS}):
        raise ValueError(f"it holds the unknown arrays {unknown}")
    if absent := sorted({f"{name}/compact" for name in lengths} - set(keys)):
        raise ValueError(f"it lacks the arrays {absent}")
    widths = {headers[f"{name}/compact"].shape[1:] for name in lengths}
    width = widths.pop()  # (c,)
    if widths or len(width) != 1 or width[0] < 2:
        raise ValueError("its predictions are not of the same classes on all test sets")
    shapes = {}
    for key in keys:
        name, _, part = key.rpartition("/")
        shape = (lengths[name], *(width if part == "compact" else ()))
        shapes[key] = Expected(shape=shape, dtype=_PARTS[part], max_bytes=_MAX_ARRAY_BYTES)
    return shapes


def _check_numbers(name: str, given: Answers) -> None:
    """Refuse log-odds, labels or evidence that no model can have given."""
    best = given.compact.max(axis=1)  # (n,); NaN where any is
    if not ((best == 0).all() and (given.compact >= LEAST_LOG_ODDS).all()):
        raise ValueError(f"{name!r} has predictions that are not log-odds against the best class")
    if given.labels is not None and given.labels.max() >= given.compact.shape[1]:
        raise ValueError(f"{name!r} has labels of classes that there are not")
    if given.evidence is not None and not np.isfinite(given.evidence).all():
        raise ValueError(f"{name!r} has evidence that is not finite")
