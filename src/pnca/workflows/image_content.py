"""Images from memory as inputs of a model, and as they are shown; nothing is written."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.record import Record
from pnca.sources import ImageSource
from pnca.vision.images import ImageLimits, decode_image, prepared_image, read_bytes
from pnca.workflows.images import as_inputs, preprocessing_of

if TYPE_CHECKING:
    from PIL import Image

#: Pixels of a picture that is shown, on its longer side.
MOST_SHOWN = 512
#: A picture of fewer is enlarged, so that a browser does not blur it.
_FEWEST_SHOWN = 128


@dataclass(frozen=True, eq=False)
class Picture:
    """An image that was decoded.

    Attributes
    ----------
    pixels : ndarray of shape (h, w) or (h, w, 3), uint8
        As the model, or its backbone, takes them.
    png : bytes
        To be shown.
    """

    pixels: NDArray[np.uint8]
    png: bytes


def picture_of(content: bytes, name: str, source: ImageSource, limits: ImageLimits | None = None) -> Picture:
    """Decode an image from memory as a model takes it.

    Parameters
    ----------
    content : bytes
        Of the file.
    name : str
        For errors.
    source : ImageSource
        Of the model.
    limits : ImageLimits, optional
        For images from strangers.

    Returns
    -------
    Picture
    """
    image = decode_image(content, path=name, limits=limits)
    if source.has_features:
        pixels = prepared_image(image, preprocessing_of(source), path=name)
    else:
        from PIL.Image import Resampling

        shape = source.shape
        size = (shape[1], shape[0]) if source.is_resized else image.size
        fitting = image if image.size == size else image.resize(size, Resampling.BILINEAR)
        pixels = as_inputs(np.array(fitting), source, name)
    return Picture(pixels, _png(image))


def training_picture(
    record: Record, row: int, folder: Path | None, limits: ImageLimits | None = None
) -> bytes | None:
    """A training image as PNG: of the record, or the file of its name in a folder; None if there is neither.

    Parameters
    ----------
    record : Record
        Of the fit.
    row : int
        The training example.
    folder : Path or None
        Where the training images are. Names that lead out of it are not followed.
    limits : ImageLimits, optional
        For images from strangers.

    Returns
    -------
    bytes or None
    """
    inputs = record.inputs
    if isinstance(inputs, np.ndarray) and inputs.ndim in (3, 4):
        from PIL import Image

        return _png(Image.fromarray(_as_bytes(inputs[row], inputs)))
    if folder is None or record.ids is None:
        return None
    place, root = (folder / str(record.ids[row])).resolve(), folder.resolve()
    if not place.is_relative_to(root) or not place.is_file():
        return None
    try:
        return _png(decode_image(read_bytes(place), path=place.name, limits=limits))
    except (CorruptDataError, InvalidInputError, MissingDataError):  # it is not what it was
        return None


def _as_bytes(picture: NDArray[Any], among: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey values or colours as bytes, by the range of all pictures."""
    if picture.dtype == np.uint8 and among.max() > 127:
        shown: NDArray[np.uint8] = picture
    else:
        low, high = float(among.min()), float(among.max())
        scaled = (picture.astype(np.float64) - low) * (255 / (high - low or 1.0))
        shown = np.rint(scaled).clip(0, 255).astype(np.uint8)
    if shown.ndim == 3 and shown.shape[0] in (1, 3) and shown.shape[2] not in (1, 3):
        shown = np.moveaxis(shown, 0, 2)
    return shown[:, :, 0] if shown.ndim == 3 and shown.shape[2] == 1 else shown


def _png(image: Image.Image) -> bytes:
    """An image as PNG, shrunk if it is large; of a very small one the pixels become squares."""
    from PIL.Image import Resampling

    if (times := _FEWEST_SHOWN // max(image.size)) > 1:
        image = image.resize((times * image.width, times * image.height), Resampling.NEAREST)
    if max(image.size) > MOST_SHOWN:
        share = MOST_SHOWN / max(image.size)
        image = image.resize(
            (max(1, round(image.width * share)), max(1, round(image.height * share))), Resampling.BILINEAR
        )
    target = io.BytesIO()
    image.save(target, format="PNG")
    return target.getvalue()
