"""Damaged caches of features, and damaged files of networks."""

import numpy as np

from pnca.vision import Preprocessing, image_features, load_backbone
from robustness.data_damage import attempt, one_of, pillow
from robustness.verdicts import Skipped


class MeanColour:
    """A backbone whose features are the mean of each channel; it counts the images that it is given."""

    name = "mean colour"
    n_features = 3
    size = 16
    preprocessing = Preprocessing(size=16)

    def __init__(self, key="mean colour"):
        self.key = key
        self.n_images = 0

    def __call__(self, images):
        self.n_images += len(images)
        return images.mean(axis=(1, 2)).astype(np.float32)


def save_photographs(folder):
    """Three images of noise."""
    image, rng = pillow(), np.random.RandomState(0)
    paths = [folder / f"{number}.png" for number in range(3)]
    for path in paths:
        image.fromarray(rng.randint(0, 256, size=(16, 16, 3), dtype=np.uint8)).save(path)
    return paths


def assert_computed_anew(photographs, cache, features, damage=""):
    """One entry of the cache is not used, and then replaced."""
    backbone = MeanColour()
    np.testing.assert_array_equal(image_features(photographs, backbone, cache_dir=cache), features, damage)
    assert backbone.n_images == 1, damage
    np.testing.assert_array_equal(image_features(photographs, backbone, cache_dir=cache), features, damage)
    assert backbone.n_images == 1, f"{damage}: not replaced"


def save_network(path):
    """A small network that averages colours and multiplies them by one."""
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise Skipped(f"{error.name} is not installed") from error
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("ReduceMean", ["image"], ["mean"], axes=[2, 3], keepdims=0),
            onnx.helper.make_node("MatMul", ["mean", "weights"], ["features"]),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("image", floats, ("batch", 3, 8, 8))],
        [onnx.helper.make_tensor_value_info("features", floats, ("batch", 3))],
        [onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "weights")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def assert_named_or_other(path, key, damage):
    """A damaged network is refused by name, or it is another than the one of this key."""
    found, refusal = attempt(lambda: load_backbone(path))
    if refusal is not None:
        assert path.name in refusal, f"{damage}: {refusal}"
    else:
        assert found.key != key, damage


def damaged_features(seed, folder):
    """One damage to an entry of a cache, or to the file of a network."""
    rng = np.random.RandomState(seed)
    if seed % 3 == 0:
        save_network(path := folder / "net.onnx")
        key = load_backbone(path).key
        damage, content = one_of(path.read_bytes(), rng)
        path.write_bytes(content)
        assert_named_or_other(path, key, f"damaged_features {seed}: network, {damage}")
        return
    photographs, cache = save_photographs(folder), folder / "cache"
    features = image_features(photographs, MeanColour(), cache_dir=cache)
    entries = sorted(cache.rglob("*.features"))
    entry = entries[rng.randint(len(entries))]
    damage, content = one_of(entry.read_bytes(), rng)
    entry.write_bytes(content)
    assert_computed_anew(photographs, cache, features, f"damaged_features {seed}: entry, {damage}")
