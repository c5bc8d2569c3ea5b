"""``pnca fit`` and ``predict`` on images, and ``pnca explain``."""

import json

import numpy as np
import pandas as pd
import pytest

import pnca
from pnca.interfaces import fit as fit_module
from pnca.workflows import images as images_module

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten images of 6 by 6 pixels of each of two classes."""
    place, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for label, level in (("dark", 0), ("light", 128)):
        (place / label).mkdir()
        for i in range(10):
            pixels = level + rng.integers(0, 128, (6, 6))
            Image.fromarray(pixels.astype(np.uint8)).save(place / label / f"{i}.png")
    return place


@pytest.fixture(scope="module")
def model_file(folder, tmp_path_factory):
    model = images_module.fit_images(images_module.images_of_folder(folder))
    return pnca.save(model, tmp_path_factory.mktemp("model") / "m.pnca")


def test_fit__of_a_folder_says_what_it_is(run, folder, tmp_path):
    code, out, err = run("fit", folder, "-o", tmp_path / "m.pnca")
    assert (code, err) == (0, "")
    assert "dark (10), light (10); 20 examples" in out
    assert "shape: [6, 6]" in out


def test_predict__of_a_folder(run, folder, model_file, tmp_path):
    code, out, _ = run("predict", model_file, folder / "dark", "-o", tmp_path / "p.csv", "--json")
    assert code == 0
    assert json.loads(out)["n"] == 10
    assert (tmp_path / "p.csv").read_text().startswith("image,label,reason,")


def test_predict__of_images_that_a_table_names(run, folder, model_file, tmp_path):
    (tmp_path / "t.csv").write_text("file,note\ndark/1.png,x\nlight/2.png,y\n")
    code, _, _ = run(
        "predict", model_file, tmp_path / "t.csv", "--path-column", "file", "--folder", folder,
        "-o", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["image", "dark/1.png", "light/2.png"]


def test_explain__of_an_image(run, folder, model_file):
    code, out, _ = run("explain", model_file, folder / "dark" / "3.png")
    assert code == 0
    assert "dark/" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--target", "y"), "leave out --target"),
        (("--size", "8", "--backbone", "x.onnx"), "x.onnx"),
        (("--weights", "w.safetensors"), "are for a --backbone"),
        (("--backbone", "resnet50"), "timm:NAME"),
    ],
)
def test_fit__options_that_do_not_fit_a_folder(run, folder, tmp_path, arguments, reason):
    code, _, err = run("fit", folder, "-o", tmp_path / "m.pnca", *arguments)
    assert code == 1
    assert reason in err
    assert not list(tmp_path.iterdir())


def test_fit__options_of_images_do_not_fit_a_table(run, small_tables, tmp_path):
    command = ("fit", small_tables / "train.csv", "--target", "y", "-o", tmp_path / "m.pnca")
    code, _, err = run(*command, "--size", "8", "--backbone", "x.onnx")
    assert code == 1
    assert "--backbone and --size is for images" in err


def test_fit__a_broken_image_is_named_and_skipped_if_wanted(run, folder, tmp_path, monkeypatch):
    import shutil

    shutil.copytree(folder, tmp_path / "images")
    (tmp_path / "images" / "dark" / "4.png").write_bytes(b"\x89PNG")
    out = tmp_path / "m.pnca"
    code, _, err = run("fit", tmp_path / "images", "-o", out)
    assert code == 1
    assert "4.png cannot be read" in err
    monkeypatch.setattr(fit_module, "write_model", lambda *_, **__: None)
    code, _, err = run("fit", tmp_path / "images", "-o", out, "--skip-broken")
    assert code == 0
    assert "left out: The image" in err


def test_predict__a_model_of_images_takes_no_table_and_a_model_of_tables_no_folder(
    run, folder, model_file, small_tables, tmp_path
):
    code, _, err = run("predict", model_file, small_tables / "new.csv", "-o", tmp_path / "p.csv")
    assert code == 1
    assert "not fitted on a table" in err


@pytest.fixture(scope="module")
def table_model(small_tables):
    from pnca.tables import Roles, open_table, read_examples

    found = read_examples(open_table(small_tables / "train.csv"), Roles(target="y", id="sample"))
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=5, experts=["linear"], random_state=0)
    model.fit(found.X, found.y, ids=found.ids)
    model.source_ = found.source
    return pnca.save(model, small_tables / "small.pnca", overwrite=True)


def test_explain__of_rows_by_number_and_by_name(run, table_model, small_tables, tmp_path):
    data = small_tables / "new.csv"
    page = tmp_path / "case.html"
    code, by_number, _ = run("explain", table_model, data, "--row", 4, "--examples", 2, "-o", page)
    assert code == 0
    assert by_number.startswith("Case S3 (row 4): predicted ")
    assert "Case S3 (row 4): predicted " in page.read_text()
    code, by_name, _ = run("explain", table_model, data, "--case", "S3", "--examples", 2)
    assert code == 0
    assert by_name.strip() == by_number.split("\n\nWritten to")[0].strip()
    code, both, _ = run("explain", table_model, data, "--row", 9, "--case", "S3", "--examples", 2)
    assert code == 0
    assert both.startswith("Case S8 (row 9): ")
    assert both.endswith(by_name)


def test_explain__json(run, table_model, small_tables):
    data = small_tables / "new.csv"
    code, out, err = run("explain", table_model, data, "--row", 4, "--row", 2, "--json", "--examples", 2)
    assert (code, err) == (0, "")
    first, second = json.loads(out)
    assert [(case["row"], case["id"]) for case in (first, second)] == [(4, "S3"), (2, "S1")]
    X = pd.read_csv(data)[["a", "b", "site"]].iloc[[3]]
    model = pnca.load(table_model)
    own = dict(zip(model.classes_, model.predict_proba(X)[0], strict=True))
    assert first["probabilities"] == pytest.approx(own, abs=1e-9)
    for label, probability in first["probabilities"].items():
        parts = sum(part[label] for part in first["parts"].values())
        assert parts == pytest.approx(probability, abs=1e-9)
    assert len(first["examples"]) == 2
    assert first["examples"][0]["name"].startswith("S")
    assert first["familiarity"] == pytest.approx(model.familiarity(X)[0])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "Say which row"),
        (("--row", "13"), "no row 13: there are 12"),
        (("--case", "S99"), "no row whose 'sample' is 'S99'"),
    ],
)
def test_explain__rows_that_are_not_there(run, table_model, small_tables, arguments, reason):
    code, _, err = run("explain", table_model, small_tables / "new.csv", *arguments)
    assert code == 1
    assert reason in err
