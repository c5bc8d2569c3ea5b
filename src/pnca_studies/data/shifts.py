"""Shifts: the same objects, photographed under conditions the training set never saw."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from pnca.exceptions import InvalidInputError


def rotate(images: ArrayLike, degrees: float) -> NDArray[np.float32]:
    """Rotate every image counter-clockwise about its centre, keeping its size.

    Pixels are interpolated linearly, so no value leaves the range of the input and zero; what turns
    into view from outside the image is zero.

    Parameters
    ----------
    images : array of shape (n, h, w)
        Images with rows downwards, as ``imshow`` draws them.
    degrees : float
        The angle; negative turns clockwise.

    Returns
    -------
    ndarray of shape (n, h, w), float32
        The rotated images.

    Raises
    ------
    InvalidInputError
        If ``images`` is not a stack of two-dimensional images.

    Examples
    --------
    >>> rotate([[[1, 2], [3, 4]]], 90)
    array([[[2., 4.],
            [1., 3.]]], dtype=float32)
    """
    # Float before rotating: scipy answers in the input's type, and would truncate integers.
    pixels = np.asarray(images, dtype=np.float32)
    if pixels.ndim != 3:
        raise InvalidInputError(f"images must have shape (n, h, w), but their shape is {pixels.shape}.")
    rotated: NDArray[np.float32] = ndimage.rotate(pixels, degrees, axes=(1, 2), reshape=False, order=1)
    return rotated
