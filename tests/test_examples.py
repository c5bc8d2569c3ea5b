"""Every example runs, shows what its text says, is short, and uses the public interface only."""

import ast
import runpy
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PUBLIC = ["pnca", "pnca.evaluation", "pnca.calibration", "pnca.vision", "pnca.exceptions"]


def own_arrays(names):
    assert names["accuracy"] > 0.9
    assert names["below"]["new rows"] < 0.05
    assert names["below"]["wrong unit"] > 0.99
    assert names["below"]["shuffled columns"] < 0.2  # the text says that they are not found


def images(names):
    assert names["accuracy"] > 0.85
    assert np.median(names["confidence"]["digits"]) > 0.9
    assert np.mean(names["confidence"]["photograph"] > 0.9) < 0.05


def patients(names):
    (expected, on_new), (expected_by_patient, on_new_by_patient) = names["accuracy"].values()
    assert expected - on_new > 0.07
    assert abs(expected_by_patient - on_new_by_patient) < 0.07


def own_module(names):
    assert names["accuracy"] > 0.9
    assert names["embeddings"].shape == (4, 500, 10)


def large_data(names):
    assert list(names["accuracy"].values()) == sorted(names["accuracy"].values())
    assert names["model"].class_features_.shape == (4, 4, 100)


def pipeline(names):
    assert -names["search"].best_score_ < np.log(2)  # of two classes, more is learnt than nothing


def decisions(names):
    assert names["error"] < 0.06  # of 143 patients
    assert names["decisions"].is_answered.mean() > 0.7
    assert names["case"].decision.reason == "unfamiliar"
    assert names["case"].name in set(names["new"]["patient"])
    X_new, loaded = names["X_new"], names["loaded"]
    np.testing.assert_array_equal(loaded.predict_proba(X_new), names["model"].predict_proba(X_new))
    assert names["case"].columns[0].name == "mean radius"
    assert names["case"].usual.familiarity < 0.01
    assert names["usual"].examples[0].id in set(names["train"]["patient"])


CLAIMS = {
    check.__name__: check
    for check in (decisions, own_arrays, images, patients, own_module, large_data, pipeline)
}


def test_claims__are_of_the_examples_that_exist():
    assert sorted(CLAIMS) == [path.stem for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example__runs_and_shows_what_it_says(path, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    try:
        names = runpy.run_path(str(path))
        assert pyplot.get_fignums(), "the gallery shows a figure of every example"
    finally:
        pyplot.close("all")
    CLAIMS[path.stem](names)
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir()), "an example leaves files behind"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example__is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


def private_uses(source):
    """What a script takes from the library that is not public."""
    public = {f"{module}.{name}" for module in PUBLIC for name in public_names(module)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("pnca", "pnca_studies"):
            yield from (n for a in node.names if (n := f"{node.module}.{a.name}") not in public)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("pnca") and a.name not in PUBLIC)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            yield node.attr
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pnca":
            yield from (n for n in [f"pnca.{node.attr}"] if n not in public)


def public_names(module):
    found = import_module(module)
    return getattr(found, "__all__", [name for name in vars(found) if name.endswith("Error")])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example__uses_the_public_interface(path):
    assert list(private_uses(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "from pnca.estimators import PNCAClassifier",
        "from pnca.maths.kernels import log_latent_kernel",
        "import pnca_studies.data",
        "import pnca\npnca.estimators",
        "model._fit(X, y)",
    ],
)
def test_private_uses__are_seen(source):
    assert list(private_uses(source))
