import sys

import numpy as np
import pytest
import torch

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError, MissingExtraError
from pnca.vision import Backbone, Preprocessing, image_features, load_backbone

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def images():
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 8, 8, 3), dtype=np.uint8)
    pixels.flags.writeable = False
    return pixels


def test_onnx__features_are_those_of_the_formula(write_onnx, images):
    weights = np.random.default_rng(1).normal(size=(3, 7))
    backbone = load_backbone(write_onnx(weights=weights))
    assert isinstance(backbone, Backbone)
    assert (backbone.name, backbone.n_features, backbone.size) == ("net.onnx", 7, 8)
    features = backbone(images)
    assert features.dtype == np.float32
    # Float32 sums of values up to 255.
    np.testing.assert_allclose(features, images.mean(axis=(1, 2)) @ weights, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (None, lambda means: means),
        ("0-255", lambda means: means),
        ("0-1", lambda means: means / 255),
        ("imagenet", lambda means: (means / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]),
    ],
)
def test_scale__sets_the_range_of_the_pixels(write_onnx, images, scale, expected):
    features = load_backbone(write_onnx(), scale=scale)(images)
    np.testing.assert_allclose(features, expected(images.mean(axis=(1, 2))), rtol=1e-5, atol=1e-5)


def test_onnx__output_with_rows_and_columns_is_averaged(write_onnx, images):
    backbone = load_backbone(write_onnx(pooled=False))
    # The mean of all 2 x 2 blocks: inner pixels are in four of them, those of the rim in fewer.
    blocks = images.astype(float)
    blocks = blocks[:, 1:] + blocks[:, :-1]
    blocks = (blocks[:, :, 1:] + blocks[:, :, :-1]) / 4  # (5, 7, 7, 3)
    np.testing.assert_allclose(backbone(images), blocks.mean(axis=(1, 2)), rtol=1e-5)


def test_onnx__one_channel_is_given_luminance(write_onnx, images):
    backbone = load_backbone(write_onnx(shape=("batch", 1, 8, 8)))
    expected = images.mean(axis=(1, 2)) @ [[0.299], [0.587], [0.114]]
    np.testing.assert_allclose(backbone(images), expected, rtol=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 5, 7])
def test_onnx__fixed_batch_is_filled_up(write_onnx, images, batch):
    backbone = load_backbone(write_onnx(shape=(batch, 3, 8, 8)))
    np.testing.assert_allclose(backbone(images), images.mean(axis=(1, 2)), rtol=1e-5)


def test_onnx__free_size_takes_224_and_others(write_onnx, images):
    backbone = load_backbone(write_onnx(shape=("batch", 3, "size", "size")))
    assert backbone.preprocessing == Preprocessing()
    np.testing.assert_allclose(backbone(images), images.mean(axis=(1, 2)), rtol=1e-5)


def test_onnx__works_with_image_files(write_onnx, photographs, tmp_path):
    features = image_features(photographs, load_backbone(write_onnx()), cache_dir=tmp_path / "cache")
    assert features.shape == (5, 3)


def test_key__changes_with_weights_and_scale_and_not_with_the_name(write_onnx):
    net = write_onnx("net.onnx")
    same, other = write_onnx("same.onnx"), write_onnx("other.onnx", weights=2 * np.eye(3))
    key = load_backbone(net).key
    assert load_backbone(same).key == key == load_backbone(str(net), scale="0-255").key
    assert len({key, load_backbone(other).key, load_backbone(net, scale="0-1").key}) == 3


def test_threads__are_those_of_torch(write_onnx, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert load_backbone(write_onnx()).session.get_session_options().intra_op_num_threads == 2


# --- errors ---------------------------------------------------------------------------------------------


def test_missing_file__is_named(tmp_path):
    with pytest.raises(MissingDataError, match=r"gone\.onnx"):
        load_backbone(tmp_path / "gone.onnx")


@pytest.mark.parametrize("part", [0.0, 0.5])
def test_damaged_file__is_named(write_onnx, part):
    path = write_onnx("cut.onnx")
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(CorruptDataError, match=r"cut\.onnx is damaged, or not a network"):
        load_backbone(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_inputs": 2}, r"one input and one output, but it has inputs \['in0', 'in1'\]"),
        ({"shape": ("batch", 4, 8, 8)}, r"must take square images .*'in0' is tensor\(float\) of shape"),
        ({"shape": ("batch", 3, 8, 9)}, "must take square images"),
        ({"shape": ("batch", 3, 1 << 40, 1 << 40)}, "numbers at once, in batches of shape"),
        ({"shape": (1 << 26, 3, 8, 8)}, "takes 12,884,901,888 numbers at once"),
    ],
)
def test_other_network__is_told_what_was_expected(write_onnx, options, message):
    with pytest.raises(InvalidInputError, match=r"net\.onnx " + ".*" + message):
        load_backbone(write_onnx(**options))


@pytest.mark.parametrize(
    "change",
    [
        lambda images: images[0],
        lambda images: images[:, :7, :7],
        lambda images: images[..., :1],
        lambda images: images / 255,
        lambda images: images[:0],
    ],
    ids=["one", "size", "channels", "type", "none"],
)
def test_wrong_images__are_refused(write_onnx, images, change):
    with pytest.raises(InvalidInputError, match=r"takes images of shape \(n, 8, 8, 3\) and type uint8"):
        load_backbone(write_onnx())(change(images))


def test_scale__must_be_known_and_fit(write_onnx):
    with pytest.raises(InvalidInputError, match="scale must be one of 0-255, 0-1, imagenet"):
        load_backbone(write_onnx(), scale="0-2")
    with pytest.raises(InvalidInputError, match="takes grey images"):
        load_backbone(write_onnx(shape=("batch", 1, 8, 8)), scale="imagenet")


def test_missing_onnxruntime__names_the_extra(write_onnx, monkeypatch):
    path = write_onnx()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"'onnxruntime'.*pnca\[vision\]"):
        load_backbone(path)
