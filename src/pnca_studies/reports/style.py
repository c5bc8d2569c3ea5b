"""One look for every figure: a model keeps its colour, marker and line wherever it appears.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which stay apart under the
common colour vision deficiencies; marker and dash tell the lines apart in grey print too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import cycle
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pnca.exceptions import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#222222"
FAINT = "#E6E6E6"

_POINTS_PER_INCH = 72


@dataclass(frozen=True, kw_only=True)
class ModelStyle:
    """Colour, matplotlib marker and line style, width in points and drawing order of one model."""

    color: str
    marker: str
    linestyle: str
    linewidth: float = 1.6
    zorder: float = 3.0

    def line_options(self) -> dict[str, Any]:
        """Return the style as keyword arguments of ``Axes.plot``."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": self.linestyle,
            "linewidth": self.linewidth,
            "zorder": self.zorder,
            "markersize": 5 + self.linewidth,
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
        }


MODEL_STYLES: Mapping[str, ModelStyle] = MappingProxyType(
    {
        "PNCA": ModelStyle(color="#D55E00", marker="o", linestyle="-", linewidth=2.8, zorder=5),
        "PNCA (paper)": ModelStyle(color="#E69F00", marker="D", linestyle="--", linewidth=2.0, zorder=4),
        "NCA": ModelStyle(color="#009E73", marker="s", linestyle="-."),
        "DNN": ModelStyle(color="#0072B2", marker="^", linestyle="-"),
        "BNN": ModelStyle(color="#CC79A7", marker="v", linestyle="--"),
        "BNN as published": ModelStyle(color="#7A3E65", marker="*", linestyle=":"),
        "Ensemble": ModelStyle(color="#56B4E9", marker="p", linestyle=":", linewidth=2.0),
    }
)
"""The style of each model this library knows by name."""

# Black is the one Okabe-Ito colour left: their yellow is too pale for a line on white.
_SPARE_STYLES = (
    ModelStyle(color="#000000", marker="X", linestyle="-"),
    ModelStyle(color="#7A7A7A", marker="h", linestyle="--"),
    ModelStyle(color="#000000", marker="<", linestyle=":"),
    ModelStyle(color="#7A7A7A", marker=">", linestyle="-."),
    # Only where no model of the library is beside them, as in an ablation of one model.
    ModelStyle(color="#0072B2", marker="P", linestyle="-"),
    ModelStyle(color="#009E73", marker="d", linestyle="--"),
    ModelStyle(color="#CC79A7", marker="8", linestyle=":"),
)


def styles_for(names: Iterable[str]) -> dict[str, ModelStyle]:
    """Give each model its fixed style, and each unknown name the next of seven spare ones, in turn."""
    spare = cycle(_SPARE_STYLES)
    return {name: MODEL_STYLES[name] if name in MODEL_STYLES else next(spare) for name in names}


def new_figure(width: float, height: float, *, layout: str = "constrained") -> "Figure":
    """Make an empty white figure, in inches, that belongs to no window and no global state."""
    _require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout, facecolor="white")  # type: ignore[arg-type]


def text_width(text: str, points: float, weight: str = "normal") -> float:
    """Measure a line of text at a font size in points, in inches."""
    _require_matplotlib()
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / _POINTS_PER_INCH


def tidy_axes(axes: "Axes") -> None:
    """Keep the two axes that carry numbers, and a light grid behind the lines."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(visible=True, color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)


def _require_matplotlib() -> None:
    """Say which extra to install where matplotlib is missing."""
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
