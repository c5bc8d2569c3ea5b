"""Small files that would unpack to gigabytes, or claim to."""

import functools
import os
import struct
import time
import tracemalloc
import zlib
from unittest import mock

import numpy as np

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.vision import read_image
from pnca_studies.arrays import Expected, read_headers, read_npz
from pnca_studies.data import load_mnist
from robustness.data_damage import pillow, small_mnist, write_idx
from robustness.oddities import pick

HUGE = 4_000_000_000  # bytes
BLOCK = 1 << 26  # bytes
#: What mnist.npz must hold.
TRUE = (60_000, 28, 28)
#: Seconds and bytes that it may take to refuse one.
_SECONDS, _BYTES = 1.0, 2e6


def header_of(shape, descr="|u1"):
    """The start of an npy file."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@functools.cache
def block_of_zeros():
    """A piece of a deflate stream; it ends on a byte, and nothing in it refers to what came before."""
    compressor = zlib.compressobj(9, wbits=-15)
    return compressor.compress(bytes(BLOCK)) + compressor.flush(zlib.Z_FULL_FLUSH)


def zeros(n_bytes):
    """The rest of a deflate stream: at least so many zeros."""
    return block_of_zeros() * -(-n_bytes // BLOCK) + b"\x03\x00"  # an empty last block


def write_archive(path, members):
    """A zip file of members (name, start, size): the start, then zeros up to the size that it states."""
    local, central = b"", b""
    for name, start, size in members:
        stream = zlib.compressobj(9, wbits=-15)
        body = stream.compress(start) + stream.flush(zlib.Z_FULL_FLUSH) + zeros(size - len(start))
        sizes = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, 0, len(body), size, len(name), 0)
        central += b"PK\x01\x02" + struct.pack("<H", 20) + sizes
        central += struct.pack("<HHHII", 0, 0, 0, 0, len(local)) + name.encode()
        local += b"PK\x03\x04" + sizes + name.encode() + body
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(local), 0)
    path.write_bytes(local + central + b"PK\x05\x06" + end)


def write_png(path, side):
    """An image that claims to have so many pixels in each direction."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def assert_cheap(call, error, name, case):
    """A call raises this error, which has the name of the file, in little time and memory."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        call()
    except error as refusal:
        assert name in str(refusal), f"{case}: {refusal}"
    else:
        raise AssertionError(f"{case}: was read")
    finally:
        seconds = time.perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # More where the machine is busy.
    assert seconds < 5 * _SECONDS, f"{case}: took {seconds:.1f} s"
    assert peak < _BYTES, f"{case}: took {peak / 1e6:.0f} MB"


def bomb(seed, folder):
    """One bomb of any kind and size."""
    rng = np.random.default_rng(seed)
    name = pick(rng, sorted(_BOMBS))
    with mock.patch.dict(os.environ, PNCA_CACHE_DIR=str(folder / "cache")):
        _BOMBS[name](rng, folder, f"bomb {seed}: {name}")


def _mnist(rng, folder, case):
    starts = {
        "shape": header_of((HUGE - 128,)),
        "content": header_of(TRUE),
        "type": header_of(TRUE, "|S85"),
        "header": b"\x93NUMPY\x02\x00" + struct.pack("<I", HUGE - 12),
        "zeros": b"",
        "dimensions": header_of((1,) * int(rng.integers(3, 40))),
        "overflow": header_of((2**62, 2**62)),
    }
    kind = pick(rng, sorted(starts))
    size = int(rng.integers(1, HUGE))
    others = [(f"{key}.npy", header_of((1,)), 129) for key in ("y_train", "x_test", "y_test")]
    write_archive(folder / "mnist.npz", [("x_train.npy", starts[kind], max(size, 200)), *others])
    assert_cheap(lambda: load_mnist(folder), CorruptDataError, "mnist.npz", f"{case}, {kind}, {size} bytes")


def _cell(rng, folder, case):
    size = int(rng.integers(1 << 21, HUGE))
    write_archive(folder / "cell.npz", [("a.npy", header_of((size - 128,)), size)])
    assert read_headers(folder / "cell.npz")["a"].n_bytes == size - 128, case
    limit = {"a": Expected(max_bytes=1 << 20)}
    call = functools.partial(read_npz, folder / "cell.npz", limit)
    assert_cheap(call, CorruptDataError, "cell.npz", f"{case}, {size} bytes")


def _idx(rng, folder, case):
    with small_mnist() as arrays:
        size = int(rng.integers(1, HUGE))
        for part in ("x_train", "y_train", "x_test", "y_test"):
            write_idx(folder, part, arrays[part], ".gz", tail=zeros(size))
        assert_cheap(lambda: load_mnist(folder), CorruptDataError, "ubyte.gz", f"{case}, {size} bytes")


def _image(rng, folder, case):
    pillow()
    side = int(rng.integers(9_600, 60_000))  # Pillow takes up to 9,459, and warns up to 13,377
    write_png(path := folder / "vast.png", side)
    assert_cheap(lambda: read_image(path), InvalidInputError, "vast.png", f"{case}, {side} pixels")


_BOMBS = {"mnist.npz": _mnist, "cell": _cell, "idx": _idx, "image": _image}
