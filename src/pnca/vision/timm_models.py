"""timm models as backbones, with weights from a file or from the Hugging Face hub."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.vision.base import check_images, first_line, require
from pnca.vision.images import Preprocessing


@dataclass(frozen=True, kw_only=True, eq=False)
class TimmBackbone:
    """A :class:`Backbone` from a timm model without its classification head."""

    name: str
    key: str
    n_features: int
    preprocessing: Preprocessing
    model: nn.Module
    mean: Tensor  # (3, 1, 1), of pixels from 0 to 1
    std: Tensor  # (3, 1, 1)

    @property
    def size(self) -> int:
        """Side of the square images it takes, in pixels."""
        return self.preprocessing.size

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute features of shape (n, n_features) from images of shape (n, size, size, 3)."""
        check_images(images, self.size, self.name)
        # Copied by numpy first, as torch takes no reversed arrays.
        pixels = torch.tensor(np.ascontiguousarray(images.transpose(0, 3, 1, 2))) / 255  # (n, 3, h, w)
        with torch.inference_mode():
            features: NDArray[np.float32] = self.model((pixels - self.mean) / self.std).float().numpy()
        return features


def load_timm(name: str, weights: Path | None, *, download: bool) -> TimmBackbone:
    """Load a timm model; see :func:`load_backbone`."""
    timm = require("timm")
    config = _pretrained_config(timm, name)
    path = _find_weights(name, config, download=download) if weights is None else weights
    state = _read_checkpoint(path)
    # The random initialisation, overwritten at once, shall not move the caller's generator.
    with torch.random.fork_rng(devices=[]):
        model: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    problem = _load_state(model, state, heads=_head_names(config), strict=weights is not None)
    if problem:
        raise InvalidInputError(f"{path} is not a checkpoint of timm:{name}: {problem}.")
    model.eval().requires_grad_(False)

    settings = timm.data.resolve_model_data_config(model)
    preprocessing = _timm_preprocessing(settings, name)
    mean, std = tuple(settings["mean"]), tuple(settings["std"])
    return TimmBackbone(
        name=f"timm:{name}",
        # The name as well as the weights: it tells how they are wired.
        key=f"timm:{name} {_fingerprint(model)} mean {mean} std {std}",
        n_features=_n_features(model, preprocessing.size, name),
        preprocessing=preprocessing,
        model=model,
        mean=torch.tensor(mean).view(3, 1, 1),
        std=torch.tensor(std).view(3, 1, 1),
    )


def _pretrained_config(timm: Any, name: str) -> Any:  # noqa: ANN401
    """Return timm's pretrained configuration; an unknown name is an error with close matches."""
    known = timm.list_models()
    if timm.is_model(name):
        try:
            return timm.get_pretrained_cfg(name)
        except RuntimeError:  # the architecture is known, the tag after the dot is not
            known = timm.list_pretrained(f"{name.partition('.')[0]}.*")
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else "timm.list_models() lists them."
    raise InvalidInputError(f"timm has no model {name!r}. {hint}")


def _find_weights(name: str, config: Any, *, download: bool) -> Path:  # noqa: ANN401
    """Find the weights timm publishes for a model, in the hub's cache or, if allowed, on the hub."""
    repository = getattr(config, "hf_hub_id", None)
    if not repository:
        raise MissingDataError(
            f"The Hugging Face hub has no weights for timm:{name}: pass weights=PATH, a checkpoint of it."
        )
    hub = require("huggingface_hub")
    repository, _, revision = repository.partition("@")
    file = getattr(config, "hf_hub_filename", None) or "model.safetensors"
    try:
        return Path(
            hub.hf_hub_download(repository, file, revision=revision or None, local_files_only=not download)
        )
    except Exception as error:  # the hub's own and its HTTP client's have no other common base
        if download:
            raise MissingDataError(
                f"The weights of timm:{name} could not be fetched from {repository} on the Hugging Face hub "
                f"({error}). Pass weights=PATH, a checkpoint of it."
            ) from error
        raise MissingDataError(
            f"The weights of timm:{name} are not on this machine. Pass weights=PATH, a checkpoint of it, "
            f"or download=True to fetch {repository} from the Hugging Face hub."
        ) from error


def _read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Read tensors by name from a safetensors file; a pickle could build other objects, and is refused."""
    if not path.is_file():
        raise MissingDataError(f"There is no checkpoint {path}.")
    if path.suffix.lower() != ".safetensors":
        raise CorruptDataError(
            f"{path} is not a .safetensors file. Pickled checkpoints are not read, as they can run code: "
            "where you trust it, convert it with safetensors.torch.save_file(state_dict, "
            "'weights.safetensors')."
        )
    safetensors = require("safetensors.torch")
    try:
        content: dict[str, Tensor] = safetensors.load_file(path, device="cpu")
    except Exception as error:  # safetensors has a kind of its own
        raise CorruptDataError(
            f"{path} is damaged, or no .safetensors file ({first_line(error)})."
        ) from error
    if not content:
        raise CorruptDataError(f"{path} holds no tensors; expected is a state dict.")
    # Parallel training puts this before every name.
    return {key.removeprefix("module."): value for key, value in content.items()}


def _load_state(
    model: nn.Module, state: dict[str, Tensor], *, heads: tuple[str, ...], strict: bool
) -> str | None:
    """Load all of a model's tensors, or say what does not fit: nothing may stay at its random start."""
    problem = _mismatch(model, state, heads, strict=strict)
    # timm's modules convert checkpoints of older versions and of the models' authors by this function.
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if problem and convert is not None:
        try:
            converted = convert(dict(state), model)
        except Exception:  # it expects a checkpoint of its kind, and this may be any
            return problem
        if not _mismatch(model, converted, heads, strict=strict):
            state, problem = converted, None
    if problem:
        return problem
    own = model.state_dict()
    model.load_state_dict({key: value for key, value in state.items() if key in own}, strict=False)
    return None


def _mismatch(
    model: nn.Module, state: Mapping[str, Tensor], heads: tuple[str, ...], *, strict: bool
) -> str | None:
    """Say in words how tensors differ from those of a model in name or shape; None if they do not."""
    own = model.state_dict()
    # A counter that no evaluation reads, and that checkpoints from before PyTorch 0.4.1 lack.
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    if missing:
        return f"it lacks {_some(missing)}"
    # ResNet-34 has all that ResNet-18 needs, and more. What timm itself publishes for a model may hold
    # leftovers of its training, which timm ignores.
    extra = [key for key in state if key not in own and not key.startswith(heads)]
    if strict and extra:
        return f"the model has no {_some(extra)}"
    for key, value in own.items():
        if key in state and state[key].shape != value.shape:
            return f"{key} has shape {tuple(state[key].shape)}, not {tuple(value.shape)}"
    return None


def _head_names(config: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Beginnings of the names of the classification head, which the features do without."""
    classifier = getattr(config, "classifier", None) or ()
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    # The outermost part, as the layers before the last belong to the head too: "head." for "head.fc".
    return tuple(f"{name.partition('.')[0]}." for name in names)


def _timm_preprocessing(settings: Mapping[str, Any], name: str) -> Preprocessing:
    """Translate timm's own evaluation settings."""
    channels, height, width = settings["input_size"]
    if channels != 3 or height != width:
        raise InvalidInputError(
            f"timm:{name} takes {channels} channels of {height} x {width}; only colour squares are supported."
        )
    # Of the modes of timm that keep the whole image, padding to a square is not offered: it is squashed.
    return Preprocessing(
        size=height,
        mode="crop" if settings["crop_mode"] == "center" else "squash",
        resize=max(height, int(height / settings["crop_pct"])),
        interpolation=settings["interpolation"],
    )


def _n_features(model: nn.Module, size: int, name: str) -> int:
    """Count the features with a trial run: timm's num_features is that before a head's last layers."""
    with torch.inference_mode():
        output = model(torch.zeros(1, 3, size, size))
    if not isinstance(output, Tensor) or output.ndim != 2:
        raise InvalidInputError(f"timm:{name} does not answer with one row of features for an image.")
    return output.shape[1]


def _fingerprint(model: nn.Module) -> str:
    """Hash a model's tensors with their names, types and shapes, the same for any file they come from."""
    digest = sha256()
    for key, value in sorted(model.state_dict().items()):
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
