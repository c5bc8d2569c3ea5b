"""Model files that are damaged or forged: each is refused by name, or a model that answers."""

import copy
import datetime
import functools
import io
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import pnca
from models import ALL, make, noisy
from pnca.exceptions import CorruptDataError, InvalidInputError, PncaError
from pnca.persistence.container import MANIFEST, MODEL, TENSORS, Content, packed, unpacked
from robustness.fits import fitted
from robustness.mutators import any_damage
from robustness.oddities import pandas
from robustness.verdicts import refusals

FILE = "model.pnca"
X, Y = noisy()
HOLED = np.where(np.arange(120).reshape(40, 3) % 17 == 0, np.nan, X)
#: What a column may hold: text, numbers, dates, truth values, and holes.
CELLS = np.array(["a", 1.5, datetime.date(2026, 1, 1), True, None], dtype=object)
NAMES = [*ALL, "module", "holes", "pipeline", "table", "mixed"]


def layers():
    """A user's module, with something frozen in it."""
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    module[0].requires_grad_(False)
    return module


def table():
    """A table in which most kinds of columns occur; none of them decides much."""
    import pandas as pd

    n = len(X)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) // 2, unit="D")
    return pd.DataFrame(
        {
            "size": np.where(np.arange(n) % 9 == 0, np.nan, X[:, 0].astype(float)),
            "count": pd.array([None, *(np.arange(n - 1) % 5)], dtype="Int64"),
            "ward": pd.Categorical(np.where(X[:, 1] > 1, "east", "west")),
            "note": pd.Series(np.where(Y == 1, "x", "y")).where(np.arange(n) % 7 > 0),
            "seen": days,
            "seen there": days.tz_localize("Europe/Berlin"),
            "stay": pd.to_timedelta(np.arange(n) % 3, unit="h"),
            "well": X[:, 2] > 0,
            "month": pd.period_range("2020-01", periods=n, freq="M"),
        }
    )


@functools.cache
def model(name):
    """A small fitted model, and what it is asked about."""
    if name == "table":
        made, frame = make("PNCA", max_epochs=2, n_folds=2, hidden_layer_sizes=(4,)), table()
        ids = np.array([f"patient {row}" for row in range(len(X))])
        return made.fit(frame, Y, groups=np.arange(len(X)) // 2, ids=ids), frame[:4]
    if name == "module":
        return fitted(make("PNCA shared", module=layers, max_epochs=2), X, Y), X[:4]
    if name == "holes":
        return fitted(make("PNCA pooled", max_epochs=2), HOLED, Y), HOLED[:4]
    if name == "mixed":
        mixed = pandas().DataFrame(X, columns=["a", "b", "c"]).assign(mixed=np.resize(CELLS, len(X)))
        return fitted(make("PNCA pooled", max_epochs=2), mixed, Y), mixed[:4]
    made = make("DNN" if name == "pipeline" else name, max_epochs=2, hidden_layer_sizes=(4,))
    if name == "pipeline":
        return fitted(make_pipeline(StandardScaler(), made), X, Y), X[:4]
    return fitted(made, X, Y), X[:4]


@functools.cache
def written(name):
    """The bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        return pnca.save(model(name)[0], Path(folder) / FILE).read_bytes()


def opened(path, name):
    """The model of a file; None if it is refused in our own words, which name the file and what to do."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return pnca.load(path, module=layers if name == "module" else None)
    except PncaError as error:
        assert type(error) in (CorruptDataError, InvalidInputError), f"{type(error).__name__}: {error}"
        for word in (FILE, ":"):
            assert word in str(error), f"a refusal without {word!r}: {error}"
        assert "\n" not in str(error), f"a refusal of several lines: {error}"
        return None


def content_of(name):
    """What the file of a model holds, to be changed."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / FILE).write_bytes(written(name))
        about, found, tensors = unpacked(path)
    about = {key: value for key, value in about.items() if key not in ("format", "parts", "digest")}
    return about, found, from_bytes(tensors)


def forge(path, name, change, change_about=lambda about: None):
    """Write the file of a model with its JSON and tensors changed, and checksums that fit them."""
    about, found, tensors = content_of(name)
    change(found, tensors)
    change_about(about)
    path.write_bytes(b"".join(packed(Content(about, found, to_bytes(tensors)))))


def asked(loaded, queries, case):
    """What a model says: numbers for every query, or a clear refusal."""
    last = loaded[-1] if hasattr(loaded, "steps") else loaded
    with refusals(case), np.errstate(all="ignore"):
        proba = loaded.predict_proba(queries)
        for method in ("uncertainty", "evidence", "embed", "neighbors"):
            if last is loaded and hasattr(loaded, method):
                getattr(loaded, method)(queries)
        if last is loaded and hasattr(loaded, "explain"):
            str(loaded.explain(queries, k=2))
        repr(loaded)
    assert proba.shape == (len(queries), len(last.classes_)), f"{case}: shape {proba.shape}"
    return proba


# --- changes that a forger could make ---------------------------------------------------------------------

_ODD = [
    None, True, False, 0, 1, -1, 2, 3, 10**9, 2**63, 10**400, 0.5, -0.5, 1e308, -1e308, 1e-308, "", "x", [],
    [[]],
    {}, {"x": 1}, {"tuple": []},
    {"tuple": 1}, {"float": "nan"}, {"float": "inf"}, {"float": []},
    {"numpy": ["<f8", [], [1.0]]}, {"array": ["<U9", [2], ["a", "b"]]}, {"array": ["|O", [2], [[], {}]]},
    {"array": ["<f8", [-1], [1.0]]}, {"array": ["<U999999", [1], ["a"]]}, {"range": [0, 10**18, 1]},
    {"random state": [[], 0, 0, 0.0]}, {"bytes": "zz"}, {"date": "tomorrow"}, {"decimal": "x"},
    {"dict": [[1]]},
    {"MLP": {}}, {"class": "DNNClassifier"}, {"StackedModule": {}},
]  # fmt: skip


def _places(found, at=()):
    """Every place in JSON, as the keys that lead there."""
    if at:
        yield at
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in items:
        yield from _places(value, (*at, key))


def _inside(found, place):
    for key in place:
        found = found[key]
    return found


def _value(rng, found, tensors):
    places = list(_places(found))
    *above, last = places[rng.randint(len(places))]
    _inside(found, above)[last] = copy.deepcopy(_ODD[rng.randint(len(_ODD))])


def _swapped(rng, found, tensors):
    """A part in the place of another one."""
    places = list(_places(found))
    (*above, last), other = (places[rng.randint(len(places))] for _ in range(2))
    _inside(found, above)[last] = copy.deepcopy(_inside(found, other))


def _lost(rng, found, tensors):
    places = list(_places(found))
    *above, last = places[rng.randint(len(places))]
    del _inside(found, above)[last]


def _renamed(rng, found, tensors):
    places = [place for place in _places(found) if isinstance(place[-1], str)]
    *above, last = places[rng.randint(len(places))]
    inside = _inside(found, above)
    names = ["x", "", "__class__", "fit", "fitted_", "predict", "classes_", *inside]
    inside[names[rng.randint(len(names))]] = inside.pop(last)


def _tensor_lost(rng, found, tensors):
    name = sorted(tensors)[rng.randint(len(tensors))]
    kept = tensors.pop(name)
    if rng.randint(2):
        tensors[f"{name}.more"] = kept


def _tensor_other(rng, found, tensors):
    """Another shape or type, or that of another tensor."""
    name = sorted(tensors)[rng.randint(len(tensors))]
    tensor = tensors[name]
    shape = list(tensor.shape) or [1]
    side = rng.randint(len(shape))
    shape[side] = max(0, shape[side] + int(rng.choice([-1, 1, 2])))
    kinds = [torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.bool, torch.uint8]
    tensors[name] = [
        torch.ones(shape, dtype=tensor.dtype),
        tensor.to(kinds[rng.randint(len(kinds))]).clone(),
        tensor[None].clone(),
        tensor.flatten().clone(),
        tensors[sorted(tensors)[rng.randint(len(tensors))]].clone(),
    ][rng.randint(5)]


def _numbers(rng, found, tensors):
    """Other numbers in a tensor, of its own type and shape."""
    name = sorted(tensors)[rng.randint(len(tensors))]
    flat = tensors[name].flatten()
    if not len(flat):
        return
    odd = [0, -1, 1, 2, 7, 10**6, -(2**40)] + [
        np.nan,
        np.inf,
        -np.inf,
        1e30,
        -1e-30,
    ] * flat.is_floating_point()
    value = odd[rng.randint(len(odd))]
    if flat.dtype == torch.bool or (flat.dtype == torch.uint8 and value < 0):
        value = 1
    where = slice(None) if rng.randint(2) else rng.randint(len(flat))
    flat[where] = value


def _shuffled(rng, found, tensors):
    """The numbers of a tensor in another order: trees that go round, examples in other leaves."""
    name = sorted(tensors)[rng.randint(len(tensors))]
    flat = tensors[name].flatten()
    tensors[name] = flat[torch.from_numpy(rng.permutation(len(flat)))].reshape(tensors[name].shape)


_CHANGES = [
    _value, _value, _swapped, _lost, _renamed, _tensor_lost, _tensor_other, _numbers, _numbers, _shuffled
]  # fmt: skip


def _other_about(rng):
    """A change of what the manifest says, or none."""

    def change(about):
        name = ["pnca", "model", "examples", "classes", "groups", "format", "parts", "digest", "x"][
            rng.randint(9)
        ]
        about[name] = copy.deepcopy(_ODD[rng.randint(len(_ODD))])

    return (lambda about: None) if rng.randint(8) else change


# --- archives that are no file of ours --------------------------------------------------------------------


def _archive(rng, content):
    """The parts in an archive as another program writes it, and what is wrong with that."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = [(info.filename, archive.read(info)) for info in archive.infolist()]
    changes = {
        "stored again": lambda: None,
        "compressed": lambda: None,
        "one more": lambda: parts.append(("more.json", b"{}")),
        "one less": lambda: parts.pop(rng.randint(3)),
        "twice": lambda: parts.append(parts[rng.randint(3)]),
        "another order": lambda: parts.reverse(),
        "a way out": lambda: parts.insert(rng.randint(4), ("../../model.json", b"{}")),
        "an absolute name": lambda: parts.append(("/tmp/model.json", b"{}")),
        "a folder": lambda: parts.insert(rng.randint(4), ("folder/", b"")),
        "a link": lambda: None,
        "a bomb": lambda: parts.__setitem__(
            rng.randint(3), ([MANIFEST, MODEL, TENSORS][rng.randint(3)], bytes(10**7))
        ),
        "a pickle": lambda: parts.append(("data.pkl", b"cos\nsystem\n(S'true'\ntR.")),
    }
    name = sorted(changes)[rng.randint(len(changes))]
    changes[name]()
    kind = zipfile.ZIP_DEFLATED if name in ("compressed", "a bomb") else zipfile.ZIP_STORED
    target = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(target, "w", kind) as archive:
        warnings.simplefilter("ignore")  # of names that occur twice
        for part, data in parts:
            info = zipfile.ZipInfo(part)
            info.compress_type = kind
            info.external_attr = 0o120777 << 16 if name == "a link" else 0o600 << 16
            archive.writestr(info, data)
    return name, target.getvalue()


def _spliced(rng, content):
    """The file with bytes put in, taken out, doubled or added at its ends."""
    begin, end = sorted(rng.randint(len(content), size=2))
    end += 1
    some = [b"\0", b"PK\5\6" + bytes(18), rng.bytes(20)][rng.randint(3)]
    changes = [
        content[:begin] + some + content[begin:],
        content[:begin] + content[end:],
        content[:end] + content[begin:],
        content + some,
        some + content,
        content + content,
    ]
    return "spliced", changes[rng.randint(len(changes))]


def damaged_model(seed, folder):
    """A model file with random damage, or forged with checksums that fit."""
    rng = np.random.RandomState(seed)
    name, path = NAMES[rng.randint(len(NAMES))], folder / FILE
    if rng.randint(3):
        change = _CHANGES[rng.randint(len(_CHANGES))]
        case = f"seed {seed}, {name}, forged: {change.__name__}"
        try:
            forge(path, name, lambda found, tensors: change(rng, found, tensors), _other_about(rng))
        except (ValueError, OverflowError, TypeError) as error:  # it cannot even be written
            assert "JSON" in str(error) or isinstance(error, ValueError), f"{case}: {error}"
            return
        if (loaded := opened(path, name)) is not None:
            try:
                asked(loaded, model(name)[1], case)
            except AssertionError:
                raise
            except Exception as error:
                assert type(error).__name__ == "Refused", f"{case}: {error}"
        return
    kinds = [any_damage, _spliced, _archive]
    kind = kinds[rng.randint(3)]
    what, content = kind(written(name), rng) if kind is any_damage else kind(rng, written(name))
    if content == written(name):
        return
    path.write_bytes(content)
    assert opened(path, name) is None, f"seed {seed}, {name}: {what}: was loaded"
