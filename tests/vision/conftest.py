"""Tiny networks and images: what a feature is can be worked out by hand."""

import numpy as np
import pytest

from pnca.vision import Preprocessing


@pytest.fixture
def photographs(tmp_path):
    """Five colour images of differing sizes and proportions, as lossless files."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    paths = []
    for number, (height, width) in enumerate([(40, 60), (64, 64), (90, 30), (33, 47), (16, 20)]):
        path = tmp_path / f"{number}.png"
        image.fromarray(rng.integers(0, 256, size=(height, width, 3), dtype=np.uint8)).save(path)
        paths.append(path)
    return paths


class MeanColour:
    """A backbone whose features are the mean of each channel, times ``factor``; it notes what it is given."""

    name = "mean colour"
    n_features = 3
    size = 16
    preprocessing = Preprocessing(size=16)

    def __init__(self, factor=1.0):
        self.key = f"mean colour times {factor}"
        self.factor = factor
        self.batches = []

    def __call__(self, images):
        self.batches.append(len(images))
        return (self.factor * images.mean(axis=(1, 2))).astype(np.float32)


@pytest.fixture
def mean_colour():
    return MeanColour


@pytest.fixture
def write_onnx(tmp_path):
    """Write an ONNX network that averages over the image and multiplies by a matrix."""
    onnx = pytest.importorskip("onnx")

    def write(name="net.onnx", *, weights=None, shape=("batch", 3, 8, 8), pooled=True, n_inputs=1):
        weights = np.eye(shape[1], dtype=np.float32) if weights is None else np.float32(weights)
        floats = onnx.TensorProto.FLOAT
        inputs = [onnx.helper.make_tensor_value_info(f"in{i}", floats, shape) for i in range(n_inputs)]
        nodes = [
            onnx.helper.make_node("ReduceMean", ["in0"], ["mean"], axes=[2, 3], keepdims=0),
            onnx.helper.make_node("MatMul", ["mean", "weights"], ["features"]),
        ]
        output = ("batch", weights.shape[1])
        if not pooled:
            nodes = [onnx.helper.make_node("AveragePool", ["in0"], ["features"], kernel_shape=[2, 2])]
            output = ("batch", shape[1], "rows", "columns")
        graph = onnx.helper.make_graph(
            nodes,
            "net",
            inputs,
            [onnx.helper.make_tensor_value_info("features", floats, output)],
            [onnx.numpy_helper.from_array(weights, "weights")],
        )
        # Old enough for any onnxruntime that this library allows.
        opset = [onnx.helper.make_opsetid("", 13)]
        path = tmp_path / name
        onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)
        return path

    return write
