"""The steps of a pipeline are in the graph, or refused."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import models
from models import make
from pnca import export_onnx
from pnca.exceptions import MissingExtraError

SMALL = {"max_epochs": 3, "n_folds": 3}


@pytest.fixture
def rows():
    """Columns of other units, and labels."""
    X, y = models.noisy()
    return X.astype(np.float64) * [1, 100, 0.01] + [0, 1e4, 3], y


def answers(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_same(found, pipeline, X):
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(X), rtol=0, atol=1e-5)
    inner = pipeline[:-1].transform(X)
    np.testing.assert_allclose(found["evidence"], pipeline[-1].evidence(inner), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["familiarity"], pipeline[-1].familiarity(inner), rtol=0, atol=1e-5)
    is_clear = np.abs(found["probabilities"][:, 0] - 0.5) > 1e-5
    assert found["label"][is_clear].tolist() == pipeline.predict(X)[is_clear].tolist()


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [MinMaxScaler(), PCA(2)],
        [RobustScaler()],
        [QuantileTransformer(n_quantiles=20)],
        [SimpleImputer(), StandardScaler()],
        [SimpleImputer(strategy="median")],
        [make_pipeline(StandardScaler(), PCA(2))],
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_steps__are_in_the_graph(steps, rows, tmp_path):
    X, y = rows
    if isinstance(steps[0], SimpleImputer):
        X[::5, 1] = np.nan
    pipeline = make_pipeline(*steps, make("PNCA pooled", **SMALL)).fit(X, y)
    file = export_onnx(pipeline, tmp_path / "model.onnx", X=X)
    queries = np.concatenate([X * 1.01, X[:2] * 1e3])
    assert_same(answers(file, {"X": queries}), pipeline, queries)
    told = {entry.key: entry.value for entry in onnx.load(file).metadata_props}
    assert json.loads(told["inputs"]) == {"X": "double"}


def test_table__has_an_input_for_each_column(rows, tmp_path):
    X, y = rows
    table = pd.DataFrame(X, columns=["a", "b", "label_of_c"])
    table["s"] = np.where(y, "u", "v")
    parts = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["a", "b"]),
            ("texts", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["s"]),
        ],
        remainder="passthrough",
    )
    pipeline = make_pipeline(parts, make("PNCA", **SMALL)).fit(table, y)
    file = export_onnx(pipeline, tmp_path / "model.onnx", X=table)
    queries = table.copy()
    queries.loc[3, "s"] = "new"
    inputs = {name: queries[name].to_numpy()[:, None] for name in ("a", "b", "label_of_c")}
    inputs["s"] = queries["s"].to_numpy(dtype=object)[:, None]
    assert_same(answers(file, inputs), pipeline, queries)


def test_pipeline_of_the_classifier_alone__is_that_classifier(rows, tmp_path):
    X, y = rows
    pipeline = make_pipeline(make("PNCA", **SMALL)).fit(X, y)
    found = answers(export_onnx(pipeline, tmp_path / "model.onnx"), {"X": X})
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(X), atol=1e-5)


def refused(pipeline, rows, y, path, message, **others):
    pipeline.fit(rows, y)
    with pytest.raises(ValueError, match=message):
        export_onnx(pipeline, path / "model.onnx", **others)
    assert not list(path.iterdir())


def test_refusals__name_what_is_wrong(rows, tmp_path):
    X, y = rows
    last = make("PNCA", max_epochs=1)
    refused(make_pipeline(StandardScaler(), last), X, y, tmp_path, "pass X, some rows")
    refused(make_pipeline(StandardScaler(), last), X, y, tmp_path, "X has 2 features", X=X[:, :2])
    code = FunctionTransformer(np.abs)
    refused(make_pipeline(code, last), X, y, tmp_path, "skl2onnx does not convert", X=X)
    # Powers of such numbers, for which onnxruntime has float32 alone.
    large = make_pipeline(PowerTransformer(), last)
    refused(large, X, y, tmp_path, "The graph gives other|does not convert", X=X)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["b"] = np.where(y, "u", None)
    encoder = OneHotEncoder(sparse_output=False)
    refused(make_pipeline(encoder, last), table[["b"]], y, tmp_path, "lacks some", X=table[["b"]])
    named = table[["a", "c"]].rename(columns={"a": "label"})
    refused(make_pipeline(StandardScaler(), last), named, y, tmp_path, "called 'label'", X=named)
    odd = table[["a", "c"]].rename(columns={"a": "a (mm)"})
    refused(make_pipeline(StandardScaler(), last), odd, y, tmp_path, "letters, digits and underscores", X=odd)
    texts = np.where(y, "u", "v")[:, None].astype(object)
    refused(make_pipeline(encoder, last), texts, y, tmp_path, "pass a pandas table", X=texts)
    passed = FunctionTransformer().set_output(transform="pandas")
    refused(make_pipeline(passed, last), table, y, tmp_path, "takes texts or truth values", X=table)


def test_extra__is_named_where_it_is_missing(rows, tmp_path, monkeypatch):
    X, y = rows
    pipeline = make_pipeline(StandardScaler(), make("PNCA", max_epochs=1)).fit(X, y)
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(MissingExtraError, match=r"skl2onnx.*pnca\[onnx\]"):
        export_onnx(pipeline, tmp_path / "model.onnx", X=X)
