"""Pixels of DICOM files. Nothing else of a file is kept or shown: it names a patient."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError, MissingExtraError

#: Where a DICOM file says that it is one.
_PREAMBLE, _MAGIC = 128, b"DICM"
#: Transfer syntaxes that zlib must inflate before anything can be read, and that of deflated frames.
_INFLATED = (b"1.2.840.10008.1.2.1.99", b"1.2.840.10008.1.2.4.95", b"1.2.840.10008.1.2.8.1")


def is_dicom(content: bytes) -> bool:
    """Whether the bytes of a file begin as DICOM says."""
    return content[_PREAMBLE : _PREAMBLE + len(_MAGIC)] == _MAGIC


def dicom_pixels(content: bytes, path: str | Path, max_pixels: int | None = None) -> NDArray[Any]:
    """Grey values (h, w), larger where lighter, or colours (h, w, 3) of the first frame of a DICOM file.

    Stored values are brought to the units of the device, if the file says how. A window of contrast is not
    applied: it was chosen for an eye. With ``max_pixels`` a file of more is refused, and so is one that is
    compressed as a whole, because its size is known only afterwards.
    """
    if max_pixels is not None:
        _check_is_not_deflated(content, path)
    try:
        import pydicom
        from pydicom.pixels.processing import apply_color_lut, apply_rescale
        from pydicom.pixels.utils import pixel_array
    except ImportError as error:
        raise MissingExtraError("pydicom", "dicom") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say of other elements may name a patient
            found = pydicom.dcmread(io.BytesIO(content))
            n_pixels = int(found.Rows) * int(found.Columns)
            if max_pixels is not None and n_pixels > max_pixels:
                raise InvalidInputError(
                    f"The DICOM image {path} has too many pixels ({n_pixels:,} of {max_pixels:,} at most)."
                )
            kind = str(found.PhotometricInterpretation)
            pixels = pixel_array(found, index=0)  # colours become red, green and blue
            if kind == "PALETTE COLOR":
                pixels = apply_color_lut(pixels, found)
            elif pixels.ndim == 2:
                pixels = apply_rescale(pixels, found)
    except (MemoryError, InvalidInputError):
        raise
    except Exception as error:  # of whatever their parsing runs into; its text may quote elements of the file
        if type(error).__name__ in ("RuntimeError", "NotImplementedError"):
            raise InvalidInputError(
                f"The DICOM image {path} is compressed in a way that cannot be read here: decompress it, "
                "or install a decoder for pydicom."
            ) from None
        raise CorruptDataError(
            f"The DICOM image {path} cannot be read ({type(error).__name__}): it is truncated, or holds "
            "no pixels."
        ) from None
    if pixels.ndim not in (2, 3):
        shape = pixels.shape
        raise InvalidInputError(f"The DICOM image {path} has pixels of shape {shape}, which are no image.")
    return np.asarray(-pixels.astype(np.float64) if kind == "MONOCHROME1" else pixels)


def _check_is_not_deflated(content: bytes, path: str | Path) -> None:
    if any(syntax in content for syntax in _INFLATED):
        raise InvalidInputError(
            f"The DICOM image {path} is compressed as a whole (deflated): save it uncompressed, or as JPEG."
        )
