"""The protocol of a backbone, and helpers shared by its implementations."""

import importlib
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError, MissingExtraError
from pnca.vision.images import Preprocessing


@runtime_checkable
class Backbone(Protocol):
    """A frozen network from images to feature vectors, as :func:`load_backbone` returns it.

    :func:`image_features` takes any object with these members.
    """

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def key(self) -> str:
        """Fingerprint of the weights and of whatever else the features depend on, for the cache."""

    @property
    def n_features(self) -> int:
        """Length of a row of features."""

    @property
    def size(self) -> int:
        """Side of the square input images, in pixels."""

    @property
    def preprocessing(self) -> Preprocessing:
        """Recommended preprocessing, to that size."""

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute features of shape (n, n_features) from RGB images of shape (n, size, size, 3)."""


def require(module: str) -> Any:  # noqa: ANN401
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], "vision") from error


def check_images(images: NDArray[np.uint8], size: int | None, name: str) -> None:
    """Refuse what is not a stack of square colour images, of the given size if there is one."""
    is_stack = images.ndim == 4 and images.shape[0] > 0 and images.shape[3] == 3
    is_square = is_stack and images.shape[1] == images.shape[2] and size in (None, images.shape[1])
    if not is_square or images.dtype != np.uint8:
        expected = f"(n, {size}, {size}, 3)" if size is not None else "(n, h, h, 3)"
        raise InvalidInputError(
            f"{name} takes images of shape {expected} and type uint8, "
            f"but these have shape {images.shape} and type {images.dtype}."
        )


def first_line(error: Exception) -> str:
    """Shorten the message of another library's error to fit into one of ours."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
