"""Figures of the demo, each a matplotlib ``Figure`` made from plain arrays, and a safe way to save one."""

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pnca.exceptions import InvalidInputError
from pnca.files import write_atomically
from pnca_studies.reports.strip import input_strip_figure
from pnca_studies.reports.style import INK, new_figure, styles_for, tidy_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FORMATS",
    "Curves",
    "accuracy_vs_confidence_figure",
    "count_vs_confidence_figure",
    "input_strip_figure",
    "save_figure",
    "save_figures",
]

Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""For each model its thresholds and the values there, both of shape (t,); NaN leaves a gap."""

#: What a figure can be written as.
FORMATS = ("png", "svg", "pdf")
_DPI = 150
_MARKERS_PER_LINE = 10
_TITLE_LETTERS = 60  # bold at 12 points, across the width of a figure of curves


def accuracy_vs_confidence_figure(curves: Curves, title: str) -> "Figure":
    """Draw how often each model is right where its confidence reaches a threshold."""
    figure, axes = _curves_figure(curves, title)
    axes.set_ylabel("accuracy where confidence ≥ τ", color=INK)
    values = np.concatenate([np.asarray(values, dtype=np.float64) for _, values in curves.values()])
    lowest = np.min(values[np.isfinite(values)], initial=1.0) if np.isfinite(values).any() else 0.0
    # From the tenth below the lowest value; the margin keeps a line at exactly 1 clear of the frame.
    axes.set_ylim(np.clip(np.ceil(10 * lowest - 1) / 10, 0.0, 0.9), 1.015)
    return figure


def count_vs_confidence_figure(curves: Curves, title: str, n_total: int) -> "Figure":
    """Draw on how many of all examples each model's confidence reaches a threshold."""
    if n_total < 1:
        raise InvalidInputError(f"n_total must be at least 1, but it is {n_total}.")
    figure, axes = _curves_figure(curves, title)
    axes.set_ylabel("examples with confidence ≥ τ", color=INK)
    axes.set_ylim(-0.02 * n_total, 1.02 * n_total)
    share = axes.secondary_yaxis(
        "right",
        functions=(
            lambda count: np.multiply(count, 100 / n_total),
            lambda percent: np.multiply(percent, n_total / 100),
        ),
    )
    share.set_ylabel(f"% of all {n_total:,} examples", color=INK)
    share.tick_params(colors=INK, labelsize=9)
    share.spines["right"].set_color(INK)
    return figure


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write a figure as PNG at 150 dots per inch, SVG or PDF; a failure leaves an earlier file as it was."""
    import matplotlib

    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InvalidInputError(
            f"A figure is saved as {', '.join(FORMATS)}, but {target.name!r} does not end in one of these."
        )
    # No date and no random names: the same figure is the same file.
    undated = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with matplotlib.rc_context({"svg.hashsalt": "pnca", "svg.fonttype": "none", "pdf.fonttype": 42}):
        return write_atomically(
            target, lambda temporary: figure.savefig(temporary, dpi=_DPI, format=kind, metadata=undated)
        )


def save_figures(figure: "Figure", path: str | Path, formats: Iterable[str] = ()) -> list[Path]:
    """Write a figure as PNG to ``path``, and beside it in further formats."""
    target = Path(path)
    paths = [target, *(target.with_suffix(f".{kind}") for kind in dict.fromkeys(formats) if kind != "png")]
    return [save_figure(figure, each) for each in paths]


def _curves_figure(curves: Curves, title: str) -> "tuple[Figure, Axes]":
    """Draw one styled line per model over thresholds from 0 to 1, with the legend beside the axes."""
    _check_curves(curves)
    figure = new_figure(6.8, 4.0)
    axes = figure.subplots()
    tidy_axes(axes)
    for start, (name, style) in enumerate(styles_for(curves).items()):
        thresholds, values = (np.asarray(array, dtype=np.float64) for array in curves[name])
        step = max(1, len(thresholds) // _MARKERS_PER_LINE)
        # Each line starts its markers elsewhere, so that lines on top of each other stay countable.
        label = name if np.isfinite(values).any() else f"_{name}"  # the legend names what is drawn
        axes.plot(thresholds, values, label=label, markevery=(start % step, step), **style.line_options())
    axes.set_xlim(-0.01, 1.01)
    axes.set_xlabel("confidence threshold τ", color=INK)
    heading = textwrap.fill(title, _TITLE_LETTERS)
    figure.suptitle(heading, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    if axes.get_legend_handles_labels()[1]:
        figure.legend(
            loc="outside right center", frameon=False, labelcolor=INK, handlelength=3.2, fontsize=10
        )
    return figure, axes


def _check_curves(curves: Curves) -> None:
    """Refuse an empty figure and curves whose two arrays do not pair up."""
    if not curves:
        raise InvalidInputError("curves must hold at least one model.")
    for name, (thresholds, values) in curves.items():
        if np.ndim(thresholds) != 1 or np.shape(thresholds) != np.shape(values):
            raise InvalidInputError(
                f"The curve of {name!r} needs two arrays of shape (t,), but their shapes are "
                f"{np.shape(thresholds)} and {np.shape(values)}."
            )
