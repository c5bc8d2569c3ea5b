"""Figures of several panels: a line per model with its spread over repetitions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError
from pnca_studies.reports.style import INK, ModelStyle, new_figure, styles_for, text_width, tidy_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _EDGE = 3.7, 2.9, 0.9  # inches: of a panel, and for title and legend
_ALONE = 6.8  # inches: width of a figure of one panel
_HANDLE = 0.7  # inches: the line before a name in the legend, and the space after it
_MARKERS = 7
_SPREAD = 0.15  # opacity of a band


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One set of axes.

    Attributes
    ----------
    title : str
        Heading.
    x : array of shape (t,)
        Shared by all lines.
    lines : mapping of str to array of shape (r, t)
        For each model, a line per repetition; NaN where it has no value.
    x_label, y_label : str
        Axis labels.
    y_range : tuple of float, optional
        Ends of the vertical axis.
    """

    title: str
    x: ArrayLike
    lines: Mapping[str, NDArray[np.float64]]
    x_label: str
    y_label: str
    y_range: tuple[float, float] | None = None


def panels_figure(panels: Sequence[Panel], title: str, *, n_columns: int = 3) -> "Figure":
    """Draw panels in rows, each model's mean as a line and one standard deviation around it as a band.

    Parameters
    ----------
    panels : sequence of Panel
        In reading order.
    title : str
        Heading of the figure.
    n_columns : int
        Panels in a row.

    Returns
    -------
    Figure
        One legend for all. A point is drawn where at least half of the repetitions have a value.

    Raises
    ------
    InvalidInputError
        If there is no panel or no line.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> lines = {"PNCA": np.array([[0.1, 0.2], [0.3, 0.4]])}
    >>> panel = Panel(title="a", x=[0, 1], lines=lines, x_label="x", y_label="y")
    >>> figure = panels_figure([panel], "A figure")
    >>> figure.axes[0].lines[0].get_ydata()
    array([0.2, 0.3])
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    if not names:
        raise InvalidInputError("A figure needs at least one panel with one line.")
    columns = min(n_columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = _WIDTH * columns if columns > 1 else _ALONE
    figure = new_figure(width, _HEIGHT * rows + _EDGE, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    styles = styles_for(names)
    for panel, place in zip(panels, axes, strict=False):
        _draw(place, panel, styles)
    for place in axes[len(panels) :]:
        place.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    handles = {line.get_label(): line for place in axes for line in place.lines}
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=_legend_columns(names, width),
        frameon=False,
        labelcolor=INK,
        handlelength=3.0,
        fontsize=9,
    )
    return figure


def _legend_columns(names: Sequence[str], width: float) -> int:
    """As many as the longest name lets side by side."""
    entry = max(text_width(name, 9) for name in names) + _HANDLE
    most = max(1, min(len(names), int(width / entry)))
    n_rows = math.ceil(len(names) / most)
    return math.ceil(len(names) / n_rows)  # as even as can be


def _draw(axes: "Axes", panel: Panel, styles: Mapping[str, ModelStyle]) -> None:
    tidy_axes(axes)
    x = np.asarray(panel.x, dtype=np.float64)
    step = max(1, len(x) // _MARKERS)
    for start, (name, lines) in enumerate(panel.lines.items()):
        mean, sd = _mean_and_sd(lines)
        options = {**styles[name].line_options(), "markersize": 5}
        axes.plot(x, mean, label=name, markevery=(start % step, step), **options)
        axes.fill_between(x, mean - sd, mean + sd, color=styles[name].color, alpha=_SPREAD, linewidth=0)
    margin = 0.02 * (np.ptp(x) or 1)
    axes.set_xlim(x.min() - margin, x.max() + margin)
    axes.set_title(panel.title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel(panel.x_label, color=INK, fontsize=9)
    axes.set_ylabel(panel.y_label, color=INK, fontsize=9)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)


def _mean_and_sd(lines: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation over repetitions: (t,) each, NaN where most have no value."""
    known = np.isfinite(lines)
    enough = known.sum(axis=0) * 2 >= len(lines)
    values = np.ma.masked_array(lines, ~(known & enough))
    mean = values.mean(axis=0).filled(np.nan)
    sd = values.std(axis=0, ddof=1).filled(np.nan) if len(lines) > 1 else np.zeros_like(mean)
    return mean, sd
