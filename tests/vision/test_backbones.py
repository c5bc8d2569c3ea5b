import pytest

from pnca.exceptions import InvalidInputError
from pnca.vision import load_backbone


@pytest.mark.parametrize("spec", ["resnet50", "net.pt", "torchvision:resnet50", ""])
def test_spec__of_another_kind_is_refused(spec):
    with pytest.raises(InvalidInputError, match=r"'timm:NAME' or the path of an \.onnx file"):
        load_backbone(spec)


@pytest.mark.parametrize("options", [{"weights": "a.safetensors"}, {"download": True}])
def test_options_of_timm__are_refused_for_onnx(options):
    with pytest.raises(InvalidInputError, match="are for timm models"):
        load_backbone("net.onnx", **options)


def test_options_of_onnx__are_refused_for_timm():
    with pytest.raises(InvalidInputError, match="scale is for ONNX files"):
        load_backbone("timm:resnet50", scale="0-1")
