"""``pnca audit``, ``suggest`` and ``export``: what they write and print, and how they refuse."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import pnca


def test_audit__finds_what_python_finds_and_names_examples_by_their_ids(run, model_file, tmp_path):
    out = tmp_path / "findings.parquet"
    code, said, err = run("audit", model_file, "-o", out, "--json")
    assert (code, err) == (0, "")
    found, own = json.loads(said), pnca.load(model_file).audit()
    assert found["n_examples"] == 60
    assert [finding["sentence"] for finding in found["findings"]] == [finding.sentence for finding in own]
    assert found["summary"] == own.summary()
    table = pd.read_parquet(out)
    assert table["sentence"].tolist() == [finding.sentence for finding in own]
    assert list(table.columns) == ["kind", "what", "strength", "meaning", "sentence", "advice"]


def test_audit__says_what_cannot_be_looked_at_and_counts_rows_from_one(run, predictive_file, model_file):
    code, out, _ = run("audit", predictive_file)
    assert code == 0
    assert out.startswith("Of 60 training examples, ")
    assert "Columns and pairs of examples were not looked at: the model keeps no record" in out
    by_id = [f for f in json.loads(run("audit", model_file, "--json")[1])["findings"] if "label" in f["kind"]]
    by_row = json.loads(run("audit", predictive_file, "--json")[1])["findings"]
    by_row = [finding for finding in by_row if "label" in finding["kind"]]
    # Identifiers are S0, S1, ... in the order of the rows.
    assert [f["what"] for f in by_row] == [[str(int(name[1:]) + 1) for name in f["what"]] for f in by_id]


def test_audit__of_a_table_is_that_of_its_model(run, small_tables, tmp_path, monkeypatch):
    rows = pd.read_csv(small_tables / "train.csv")
    pd.concat([rows, rows.iloc[:3].assign(sample=["T0", "T1", "T2"])]).to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = run("audit", tmp_path / "t.csv", "--target", "y", "--id", "sample")
    assert code == 0
    assert "repeated examples in different folds: 1" in out
    (line,) = (line for line in out.splitlines() if "are equal or almost equal" in line)
    pairs = [(f"S{i}", f"T{i}") for i in range(3)]  # those of one fold do no harm
    assert any(repr(a) in line and repr(b) in line for a, b in pairs)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    monkeypatch.setattr("pnca.interfaces.fit.fit_users_table", lambda *_, **__: pytest.fail("was fitted"))
    code, _, err = run("audit", tmp_path / "t.csv")
    assert code == 1
    assert "is the class, with --target: there are 'sample', 'a', 'b', 'site', 'y'" in err


def test_audit__refuses_roles_of_columns_beside_a_model(run, model_file):
    code, _, err = run("audit", model_file, "--target", "y")
    assert code == 1
    assert "is no table" in err


def test_suggest__is_that_of_python_by_the_names_of_the_rows(run, model_file, small_tables, tmp_path):
    out = tmp_path / "next.csv"
    code, said, err = run("suggest", model_file, small_tables / "new.csv", "-k", "4", "-o", out, "--json")
    assert (code, err) == (0, "")
    pool = pd.read_csv(small_tables / "new.csv")
    own = pnca.load(model_file).suggest(pool[["a", "b", "site"]], 4)
    found = json.loads(said)
    assert [one["name"] for one in found["suggestions"]] == pool["sample"].iloc[own.rows].tolist()
    assert found["n"] == found["n_compared"] == 12
    table = pd.read_csv(out)
    assert table["sample"].tolist() == pool["sample"].iloc[own.rows].tolist()
    np.testing.assert_allclose(table["score"], own.score, rtol=1e-9)
    assert table["reason"].tolist() == own.reason.tolist()


def test_suggest__rows_without_a_name_are_counted_from_one_and_new_columns_named(
    run, model_file, small_tables, tmp_path
):
    pool = pd.read_csv(small_tables / "new.csv").drop(columns=["sample", "y"])
    pool.assign(extra=1).to_csv(tmp_path / "pool.csv", index=False)
    code, out, err = run("suggest", model_file, tmp_path / "pool.csv", "-k", "12")
    assert code == 0
    assert "'extra'" in err
    assert out.startswith("12 of 12 inputs, which stand for ")
    rows = [int(line.split()[0]) for line in out.splitlines()[2:]]
    assert sorted(rows) == list(range(1, 13))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-k", "13"), "k is 13: pass a whole number from 1 to 12"),
        (("--id", "nobody"), "no column 'nobody' (--id)"),
        (("--backbone", "b.onnx"), "is for images"),
    ],
)
def test_suggest__settings_that_cannot_be_met(run, model_file, small_tables, arguments, reason):
    code, out, err = run("suggest", model_file, small_tables / "new.csv", *arguments)
    assert (code, out) == (1, "")
    assert reason in err


def test_export__is_the_graph_of_the_model(run, model_file, tmp_path):
    pytest.importorskip("onnx")
    out = tmp_path / "m.onnx"
    code, said, err = run("export", model_file, "--onnx", out, "--json")
    assert (code, err) == (0, "")
    about = json.loads(said)
    assert about["inputs"]["site"] == {"type": "string", "shape": ["n", 1]}
    assert set(about["outputs"]) == {"probabilities", "label", "evidence", "familiarity"}
    assert about["bytes"] == out.stat().st_size
    assert out.read_bytes() == pnca.export_onnx(pnca.load(model_file), tmp_path / "own.onnx").read_bytes()
    code, said, err = run("export", model_file, "--onnx", out)
    assert (code, said) == (1, "")
    assert "exists: name another file" in err
    code, said, _ = run("export", model_file, "--onnx", out, "--force")
    assert code == 0
    assert "site: string, n x 1" in said


def test_export__refusals_are_one_sentence_and_write_nothing(run, model_file, tmp_path, monkeypatch):
    from sklearn.datasets import load_iris
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = pnca.PNCAClassifier(n_particles=2, max_epochs=2, experts=(), random_state=0)
    pipeline = make_pipeline(StandardScaler(), model).fit(*load_iris(return_X_y=True))
    pnca.save(pipeline, tmp_path / "pipeline.pnca")
    code, _, err = run("export", tmp_path / "pipeline.pnca", "--onnx", tmp_path / "m.onnx")
    assert code == 1
    assert len(err.splitlines()) == 1
    assert "pass X" in err
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = run("export", model_file, "--onnx", tmp_path / "m.onnx")
    assert code == 1
    assert "pip install 'pnca[onnx]'" in err
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.pnca"]


def test_audit__of_features_of_images_says_nothing_of_columns():
    from pnca.sources import ImageSource
    from pnca.workflows.auditing import audit_model

    X = np.random.default_rng(0).normal(size=(40, 4))
    X[:, 3] = X[:, 2]
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=2, experts=(), random_state=0)
    model.fit(X, np.arange(40) % 2)
    assert any(finding.kind == "copy" for finding in audit_model(model))
    model.source_ = ImageSource(shape=(4,), key="onnx 1", backbone="net.onnx")
    found = audit_model(model)
    assert not any(finding.kind == "copy" for finding in found)
    assert "Inputs are features by net.onnx: their columns were not looked at" in found.summary()


def test_suggest__of_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from pnca.sources import ImageSource
    from pnca.vision.folders import image_files
    from pnca.workflows.suggesting import suggest_images

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (30, 4, 4)).astype(np.uint8)
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=2, random_state=0).fit(pixels, np.arange(30) % 2)
    model.source_ = ImageSource(shape=(4, 4))
    for place in range(6):
        image.fromarray(pixels[place]).save(tmp_path / f"{place}.png")
    (tmp_path / "2.png").write_bytes(b"\x89PNG")
    with pytest.raises(pnca.exceptions.CorruptDataError, match=r"2\.png"):
        suggest_images(model, image_files(tmp_path), k=2)
    found = suggest_images(model, image_files(tmp_path), k=2, skip_broken=True)
    own = model.suggest(pixels[[0, 1, 3, 4, 5]], 2)
    assert found.names.tolist() == [f"{[0, 1, 3, 4, 5][row]}.png" for row in own.rows]
    assert any("2.png" in note for note in found.notes)


@pytest.mark.parametrize("command", ["audit", "suggest", "export", "explain"])
def test_help__has_an_example_and_the_exit_status(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: pnca {command} " in out
    assert "Exit status: 0" in out
