"""From an image file, whatever its format, to the pixels a network takes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingExtraError
from pnca.files import open_to_read
from pnca.vision.dicom import dicom_pixels, is_dicom

if TYPE_CHECKING:
    from PIL import Image

Mode = Literal["crop", "squash"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
# Part of every cache key: raise it when the pixels of some image change, so that old features are not found.
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ImageLimits:
    """What is asked of an image from a stranger before it is decoded.

    Attributes
    ----------
    max_pixels : int
        Pixels that it may have.
    formats : tuple of str
        Formats of Pillow that are tried. Some others start programs, such as those of PostScript.
    """

    max_pixels: int = 40_000_000
    formats: tuple[str, ...] = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP")


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value that is not among those of a ``Literal`` type."""
    if value not in (known := get_args(choices)):
        raise InvalidInputError(f"{name} must be one of {', '.join(known)}, but it is {value!r}.")


def check_count(name: str, value: object, *, at_least: int = 1) -> None:
    """Refuse what is not a whole number of at least ``at_least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < at_least:
        raise InvalidInputError(f"{name} must be a whole number from {at_least}, but it is {value!r}.")


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How an image of any size becomes a square: resize, optionally equalise, centre crop.

    Attributes
    ----------
    size : int, default=224
        Side of the square, in pixels.
    mode : {"crop", "squash"}, default="crop"
        ``"crop"`` keeps the aspect ratio and brings the short side to ``resize``; ``"squash"`` brings
        both sides there. A centre crop follows either.
    resize : int or None, default=None
        Side before the centre crop. None is eight sevenths of ``size`` (256 for 224) for ``"crop"`` and
        ``size`` itself for ``"squash"``.
    equalise : bool, default=False
        Equalise each channel's histogram before the crop, which removes differences of exposure and contrast.
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"}, default="bilinear"
        Pillow's filter; all but ``"nearest"`` average when they shrink.

    Examples
    --------
    >>> Preprocessing(size=160).key
    'v1 crop 183 to 160, bilinear'
    >>> EQUALISED_CROP.key
    'v1 squash 256 to 224, bilinear, equalised'
    """

    size: int = 224
    mode: Mode = "crop"
    resize: int | None = None
    equalise: bool = False
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, Mode)
        check_choice("interpolation", self.interpolation, Interpolation)
        check_count("size", self.size)
        if self.resize is not None:
            check_count("resize", self.resize, at_least=self.size)

    @property
    def resized(self) -> int:
        """Side before the centre crop, in pixels: ``resize`` with its default filled in."""
        if self.resize is not None:
            return self.resize
        return round(self.size * 256 / 224) if self.mode == "crop" else self.size

    @property
    def key(self) -> str:
        """Text that differs between two settings whenever their pixels may differ."""
        steps = f"v{_VERSION} {self.mode} {self.resized} to {self.size}, {self.interpolation}"
        return f"{steps}, equalised" if self.equalise else steps


IMAGENET_CROP = Preprocessing()
"""Short side to 256, centre 224: how networks trained on ImageNet are usually tested."""

EQUALISED_CROP = Preprocessing(mode="squash", resize=256, equalise=True)
"""Squashed to 256 x 256, equalised, centre 224: for X-rays from scanners of different exposure."""


def read_image(path: str | Path, preprocessing: Preprocessing = IMAGENET_CROP) -> NDArray[np.uint8]:
    """Read an image file as the pixels a network takes.

    The EXIF orientation is applied, an animation gives its first frame, and transparency is composited on
    black. Images of more than 8 bits a pixel, as many X-rays are, are stretched from their own minimum and
    maximum to 0 and 255: a 12-bit image in a 16-bit file would be almost black otherwise.

    Parameters
    ----------
    path : str or Path
        The file, in any format that Pillow reads, or DICOM (``pip install 'pnca[dicom]'``).
    preprocessing : Preprocessing, default=IMAGENET_CROP
        How it becomes a square.

    Returns
    -------
    ndarray of shape (size, size, 3), uint8
        Red, green and blue, equal for a grey image.

    Examples
    --------
    >>> from PIL import Image
    >>> path = getfixture("tmp_path") / "grey.png"
    >>> Image.new("L", (640, 480), 7).save(path)
    >>> read_image(path).shape
    (224, 224, 3)
    """
    return prepare_image(read_bytes(path), preprocessing, path=path)


def read_pixels(path: str | Path, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """Read an image file as it is, or brought to a size, whatever its proportions.

    Parameters
    ----------
    path : str or Path
        The file, as :func:`read_image` takes it.
    size : (int, int) or None, default=None
        Height and width.

    Returns
    -------
    ndarray of shape (h, w) or (h, w, 3), uint8
        Grey, or red, green and blue.

    Examples
    --------
    >>> from PIL import Image
    >>> path = getfixture("tmp_path") / "grey.png"
    >>> Image.new("L", (9, 5), 7).save(path)
    >>> read_pixels(path).shape, read_pixels(path, (4, 4)).shape
    ((5, 9), (4, 4))
    """
    from PIL import Image

    image = decode_image(read_bytes(path), path=path)
    if size is not None and image.size != (size[1], size[0]):
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.array(image)


def read_bytes(path: str | Path) -> bytes:
    """Read a whole file; an error names it."""
    with open_to_read(path, "image") as file:
        return file.read()


def prepare_image(content: bytes, preprocessing: Preprocessing, *, path: str | Path) -> NDArray[np.uint8]:
    """Decode the bytes of an image file to uint8 of shape (size, size, 3); ``path`` is named in errors."""
    return prepared_image(decode_image(content, path=path), preprocessing, path=path)


def prepared_image(
    image: Image.Image, preprocessing: Preprocessing, *, path: str | Path
) -> NDArray[np.uint8]:
    """Bring a decoded image to uint8 of shape (size, size, 3)."""
    image = _resize(image, preprocessing, path)
    if preprocessing.equalise:
        from PIL import ImageOps

        image = ImageOps.equalize(image)
    size = preprocessing.size
    left, top = (image.width - size) // 2, (image.height - size) // 2
    return np.array(image.crop((left, top, left + size, top + size)).convert("RGB"))


def decode_image(content: bytes, *, path: str | Path, limits: ImageLimits | None = None) -> Image.Image:
    """Decode the bytes of an image file to Pillow's mode L or RGB, upright; ``path`` is named in errors.

    ``limits`` hold for images from strangers; without them Pillow's own limit of pixels does.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("PIL", "vision") from error
    if not content:
        raise CorruptDataError(f"The image {path} is empty (0 bytes).")
    if is_dicom(content):
        pixels = dicom_pixels(content, path, None if limits is None else limits.max_pixels)
        is_ready = pixels.dtype == np.uint8 and pixels.ndim == 3
        return Image.fromarray(pixels if is_ready else _stretch(pixels, path))
    try:
        with Image.open(io.BytesIO(content), formats=None if limits is None else limits.formats) as image:
            # Pillow itself refuses twice its limit, and up to that only warns.
            if not _is_within_limit(image.size, None if limits is None else limits.max_pixels):
                raise Image.DecompressionBombError(f"it is {image.width:,} by {image.height:,}")
            image.load()  # the decoding; open reads the header alone
            upright = ImageOps.exif_transpose(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        advice = "make it smaller"
        if limits is None:  # who may change the limit is told of it
            advice += f" ({error}), or raise PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        raise InvalidInputError(f"The image {path} has too many pixels: {advice}.") from error
    except MemoryError:
        raise
    except Exception as error:  # on damaged files Pillow's formats raise whatever their parsing runs into
        why = "" if isinstance(error, UnidentifiedImageError) else f" ({error})"
        raise CorruptDataError(
            f"The image {path} cannot be read: it is truncated or not an image{why}."
        ) from error
    return _to_8_bits(upright, path)


def _is_within_limit(size: tuple[int, int], most: int | None = None) -> bool:
    """Whether an image of this width and height has no more pixels than that, and than Pillow's limit."""
    from PIL import Image

    limits = [limit for limit in (most, Image.MAX_IMAGE_PIXELS) if limit is not None]
    return all(size[0] * size[1] <= limit for limit in limits)


def _to_8_bits(image: Image.Image, path: str | Path) -> Image.Image:
    """Convert any of Pillow's modes to L or RGB."""
    from PIL import Image

    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode[0] in "IF":  # 16 and 32 bits; Pillow's own conversion clips at 255
        return Image.fromarray(_stretch(np.asarray(image), path))
    if image.mode == "1":
        return image.convert("L")
    try:
        if "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
            visible = image.convert("RGBA")
            black = Image.new("RGBA", visible.size, (0, 0, 0, 255))
            return Image.alpha_composite(black, visible).convert("RGB")
        return image.convert("RGB")
    except ValueError as error:
        raise InvalidInputError(
            f"The image {path} has colours of kind {image.mode!r}; save it as RGB or grey."
        ) from error


def _stretch(values: NDArray[np.generic], path: str | Path) -> NDArray[np.uint8]:
    """Map the range of the values to 0..255; a constant image becomes black."""
    levels = values.astype(np.float64)  # (h, w)
    if not np.isfinite(levels).all():
        raise CorruptDataError(f"The image {path} has pixels that are not numbers.")
    width = float(np.ptp(levels))
    scaled = (levels - levels.min()) * (255 / width if width else 0)
    stretched: NDArray[np.uint8] = np.rint(scaled).astype(np.uint8)
    return stretched


def _resize(image: Image.Image, preprocessing: Preprocessing, path: str | Path) -> Image.Image:
    """Bring the short side, or both, to the wanted length."""
    from PIL import Image

    length = preprocessing.resized
    if preprocessing.mode == "squash":
        sides = (length, length)
    else:
        short = min(image.size)
        sides = (round(image.width * length / short), round(image.height * length / short))
    if sides == image.size:
        return image
    if not _is_within_limit(sides):  # of one pixel by many thousand
        raise InvalidInputError(
            f"The image {path} is too narrow: it is {image.width:,} by {image.height:,} pixels, and with its "
            f"short side at {length} it would have too many. Crop it, or use mode='squash'."
        )
    return image.resize(sides, Image.Resampling[preprocessing.interpolation.upper()])
