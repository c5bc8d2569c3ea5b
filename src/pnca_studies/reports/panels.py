"""Figures of several panels: a line per model with its spread over repetitions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError
from pnca_studies.reports.frame import pd
from pnca_studies.reports.style import INK, ModelStyle, new_figure, styles_for, text_width, tidy_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _EDGE = 3.7, 2.9, 0.9  # inches: of a panel, and for title and legend
_ALONE = 6.8  # inches: width of a figure of one panel
_HANDLE = 0.7  # inches: the line before a name in the legend, and the space after it
_MARKERS = 7
_SPREAD = 0.15  # opacity of a band
#: Of two repetitions a standard deviation is a guess: no band is drawn.
_FEWEST_OF_A_BAND = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One set of axes: for each model an array (repetitions, len(x)), NaN where there is no value."""

    title: str
    x: ArrayLike
    lines: Mapping[str, NDArray[np.float64]]
    x_label: str
    y_label: str
    y_range: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None  # of x; None leaves them to matplotlib


def panels_figure(
    panels: Sequence[Panel], title: str, *, n_columns: int = 3, called: Mapping[str, str] | None = None
) -> "Figure":
    """Draw panels in rows: each model's mean as a line, one standard deviation around it as a band.

    A band takes three repetitions. The legend has the models of which something is drawn, ``called`` what
    they are to readers.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    if not names:
        raise InvalidInputError("A figure needs at least one panel with one line.")
    drawn = {name for panel in panels for name, lines in panel.lines.items() if _is_drawn(lines)}
    columns = min(n_columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = _WIDTH * columns if columns > 1 else _ALONE
    figure = new_figure(width, _HEIGHT * rows + _EDGE)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    styles = styles_for(names)
    for panel, place in zip(panels, axes, strict=False):
        _draw(place, panel, styles)
    for place in axes[len(panels) :]:
        place.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    handles = {line.get_label(): line for place in axes for line in place.lines}
    shown = [name for name in names if name in drawn] or names
    figure.legend(
        [handles[name] for name in shown],
        labels := [(called or {}).get(name, name) for name in shown],
        loc="outside lower center",
        ncols=_legend_columns(labels, width),
        frameon=False,
        labelcolor=INK,
        handlelength=3.0,
        fontsize=9,
    )
    return figure


def band_label(name: str) -> str:
    """What the band of a model is called among the artists of its axes; no legend shows it."""
    return f"_band of {name}"


def _legend_columns(names: Sequence[str], width: float) -> int:
    """As many as the longest name lets side by side, with rows as even as can be."""
    entry = max(text_width(name, 9) for name in names) + _HANDLE
    most = max(1, min(len(names), int(width / entry)))
    return math.ceil(len(names) / math.ceil(len(names) / most))


def _draw(axes: "Axes", panel: Panel, styles: Mapping[str, ModelStyle]) -> None:
    tidy_axes(axes)
    x = np.asarray(panel.x, dtype=np.float64)
    step = max(1, len(x) // _MARKERS)
    for start, (name, lines) in enumerate(panel.lines.items()):
        mean, sd = _mean_and_sd(lines)
        options = {**styles[name].line_options(), "markersize": 5}
        axes.plot(x, mean, label=name, markevery=(start % step, step), **options)
        if len(lines) >= _FEWEST_OF_A_BAND:
            band: dict[str, Any] = {"color": styles[name].color, "alpha": _SPREAD, "linewidth": 0}
            axes.fill_between(x, mean - sd, mean + sd, label=band_label(name), **band)
    if panel.ticks is not None:
        axes.set_xticks(list(panel.ticks))
    margin = 0.02 * (np.ptp(x) or 1)
    axes.set_xlim(x.min() - margin, x.max() + margin)
    axes.set_title(panel.title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel(panel.x_label, color=INK, fontsize=9)
    axes.set_ylabel(panel.y_label, color=INK, fontsize=9)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)


def _is_drawn(lines: NDArray[np.float64]) -> bool:
    """Whether a line has a point."""
    return bool(np.isfinite(_mean_and_sd(lines)[0]).any())


def _mean_and_sd(lines: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation over repetitions; NaN where fewer than half have a value."""
    values = pd.DataFrame(lines)
    enough = (2 * values.count() >= len(values)) & (len(values) > 0)
    sd = values.std() if len(values) > 1 else 0 * values.mean()
    return values.mean().where(enough).to_numpy(), sd.where(enough).to_numpy()
