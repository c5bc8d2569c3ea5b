"""Shifted test images: rotation."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from pnca.exceptions import InvalidInputError


def rotate(images: ArrayLike, degrees: float) -> NDArray[np.float32]:
    """Rotate images (n, h, w) counter-clockwise about their centres, interpolated linearly, zero outside."""
    # Float before rotating: scipy answers in the input's type, and would truncate integers.
    pixels = np.asarray(images, dtype=np.float32)
    if pixels.ndim != 3:
        raise InvalidInputError(f"images must have shape (n, h, w), but their shape is {pixels.shape}.")
    rotated: NDArray[np.float32] = ndimage.rotate(pixels, degrees, axes=(1, 2), reshape=False, order=1)
    return rotated
