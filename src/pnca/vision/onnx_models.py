"""ONNX files as backbones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.vision.base import check_images, first_line, require
from pnca.vision.images import Preprocessing, check_choice
from pnca.vision.onnx_files import network_digest

Scale = Literal["0-255", "0-1", "imagenet"]

# Per-channel mean and standard deviation of ImageNet's pixels in [0, 1], as torchvision and timm use them.
_IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_IMAGENET_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
# Side for a network that takes images of any size: most were trained at this one.
_USUAL_SIZE = 224
# In a batch: 1 GiB, for a network that states other lengths than it can have been trained with.
_MAX_NUMBERS = 1 << 28
# ITU-R 601, by which Pillow too makes colours grey.
_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class _Signature:
    """The input of an ONNX network; None is a dynamic dimension."""

    input_name: str
    batch: int | None
    n_channels: int
    size: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class OnnxBackbone:
    """A :class:`Backbone` from an ONNX file."""

    name: str
    key: str
    n_features: int
    preprocessing: Preprocessing
    session: Any
    signature: _Signature
    scale: Scale

    @property
    def size(self) -> int:
        """Side of the square images it takes, in pixels."""
        return self.preprocessing.size

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute features of shape (n, n_features) from images of shape (n, size, size, 3)."""
        check_images(images, self.signature.size, self.name)
        pixels = _scaled(images, self.scale, self.signature.n_channels)  # (n, 1 or 3, h, w)
        return _run(self.session, pixels, self.signature, self.name)


def load_onnx(path: Path, scale: Scale) -> OnnxBackbone:
    """Load an ONNX file; see :func:`load_backbone`."""
    check_choice("scale", scale, Scale)
    digest = network_digest(path)  # before it is opened, so that weights outside its folder are not read
    session = _open_session(path)
    try:
        signature = _read_signature(session, path)
    except UnicodeDecodeError as error:  # the runtime does not look into the names of inputs and dimensions
        raise CorruptDataError(f"{path} is damaged: it has a name that is not text.") from error
    if scale == "imagenet" and signature.n_channels == 1:
        raise InvalidInputError(f"{path} takes grey images; scale 'imagenet' is for colours.")
    size = signature.size or _USUAL_SIZE
    # A trial run shows that it runs, and the number of features where that dimension is dynamic.
    trial = _run(session, np.zeros((1, signature.n_channels, size, size), np.float32), signature, str(path))
    return OnnxBackbone(
        name=path.name,
        key=f"onnx {digest} scale {scale}",
        n_features=trial.shape[1],
        preprocessing=Preprocessing(size=size),
        session=session,
        signature=signature,
        scale=scale,
    )


def _open_session(path: Path) -> Any:  # noqa: ANN401
    onnxruntime = require("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    # Nothing that it can go on after: warnings, as of an unused tensor, are harmless, and errors are raised.
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # one class for each status of the runtime, without a common base
        raise CorruptDataError(
            f"{path} is damaged, or not a network in ONNX format that this version of onnxruntime runs "
            f"({first_line(error)})"
        ) from error


def _read_signature(session: Any, path: Path) -> _Signature:  # noqa: ANN401
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        raise InvalidInputError(
            f"{path} must have one input and one output, but it has inputs {[i.name for i in inputs]} "
            f"and outputs {[o.name for o in outputs]}."
        )
    (image,), (features,) = inputs, outputs
    shape = [length if isinstance(length, int) else None for length in image.shape]
    is_image = len(shape) == 4 and shape[1] in (1, 3) and shape[2] == shape[3]
    if not is_image or image.type != "tensor(float)":
        raise InvalidInputError(
            f"{path} must take square images as tensor(float) of shape (batch, 3, h, w) or (batch, 1, h, w), "
            f"but its input {image.name!r} is {image.type} of shape {image.shape}."
        )
    if features.type != "tensor(float)":
        raise InvalidInputError(
            f"{path} must answer with tensor(float), but its output {features.name!r} is {features.type}."
        )
    batch, n_channels, size, _ = shape
    n_numbers = (batch or 1) * (n_channels or 3) * (size or _USUAL_SIZE) ** 2
    if n_numbers > _MAX_NUMBERS:
        raise InvalidInputError(
            f"{path} takes {n_numbers:,} numbers at once, in batches of shape {image.shape}; "
            f"at most {_MAX_NUMBERS:,} are supported."
        )
    return _Signature(input_name=image.name, batch=batch, n_channels=n_channels or 3, size=size)


def _scaled(images: NDArray[np.uint8], scale: Scale, n_channels: int) -> NDArray[np.float32]:
    """Bring pixels to the range and the channels a network takes."""
    pixels = images.astype(np.float32)  # (n, h, w, 3)
    if scale != "0-255":
        pixels /= 255
    if scale == "imagenet":
        pixels = (pixels - _IMAGENET_MEAN) / _IMAGENET_STD
    if n_channels == 1:
        pixels = (pixels @ _LUMINANCE)[..., None]
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def _run(
    session: Any,  # noqa: ANN401
    pixels: NDArray[np.float32],
    signature: _Signature,
    name: str,
) -> NDArray[np.float32]:
    """Run a network, in zero-padded batches of its fixed batch size if it has one."""
    n = len(pixels)
    length = signature.batch or max(n, 1)
    pieces = []
    for start in range(0, n, length):
        piece = pixels[start : start + length]
        if signature.batch is not None and len(piece) < length:
            piece = np.concatenate([piece, np.zeros((length - len(piece), *piece.shape[1:]), np.float32)])
        try:
            (output,) = session.run(None, {signature.input_name: piece})
        except Exception as error:  # as in _open_session
            raise InvalidInputError(f"{name} does not run on images ({first_line(error)})") from error
        if output.ndim not in (2, 4) or len(output) != len(piece):
            raise InvalidInputError(
                f"{name} must answer with shape (batch, n_features) or (batch, n_features, rows, columns), "
                f"but for input of shape {piece.shape} its output has shape {output.shape}."
            )
        pieces.append(output if output.ndim == 2 else output.mean(axis=(2, 3)))
    features: NDArray[np.float32] = np.concatenate(pieces)[:n]
    return features
