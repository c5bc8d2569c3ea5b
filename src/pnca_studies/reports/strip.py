"""The strip of inputs: images side by side and, below each, what every model answers and how sure it is."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError
from pnca_studies.reports.style import FAINT, INK, new_figure, styles_for, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, because text keeps its size however many columns there are.
_CELL, _GAP = 1.05, 0.3  # width of a column, and what is added between groups
_LINE, _BAR = 0.18, 0.11  # height of a line of text, and of a bar
_PAD_WIDTH, _PAD_HEIGHT = 0.1, 0.06  # around every cell
_INSIDE = (0.005, 0.015, 0.99, 0.97)  # of the figure: left, bottom, width, height
_LETTER = 0.095  # width of a common letter in a heading
_NAME_SIZE, _TEXT_SIZE = 10, 9  # points
_CLASS_WIDTH = 0.58  # of a column; the percentage needs the rest


def input_strip_figure(
    images: ArrayLike,
    group_names: Sequence[str],
    predictions: Mapping[str, Sequence[str]],
    confidences: Mapping[str, ArrayLike],
    *,
    captions: Sequence[str] | None = None,
) -> "Figure":
    """Show k grey images (k, h, w) under the headings of their groups, above a row of bars per model."""
    pixels = np.asarray(images, dtype=np.float64)
    sureness = {name: np.asarray(values, dtype=np.float64) for name, values in confidences.items()}
    _check_strip(pixels, group_names, predictions, sureness, captions)
    columns = range(len(pixels))
    figure, axes = _lay_out(group_names, list(predictions), has_captions=captions is not None)
    for column in columns:
        _draw_image(axes[f"image {column}"], pixels[column], (pixels.min(), pixels.max()))
        if captions is not None:
            axes[f"image {column}"].set_xlabel(captions[column], fontsize=_TEXT_SIZE, color=INK)
    for row, (name, style) in enumerate(styles_for(predictions).items()):
        label = axes[f"bar {row} 0"].set_ylabel(name, fontsize=_NAME_SIZE, color=INK, labelpad=8)
        label.set(rotation=0, ha="right", va="center")
        for column in columns:
            answer = predictions[name][column], float(sureness[name][column])
            _draw_bar(axes[f"bar {row} {column}"], *answer, style.color)
    return figure


def _lay_out(
    group_names: Sequence[str], models: Sequence[str], *, has_captions: bool
) -> "tuple[Figure, dict[str, Axes]]":
    """A row of headings, one of images, one of bars for each model; a blank column between groups."""
    mosaic: list[list[str]] = [[] for _ in range(2 + len(models))]
    widths, headings, column = [], {}, 0
    for i, (name, members) in enumerate(groupby(group_names)):
        n = len(list(members))
        headings[f"heading {i}"] = textwrap.fill(name, int(n * _CELL / _LETTER))
        kinds = ["image", *(f"bar {row}" for row in range(len(models)))]
        mosaic[0] += ["."] * (i > 0) + [f"heading {i}"] * n
        for places, kind in zip(mosaic[1:], kinds, strict=True):
            places += ["."] * (i > 0) + [f"{kind} {c}" for c in range(column, column + n)]
        widths += [_GAP] * (i > 0) + [_CELL] * n
        column += n
    n_lines = max(heading.count("\n") + 1 for heading in headings.values())
    heights = [_LINE * n_lines, _CELL, *[_BAR] * len(models)]
    width = max(text_width(name, _NAME_SIZE) for name in models) + sum(widths) + 2 * _PAD_WIDTH * (column + 1)
    height = sum(heights) + _LINE * (has_captions + len(models)) + 2 * _PAD_HEIGHT * (len(heights) + 1)
    figure = new_figure(width, height)
    cells: Any = mosaic  # matplotlib's own type of this is narrower than what it takes
    axes = figure.subplot_mosaic(cells, width_ratios=widths, height_ratios=heights)
    figure.set_layout_engine(
        "constrained", w_pad=_PAD_WIDTH, h_pad=_PAD_HEIGHT, hspace=0, wspace=0, rect=_INSIDE
    )
    for name, heading in headings.items():
        _strip_axes(axes[name], keep="bottom")
        axes[name].text(
            0.5, 0.1, heading, ha="center", va="bottom", fontsize=_NAME_SIZE, fontweight="bold", color=INK
        )
    return figure, axes


def _strip_axes(axes: "Axes", keep: str = "") -> None:
    """Take ticks and frame away, but not the labels."""
    axes.set(xticks=[], yticks=[])
    for side, spine in axes.spines.items():
        spine.set_visible(side == keep)


def _draw_image(axes: "Axes", pixels: NDArray[np.float64], scale: tuple[float, float]) -> None:
    axes.imshow(pixels, cmap="gray", vmin=scale[0], vmax=scale[1], interpolation="nearest")
    _strip_axes(axes)


def _draw_bar(axes: "Axes", label: str, confidence: float, color: str) -> None:
    """Fill a pale track up to the confidence; the class stands above its left end, the per cent right."""
    axes.barh(0, 1, height=1, color=FAINT)
    axes.barh(0, confidence if np.isfinite(confidence) else 0, height=1, color=color)
    axes.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    _strip_axes(axes)
    axes.set_title(_shorten(label), loc="left", fontsize=_TEXT_SIZE, fontweight="bold", color=INK, pad=2)
    axes.set_title(_percent(confidence), loc="right", fontsize=_TEXT_SIZE, color=INK, pad=2)


def _percent(confidence: float) -> str:
    """Write a confidence in whole per cent, without rounding doubt away; a question mark for NaN."""
    if not np.isfinite(confidence):
        return "?"
    return ">99%" if 0.99 < confidence < 1 else f"{confidence:.0%}"


def _shorten(label: str) -> str:
    """Cut a class name that would run into the percentage."""
    kept = label
    while kept and text_width(kept + "…" * (kept != label), _TEXT_SIZE, "bold") > _CLASS_WIDTH * _CELL:
        kept = kept[:-1]
    return kept if kept == label else kept + "…"


def _check_strip(
    pixels: NDArray[np.float64],
    group_names: Sequence[str],
    predictions: Mapping[str, Sequence[str]],
    confidences: Mapping[str, NDArray[np.float64]],
    captions: Sequence[str] | None,
) -> None:
    """Refuse a strip in which some cell would have no content."""
    if pixels.ndim != 3 or pixels.size == 0:
        raise InvalidInputError(f"images must have shape (k, h, w) with k at least 1, not {pixels.shape}.")
    if not predictions or predictions.keys() != confidences.keys():
        raise InvalidInputError(
            f"predictions and confidences must name the same models, at least one, but they name "
            f"{sorted(predictions)} and {sorted(confidences)}."
        )
    lengths = {
        "group_names": len(group_names),
        "captions": len(pixels) if captions is None else len(captions),
    }
    for name in predictions:
        lengths[f"predictions[{name!r}]"] = len(predictions[name])
        lengths[f"confidences[{name!r}]"] = len(confidences[name])
    if wrong := {name: length for name, length in lengths.items() if length != len(pixels)}:
        raise InvalidInputError(f"There are {len(pixels)} images, but these lengths differ: {wrong}.")
