"""Models of images: how files become inputs is kept, and nothing else will do."""

import numpy as np
import pytest

import pnca
from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.sources import ImageSource
from pnca.tables import Roles, open_table, read_table
from pnca.vision import Preprocessing, load_backbone
from pnca.vision.folders import image_files
from pnca.workflows.explaining import explain_images
from pnca.workflows.images import (
    BROKEN,
    backbone_of,
    fit_images,
    image_inputs,
    images_of_folder,
    images_of_table,
    predict_images,
    without_broken,
)

Image = pytest.importorskip("PIL.Image")
N = 12  # images of each class


class Means:
    """A backbone: the mean of each colour in each quarter."""

    name, key, n_features, size = "means", "means of quarters 1", 12, 8
    preprocessing = Preprocessing(size=8)

    def __call__(self, images):
        quarters = images.reshape(len(images), 2, 4, 2, 4, 3).mean(axis=(2, 4))
        return quarters.reshape(len(images), -1).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Grey images of 8 by 8 pixels, dark on the left or on the right; 16 bits, TIFF and JPEG among them."""
    place, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for label in ("left", "right"):
        (place / label).mkdir()
        for i in range(N):
            pixels = rng.integers(100, 255, (8, 8))
            pixels[:, slice(0, 4) if label == "left" else slice(4, 8)] //= 4
            name = place / label / f"{i:02d}"
            if i == 0:
                Image.fromarray((256 * pixels).astype(np.uint16)).save(name.with_suffix(".png"))
            else:
                suffix = {1: ".tif", 2: ".bmp"}.get(i, ".png")
                Image.fromarray(pixels.astype(np.uint8)).save(name.with_suffix(suffix))
    return place


@pytest.fixture(scope="module")
def model(folder):
    return fit_images(images_of_folder(folder))


def test_fit_images__small_ones_are_fitted_directly(model, folder):
    assert model.source_ == ImageSource(shape=(8, 8))
    assert model.input_shape_ == (8, 8)
    assert model.classes_.tolist() == ["left", "right"]
    assert model.record_.ids[0] == "left/00.png"
    assert model.record_.inputs.shape == (2 * N, 8, 8)


def test_predict_images__of_a_model_from_a_file(model, folder, tmp_path):
    again = pnca.load(pnca.save(model, tmp_path / "m.pnca"))
    assert again.source_ == model.source_
    files = image_files(folder)
    found = predict_images(again, files, tmp_path / "p.csv")
    said = read_table(tmp_path / "p.csv")
    X = image_inputs(files.paths, model.source_, None)
    assert said["image"].tolist() == files.names
    np.testing.assert_allclose(said["probability_left"], model.predict_proba(X)[:, 0], rtol=1e-9)
    assert found.n == sum(found.counts.values()) == 2 * N
    assert said["examples"].str.startswith(("left/", "right/")).all()


def test_explain_images__names_images(model, folder):
    cases = explain_images(model, image_files(folder / "left" / "03.png"), k=2)
    assert {example.id for example in cases[0].examples} <= set(model.record_.ids)
    assert str(cases[0]).startswith("Case 03.png: predicted ")
    files = image_files(folder)
    both = explain_images(model, files, rows=[2], names=["left/03.png"], k=2)
    assert [case.name for case in both] == [files.names[1], "left/03.png"]
    np.testing.assert_allclose(both[1].proba, cases[0].proba, rtol=1e-9)
    for which, reason in (
        ({"rows": [99]}, "no image 99"),
        ({"names": ["x"]}, "no image 'x'"),
        ({}, "Say which"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            explain_images(model, files, **which)


def test_fit_images__large_ones_need_a_backbone_or_a_size(folder, tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for i in range(3):
            pixels = np.random.default_rng(i).integers(0, 256, (100, 80, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / label / f"{i}.png")
    images = images_of_folder(tmp_path)
    with pytest.raises(
        InvalidInputError,
        match=r"100 by 80 pixels, 24,000 numbers: too many .*6 examples.*--backbone.*--size 32",
    ):
        fit_images(images)
    shrunk = fit_images(images, size=8)
    assert shrunk.source_ == ImageSource(shape=(8, 8, 3), is_resized=True)
    with pytest.raises(InvalidInputError, match="size of its own"):
        fit_images(images, Means(), size=8)


def test_images__of_another_size_or_colour_are_named(model, folder, tmp_path):
    Image.fromarray(np.zeros((9, 8), np.uint8)).save(tmp_path / "tall.png")
    with pytest.raises(InvalidInputError, match=r"tall\.png has 9 by 8 pixels, and others have 8 by 8"):
        predict_images(model, image_files(tmp_path / "tall.png"), tmp_path / "p.csv")
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(tmp_path / "red.png")
    with pytest.raises(InvalidInputError, match=r"red\.png has colours"):
        predict_images(model, image_files(tmp_path / "red.png"), tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_broken_images__are_named_and_skipped_only_if_wanted(model, folder, tmp_path):
    import shutil

    place = tmp_path / "images"
    shutil.copytree(folder, place)
    (place / "left" / "05.png").write_bytes((folder / "left" / "05.png").read_bytes()[:40])
    with pytest.raises(CorruptDataError, match=r"05\.png"):
        fit_images(images_of_folder(place))
    kept = without_broken(images_of_folder(place))
    assert len(kept.files.paths) == len(kept.y) == 2 * N - 1
    assert "left out" in kept.notes[-1]
    assert "05.png" in kept.notes[-1]
    with pytest.raises(CorruptDataError, match=r"05\.png"):
        predict_images(model, image_files(place), tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    found = predict_images(model, image_files(place), tmp_path / "p.csv", skip_broken=True)
    said = read_table(tmp_path / "p.csv")
    assert said["reason"].tolist().count(BROKEN) == found.counts[BROKEN] == 1
    assert said.loc[said["reason"] == BROKEN, "image"].tolist() == ["left/05.png"]
    assert said.loc[said["reason"] == BROKEN, "confidence"].isna().all()


def test_images_of_table__have_groups_and_paths_of_their_own(folder, tmp_path):
    names = image_files(folder).names
    lines = [f"{name},{name.split('/')[0]},{i // 2}" for i, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["file,side,patient", *lines, ",left,99"]))
    roles = Roles(target="side", path="file", group="patient")
    with pytest.raises(InvalidInputError, match="no 'file' in row 25"):
        images_of_table(open_table(tmp_path / "t.csv"), roles, folder)
    images = images_of_table(open_table(tmp_path / "t.csv"), roles, folder, skip_missing=True)
    model = fit_images(images, Means())
    assert (model.source_.target, model.source_.path, model.source_.group) == ("side", "file", "patient")
    assert len(set(model.groups_)) == N
    twice = [lines[0], *lines]
    (tmp_path / "t.csv").write_text("\n".join(["file,side,patient", *twice]))
    with pytest.raises(InvalidInputError, match="rows 1 and 2 have the same 'file'"):
        images_of_table(open_table(tmp_path / "t.csv"), roles, folder)


def test_features__are_those_of_the_backbone_and_no_other(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "cache"))
    model = fit_images(images_of_folder(folder), Means())
    source = pnca.load(pnca.save(model, tmp_path / "m.pnca")).source_
    assert source == model.source_
    assert (source.backbone, source.key, source.size, source.shape) == ("means", Means.key, 8, (12,))
    predict_images(model, image_files(folder), tmp_path / "p.csv", Means())
    X = image_inputs(image_files(folder).paths, source, Means())
    proba = model.predict_proba(X)[:, 0]
    np.testing.assert_allclose(read_table(tmp_path / "p.csv")["probability_left"], proba, rtol=1e-9)

    other = Means()
    other.key = "means of quarters 2"
    monkeypatch.setattr("pnca.workflows.images.load_backbone", lambda *_, **__: other)
    with pytest.raises(InvalidInputError, match="another network than means"):
        backbone_of(source, "other.onnx", tmp_path)
    with pytest.raises(InvalidInputError, match="neither here nor beside the model"):
        backbone_of(source, None, tmp_path)
    other.key = Means.key
    (tmp_path / "means").touch()
    assert backbone_of(source, None, tmp_path) is other  # by its name beside the model


def test_backbone_of__a_model_of_pixels_takes_none(model, tmp_path):
    assert backbone_of(model.source_, None, tmp_path) is None
    with pytest.raises(InvalidInputError, match="takes no backbone"):
        backbone_of(model.source_, "x.onnx", tmp_path)


def test_load_backbone__is_what_models_of_features_are_checked_by():
    assert backbone_of.__globals__["load_backbone"] is load_backbone
