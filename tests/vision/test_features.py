import csv

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.vision import (
    EQUALISED_CROP,
    IMAGENET_CROP,
    Preprocessing,
    image_features,
    load_backbone,
    read_image,
)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def entries(cache):
    return sorted(cache.rglob("*.features"))


def test_image_features__are_the_backbone_on_the_prepared_images(photographs, mean_colour, cache):
    backbone = mean_colour()
    expected = [read_image(path, backbone.preprocessing).mean(axis=(0, 1)) for path in photographs]
    features = image_features(photographs, backbone, cache_dir=cache)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=1e-6)  # float32


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
def test_batch_size__changes_the_batches_and_not_the_features(photographs, mean_colour, cache, batch_size):
    whole, parts = mean_colour(), mean_colour()
    expected = image_features(photographs, whole, cache=False)
    features = image_features(photographs, parts, cache_dir=cache, batch_size=batch_size)
    np.testing.assert_array_equal(features, expected)
    assert sum(parts.batches) == 5
    assert max(parts.batches) == min(batch_size, 5)


def test_order__of_the_features_is_that_of_the_paths(photographs, mean_colour, cache):
    features = image_features(photographs, mean_colour(), cache_dir=cache)
    order = [3, 0, 4, 1, 2]
    shuffled = [photographs[i] for i in order]
    for settings in ({"cache_dir": cache}, {"cache": False, "batch_size": 2}):
        np.testing.assert_array_equal(image_features(shuffled, mean_colour(), **settings), features[order])


def test_duplicates__are_computed_once(photographs, mean_colour, cache):
    copy = photographs[0].with_name("copy.png")
    copy.write_bytes(photographs[0].read_bytes())
    paths = [photographs[0], photographs[1], copy, photographs[0]]
    for settings in ({"cache_dir": cache}, {"cache": False}):
        backbone = mean_colour()
        features = image_features(paths, backbone, **settings)
        assert backbone.batches == [2]
        np.testing.assert_array_equal(features[[0, 0]], features[2:])
        assert (features[0] != features[1]).any()


def test_no_paths__give_no_rows(mean_colour, cache):
    assert image_features([], mean_colour(), cache_dir=cache).shape == (0, 3)


def test_progress__counts_the_images(photographs, mean_colour, cache):
    calls = []
    image_features(
        photographs, mean_colour(), cache_dir=cache, progress=lambda *numbers: calls.append(numbers)
    )
    assert calls == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


# --- the cache ------------------------------------------------------------------------------------------


def test_cache__second_time_computes_nothing(photographs, mean_colour, cache):
    features = image_features(photographs, mean_colour(), cache_dir=cache)
    again = mean_colour()
    np.testing.assert_array_equal(image_features(photographs, again, cache_dir=cache), features)
    assert again.batches == []


def test_cache__is_found_by_content_and_not_by_name(photographs, mean_colour, cache):
    image_features(photographs, mean_colour(), cache_dir=cache)
    moved = photographs[0].rename(photographs[0].with_name("moved.png"))
    altered = photographs[1]
    altered.write_bytes(photographs[2].read_bytes())
    photographs[3].write_bytes(photographs[3].read_bytes() + b"\0")  # decodes to the same, yet other bytes
    backbone = mean_colour()
    features = image_features([moved, altered, photographs[2], photographs[3]], backbone, cache_dir=cache)
    assert backbone.batches == [1]  # the last alone
    np.testing.assert_array_equal(features[1], features[2])


def test_cache__is_apart_for_another_model(photographs, mean_colour, cache):
    one = image_features(photographs, mean_colour(1.0), cache_dir=cache)
    doubled = mean_colour(2.0)
    np.testing.assert_allclose(image_features(photographs, doubled, cache_dir=cache), 2 * one, rtol=1e-6)
    assert doubled.batches == [5]


def test_cache__is_apart_for_another_preprocessing(photographs, mean_colour, cache):
    squash = Preprocessing(size=16, mode="squash")
    cropped = image_features(photographs, mean_colour(), cache_dir=cache)
    backbone = mean_colour()
    squashed = image_features(photographs, backbone, preprocessing=squash, cache_dir=cache)
    assert backbone.batches == [5]
    assert (squashed != cropped).any(axis=1).all()


def test_cache__holds_one_complete_file_an_image(photographs, mean_colour, cache):
    image_features(photographs, mean_colour(), cache_dir=cache)
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert len(files) == 5
    assert all(path.suffix == ".features" and path.parent.name == path.name[:2] for path in files)


def test_cache__can_be_off(photographs, mean_colour, monkeypatch, tmp_path):
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "default"))
    backbone = mean_colour()
    for _ in range(2):
        image_features(photographs, backbone, cache=False)
    assert backbone.batches == [5, 5]
    assert not (tmp_path / "default").exists()


def test_cache__is_in_the_cache_folder_by_default(photographs, mean_colour, monkeypatch, tmp_path):
    monkeypatch.setenv("PNCA_CACHE_DIR", str(tmp_path / "default"))
    image_features(photographs, mean_colour())
    assert len(entries(tmp_path / "default" / "features")) == 5


def test_cache__keeps_what_was_computed_before_a_bad_file(photographs, mean_colour, cache):
    photographs[4].write_bytes(photographs[4].read_bytes()[:60])
    with pytest.raises(CorruptDataError, match=r"4\.png"):
        image_features(photographs, mean_colour(), cache_dir=cache, batch_size=2)
    assert len(entries(cache)) == 4


# --- errors ---------------------------------------------------------------------------------------------


def test_missing_image__is_named(photographs, mean_colour, cache):
    with pytest.raises(MissingDataError, match=r"gone\.png"):
        image_features([*photographs, "gone.png"], mean_colour(), cache_dir=cache)


def test_features_that_are_not_numbers__are_refused_and_not_kept(photographs, mean_colour, cache):
    with pytest.raises(
        CorruptDataError, match=r"mean colour gives features that are not numbers for .*0\.png"
    ):
        image_features(photographs, mean_colour(np.nan), cache_dir=cache)
    assert not entries(cache)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_features_of_another_number__are_refused_and_not_kept(photographs, mean_colour, cache, n):
    backbone = mean_colour()
    backbone.n_features = n
    with pytest.raises(
        InvalidInputError, match=rf"features of shape \(5, {n}\), but they have shape \(5, 3\)"
    ):
        image_features(photographs, backbone, cache_dir=cache)
    assert not entries(cache)


@pytest.mark.parametrize("one", [str, lambda path: path])
def test_one_path__is_refused(photographs, mean_colour, one):
    with pytest.raises(InvalidInputError, match="list of files"):
        image_features(one(photographs[0]), mean_colour(), cache=False)


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True])
def test_batch_size__must_be_a_count(photographs, mean_colour, batch_size):
    with pytest.raises(InvalidInputError, match="batch_size must be a whole number"):
        image_features(photographs, mean_colour(), cache=False, batch_size=batch_size)


def test_cache_folder_that_cannot_be_made__is_named(photographs, mean_colour):
    with pytest.raises(InvalidInputError, match=r"0\.png.*cannot be made.*cache=False"):
        image_features(photographs, mean_colour(), cache_dir=photographs[0])


# --- real data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "preprocessing"),
    [
        ("covid_features_resnet50.npz", IMAGENET_CROP),
        ("covid_features_resnet50_eq256.npz", EQUALISED_CROP),
    ],
)
def test_xrays__resnet50_gives_the_prepared_features(data_dir, cache, file, preprocessing):
    pytest.importorskip("onnxruntime")
    weights = data_dir.parent / "weights" / "resnet50_imagenet_features.onnx"
    for needed in (weights, data_dir / file, data_dir / "covid_train" / "labels.csv"):
        if not needed.is_file():
            pytest.skip(f"{needed} is not there")
    with np.load(data_dir / file) as arrays:
        prepared, names = arrays["X_train"].astype(np.float32), arrays["id_train"]
    with (data_dir / "covid_train" / "labels.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["file"]]
    assert [row["filename"] for row in rows] == names.tolist()

    # Among them images with an odd side, for which it matters to which side the centre is rounded; 183
    # and 289 are those with the largest errors of all 347, plain and equalised.
    some = [1, 6, 37, 183, 199, 289]
    paths = [data_dir / rows[i]["file"] for i in some]
    features = image_features(paths, load_backbone(weights), preprocessing=preprocessing, cache_dir=cache)
    # Over all 347 images: at most .027, the relative error of a row at most .0021. The prepared features are
    # rounded to float16, the network's weights too. A crop one pixel aside changes features by .5.
    np.testing.assert_allclose(features, prepared[some], atol=0.03)
    errors = np.linalg.norm(features - prepared[some], axis=1) / np.linalg.norm(prepared[some], axis=1)
    assert errors.max() < 0.003
