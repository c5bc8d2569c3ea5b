"""A damaged entry of the feature cache is computed anew and replaced: never used, and never an error."""

import shutil

import numpy as np
import pytest

from pnca.vision import Preprocessing, image_features, load_backbone
from pnca.vision.cache import FeatureCache
from robustness.cache_damage import (
    MeanColour,
    assert_computed_anew,
    assert_named_or_other,
    damaged_features,
    save_network,
    save_photographs,
)
from robustness.mutators import flips, truncations, zeroed_tails

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("seed", range(12))
def test_damage__is_never_used(tmp_path, seed):
    if seed % 3 == 0:
        pytest.importorskip("onnxruntime")
    damaged_features(seed, tmp_path)


@pytest.fixture
def photographs(tmp_path):
    return save_photographs(tmp_path)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def features(photographs, cache):
    return image_features(photographs, MeanColour(), cache_dir=cache)


@pytest.fixture
def entry(features, cache):
    return sorted(cache.rglob("*.features"))[0]


def test_every_bit__that_flips_is_found(photographs, cache, features, entry):
    content = entry.read_bytes()
    image = entry.name.removesuffix(".features")
    kept = FeatureCache(MeanColour(), MeanColour.preprocessing, cache)
    for place in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        entry.write_bytes(damaged)
        assert kept.load(image) is None, place
    entry.write_bytes(content)
    assert (features == kept.load(image)).all(axis=1).any()


def test_damage__is_computed_anew_and_replaced(photographs, cache, features, entry):
    content, rng = entry.read_bytes(), np.random.RandomState(0)
    for damages in (flips(content, rng, 40), truncations(content), zeroed_tails(content)):
        for damage, damaged in damages:
            if damaged != content:
                entry.write_bytes(damaged)
                assert_computed_anew(photographs, cache, features, damage)


def test_other_files__are_computed_anew_and_replaced(photographs, cache, features, entry):
    other = sorted(cache.rglob("*.features"))[1]
    for content in (b"", b"text", entry.read_bytes() + b"\0", entry.read_bytes()[4:], other.read_bytes()):
        entry.write_bytes(content)
        assert_computed_anew(photographs, cache, features)
    with entry.open("wb") as file:
        np.save(file, np.zeros(3, np.float32))
    assert_computed_anew(photographs, cache, features)


def test_numbers_of_another_length_or_not_finite__are_not_taken_though_their_digest_fits(
    photographs, cache, features, entry
):
    kept = FeatureCache(MeanColour(), MeanColour.preprocessing, cache)
    for vector in (np.zeros(2), np.zeros(4), np.zeros(0), np.array([0, np.nan, 0]), np.full(3, np.inf)):
        kept.store(entry.name.removesuffix(".features"), vector.astype(np.float32))
        assert_computed_anew(photographs, cache, features)


@pytest.mark.parametrize("change", ["network", "preprocessing", "image"])
def test_entries_of_another_network_preprocessing_or_image__are_not_taken(
    photographs, cache, features, change
):
    before = {path.name: path for path in cache.rglob("*.features")}
    backbone = MeanColour("another" if change == "network" else "mean colour")
    preprocessing = Preprocessing(size=16, mode="squash", equalise=change == "preprocessing")
    paths = photographs
    if change == "image":
        preprocessing = None
        for path in paths:
            path.write_bytes(path.read_bytes() + b"\0")  # the same pixels in other bytes
    other = cache.with_name("other")
    image_features(paths, MeanColour(backbone.key), preprocessing=preprocessing, cache_dir=other)
    for target, source in zip(sorted(other.rglob("*.features")), sorted(before), strict=True):
        shutil.copy(before[source], target)
    image_features(paths, backbone, preprocessing=preprocessing, cache_dir=other)
    assert backbone.n_images == 3


def test_link__is_replaced_and_what_it_leads_to_is_left(photographs, cache, features, entry, tmp_path):
    for content in (b"precious", None):
        (precious := tmp_path / "precious").unlink(missing_ok=True)
        if content is not None:
            precious.write_bytes(content)
        entry.unlink()
        entry.symlink_to(precious)
        assert_computed_anew(photographs, cache, features)
        assert not entry.is_symlink()
        assert (precious.read_bytes() if precious.exists() else None) == content


@pytest.mark.parametrize("obstacle", ["folder", "parent"])
def test_what_cannot_be_replaced__is_named_once_and_the_features_are_right(
    photographs, cache, features, entry, obstacle
):
    place = entry if obstacle == "folder" else entry.parent
    entry.unlink()
    if obstacle == "folder":
        entry.mkdir()
        (entry / "of the user").touch()
    else:
        entry.parent.rmdir()
        entry.parent.touch()
    backbone = MeanColour()
    with pytest.warns(UserWarning, match="cannot be kept in .*cache=False") as caught:
        np.testing.assert_array_equal(image_features(photographs, backbone, cache_dir=cache), features)
    assert len(caught) == 1
    assert str(place) in str(caught[0].message)
    assert caught[0].filename == __file__
    assert place.is_dir() == (obstacle == "folder")


def test_cache__deleted_while_it_is_used_is_made_again(photographs, cache, features):
    def delete(done, n):
        shutil.rmtree(cache, ignore_errors=True)

    found = image_features(photographs, MeanColour(), cache_dir=cache, batch_size=2, progress=delete)
    np.testing.assert_array_equal(found, features)
    found = image_features(photographs, MeanColour(), cache_dir=cache, progress=delete)
    np.testing.assert_array_equal(found, features)
    assert len(list(cache.rglob("*.features"))) == 3


def test_network__damage_is_named_or_the_key_is_another(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    save_network(path := tmp_path / "net.onnx")
    content, key, rng = path.read_bytes(), load_backbone(path).key, np.random.RandomState(1)
    for damages in (flips(content, rng, 300), truncations(content), zeroed_tails(content)):
        for damage, damaged in damages:
            if damaged != content:
                path.write_bytes(damaged)
                assert_named_or_other(path, key, damage)
