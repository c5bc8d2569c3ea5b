"""Small files of each format, and what their models answer: they must load for ever.

PYTHONPATH=src:tests python tests/persistence/stored.py     # for what is new; no file is replaced
"""

import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pnca
from models import make
from pnca.models import experts
from pnca.persistence.container import FORMAT

FOLDER = Path(__file__).parent / f"format_{FORMAT}"
QUERIES = [[0.0, 1.0, -1.0], [2.5, None, 0.5], [100.0, -100.0, 3.0], [1.0, 2.0, 0.0]]


def examples():
    """Sixteen rows of two classes, one number of them missing."""
    rng = np.random.RandomState(0)
    y = np.arange(16) % 2
    X = rng.normal(size=(16, 3)) + 2.0 * y[:, None]
    X[3, 1] = np.nan
    return X, np.array(["benign", "malign"])[y]


def queries(name):
    """What the model of this name is asked: a table for the one that was fitted to one."""
    rows = np.array(QUERIES, dtype=float)
    if name == "record":
        return recorded()[0][:4]
    return as_table(rows) if name == "table" else rows


def as_table(X):
    """Numbers, text and dates."""
    import pandas as pd

    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.nan_to_num(X[:, 1]).clip(-9, 9), unit="D")
    return pd.DataFrame({"size": X[:, 0], "seen": days, "ward": np.where(X[:, 2] > 1, "east", "west")})


def recorded():
    """What a record may hold: columns of most types, ids and groups."""
    import pandas as pd

    X, _ = examples()
    table = as_table(X)
    table["count"] = pd.array([None, *range(15)], dtype="Int64")
    table["bed"] = pd.Categorical(np.array(["low", "high"])[np.arange(16) // 8], ordered=True)
    table["seen there"] = table["seen"].dt.tz_localize("Europe/Berlin")
    table["stay"] = pd.to_timedelta(np.arange(16), unit="h")
    table["well"] = np.arange(16) % 3 == 0
    table.loc[2, "ward"] = None
    return table, {"ids": [f"p{row}" for row in range(16)], "groups": np.arange(16) // 2}


def models():
    """Small models in which most of what can be stored occurs, by the names of their files."""
    tiny = {"hidden_layer_sizes": (3,), "n_components": 2, "n_particles": 2, "max_epochs": 5}
    softmax = {"hidden_layer_sizes": (3,), "max_epochs": 5}
    return {
        "pool": make("PNCA pooled", **tiny, n_folds=2),
        "table": make("PNCA pooled", **tiny, n_folds=2, experts=["linear"]),
        "record": make("PNCA", **tiny, n_folds=2),
        "cross": make("PNCA cross", **tiny),
        "orthogonal": make("PNCA orthogonal", **tiny, n_feature_blocks=2),
        "positive": make("PNCA positive", **tiny, n_feature_blocks=2),
        "nca": make("NCA", hidden_layer_sizes=(3,), n_components=2, max_epochs=5),
        "dnn": make("DNN", **softmax),
        "ensemble": make("Ensemble", **softmax, n_particles=2),
        "bnn": make("BNN", **softmax, n_particles=2),
        "pipeline": make_pipeline(StandardScaler(), make("DNN", **softmax)),
    }


def answers(model, name):
    """What a model says of its queries."""
    X = queries(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {"proba": model.predict_proba(X), "labels": model.predict(X)}
        if hasattr(model, "evidence"):
            found |= {"evidence": model.evidence(X), "neighbors": model.neighbors(X, k=2)[0]}
    return {name: values.tolist() for name, values in found.items()}


def write():
    """Write the files of this format that are not there yet."""
    experts._TREES = experts._TREES_IN_FOLDS = 2
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    X, y = examples()
    for name, model in models().items():
        if name in expected:
            continue
        given = recorded() if name == "record" else (as_table(X) if name == "table" else X, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(given[0], y, **given[1])
        pnca.save(model, FOLDER / f"{name}.pnca")
        expected[name] = answers(model, name)
    path.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
