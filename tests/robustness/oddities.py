"""Odd inputs, labels, groups and parameters, legal and illegal, each with a verdict.

A verdict is LEGAL (must be taken), ILLEGAL (must be refused), or EITHER (a right result or a clear refusal).
"""

import datetime
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import nn

from robustness.verdicts import Skipped

LEGAL, EITHER, ILLEGAL = 0, 1, 2  # the verdict on a whole is the largest of its parts


class Odd(NamedTuple):
    """A value as it is handed over, what it is called, and whether it may be taken."""

    value: object
    name: str
    verdict: int = LEGAL


def pandas():
    """The package, or a skipped case."""
    try:
        import pandas as pd
    except ImportError as error:
        raise Skipped("pandas is not installed") from error
    return pd


def pick(rng, options):
    """One of them; an array would lose their types."""
    return options[rng.integers(len(options))]


# --- inputs ---------------------------------------------------------------------------------------------


def shape_of_inputs(rng):
    """Of a table, or of images."""
    if rng.random() < 0.7:
        return (int(rng.integers(1, 41)) if rng.random() < 0.5 else int(rng.integers(1, 6)),)
    h, w = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    return pick(rng, [(h, w), (h, w, 3), (1, h, w), (4, h, w), (1, w), (h, 1), (h, w, 1)])


def numbers(rng, n, shape, classes, is_odd):
    """Numbers (n, *shape) in which the classes (n,) differ, oddly spread: as Odd."""
    x = rng.normal(size=(n, *shape))
    x += np.reshape(2.0 * classes, (n, *[1] * len(shape)))
    if not is_odd:
        return Odd(x, "plain")
    kind = pick(rng, list(_SPREADS))
    changed, verdict = _SPREADS[kind](rng, x)
    return Odd(changed, kind, verdict)


def _constant_columns(rng, x):
    flat = x.reshape(len(x), -1).copy()
    flat[:, rng.random(flat.shape[1]) < 0.5] = pick(rng, [0.0, 5.0, -1e6, 1e-20])
    return flat.reshape(x.shape), EITHER  # all of them may be constant


def _with_one(value, verdict):
    def change(rng, x):
        x = x.copy()
        x.flat[rng.integers(x.size)] = value
        return x, verdict

    return change


def _scaled(low, high, verdict):
    return lambda rng, x: (x * 10.0 ** rng.uniform(low, high), verdict)


_SPREADS = {
    "constant columns": _constant_columns,
    "copies of rows": lambda rng, x: (x[rng.integers(0, max(1, len(x) // 4), size=len(x))], LEGAL),
    "all rows alike": lambda rng, x: (np.repeat(x[:1], len(x), axis=0), EITHER),
    "zeros": lambda rng, x: (np.zeros_like(x), EITHER),
    "mostly zeros": lambda rng, x: (x * (rng.random(x.shape) < 0.1), EITHER),
    "large": _scaled(1, 15, EITHER),
    "huge": _scaled(15, 37, EITHER),
    "beyond float32": _scaled(39, 300, EITHER),
    "small": _scaled(-15, -1, EITHER),
    "tiny": _scaled(-300, -15, EITHER),
    "offset": lambda rng, x: (x + 10.0 ** rng.uniform(2, 12), EITHER),
    "columns of other scales": lambda rng, x: (x * 10.0 ** rng.uniform(-18, 18, size=x.shape[1:]), EITHER),
    "an outlier": _with_one(1e6, EITHER),
    "a far outlier": _with_one(1e30, EITHER),
    "the largest float32": _with_one(float(np.finfo(np.float32).max), EITHER),
    "the largest float64": _with_one(float(np.finfo(np.float64).max), EITHER),
    "a NaN": _with_one(np.nan, EITHER),  # a hole in rows of numbers
    "an infinity": _with_one(-np.inf, ILLEGAL),
    "whole numbers": lambda rng, x: (np.round(10 * x), LEGAL),
    "yes and no": lambda rng, x: ((x > 1).astype(float), EITHER),
    "grey values": lambda rng, x: (np.clip(np.round(40 * x + 90), 0, 255), LEGAL),
    "denormal numbers": lambda rng, x: (x * 1e-310, EITHER),
}


def contained(rng, odd, is_odd):
    """The same numbers in some container or of some type: as Odd; its numbers may be rounded."""
    x = odd.value
    with np.errstate(all="ignore"):
        if not is_odd:
            kind = pick(rng, ["float64", "float32"])
            return Odd(x.astype(kind), f"{odd.name}, {kind}", odd.verdict)
        kind = pick(rng, list(_CONTAINERS))
        value, verdict = _CONTAINERS[kind](rng, x)
    if odd.verdict == ILLEGAL and verdict == EITHER:
        return Odd(value, f"{odd.name}, {kind}", EITHER)  # the type may have no such numbers
    return Odd(value, f"{odd.name}, {kind}", max(verdict, odd.verdict))


def _rounded(dtype):
    """To another type; what that makes of numbers out of its range is nobody's fault."""
    return lambda rng, x: (np.nan_to_num(x, posinf=0, neginf=0).astype(dtype), EITHER)


def _tensor(dtype):
    def make(rng, x):
        return torch.from_numpy(np.ascontiguousarray(x)).to(dtype), EITHER

    return make


def _frame(rng, x):
    pd = pandas()
    columns = x.reshape(len(x), -1)
    names = [f"column {place}" for place in range(columns.shape[1])]
    kind = rng.integers(6)
    if kind == 1:
        names = [names[0]] * len(names)
    if kind == 2:
        names = list(range(len(names)))
    if kind == 3:
        names = [*names[:-1], 7]  # of mixed types
    frame = pd.DataFrame(columns, columns=names, index=rng.permutation(len(x)))
    if kind == 4:
        frame = frame.astype("Float64")
    if kind == 5:
        frame = frame.astype(object)
    return frame, EITHER


def _ragged(rng, x):
    rows = x.tolist()
    rows[0] = [*rows[0], rows[0][0]]
    return rows, ILLEGAL


def _strings(rng, x):
    value = x.astype(str).astype(object)
    value.flat[0] = "a word"
    return value, ILLEGAL


def _dates(rng, x):
    return np.full(x.shape, np.datetime64("2026-01-01"), "M8[D]"), ILLEGAL


def _strided(rng, x):
    wide = np.zeros((2 * len(x), *x.shape[1:]))
    wide[::2] = x
    return wide[::2], LEGAL


def _read_only(rng, x):
    x = x.copy()
    x.setflags(write=False)
    return x, LEGAL


_CONTAINERS = {
    **{f"array of {kind}": _rounded(kind) for kind in ("f2", "i1", "u1", "i4", "i8", "u8", "?", "g")},
    **{f"array of {kind}": _rounded(kind) for kind in (">f8", ">f4", ">i2")},
    "objects": lambda rng, x: (x.astype(object), EITHER),
    "numbers as text": lambda rng, x: (x.astype(str), EITHER),
    "words": _strings,
    "complex": lambda rng, x: (x + 1j, ILLEGAL),
    "dates": _dates,
    "durations": lambda rng, x: (np.ones(x.shape, "m8[s]"), ILLEGAL),
    "date objects": lambda rng, x: (np.full(x.shape, datetime.date(2026, 1, 1), dtype=object), ILLEGAL),
    "dicts": lambda rng, x: ([{"a": 1.0} for _ in x], ILLEGAL),
    "lists": lambda rng, x: (x.tolist(), EITHER),
    "tuples": lambda rng, x: (tuple(map(tuple, x.tolist())), EITHER),
    "ragged lists": _ragged,
    "None": lambda rng, x: (None, ILLEGAL),
    "text": lambda rng, x: ("text", ILLEGAL),
    "a number": lambda rng, x: (3.0, ILLEGAL),
    "a generator": lambda rng, x: ((row for row in x), ILLEGAL),
    "one row": lambda rng, x: (x[0], EITHER),
    "no rows": lambda rng, x: (x[:0], ILLEGAL),
    "no columns": lambda rng, x: (x[..., :0], ILLEGAL),
    "sparse": lambda rng, x: (scipy.sparse.csr_matrix(x.reshape(len(x), -1)), ILLEGAL),
    "sparse array": lambda rng, x: (scipy.sparse.coo_array(x.reshape(len(x), -1)), ILLEGAL),
    "frame": _frame,
    "Fortran order": lambda rng, x: (np.asfortranarray(x), LEGAL),
    "every other row": _strided,
    "reversed columns": lambda rng, x: (x[..., ::-1], LEGAL),
    "read-only": _read_only,
    "matrix": lambda rng, x: (np.asmatrix(x.reshape(len(x), -1)), EITHER),
    "masked": lambda rng, x: (np.ma.masked_array(x, mask=np.zeros(x.shape)), EITHER),
    "structured": lambda rng, x: (np.zeros(len(x), dtype=[("a", "f4"), ("b", "f4")]), ILLEGAL),
    **{
        f"tensor of {dtype}": _tensor(dtype)
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int16, torch.bool)
    },
    "tensor of complex64": lambda rng, x: (torch.ones(x.shape, dtype=torch.complex64), ILLEGAL),
    "tensor with gradient": lambda rng, x: (torch.tensor(x, requires_grad=True), LEGAL),
    "sparse tensor": lambda rng, x: (torch.from_numpy(np.ascontiguousarray(x)).to_sparse(), ILLEGAL),
    "conjugated tensor": lambda rng, x: (torch.ones(x.shape, dtype=torch.complex64).conj(), ILLEGAL),
    "transposed tensor": lambda rng, x: (
        (torch.from_numpy(np.ascontiguousarray(x.T)).mT, EITHER)
        if x.ndim == 2
        else (torch.from_numpy(x.copy()), LEGAL)
    ),
}


# --- labels ---------------------------------------------------------------------------------------------


def labels(rng, classes, is_odd):
    """Names (n,) for the classes (n,), as Odd."""
    kind = pick(rng, list(_LABELS) if is_odd else ["whole numbers", "words"])
    value, verdict = _LABELS[kind](rng, classes)
    return Odd(value, f"labels: {kind}", verdict)


def _named(names, verdict=LEGAL):
    return lambda rng, y: (np.array(names)[y % len(names)], verdict)


def _objects(*names, verdict=EITHER):
    def make(rng, y):
        value = np.empty(len(y), dtype=object)
        value[:] = [names[k % len(names)] for k in y]
        return value, verdict

    return make


def _series(kind):
    def make(rng, y):
        pd = pandas()
        names = pd.Series([f"c{k}" for k in y], index=rng.permutation(len(y)))
        if kind == "categorical":
            names = pd.Categorical(names, categories=["unused", *sorted(set(names))])
        elif kind == "missing":
            names[0] = None
        else:
            names = names.astype(kind)
        return names, ILLEGAL if kind == "missing" else EITHER

    return make


def _one_missing(value):
    def make(rng, y):
        names = y.astype(float) if isinstance(value, float) else y.astype(str).astype(object)
        names[0] = value
        return names, ILLEGAL

    return make


_LABELS = {
    "whole numbers": lambda rng, y: (y, LEGAL),
    "words": lambda rng, y: (np.array([f"class {k}" for k in y]), LEGAL),
    "beyond 2**53": lambda rng, y: (y + 2**53, LEGAL),
    "beyond 2**53, list": lambda rng, y: ((y + 2**60).tolist(), LEGAL),
    "negative": lambda rng, y: (-(2**40) * (y + 1), LEGAL),
    "uint64": lambda rng, y: (np.uint64(2**64 - 1) - y.astype(np.uint64), LEGAL),
    "beyond int64": lambda rng, y: (np.array([2**70 + int(k) for k in y], dtype=object), EITHER),
    "beyond int64, both signs": lambda rng, y: ([-1 if k == 0 else 2**63 + int(k) for k in y], EITHER),
    "beyond 2**53 among floats": lambda rng, y: ([0.0 if k == 0 else 2**53 + int(k) for k in y], EITHER),
    "beyond 2**53 in float": lambda rng, y: (y + 2.0**53, ILLEGAL),
    "int8": lambda rng, y: (y.astype(np.int8) - 100, LEGAL),
    "big-endian": lambda rng, y: (y.astype(">i8"), EITHER),
    "bools": lambda rng, y: (y % 2 == 0, EITHER),
    "objects of bools": _objects(True, False),
    "whole floats": lambda rng, y: (y.astype(float), LEGAL),
    "huge floats": lambda rng, y: (1e300 * (y + 1), EITHER),
    "fractions": lambda rng, y: (y + 0.5, ILLEGAL),
    "words as objects": _objects("x", "y", "z"),
    "empty words": _named(["", " ", "\t"], EITHER),
    "odd words": _named(["a" * 500, "日本", "e\u0301", "\U0001f600"], LEGAL),
    "words that end in zeros": _objects("a", "a\0", "a\0\0"),
    "bytes": _named([b"a", b"b", b"c"], EITHER),
    "mixed types": _objects("x", 1, 2.5),
    "mixed words and bools": _objects("x", True),
    "one and True": _objects(1, True, "1"),
    "tuples": _objects((1, 2), (3, 4)),
    "None": _one_missing(None),
    "NaN": _one_missing(float("nan")),
    "NaN among words": lambda rng, y: (np.array(["a", float("nan")], dtype=object)[np.minimum(y, 1)], EITHER),
    "infinity": _one_missing(float("inf")),
    "one class": lambda rng, y: (np.zeros(len(y), dtype=int), ILLEGAL),
    "a class each": lambda rng, y: (np.arange(len(y)), EITHER),
    "one of the other": lambda rng, y: (np.arange(len(y)) == 0, EITHER),
    "column": lambda rng, y: (y[:, None], EITHER),
    "two columns": lambda rng, y: (np.stack([y, y], axis=1), ILLEGAL),
    "too few": lambda rng, y: (y[:-1], ILLEGAL),
    "too many": lambda rng, y: (np.r_[y, 0], ILLEGAL),
    "nothing": lambda rng, y: (None, ILLEGAL),
    "a number": lambda rng, y: (1, ILLEGAL),
    "complex": lambda rng, y: (y + 1j, ILLEGAL),
    "dates": lambda rng, y: (np.datetime64("2026-01-01") + y, EITHER),
    "durations": lambda rng, y: (y.astype("m8[s]"), EITHER),
    "tensor": lambda rng, y: (torch.from_numpy(y), LEGAL),
    "tensor of bfloat16": lambda rng, y: (torch.from_numpy(y).bfloat16(), EITHER),
    "series of words": _series("string"),
    "categorical": _series("categorical"),
    "series of objects": _series("object"),
    "series with a gap": _series("missing"),
    "read-only": lambda rng, y: (_read_only(rng, y)[0], LEGAL),
    "sparse": lambda rng, y: (scipy.sparse.csr_matrix(y[:, None]), ILLEGAL),
}


def groups(rng, n, is_odd):
    """Groups (n,) of examples, as Odd; mostly none."""
    if not is_odd:
        return Odd(None, "no groups")
    kind = pick(rng, list(_GROUPS))
    value, verdict = _GROUPS[kind](rng, n)
    return Odd(value, f"groups: {kind}", verdict)


_GROUPS = {
    "pairs": lambda rng, n: (np.arange(n) // 2, EITHER),
    "one each": lambda rng, n: (np.arange(n), EITHER),
    "all one": lambda rng, n: (np.zeros(n), EITHER),
    "words": lambda rng, n: ([f"patient {k}" for k in rng.integers(0, n, size=n)], EITHER),
    "mixed types": lambda rng, n: ([1, "a", *range(n - 2)], EITHER),
    "beyond 2**53": lambda rng, n: (2**53 + np.arange(n) // 3, EITHER),
    "a NaN": lambda rng, n: (np.r_[np.nan, np.zeros(n - 1)], ILLEGAL),
    "a None": lambda rng, n: ([None, *range(n - 1)], ILLEGAL),
    "too few": lambda rng, n: (np.zeros(n - 1), ILLEGAL),
    "a column": lambda rng, n: (np.zeros((n, 1)), ILLEGAL),
    "a word": lambda rng, n: ("group", ILLEGAL),
    "tuples": lambda rng, n: ([(k // 2, "a") for k in range(n)], EITHER),
    "lists": lambda rng, n: ([[k] * (1 + k % 2) for k in range(n)], EITHER),
    "objects": lambda rng, n: (np.array([(k // 3) for k in range(n)], dtype=object), EITHER),
    "bools": lambda rng, n: (np.arange(n) % 2 == 0, EITHER),
    "dates": lambda rng, n: (np.datetime64("2026-01-01") + np.arange(n) // 2, EITHER),
    "tensor": lambda rng, n: (torch.arange(n) // 2, EITHER),
}


# --- modules --------------------------------------------------------------------------------------------


class TwoBranches(nn.Module):
    """A module that returns what is no tensor."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)

    def forward(self, x):
        return self.layer(x), x


class Failing(nn.Module):
    """A module that takes nothing."""

    def __init__(self, error):
        super().__init__()
        self.error, self.layer = error, nn.LazyLinear(3)

    def forward(self, x):
        raise self.error


def flat(width=3):
    """A module for inputs of any shape."""
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(width))


def raising():
    """A callable that cannot build."""
    raise OSError("the weights are not here")


MODULES = [
    (flat, EITHER),
    (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4), nn.Dropout(0.3), nn.ReLU()), EITHER),
    (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4), nn.LayerNorm(4)), EITHER),
    (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4), nn.LazyBatchNorm1d()), ILLEGAL),
    (lambda: nn.Sequential(nn.LazyConv2d(2, 1), nn.Flatten()), EITHER),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), EITHER),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).double(), EITHER),
    (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(2), nn.Flatten(0)), ILLEGAL),
    (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(0)), EITHER),
    (lambda: nn.Embedding(5, 2), ILLEGAL),
    (nn.Flatten, EITHER),
    (lambda: "a word", ILLEGAL),
    (lambda: nn.Linear, ILLEGAL),
    (lambda x: x, ILLEGAL),
    (raising, EITHER),
    (TwoBranches, ILLEGAL),
    (lambda: Failing(ValueError("no")), EITHER),
    (lambda: Failing(IndexError("no")), EITHER),
    (lambda: Failing(KeyError("no")), EITHER),
    (nn.Linear, ILLEGAL),
    (nn.Linear(3, 2), EITHER),
    (nn.Flatten(), EITHER),
    (nn.Identity(), EITHER),
    ("resnet", ILLEGAL),
    (5, ILLEGAL),
]
