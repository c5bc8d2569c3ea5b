"""What figures have in common: colours, letters, and how one becomes SVG or PNG for a page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import MissingExtraError
from pnca.explanations.svg import without_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Pixels of a picture in a page, on its longer side.
MOST_PIXELS = 400


@dataclass(frozen=True)
class Colours:
    """Colours of a figure: of ink, of lines, and of the parts of a probability."""

    ink: str = "#1d2329"
    muted: str = "#6b747d"
    line: str = "#c9cfd6"
    mark: str = "#c2410c"
    named: str = "#1d4e89"
    others: str = "#7fa8d1"
    expert: str = "#d97706"
    nobody: str = "#b4bac1"


#: Colours that stand for the variables of a page's style, which differ in the dark.
VARIABLES = {
    "ink": "#010203", "muted": "#010204", "line": "#010205", "mark": "#010206",
    "named": "#010207", "others": "#010208", "expert": "#010209", "nobody": "#01020a",
}  # fmt: skip
_AS_VARIABLES = Colours(**VARIABLES)


def as_svg(
    draw: Callable[[Axes, Any, Colours], None],
    value: Any,  # noqa: ANN401
    size: tuple[float, float],
    *,
    mark: str,
    title: str = "",
    description: str = "",
) -> str:
    """A figure as SVG for a page: text stays text, and colours are the variables of the page's style.

    Parameters
    ----------
    draw : callable
        ``draw(axes, value, colours)``.
    value : object
        What is drawn.
    size : tuple of float
        Width and height in inches.
    mark : str
        Begins every id in it; in a page each figure has another one.
    title, description : str
        What a screen reader says of it. Without them it is left out there: the page then has the same
        numbers in a table.
    """
    from_matplotlib = io.StringIO()
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots(), value, _AS_VARIABLES)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(from_matplotlib, format="svg", transparent=True, metadata=nothing)
    text = from_matplotlib.getvalue()
    text = without_styles(text[text.index("<svg") :])
    for name, colour in VARIABLES.items():
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{mark}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text)
    spoken = ' aria-hidden="true"'
    if title:
        spoken = f' role="img" aria-labelledby="{mark}-title" aria-describedby="{mark}-desc"'
        said = (
            f'<title id="{mark}-title">{escape(title)}</title>'
            f'<desc id="{mark}-desc">{escape(description)}</desc>'
        )
        text = re.sub(r"(<svg[^>]*>)", lambda found: found[0] + said, text, count=1)
    return re.sub(r'(<svg[^>]*?) height="[^"]*"', rf'\1{spoken} focusable="false"', text, count=1)


def as_png(picture: NDArray[Any], *, cmap: str = "gray") -> bytes:
    """A picture of values from zero to one as PNG, a pixel each; of a large one every second, or fewer."""
    require_matplotlib()
    step = -(-max(picture.shape[:2]) // MOST_PIXELS)
    picture = picture[::step, ::step]
    from matplotlib.image import imsave

    target = io.BytesIO()
    imsave(target, picture, cmap=cmap, vmin=0, vmax=1, format="png")
    return target.getvalue()


def as_shown(picture: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.float64]:
    """A picture (h, w) or (h, w, channels) between zero and one; transparency is left out."""
    low, high = limits
    scaled = (np.asarray(picture, dtype=np.float64) - low) / ((high - low) or 1.0)
    shown: NDArray[np.float64] = scaled.clip(0, 1)
    return shown[:, :, :3] if shown.ndim == 3 else shown


@contextmanager
def style() -> Iterator[None]:
    """Plain text whatever it holds; fonts may lack a letter."""
    matplotlib = require_matplotlib()
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "pnca",
        "text.parse_math": False,
        "font.size": 9,
        "font.family": ["DejaVu Sans"],
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def require_matplotlib() -> Any:  # noqa: ANN401
    """Import matplotlib, or say which extra brings it."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    return matplotlib


def plain(axes: Axes, colours: Colours) -> None:
    """Axes with two thin lines, and letters in the colours of the page."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(colours.line)
    axes.tick_params(color=colours.line, labelcolor=colours.ink)
    axes.xaxis.label.set_color(colours.muted)
    axes.yaxis.label.set_color(colours.muted)
