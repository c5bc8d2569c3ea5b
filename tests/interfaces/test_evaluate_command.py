"""``pnca evaluate``: numbers, JSON and the report, for tables and images, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pnca

pytestmark = pytest.mark.filterwarnings("ignore:X holds values that no training example had")


@pytest.fixture(scope="module")
def place(small_tables, tmp_path_factory):
    """A folder with a small model of a table, labelled and out-of-distribution cases."""
    from pnca.tables import Roles, open_table, read_examples

    folder = tmp_path_factory.mktemp("evaluate")
    found = read_examples(open_table(small_tables / "train.csv"), Roles(target="y", id="sample"))
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=5, experts=["linear"], random_state=0)
    model.fit(found.X, found.y, ids=found.ids)
    model.source_ = found.source
    pnca.save(model, folder / "m.pnca")
    lines = (small_tables / "new.csv").read_text().splitlines()
    (folder / "test.csv").write_text("\n".join(lines) + "\n")
    (folder / "other.csv").write_text("a,b,site\n" + "90,90,Bonn\n" * 5)
    return folder


def test_evaluate__through_the_console_script(place, tmp_path):
    script = Path(sys.executable).with_name("pnca")
    if not script.exists():
        pytest.skip("pnca is not installed beside this Python")
    report = tmp_path / "report.html"
    command = [str(script), "evaluate", "m.pnca", "test.csv", "--ood", "other.csv", "--report", str(report)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(pnca.__file__).parents[1])}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for text in (
        "Accuracy: ",
        "12 labelled inputs",
        "Balanced accuracy: ",
        "AUROC: ",
        "NLL ",
        "ECE",
        "Answers, at most 5 % wrong",
    ):
        assert text in done.stdout
    assert "of 5 inputs 0 were answered" in done.stdout
    text = report.read_text(encoding="utf-8")
    assert "In three sentences" in text
    assert "other.csv" in text
    assert list(tmp_path.iterdir()) == [report]


def test_evaluate__without_a_file_is_out_of_fold(run, place):
    code, out, err = run("evaluate", place / "m.pnca", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["is_out_of_fold"]
    assert found["n"] == 60
    model = pnca.load(place / "m.pnca")
    labels = model.support_labels_
    assert found["accuracy"]["value"] == pytest.approx((model.oof_proba_.argmax(axis=1) == labels).mean())


def test_evaluate__settings_reach_the_answers(run, place):
    strict, loose = (
        json.loads(run("evaluate", place / "m.pnca", "--json", "--max-error", error, "--confidence", ".5")[1])
        for error in ("0.01", "0.4")
    )
    assert strict["promise"]["threshold"] is None
    assert strict["answers"]["n_answered"] == 0
    assert loose["answers"]["n_answered"] > 0
    assert loose["promise"] == pytest.approx(loose["promise"] | {"max_error": 0.4, "confidence": 0.5})


def test_evaluate__unknown_classes_and_leaks_are_said(run, place, small_tables, tmp_path):
    lines = (small_tables / "train.csv").read_text().splitlines()
    changed = [lines[0], *(line.rsplit(",", 1)[0] + ",odd" for line in lines[1:4]), *lines[4:20]]
    (tmp_path / "t.csv").write_text("\n".join(changed) + "\n")
    code, out, err = run("evaluate", place / "m.pnca", tmp_path / "t.csv")
    assert code == 0
    assert "Unknown classes: 3 inputs have a label that is no class of the model: odd (3)" in out
    assert "16 labelled inputs" in out
    assert "19 of 19 cases in t.csv equal a training example, such as S0" in err


def test_evaluate__one_class_in_the_cases(run, place, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,site,y\n3,0,Ulm,ill\n2.5,1,Bonn,ill\n")
    code, out, _ = run("evaluate", place / "m.pnca", tmp_path / "t.csv")
    assert code == 0
    assert "AUROC: not known" in out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty (0 bytes)"),
        ("a,b,site,y\n", "a header and no rows"),
        ("a,b,site\n1,2,Ulm\n", "no column 'y' (--target)"),
        ("a,site,y\n1,Ulm,ill\n", "no column 'b'"),
        ("a,b,site,y\n1,2,Ulm,\n3,4,Ulm,ill\n", "no 'y' in row 1. Fill it in"),
        ("a,b,site,y\n1,x,Ulm,ill\n", "'x' is no number"),
        ("a,b,site,y\n1,2,Ulm,other\n", "None of the labels in column 'y'"),
    ],
)
def test_evaluate__bad_tables_are_one_sentence_and_nothing_is_written(run, place, tmp_path, content, reason):
    (tmp_path / "t.csv").write_text(content)
    code, out, err = run("evaluate", place / "m.pnca", tmp_path / "t.csv", "--report", tmp_path / "r.html")
    assert (code, out) == (1, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_evaluate__rows_without_a_class_are_left_out_if_wanted(run, place, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,site,y\n1,2,Ulm,\n3,4,Ulm,ill\n")
    code, out, err = run("evaluate", place / "m.pnca", tmp_path / "t.csv", "--skip-missing")
    assert code == 0
    assert "of 1 labelled inputs" in out
    assert "1 rows without 'y' are left out" in err


def test_evaluate__the_report_replaces_nothing_without_force(run, place, tmp_path, monkeypatch):
    report = tmp_path / "r.html"
    report.write_text("mine")
    code, _, err = run("evaluate", place / "m.pnca", "--report", report)
    assert code == 1
    assert "exists" in err
    assert report.read_text() == "mine"
    closed = tmp_path / "closed"
    closed.mkdir()
    monkeypatch.setattr("pnca.files.os.access", lambda path, mode: Path(path) != closed)
    code, _, err = run("evaluate", place / "m.pnca", "--report", closed / "r.html")
    assert code == 1
    assert "read-only" in err
    assert run("evaluate", place / "m.pnca", "--report", report, "--force")[0] == 0
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_evaluate__stopped_or_without_room_it_writes_nothing(run, place, tmp_path, monkeypatch):
    import errno

    def stopped(*_):
        raise KeyboardInterrupt

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "r.html"))

    arguments = ("evaluate", place / "m.pnca", "--report", tmp_path / "r.html")
    monkeypatch.setattr("pnca.reports.pages.report_html", stopped)
    code, out, err = run(*arguments)
    assert (code, out, err) == (130, "", "pnca: stopped; nothing was written.\n")
    monkeypatch.undo()
    monkeypatch.setattr("pathlib.Path.write_text", full)
    code, _, err = run(*arguments)
    assert code == 1
    assert "No space left on device" in err
    assert not list(tmp_path.iterdir())


def test_evaluate__a_missing_extra_is_named_before_anything_is_computed(run, place, tmp_path, monkeypatch):
    from pnca.exceptions import MissingExtraError

    def missing():
        raise MissingExtraError("matplotlib", "plots")

    monkeypatch.setattr("pnca.explanations.pages.require_matplotlib", missing)
    monkeypatch.setattr("pnca.load", lambda *_: pytest.fail("was loaded"))
    code, _, err = run("evaluate", place / "m.pnca", "--report", tmp_path / "r.html")
    assert code == 1
    assert "pnca[plots]" in err


def test_evaluate__what_does_not_fit_the_model_is_refused(run, place, tmp_path):
    model = place / "m.pnca"
    (tmp_path / "images").mkdir()
    for arguments, reason in [
        ((tmp_path / "images",), "the model was fitted on a table"),
        ((place / "test.csv", "--folder", tmp_path), "--folder is for images"),
        ((place / "absent.csv",), "There is no table"),
        ((place / "test.csv", "--max-error", "2"), "max_error is 2"),
        (("--learning-curve",), "name one with --report"),
    ]:
        code, out, err = run("evaluate", model, *arguments)
        assert (code, out) == (1, "")
        assert reason in err
    dnn = pnca.DNNClassifier(max_epochs=1).fit(np.eye(4), [0, 1, 0, 1])
    code, _, err = run("evaluate", pnca.save(dnn, tmp_path / "dnn.pnca"))
    assert code == 1
    assert "pass a fitted PNCAClassifier" in err
    code, _, err = run("evaluate", tmp_path / "none.pnca")
    assert code == 1
    assert run("evaluate", model, "--seed", "1")[0] == 2


def test_evaluate__a_model_without_folds_is_refused(run, tmp_path):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=1, n_folds=None, experts=()).fit(X, y)
    code, _, err = run("evaluate", pnca.save(model, tmp_path / "m.pnca"))
    assert code == 1
    assert "knows nothing of its training examples out of fold" in err


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with images of two classes, and a small model of them."""
    Image = pytest.importorskip("PIL.Image")
    from pnca.workflows.images import images_of_folder

    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for label, level in (("dark", 0), ("light", 128)):
        (folder / "train" / label).mkdir(parents=True)
        for i in range(10):
            pixels = level + rng.integers(0, 128, (6, 6))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "train" / label / f"{i}.png")
    found = images_of_folder(folder / "train")
    from pnca.sources import ImageSource
    from pnca.workflows.images import image_inputs

    source = ImageSource(shape=(6, 6))
    model = pnca.PNCAClassifier(n_particles=2, max_epochs=3, augmentation=0, random_state=0)
    model.fit(
        image_inputs(found.files.paths, source, None), found.y, ids=np.array(found.files.names, dtype=object)
    )
    model.source_ = source
    pnca.save(model, folder / "m.pnca")
    return folder


def test_evaluate__a_folder_of_images_with_pictures_in_the_report(run, images, tmp_path):
    report = tmp_path / "r.html"
    code, out, err = run("evaluate", images / "m.pnca", images / "train", "--report", report)
    assert code == 0
    assert "20 labelled inputs" in out
    assert "20 of 20 cases in train equal a training example" in err
    text = report.read_text(encoding="utf-8")
    assert text.count("<img ") >= 3 * 6  # three cases, each with its examples
    assert "train (20 images)" in text


def test_evaluate__images_that_a_table_names(run, images, tmp_path):
    (tmp_path / "t.csv").write_text("file,y\ndark/1.png,dark\nlight/2.png,odd\n")
    arguments = ("--path-column", "file", "--folder", images / "train", "--target", "y")
    code, out, _ = run("evaluate", images / "m.pnca", tmp_path / "t.csv", *arguments)
    assert code == 0
    assert "1 labelled inputs" in out
    assert "odd (1)" in out
    for given, reason in [(("--path-column", "file"), "--target"), ((), "--path-column")]:
        code, _, err = run("evaluate", images / "m.pnca", tmp_path / "t.csv", *given)
        assert code == 1
        assert f"Say which column of {tmp_path / 't.csv'}" in err
        assert reason in err


def test_evaluate__a_broken_image_is_named_and_left_out_if_wanted(run, images, tmp_path):
    import shutil

    shutil.copytree(images / "train", tmp_path / "test")
    (tmp_path / "test" / "dark" / "4.png").write_bytes(b"\x89PNG")
    code, _, err = run("evaluate", images / "m.pnca", tmp_path / "test")
    assert code == 1
    assert "4.png cannot be read" in err
    code, out, err = run("evaluate", images / "m.pnca", tmp_path / "test", "--skip-broken")
    assert code == 0
    assert "19 labelled inputs" in out
    assert "left out: " in err
