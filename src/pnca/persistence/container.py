"""A file of two parts, JSON and tensors, with checksums: a zip archive that can be written in one way only.

It knows no model. A reader takes the layout from the manifest, which comes first, compares it with the
length of the file before anything else is read, and in the end every byte with what a writer would have
written. So nothing can be compressed, linked, hidden, doubled or overlap, and no name is ever a path.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, NamedTuple, NoReturn

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.files import open_to_read

#: Version of the files; raise it when their content changes, and keep on reading the earlier ones.
FORMAT = 1
#: Names of the parts, in their order. The manifest is first in every version.
MANIFEST, MODEL, TENSORS = "manifest.json", "model.json", "tensors.safetensors"
#: Most bytes of each, and of the whole: JSON takes ten times its size in memory, and zip counts to 2 ** 32.
_MOST = {MANIFEST: 2**16, MODEL: 2**26, TENSORS: 2**32 - 2**27}

#: Records of a zip archive: before each part, of each part at the end, and the last one.
_LOCAL, _CENTRAL, _END = Struct("<4s5H3I2H"), Struct("<4s6H3I5H2I"), Struct("<4s4H2IH")
_VERSION, _FIRST_OF_1980 = 20, 0x21
_ADVICE = "take another copy of it, or save the model again"


class Content(NamedTuple):
    """What a file holds."""

    about: dict[str, Any]  # version of the library, and a summary
    model: Any  # JSON
    tensors: bytes  # in the format of safetensors


def packed(content: Content) -> list[bytes]:
    """The bytes of a file, in pieces.

    >>> b"".join(packed(Content({"pnca": "0.2.0"}, {}, b"")))[30:43]
    b'manifest.json'
    """
    parts = {MODEL: to_json(content.model), TENSORS: content.tensors}
    manifest = {"format": FORMAT, **content.about, "parts": [_described(*part) for part in parts.items()]}
    parts = {MANIFEST: to_json({**manifest, "digest": _digest(to_json(manifest))}), **parts}
    for name, part in parts.items():
        if len(part) > _MOST[name]:
            raise InvalidInputError(
                f"The model cannot be saved: its {name} has {len(part):,} bytes, of {_MOST[name]:,} at most."
            )
    return [piece for name, part in parts.items() for piece in (_before(name, part), part)] + [_after(parts)]


def unpacked(path: str | Path) -> Content:
    """What a file holds, as it was written; an error if a single bit is another one."""
    with open_to_read(path, "model file") as file:
        size = os.fstat(file.fileno()).st_size
        found = {MANIFEST: _manifest(file, path, size)}
        manifest = from_json(found[MANIFEST], path)
        described = _parts(manifest, path)
        lengths = {MANIFEST: len(found[MANIFEST])} | {name: length for name, length, _ in described}
        if size != _size(lengths):
            refuse(path, "it is cut off, or not as long as it says")
        for name, length, digest in described:
            head = file.read(_LOCAL.size + len(name))
            found[name] = part = file.read(length)
            if head != _before(name, part) or _digest(part) != digest:
                refuse(path, f"its {name} is not what was written")
        if file.read() != _after(found):
            refuse(path, "its end is not what was written")
    return Content(manifest, from_json(found[MODEL], path), found[TENSORS])


def to_json(value: Any) -> bytes:  # noqa: ANN401
    """JSON in ASCII, always the same for the same value."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def from_json(text: bytes, path: str | Path) -> Any:  # noqa: ANN401
    """The value of JSON; a name that occurs twice, or a number that JSON lacks, is damage."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a name occurs twice")
        return found

    def finite(number: str) -> float:
        if not math.isfinite(found := float(number)):
            raise ValueError(f"{number} is no number")
        return found

    try:
        return json.loads(
            text.decode("ascii"), object_pairs_hook=unique, parse_constant=finite, parse_float=finite
        )
    except (ValueError, RecursionError):
        refuse(path, "it holds text that is no JSON")


def refuse(path: str | Path, reason: str) -> NoReturn:
    """Refuse a file for a reason."""
    raise CorruptDataError(f"{path} is damaged ({reason}): {_ADVICE}.") from None


def _manifest(file: BinaryIO, path: str | Path, size: int) -> bytes:
    """The bytes of the first part, by which a file is known to be a model."""
    head = file.read(_LOCAL.size + len(MANIFEST))
    if len(head) < _LOCAL.size + len(MANIFEST) or head[_LOCAL.size :] != MANIFEST.encode():
        raise CorruptDataError(f"{path} is no model file of pnca, or it is damaged: {_ADVICE}.")
    length = _LOCAL.unpack(head[: _LOCAL.size])[8]
    if length > min(_MOST[MANIFEST], size):
        refuse(path, "it claims to be longer than it is")
    manifest = file.read(length)
    if head != _before(MANIFEST, manifest):
        refuse(path, "its manifest is not what was written")
    return manifest


def _parts(manifest: Any, path: str | Path) -> list[tuple[str, int, str]]:  # noqa: ANN401
    """Name, length and digest of each part but the manifest, as that says; a later format is told apart."""
    version, number = _text(manifest, "pnca"), manifest.get("format") if isinstance(manifest, dict) else None
    if type(number) is int and number > FORMAT and version:
        raise CorruptDataError(
            f"{path} was written by pnca {version}, whose files this version cannot read: update pnca, "
            "or save the model with this version."
        )
    if number != FORMAT or type(number) is not int or not version:
        refuse(path, "its manifest names no format")
    if not _is_own(manifest, manifest.pop("digest", None)):
        refuse(path, "its manifest is not what was written")
    described = manifest.get("parts")
    is_list = isinstance(described, list) and all(_is_part(part) for part in described)
    if not is_list or [name for name, *_ in described] != [MODEL, TENSORS]:
        refuse(path, "its manifest does not name its parts")
    return [(name, length, digest) for name, length, digest in described]


def _is_own(manifest: Any, digest: Any) -> bool:  # noqa: ANN401
    try:
        return bool(digest == _digest(to_json(manifest)))
    except RecursionError:
        return False


def _is_part(part: Any) -> bool:  # noqa: ANN401
    if not (isinstance(part, list) and len(part) == 3 and part[0] in (MODEL, TENSORS)):
        return False
    return type(part[1]) is int and 0 <= part[1] <= _MOST[part[0]] and isinstance(part[2], str)


def _text(manifest: Any, name: str) -> str:  # noqa: ANN401
    """A version; nothing where a stranger wrote something else."""
    value = manifest.get(name) if isinstance(manifest, Mapping) else None
    return value if isinstance(value, str) and re.fullmatch(r"[0-9A-Za-z.+!-]{1,40}", value) else ""


def _described(name: str, part: bytes) -> list[Any]:
    return [name, len(part), _digest(part)]


def _digest(part: bytes) -> str:
    return hashlib.blake2b(part, digest_size=32).hexdigest()


# --- the zip archive -------------------------------------------------------------------------------------


def _size(lengths: Mapping[str, int]) -> int:
    """Bytes of an archive of parts of these lengths."""
    names = sum(map(len, lengths))
    return sum(lengths.values()) + 2 * names + len(lengths) * (_LOCAL.size + _CENTRAL.size) + _END.size


def _before(name: str, part: bytes) -> bytes:
    """What stands before a part: stored, without a date."""
    return _LOCAL.pack(b"PK\x03\x04", _VERSION, *_told(name, part)) + name.encode()


def _after(parts: Mapping[str, bytes]) -> bytes:
    """What stands after all parts: where each begins."""
    central, start = b"".join(_entries(parts)), sum(_LOCAL.size + len(n) + len(p) for n, p in parts.items())
    n = len(parts)
    return central + _END.pack(b"PK\x05\x06", 0, 0, n, n, len(central), start, 0)


def _entries(parts: Mapping[str, bytes]) -> Iterator[bytes]:
    start = 0
    for name, part in parts.items():
        told = (_VERSION, _VERSION, *_told(name, part), 0, 0, 0, 0, start)
        yield _CENTRAL.pack(b"PK\x01\x02", *told) + name.encode()
        start += _LOCAL.size + len(name) + len(part)


def _told(name: str, part: bytes) -> tuple[int, ...]:
    """Flags, method, time, date, checksum, lengths, and the length of what is added to the name."""
    return 0, 0, 0, _FIRST_OF_1980, zlib.crc32(part), len(part), len(part), len(name), 0
