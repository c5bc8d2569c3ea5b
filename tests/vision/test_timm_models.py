import os
import pickle
import socket
import sys

import numpy as np
import pytest
import torch

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError, MissingExtraError
from pnca.vision import Backbone, Preprocessing, image_features, load_backbone

timm = pytest.importorskip("timm")
safetensors = pytest.importorskip("safetensors.torch")
huggingface_hub = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")

NAME = "test_resnet"  # 370 thousand parameters, images of 160 x 160


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """Nothing here may reach out, and the machine's own cache of the hub may not help."""

    def refuse(*_):
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture(scope="module")
def model():
    """A classifier with weights, running means and all at random."""
    torch.manual_seed(0)
    network = timm.create_model(NAME, pretrained=False).eval()
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if name.endswith("running_mean"):
                value.normal_(0, 0.1)
    return network


@pytest.fixture
def checkpoint(model, tmp_path):
    path = tmp_path / "net.safetensors"
    safetensors.save_file(model.state_dict(), path)
    return path


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, size=(5, 160, 160, 3), dtype=np.uint8)


def timm_features(model, images):
    """What timm itself makes of an image: its transform, its features before the classifier."""
    image = pytest.importorskip("PIL.Image")
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    batch = torch.stack([transform(image.fromarray(pixels)) for pixels in images])
    with torch.inference_mode():
        return model.forward_head(model.forward_features(batch), pre_logits=True).numpy()


def test_timm__equals_calling_timm(model, checkpoint, photographs, tmp_path):
    backbone = load_backbone(f"timm:{NAME}", weights=checkpoint)
    assert isinstance(backbone, Backbone)
    assert (backbone.name, backbone.n_features, backbone.size) == (f"timm:{NAME}", 96, 160)
    # As timm says: 160 is .95 of the side before the cut.
    assert backbone.preprocessing == Preprocessing(size=160, resize=168, interpolation="bilinear")

    # Squares, as for other proportions timm may cut a pixel aside.
    image = pytest.importorskip("PIL.Image")
    squares = np.random.default_rng(1).integers(0, 256, size=(3, 200, 200, 3), dtype=np.uint8)
    for i, square in enumerate(squares):
        image.fromarray(square).save(tmp_path / f"square{i}.png")
    features = image_features([tmp_path / f"square{i}.png" for i in range(3)], backbone, cache=False)
    assert features.dtype == np.float32
    # Float32 after a dozen layers.
    np.testing.assert_allclose(features, timm_features(model, squares), rtol=1e-4, atol=1e-5)


def test_timm__does_not_depend_on_the_batch(checkpoint, images):
    backbone = load_backbone(f"timm:{NAME}", weights=checkpoint)
    together = backbone(images)
    apart = np.concatenate([backbone(images[[i]]) for i in range(5)])
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-5)  # sums in another order
    np.testing.assert_allclose(together[::-1], backbone(images[::-1]), rtol=1e-4, atol=1e-5)


def test_timm__reads_what_parallel_training_saved(model, checkpoint, tmp_path, images):
    path = tmp_path / "net.safetensors"
    safetensors.save_file({f"module.{name}": value for name, value in model.state_dict().items()}, path)
    saved, other = (load_backbone(f"timm:{NAME}", weights=file) for file in (path, checkpoint))
    assert saved.key == other.key  # the same weights, whatever file they come from
    np.testing.assert_array_equal(saved(images[:1]), other(images[:1]))


def test_timm__converts_the_names_of_other_versions(tmp_path):
    vit = timm.create_model("test_vit", pretrained=False, num_classes=0)
    native, wrapped = tmp_path / "native.safetensors", tmp_path / "wrapped.safetensors"
    safetensors.save_file(vit.state_dict(), native)
    # The prefix under which CLIP's authors keep the image half of their network.
    safetensors.save_file({f"visual.trunk.{k}": v for k, v in vit.state_dict().items()}, wrapped)
    keys = [load_backbone("timm:test_vit", weights=path).key for path in (native, wrapped)]
    assert keys[0] == keys[1]


def test_timm__does_without_all_of_the_head(tmp_path):
    # Whose head is a normalisation and a linear layer, twice.
    levit = timm.create_model("levit_128s", pretrained=False)
    state = {name: value.contiguous() for name, value in levit.state_dict().items()}
    safetensors.save_file(state, tmp_path / "levit.safetensors")
    assert load_backbone("timm:levit_128s", weights=tmp_path / "levit.safetensors").n_features == 384


def test_timm__finds_weights_in_the_cache_of_the_hub(checkpoint, tmp_path):
    repository = timm.get_pretrained_cfg(NAME).hf_hub_id.replace("/", "--")
    folder = tmp_path / "hub" / f"models--{repository}"
    commit = "0" * 40
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(commit)
    (folder / "snapshots" / commit / "model.safetensors").write_bytes(checkpoint.read_bytes())
    assert load_backbone(f"timm:{NAME}").key == load_backbone(f"timm:{NAME}", weights=checkpoint).key


def test_timm__key_changes_with_the_weights_and_the_model(model, checkpoint, tmp_path):
    altered = {name: value.clone() for name, value in model.state_dict().items()}
    altered["conv1.0.weight"][0, 0, 0, 0] += 1e-6
    safetensors.save_file(altered, tmp_path / "altered.safetensors")
    key = load_backbone(f"timm:{NAME}", weights=checkpoint).key
    assert load_backbone(f"timm:{NAME}", weights=tmp_path / "altered.safetensors").key != key


def test_timm__leaves_seed_and_environment_alone(checkpoint):
    torch.manual_seed(5)
    expected = torch.rand(3)
    before = dict(os.environ)
    torch.manual_seed(5)
    load_backbone(f"timm:{NAME}", weights=checkpoint)
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)
    assert dict(os.environ) == before


def test_timm__refuses_images_of_another_size(checkpoint, images):
    with pytest.raises(InvalidInputError, match=r"takes images of shape \(n, 160, 160, 3\)"):
        load_backbone(f"timm:{NAME}", weights=checkpoint)(images[:, :128, :128])


# --- weights that are not there -------------------------------------------------------------------------


def test_no_weights__says_what_to_do_and_asks_nobody():
    with pytest.raises(MissingDataError, match=r"not on this machine.*weights=PATH.*download=True"):
        load_backbone(f"timm:{NAME}")


@pytest.fixture
def asked(monkeypatch):
    """What the hub is asked for; it does not answer."""
    questions = []

    def refuse(repository, file, *, revision, local_files_only):
        questions.append((repository, file, local_files_only))
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    return questions


def test_download__is_attempted_only_when_asked_for(asked):
    with pytest.raises(MissingDataError, match=r"not on this machine"):
        load_backbone(f"timm:{NAME}")
    assert {local_files_only for *_, local_files_only in asked} == {True}


def test_download__that_fails_says_why_and_is_not_repeated(asked):
    with pytest.raises(MissingDataError, match=r"could not be fetched .*no route.*weights=PATH"):
        load_backbone(f"timm:{NAME}", download=True)
    assert asked == [("timm/test_resnet.r160_in1k", "model.safetensors", False)]


def test_download__asks_for_no_pickle_where_the_hub_has_nothing_else(monkeypatch):
    asked = []

    class AbsentError(huggingface_hub.utils.EntryNotFoundError):
        def __init__(self):
            Exception.__init__(self, "404")

    def answer(repository, file, **_):
        asked.append(file)
        raise AbsentError

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", answer)
    with pytest.raises(MissingDataError, match="could not be fetched"):
        load_backbone(f"timm:{NAME}", download=True)
    assert asked == ["model.safetensors"]


def test_untrained_model__asks_for_a_checkpoint():
    untrained = next(name for name in timm.list_models() if not timm.get_pretrained_cfg(name).hf_hub_id)
    with pytest.raises(MissingDataError, match=r"hub has no weights .* pass weights=PATH"):
        load_backbone(f"timm:{untrained}", download=True)


def test_missing_checkpoint__is_named(tmp_path):
    with pytest.raises(MissingDataError, match=r"gone\.safetensors"):
        load_backbone(f"timm:{NAME}", weights=tmp_path / "gone.safetensors")


# --- wrong weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.0, 0.5])
def test_truncated_checkpoint__is_named(model, tmp_path, part):
    path = tmp_path / "cut.safetensors"
    safetensors.save_file(model.state_dict(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(CorruptDataError, match=r"cut\.safetensors is damaged"):
        load_backbone(f"timm:{NAME}", weights=path)


def test_pickled_checkpoint__is_refused_with_the_way_to_convert_it(model, tmp_path):
    torch.save(model.state_dict(), tmp_path / "net.pth")
    with pytest.raises(CorruptDataError, match=r"net\.pth .*can run code.*save_file"):
        load_backbone(f"timm:{NAME}", weights=tmp_path / "net.pth")


class _Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_pickle__is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": _Trap()}, "trap.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(_Trap()))
    (tmp_path / "disguised.safetensors").write_bytes(pickle.dumps(_Trap()))
    for name in ("trap.pth", "plain.pth", "disguised.safetensors"):
        with pytest.raises(CorruptDataError, match=name):
            load_backbone(f"timm:{NAME}", weights=name)
    assert not (tmp_path / "sprung").exists()


def test_checkpoint_of_no_tensors__is_named(tmp_path):
    for content in ({}, [1, 2], {"conv1": 3}):
        torch.save(content, tmp_path / "odd.pth")
        with pytest.raises(CorruptDataError, match=r"odd\.pth"):
            load_backbone(f"timm:{NAME}", weights=tmp_path / "odd.pth")
    safetensors.save_file({}, tmp_path / "none.safetensors")
    with pytest.raises(CorruptDataError, match=r"none\.safetensors holds no tensors"):
        load_backbone(f"timm:{NAME}", weights=tmp_path / "none.safetensors")


def _without(state):
    return {name: value for name, value in state.items() if name != "layer1.0.conv1.weight"}


def _with_more(state):
    return {**state, "layer9.0.conv1.weight": torch.zeros(2)}


def _reshaped(state):
    return {**state, "layer1.0.conv1.weight": torch.zeros(2, 2)}


@pytest.mark.parametrize(
    ("alter", "problem"),
    [
        (_without, r"it lacks layer1\.0\.conv1\.weight"),
        (_with_more, r"the model has no layer9\.0\.conv1\.weight"),
        (_reshaped, r"layer1\.0\.conv1\.weight has shape \(2, 2\)"),
    ],
)
def test_checkpoint_of_another_model__is_refused(model, tmp_path, alter, problem):
    path = tmp_path / "other.safetensors"
    safetensors.save_file(alter(model.state_dict()), path)
    with pytest.raises(InvalidInputError, match=rf"other\.safetensors is not a checkpoint .*{problem}"):
        load_backbone(f"timm:{NAME}", weights=path)


# --- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("resnet5O", r"Did you mean .*resnet50"),
        ("resnet50.a1_in2k", r"Did you mean .*resnet50\.a1_in1k"),
        ("zzzzzzzz", r"timm\.list_models"),
        ("", r"timm\.list_models"),
        ("hf-hub:timm/resnet50", "timm has no model"),
    ],
)
def test_unknown_name__suggests_near_ones(name, suggestion):
    with pytest.raises(InvalidInputError, match=suggestion):
        load_backbone(f"timm:{name}")


def test_missing_timm__names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"'timm'.*pnca\[vision\]"):
        load_backbone(f"timm:{NAME}")
