"""The letters A to J as small images: inputs that belong to no digit class.

The glyphs come from the fonts matplotlib ships, so nothing is downloaded.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

#: The letter of each label 0..9.
LETTERS = "ABCDEFGHIJ"

# Named one by one: the folder also holds symbol and extension fonts, which draw boxes or nothing for "A".
_FONT_NAMES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    *("cmr10", "cmb10", "cmss10", "cmtt10"),
)

_OVERSAMPLING = 16  # drawn pixels per final pixel, along each axis
_MIN_EXTENT = 0.8  # share of the frame; scikit-learn's digits fill theirs from top to bottom
_MAX_STROKE = 0.03  # of the frame, added on either side: the mean intensity is then that of the digits
_MAX_OFFSET = 0.125  # of the frame: one pixel of eight, so that a narrow I stays near the middle, as a 1 does


def render_letters(
    n: int, *, size: int = 8, random_state: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw n letters A to J, equally often, in varied fonts, weights, sizes and positions, with labels (n,).

    Each is drawn large, white on black, averaged down, and divided by its brightest pixel. The images
    resemble scikit-learn's digits over 16: they fill the frame, the maximum is 1 and the mean 0.3.
    """
    if n < 0 or size < 1:
        raise InvalidInputError(f"n must be at least 0 and size at least 1, but n={n} and size={size}.")
    font_paths = _font_paths()
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.arange(n, dtype=np.int64) % len(LETTERS))  # (n,)
    images = np.zeros((n, size, size), dtype=np.float32)
    for image, label in zip(images, labels, strict=True):
        font_path = font_paths[rng.integers(len(font_paths))]
        drawing = _draw_letter(LETTERS[label], font_path, size * _OVERSAMPLING, rng)
        image[:] = _shrink(drawing, size)
    return images, labels


def _font_paths() -> list[Path]:
    """Return the bundled font files that hold Latin capitals."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [folder / f"{name}.ttf" for name in _FONT_NAMES]


def _draw_letter(letter: str, font_path: Path, side: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw one letter at a random size, stroke and place; returns (side, side), from 0 to 255."""
    from PIL import Image, ImageDraw

    stroke = round(rng.uniform(0, _MAX_STROKE) * side)
    extent = rng.uniform(_MIN_EXTENT, 1) * side
    font = _font_of_extent(letter, font_path, extent - 2 * stroke)
    canvas = Image.new("L", (side, side))
    draw = ImageDraw.Draw(canvas)
    left, top, right, bottom = draw.textbbox((0, 0), letter, font=font, stroke_width=stroke)
    x = _margin(right - left, side, rng) - left
    y = _margin(bottom - top, side, rng) - top
    draw.text((round(x), round(y)), letter, font=font, fill=255, stroke_width=stroke)
    return np.asarray(canvas, dtype=np.float64)


def _margin(length: float, side: int, rng: np.random.Generator) -> float:
    """Return the space to leave before ink of this length: about the middle, and inside the frame."""
    middle = max(0.0, side - length) / 2
    reach = min(middle, _MAX_OFFSET * side)
    return float(middle + rng.uniform(-reach, reach))


def _font_of_extent(letter: str, font_path: Path, extent: float) -> "FreeTypeFont":
    """Open the font at the size where the longer side of this letter's ink measures ``extent`` pixels."""
    from PIL import ImageFont

    # The basic layout engine is always compiled in, so the same seed draws the same image everywhere.
    probe = ImageFont.truetype(str(font_path), 100, layout_engine=ImageFont.Layout.BASIC)
    left, top, right, bottom = probe.getbbox(letter)
    font_size = 100 * extent / max(right - left, bottom - top)
    return probe.font_variant(size=max(1, round(font_size)))


def _shrink(drawing: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Average square blocks down to (size, size) and scale the brightest pixel to 1."""
    block = drawing.shape[0] // size
    averages = drawing.reshape(size, block, size, block).mean(axis=(1, 3))  # (size, size)
    shrunk: NDArray[np.float64] = averages / averages.max()
    return shrunk
