import shutil
import sys

import numpy as np
import pytest

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.vision import image_features, load_backbone
from pnca.vision.onnx_files import (
    EXTERNAL_DATA,
    KEY,
    TENSOR_FIELDS,
    VALUE,
    external_locations,
    network_digest,
)

onnx = pytest.importorskip("onnx")


def external(location, **entries):
    """A tensor whose numbers are in another file."""
    tensor = onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "weights")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"offset": "0", **entries, "location": location, "length": "36"}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def graph_of(*nodes, **parts):
    return onnx.GraphProto(node=nodes, name="graph", **parts)


def with_attribute(**value):
    return onnx.NodeProto(op_type="Any", attribute=[onnx.AttributeProto(name="value", **value)])


def inside_subgraphs(location, depth):
    graph = graph_of(initializer=[external(location)])
    for _ in range(depth):
        graph = graph_of(with_attribute(g=graph))
    return graph


@pytest.fixture
def network(write_onnx, tmp_path):
    """Move the weights of a network into a file; returns the network."""

    def write(location="weights.bin", factor=1.0, folder=tmp_path):
        folder.mkdir(exist_ok=True)
        model = onnx.load(write_onnx("whole.onnx"))
        model.graph.initializer[0].CopyFrom(external(location))
        (folder / "net.onnx").write_bytes(model.SerializeToString())
        (tmp_path / "weights.bin").write_bytes((factor * np.eye(3, dtype=np.float32)).tobytes())
        return folder / "net.onnx"

    return write


# --- the walk -------------------------------------------------------------------------------------------


def messages_below(descriptor, found):
    """Every message type that one can hold, by name."""
    if descriptor.name not in found:
        found[descriptor.name] = descriptor
        for field in descriptor.fields:
            if field.message_type is not None:
                messages_below(field.message_type, found)
    return found


def test_fields__are_those_of_onnx():
    messages = messages_below(onnx.ModelProto.DESCRIPTOR, {})
    holding = {"TensorProto"}  # tensors, and every message that can hold one
    for _ in messages:
        holding |= {
            name
            for name, message in messages.items()
            if any(field.message_type and field.message_type.name in holding for field in message.fields)
        }
    expected = {
        name: {
            field.number: field.message_type.name
            for field in messages[name].fields
            if field.message_type and field.message_type.name in holding
        }
        for name in holding - {"TensorProto"}
    }
    assert expected == TENSOR_FIELDS
    assert onnx.TensorProto.DESCRIPTOR.fields_by_name["external_data"].number == EXTERNAL_DATA
    entry = onnx.StringStringEntryProto.DESCRIPTOR.fields_by_name
    assert (entry["key"].number, entry["value"].number) == (KEY, VALUE)


@pytest.mark.parametrize(
    "model",
    [
        onnx.ModelProto(graph=graph_of(initializer=[external("a.bin")])),
        onnx.ModelProto(graph=graph_of(with_attribute(t=external("a.bin")))),
        onnx.ModelProto(graph=graph_of(with_attribute(tensors=[onnx.TensorProto(), external("a.bin")]))),
        onnx.ModelProto(graph=graph_of(with_attribute(graphs=[graph_of(), inside_subgraphs("a.bin", 0)]))),
        onnx.ModelProto(graph=inside_subgraphs("a.bin", 10)),
        onnx.ModelProto(
            graph=graph_of(sparse_initializer=[onnx.SparseTensorProto(values=external("a.bin"))])
        ),
        onnx.ModelProto(
            graph=graph_of(with_attribute(sparse_tensor=onnx.SparseTensorProto(indices=external("a.bin"))))
        ),
        onnx.ModelProto(
            graph=graph_of(with_attribute(sparse_tensors=[onnx.SparseTensorProto(values=external("a.bin"))]))
        ),
        onnx.ModelProto(functions=[onnx.FunctionProto(node=[with_attribute(t=external("a.bin"))])]),
        onnx.ModelProto(
            functions=[onnx.FunctionProto(attribute_proto=[onnx.AttributeProto(t=external("a.bin"))])]
        ),
        onnx.ModelProto(training_info=[onnx.TrainingInfoProto(algorithm=inside_subgraphs("a.bin", 1))]),
    ],
)
def test_external_locations__are_found_wherever_a_tensor_can_be(model):
    assert external_locations(model.SerializeToString()) == ["a.bin"]


def test_external_locations__are_named_once_and_sorted_whatever_else_there_is():
    model = onnx.ModelProto(producer_name="location", ir_version=2**62, opset_import=[{"version": 13}])
    tensors = [external(name, checksum="location") for name in ("b.bin", "a é.bin", "b.bin", "sub/c.bin")]
    tensors.append(onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=1000), "inside"))
    tensors.append(onnx.helper.make_tensor("floats", onnx.TensorProto.FLOAT, [3], [1.5, 2.5, 3.5]))
    model.graph.CopyFrom(graph_of(with_attribute(f=1.5, i=-1, s=b"location"), initializer=tensors))
    assert external_locations(model.SerializeToString()) == ["a é.bin", "b.bin", "sub/c.bin"]
    assert external_locations(b"") == []


def test_external_locations__agree_with_onnx_saving(write_onnx, tmp_path):
    path = write_onnx(weights=np.random.default_rng(0).normal(size=(3, 500)))
    assert external_locations(path.read_bytes()) == []
    onnx.save(onnx.load(path), tmp_path / "one.onnx", save_as_external_data=True, location="all the weights")
    assert external_locations((tmp_path / "one.onnx").read_bytes()) == ["all the weights"]
    onnx.save(
        onnx.load(path), tmp_path / "each.onnx", save_as_external_data=True, all_tensors_to_one_file=False
    )
    assert external_locations((tmp_path / "each.onnx").read_bytes()) == ["weights"]


@pytest.mark.parametrize(
    "content",
    [
        b"\x3a",
        b"\x3a\x05abc",
        b"\x00",
        b"\x3b",
        b"\x3f\x00",
        b"\x09\0\0",
        b"\x0d\0\0",
        b"\xff" * 20,
        # A tag that is that of the graph once the bits above the lowest 32 are dropped.
        b"\xba\x80\x80\x80\x10\x00",
        onnx.ModelProto(graph=graph_of(initializer=[external("a")]))
        .SerializeToString()
        .replace(b"\1a", b"\1\xff"),
    ],
)
def test_external_locations__of_what_cannot_be_walked_are_an_error(content, tmp_path):
    with pytest.raises(ValueError, match=r"it |utf-8"):
        external_locations(content)
    (path := tmp_path / "odd.onnx").write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"odd\.onnx is damaged, or not a network in ONNX format"):
        load_backbone(path)


# --- the key --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["weights.bin", "./weights.bin"])
def test_weights_of_any_name__change_the_key_and_are_not_mistaken_in_the_cache(
    network, photographs, tmp_path, location
):
    pytest.importorskip("onnxruntime")
    cache = tmp_path / "cache"
    once, twice = (
        image_features(photographs, load_backbone(network(location, factor)), cache_dir=cache)
        for factor in (1.0, 2.0)
    )
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)  # float32


def test_digest__is_of_the_named_files_and_no_others(network, tmp_path):
    path = network()
    digest = network_digest(path)
    (tmp_path / "net.onnx.data").write_bytes(b"not of this network")
    assert network_digest(path) == digest
    shutil.copytree(tmp_path, copy := tmp_path.with_name("copy"))
    assert network_digest(copy / "net.onnx") == digest
    (tmp_path / "weights.bin").write_bytes(b"other")
    assert network_digest(path) != digest


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links__are_followed_within_the_folder_and_as_the_hub_lays_them(network, tmp_path):
    digest = network_digest(network())
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    for name in ("net.onnx", "weights.bin"):
        (tmp_path / name).rename(tmp_path / "blobs" / f"content of {name}")
        (tmp_path / "snapshot" / name).symlink_to(f"../blobs/content of {name}")
    assert network_digest(tmp_path / "snapshot" / "net.onnx") == digest
    (tmp_path / "net.onnx").write_bytes((tmp_path / "blobs" / "content of net.onnx").read_bytes())
    (tmp_path / "weights.bin").symlink_to("blobs/content of weights.bin")
    assert network_digest(tmp_path / "net.onnx") == digest


@pytest.mark.parametrize("way", ["absolute", "above", "link", "linked folder", "null"])
def test_weights_outside_the_folder__are_refused(network, tmp_path, way):
    location = {
        "absolute": str(tmp_path / "weights.bin"),
        "above": "../weights.bin",
        "linked folder": "linked/weights.bin",
        "null": "weights\0.bin",
    }.get(way, "linked")
    path = network(location, folder=tmp_path / "folder")
    targets = {"link": "../weights.bin", "linked folder": ".."}
    if way in targets:
        (path.parent / "linked").symlink_to(targets[way])
    with pytest.raises(
        InvalidInputError, match=r"net\.onnx keeps weights in '.*', outside its folder: save it"
    ):
        load_backbone(path)


def test_weights_behind_links_in_a_circle__are_refused(network, tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    # From Python 3.13 on a path is resolved as far as it goes, and the file cannot be opened.
    with pytest.raises(
        InvalidInputError, match=r"net\.onnx keeps weights in 'circle'|circle cannot be opened"
    ):
        load_backbone(network("circle"))


def test_weights_that_are_absolute__are_refused_even_within_the_folder(network, tmp_path):
    with pytest.raises(InvalidInputError, match="outside its folder"):
        load_backbone(network(str(tmp_path / "weights.bin")))


@pytest.mark.parametrize(
    ("location", "kind", "message"),
    [
        ("gone.bin", MissingDataError, r"There is no weights file .*gone\.bin"),
        ("", InvalidInputError, "weights file .* cannot be opened .it is not a file"),
        ("sub", InvalidInputError, "weights file .*sub cannot be opened .it is not a file"),
    ],
)
def test_weights_that_are_no_file__are_named(network, tmp_path, location, kind, message):
    (tmp_path / "sub").mkdir()
    with pytest.raises(kind, match=message):
        load_backbone(network(location))
