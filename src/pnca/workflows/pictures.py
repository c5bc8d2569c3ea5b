"""Pictures of images whose features a model takes: of a case, and of the examples that carry its answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.explanations import Explanation
from pnca.explanations.text import decimal, name_of, short
from pnca.reports.report import Photo
from pnca.sources import ImageSource
from pnca.vision import read_pixels
from pnca.workflows.cases import Cases
from pnca.workflows.images import image_inputs

if TYPE_CHECKING:
    from pnca.vision import Backbone

#: Pixels of a picture, on its longer side.
_SIDE = 320
#: Features of the same file by the same network, computed twice, differ by no more than rounding.
_ROUNDING = 1e-3


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Where images are, and how they become features."""

    source: ImageSource
    backbone: Backbone | None
    folder: Path  # in which training images may be, by their names

    def of(self, case: Explanation, cases: Cases | None, place: int) -> tuple[Photo, ...]:
        """Pictures of a case and of the training examples that carry it, as far as they are found.

        Parameters
        ----------
        case : Explanation
            The case.
        cases : Cases, optional
            In which it is; without them it is a training example.
        place : int
            Its place in them, or in the training data.
        """
        photos: list[Photo | None] = []
        record = case.source.record
        if cases is not None and cases.paths is not None:
            photos.append(_photo(cases.paths[place], "this case"))
        elif cases is None:
            photos.append(self._of_training(record, place, "this case"))
        for example in case.examples:
            caption = f"{name_of(example)}: {short(example.label)}, share {decimal(example.share)}"
            photos.append(self._of_training(record, example.row, caption))
        return tuple(photo for photo in photos if photo is not None)

    def _of_training(self, record: Any, row: int, caption: str) -> Photo | None:  # noqa: ANN401
        """The picture of a training example, if a file of its name has its features."""
        if record.ids is None or record.inputs is None:
            return None
        path = self.folder / str(record.ids[row])
        if not path.is_file():
            return None
        try:
            found = np.asarray(image_inputs([path], self.source, self.backbone))[0]
        except (CorruptDataError, InvalidInputError):
            return None
        kept = np.asarray(record.inputs[row], dtype=np.float64)
        is_same = bool(np.abs(found - kept).max() <= _ROUNDING * max(1.0, float(np.abs(kept).max())))
        return _photo(path, caption) if is_same else None


def _photo(path: Path, caption: str) -> Photo:
    pixels = read_pixels(path)
    step = max(1, -(-max(pixels.shape[:2]) // (2 * _SIDE)))
    return Photo(pixels=_shrunk(pixels[::step, ::step]), caption=caption)


def _shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((_SIDE, _SIDE))
    return np.asarray(image)
