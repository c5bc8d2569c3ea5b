"""A graph in onnxruntime answers as the model that it was made of."""

import json
import sys
from copy import copy
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn

import models
import pnca
from models import make
from pnca import NCAClassifier, export_onnx
from pnca.calibration.conformal import conformal_p_values
from pnca.exceptions import InvalidInputError, MissingExtraError

#: What is promised of probabilities and p-values; and of evidence as a part of itself.
TOLERANCE = 1e-5


@pytest.fixture
def noisy():
    return models.noisy()


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(path, **inputs):
    session = session_of(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_same(found, model, X):
    """Of labels and p-values but where rounding decides."""
    proba = model.predict_proba(X)
    has_digits = np.ones(len(X), dtype=bool)
    if getattr(model, "background_", 1) == 0:  # in logs of masses so small classes do not differ
        has_digits = np.abs(model.evidence(X)) < 1e9
    np.testing.assert_allclose(found["probabilities"][has_digits], proba[has_digits], rtol=0, atol=TOLERANCE)
    ordered = np.sort(proba, axis=1)
    is_clear = has_digits & (ordered[:, -1] - ordered[:, -2] > TOLERANCE)
    np.testing.assert_array_equal(found["label"][is_clear], model.predict(X)[is_clear])
    assert ("evidence" in found) == hasattr(model, "evidence")
    assert ("familiarity" in found) == hasattr(model, "oof_evidence_")
    if "evidence" in found:
        evidence = model.evidence(X)
        np.testing.assert_allclose(found["evidence"], evidence, rtol=TOLERANCE, atol=TOLERANCE)
        if "familiarity" in found:
            gap = np.abs(evidence[:, None] - model.oof_evidence_).min(axis=1)
            is_apart = gap > 1e-7 * np.abs(evidence)
            np.testing.assert_allclose(
                found["familiarity"][is_apart], model.familiarity(X)[is_apart], rtol=0, atol=TOLERANCE
            )


def odd_queries(X, rng):
    """Rows like the training examples, between them, and ever farther away."""
    centre, width = X.mean(axis=0), X.std(axis=0) + 1e-3
    far = centre + width * rng.normal(size=(12, *X.shape[1:])) * np.geomspace(1, 1e6, 12).reshape(
        -1, *[1] * (X.ndim - 1)
    )
    return np.concatenate([X[:8], (X[:8] + X[8:16]) / 2, far, np.zeros_like(X[:1])])


def random_fit(seed):
    """A small model of any sort that there is a graph of, and rows like those of its training."""
    rng = np.random.RandomState(seed)

    def pick(*choices):
        return choices[rng.randint(len(choices))]

    n, p, c = rng.randint(30, 60), rng.randint(1, 7), rng.randint(2, 5)
    y = np.arange(n) % c
    X = (rng.normal(size=(n, p)) + 2 * rng.normal(size=(c, p))[y]) * 10.0 ** rng.randint(-3, 4, size=p)
    X += pick(0.0, 1e4)
    settings = {
        "n_components": pick(1, 3),
        "hidden_layer_sizes": pick((), (6,), (5, 4)),
        "max_epochs": 4,
        "n_folds": pick(None, 3),
        "class_weight": pick(None, "balanced"),
        "novelty": pick(True, False),
        "scaling": pick("auto", "columns", "common"),
        "background": pick("auto", 0.0, 0.2),
        "bandwidth": pick(1.0, 3.0),
        "experts": (),
    }
    kernel = pick("exact", "exact", "exact", "positive", "orthogonal")
    settings["expectation"] = "cross" if kernel == "orthogonal" else pick("shared", "cross")
    if kernel != "positive":
        settings["input_weight"] = pick("auto", 0.0, 0.5)
    if settings["n_folds"] and kernel != "positive":
        settings["experts"] = pick((), ("linear",), ("forest",), ("linear", "forest"))
    if rng.rand() < 0.2 and kernel == "exact":
        side = 5
        X = rng.rand(n, side, side) * 255 + 60 * y[:, None, None]
        settings |= {"experts": (), "n_particles": 4, "scaling": "auto"}
    labels = pick(y, y.astype(float), np.array([f"klasse {k} ß" for k in range(c)])[y], y == 0)
    groups = (
        {"groups": np.arange(n) // 2} if kernel != "positive" and rng.rand() < 0.3 and n % (2 * c) else {}
    )
    weights = {"sample_weight": rng.rand(n) + 0.1} if rng.rand() < 0.3 else {}
    return make("PNCA", kernel=kernel, **settings).fit(X, labels, **groups, **weights), X, rng


pytestmark = pytest.mark.filterwarnings("ignore")  # of models that have learnt nothing in a few epochs


@pytest.mark.parametrize("seed", range(25))
def test_graph__answers_as_the_model(seed, tmp_path):
    model, X, rng = random_fit(seed)
    file = export_onnx(model, tmp_path / "model.onnx")
    queries = odd_queries(X, rng)
    if X.ndim == 2:  # a missing number
        queries = np.concatenate([queries, X[:3]])
        queries[-3:, 0] = np.nan
    assert_same(run(file, X=queries), model, queries)
    one = run(file, X=queries[:1])
    np.testing.assert_allclose(one["probabilities"], model.predict_proba(queries[:1]), rtol=0, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25, 300))
def test_graph__answers_as_any_model(seed, tmp_path):
    test_graph__answers_as_the_model(seed, tmp_path)


@pytest.mark.parametrize("name", ["NCA", "DNN", "Ensemble", "BNN"])
def test_graph__is_of_the_other_models_too(name, noisy, tmp_path):
    X, y = noisy
    model = make(name, max_epochs=3).fit(X, y)
    found = run(export_onnx(model, tmp_path / "model.onnx"), X=X.astype(np.float64))
    assert_same(found, model, X)
    assert found.keys() == {"probabilities", "label"} | ({"evidence"} if name == "NCA" else set())


def test_familiarity__counts_groups_once(noisy, tmp_path):
    X, y = noisy
    model = make("PNCA", max_epochs=3).fit(X, y, np.repeat(np.arange(10), 4))
    queries = np.concatenate([X + 0.05, X + 50])
    found = run(export_onnx(model, tmp_path / "model.onnx"), X=queries.astype(np.float64))["familiarity"]
    np.testing.assert_allclose(found, model.familiarity(queries.astype(np.float64)), atol=TOLERANCE)
    assert found.min() == pytest.approx(1 / 11)
    without = conformal_p_values(model.oof_evidence_, model.evidence(queries))
    assert np.abs(found - without).max() > 0.01


# Tables


def table(n=80):
    rng = np.random.RandomState(0)
    y = np.arange(n) % 2
    return pd.DataFrame(
        {
            "age": np.where(rng.rand(n) < 0.1, np.nan, rng.normal(size=n) * 10 + 50 + 10 * y),
            "sex": rng.choice(["f", "m"], size=n),
            "site": np.where(rng.rand(n) < 0.2, None, rng.choice(["a", "b", "c", "d"], size=n)),
            "town": np.where(np.arange(n) < 8, [f"rare {i}" for i in range(n)], "here"),
            "smokes": rng.rand(n) < 0.5,
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.randint(90, size=n), unit="D"),
            "stay": pd.to_timedelta(rng.randint(9, size=n), unit="D"),
            "grade": rng.choice([1, 2, 7], size=n),
            "empty": np.full(n, np.nan),
        }
    ), np.where(y, "ill", "well")


def columns_of(X):
    """What the documentation says that inputs are."""
    found = {name: X[name].to_numpy(dtype=np.float64)[:, None] for name in ("age", "grade", "empty")}
    found |= {name: X[name].fillna("").to_numpy(dtype=object)[:, None] for name in ("sex", "site", "town")}
    days = {"seen": X["seen"] - pd.Timestamp("1970-01-01"), "stay": X["stay"]}
    found |= {name: (part / pd.Timedelta("1D")).to_numpy()[:, None] for name, part in days.items()}
    return found | {"smokes": X["smokes"].to_numpy()[:, None]}


@pytest.mark.parametrize("experts", [(), "auto"])
def test_table__has_an_input_for_each_column(experts, tmp_path):
    X, y = table()
    model = make("PNCA", max_epochs=3, experts=experts, categorical_features=["grade"]).fit(X, y)
    file = export_onnx(model, tmp_path / "model.onnx", X=X)
    queries = X.copy()
    queries.loc[:5, "site"] = "somewhere new"
    queries.loc[:5, "town"] = "another rare one"
    queries.loc[3:7, "sex"] = None
    queries.loc[4:9, "grade"] = 5
    queries["grade"] = queries["grade"].astype(float)
    queries.loc[10:11, "grade"] = np.nan
    queries.loc[12, "seen"] = pd.NaT
    queries.loc[13, "age"] = 1e6
    assert_same(run(file, **columns_of(queries)), model, queries)
    kinds = {given.name: given.type for given in session_of(file).get_inputs()}
    assert kinds["sex"] == kinds["town"] == "tensor(string)"
    assert kinds["smokes"] == "tensor(bool)"
    assert kinds["seen"] == kinds["age"] == kinds["grade"] == "tensor(double)"


def test_table_of_numbers__has_one_input(tmp_path):
    X, y = table()
    X = X[["age", "grade"]]
    model = make("PNCA", max_epochs=3).fit(X, y)
    file = export_onnx(model, tmp_path / "model.onnx")
    assert_same(run(file, X=X.to_numpy(dtype=np.float64)), model, X)


# What a file says


def test_file__says_what_it_is(tmp_path):
    X, y = table()
    X = X[["age", "sex"]]
    model = make("PNCA", max_epochs=2).fit(X, y)
    found = onnx.load(export_onnx(model, tmp_path / "model.onnx"))
    onnx.checker.check_model(found, full_check=True)
    told = {entry.key: entry.value for entry in found.metadata_props}
    assert told["pnca"] == pnca.__version__
    assert json.loads(told["classes"]) == ["ill", "well"]
    assert json.loads(told["columns"]) == [["age", "number"], ["sex", "category"]]
    assert json.loads(told["inputs"]) == {"age": "double", "sex": "string"}
    assert found.producer_name == "pnca"
    (first, *_) = session_of(tmp_path / "model.onnx").get_inputs()
    assert first.shape == ["n", 1]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (np.array([3, -5]), "tensor(int64)"),
        (np.array([3, 5], dtype=np.uint8), "tensor(int64)"),
        (np.array(["ja", "nein"]), "tensor(string)"),
        (np.array(["ja", "nein"], dtype=object), "tensor(string)"),
        (np.array([True, False]), "tensor(bool)"),
        (np.array([1.0, 2.0]), "tensor(double)"),
    ],
)
def test_labels__keep_their_type(labels, kind, noisy, tmp_path):
    X, y = noisy
    model = make("NCA", max_epochs=2).fit(X, labels[y])
    file = export_onnx(model, tmp_path / "model.onnx")
    assert session_of(file).get_outputs()[1].type == kind
    assert run(file, X=X.astype(np.float64))["label"].tolist() == model.predict(X).tolist()


# Refused


def test_module__is_refused_with_what_to_do(noisy, tmp_path):
    X, y = noisy
    model = make("PNCA", module=lambda: nn.Linear(3, 2), max_epochs=1).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"fitted with module=.*torch\.onnx\.export"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_refusals__name_what_is_wrong(noisy, tmp_path):
    X, y = noisy
    target = tmp_path / "model.onnx"
    model = make("NCA", max_epochs=1).fit(X, y)
    with pytest.raises(InvalidInputError, match="not fitted"):
        export_onnx(make("NCA"), target)
    for wrong in (
        LogisticRegression(),
        type("Own", (NCAClassifier,), {})(),
        make_pipeline(LogisticRegression()),
    ):
        with pytest.raises(InvalidInputError, match="cannot be exported"):
            export_onnx(wrong, target)
    with pytest.raises(ValueError, match="X has 2 features"):
        export_onnx(model, target, X=X[:, :2])
    other = copy(model)
    other.fitted_ = replace(model.fitted_, classes=np.array([b"no", b"yes"]))
    with pytest.raises(InvalidInputError, match="classes are of type"):
        export_onnx(other, target)
    with pytest.raises(InvalidInputError, match="no folder"):
        export_onnx(model, tmp_path / "nowhere" / "model.onnx")
    for column, values, message in (
        ("label", ["f", "m"], "called 'label'"),
        ("sex", ["", "m"], "empty text"),
        ("sex", [True, "m"], "one sort in a column"),
    ):
        X_table = pd.DataFrame({column: [values[k] for k in y], "b": X[:, 0]})
        fitted = make("PNCA", max_epochs=1).fit(X_table, y)
        with pytest.raises(InvalidInputError, match=message):
            export_onnx(fitted, target)
    assert not list(tmp_path.iterdir())


def test_file__is_not_overwritten_and_not_left_half_written(noisy, tmp_path, monkeypatch):
    X, y = noisy
    model = make("NCA", max_epochs=1).fit(X, y)
    target = export_onnx(model, tmp_path / "model.onnx")
    content = target.read_bytes()
    with pytest.raises(InvalidInputError, match="overwrite=True"):
        export_onnx(model, target)
    from pnca.persistence.onnx import kernels

    monkeypatch.setattr(kernels, "FLOOR", 0.0)
    monkeypatch.setattr(kernels, "log_mean", lambda logs, n: logs.logsumexp(0))
    monkeypatch.setattr("pnca.persistence.onnx.model.log_mean", lambda logs, n: logs.logsumexp(0) + 1)
    with pytest.raises(InvalidInputError, match="other evidence than the model, so no file"):
        export_onnx(model, target, overwrite=True)
    assert target.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("part", ["probabilities", "label", "familiarity"])
def test_trial__sees_a_graph_that_answers_otherwise(part, noisy, tmp_path, monkeypatch):
    X, y = noisy
    model = make("PNCA", max_epochs=2).fit(X, y)
    from pnca.persistence.onnx.graph import Graph

    original = Graph.output

    def wrong(self, term, name):
        if name == part == "label":
            term = self.op("Where", np.array(True), np.array(0), term)
        elif name == part:
            term = term * (1 - 1e-3)
        original(self, term, name)

    monkeypatch.setattr(Graph, "output", wrong)
    with pytest.raises(InvalidInputError, match="The graph gives other"):
        export_onnx(model, tmp_path / "model.onnx")


def test_extra__is_named_where_it_is_missing(noisy, tmp_path, monkeypatch):
    X, y = noisy
    model = make("NCA", max_epochs=1).fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pnca\[onnx\]"):
        export_onnx(model, tmp_path / "model.onnx")
