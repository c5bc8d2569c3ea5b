"""The files of an ONNX network: its own, and those that it names for its weights.

The package onnx, which could tell, is not needed to run a network. So the few fields that matter are found
here, in the wire format of protobuf: https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.files import open_to_read

# The fields of each message of onnx.proto in which a tensor can be, with the message that each holds.
TENSOR_FIELDS = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        **{5: "TensorProto", 10: "TensorProto", 22: "SparseTensorProto", 23: "SparseTensorProto"},
        **{6: "GraphProto", 11: "GraphProto"},
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
}
EXTERNAL_DATA, KEY, VALUE = 13, 1, 2  # of a tensor; of each of its entries

_MAX_BYTES = 2**31 - 1  # of a protobuf message
_MAX_TAG = 2**32  # readers drop what is above, so that a larger tag would mean another field to them
_CHUNK = 1 << 20


def network_digest(path: Path) -> str:
    """Hash a network together with every file that it names for its weights.

    Weights outside its folder are refused, also where a link leads to them. In a cache of the Hugging Face
    hub both the network and its weights are links, to files of one folder; that is allowed.
    """
    with open_to_read(path, "network") as file:
        content = file.read(_MAX_BYTES + 1)
    try:
        locations = external_locations(content)
    except ValueError as error:
        raise CorruptDataError(f"{path} is damaged, or not a network in ONNX format ({error}).") from error
    digest = sha256(content)
    for location in locations:
        with open_to_read(_weights_file(path, location), "weights file") as file:
            digest.update(f"\n{location}\n".encode())
            while block := file.read(_CHUNK):
                digest.update(block)
    return digest.hexdigest()


def external_locations(content: bytes) -> list[str]:
    """Return the names of the files in which the tensors of a serialised ``ModelProto`` are, sorted.

    All tensors are looked at, those in subgraphs, functions, attributes and sparse tensors too. Bytes that
    are no protobuf message are a ``ValueError``.
    """
    if len(content) > _MAX_BYTES:
        raise ValueError("it has more than 2 GiB")
    locations = set()
    waiting = [("ModelProto", 0, len(content))]
    while waiting:
        message, start, end = waiting.pop()
        for number, first, last in _fields(content, start, end):
            if message == "TensorProto":
                if number == EXTERNAL_DATA:
                    entry = {n: content[a:b] for n, a, b in _fields(content, first, last)}
                    if entry.get(KEY) == b"location":
                        locations.add(entry.get(VALUE, b"").decode())
            elif inner := TENSOR_FIELDS[message].get(number):
                waiting.append((inner, first, last))
    return sorted(locations)


def _fields(content: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, first byte, byte after the last) of each field of a message that has a length."""
    while place < end:
        tag, place = _varint(content, place, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag >= _MAX_TAG:
            raise ValueError("it has a field without a number")
        length = 0
        if wire_type == 0:
            _, place = _varint(content, place, end)
        elif wire_type == 2:
            length, place = _varint(content, place, end)
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"it has a field of type {wire_type}")
        if length > end - place:
            raise ValueError("it ends early")
        if wire_type == 2:
            yield number, place, place + length
        place += length


def _varint(content: bytes, place: int, end: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest first, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= end:
            raise ValueError("it ends early")
        byte = content[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ValueError("it has a number of more than ten bytes")


def _weights_file(path: Path, location: str) -> Path:
    """Return the file that a network names, which must lie in its folder or below."""
    weights = path.parent / location
    try:
        folders, target = (path.parent.resolve(), path.resolve().parent), weights.resolve()
    except (OSError, ValueError, RuntimeError):  # links in a circle, or a null character
        is_inside = False
    else:
        is_inside = any(target.is_relative_to(folder) for folder in folders)
    if Path(location).is_absolute() or not is_inside:
        raise InvalidInputError(
            f"{path} keeps weights in {location!r}, outside its folder: save it with its weights beside it."
        )
    return weights
