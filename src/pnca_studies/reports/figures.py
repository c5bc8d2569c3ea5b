"""The figures: plain arrays in, a matplotlib ``Figure`` out, and a safe way to write it to disk."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError
from pnca.files import write_atomically
from pnca_studies.reports.strip import BAR_HEIGHT, CELL, EDGE, NAME_SIZE, ROW_HEIGHT, StripLayout
from pnca_studies.reports.style import FAINT, INK, ModelStyle, new_figure, styles_for, text_width, tidy_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""For each model its thresholds and the values there, both of shape (t,)."""

_DPI = 150
_MARKERS_PER_LINE = 10
_HEADING_SIZE, _ANSWER_SIZE = 10, 9  # points
_CLASS_WIDTH = 0.58  # of a strip's cell; the percentage needs the rest
_TITLE_LETTERS = 60  # bold at 12 points, across the width of a figure of curves


def accuracy_vs_confidence_figure(curves: Curves, title: str) -> "Figure":
    """Draw how often each model is right where it claims to be sure.

    Parameters
    ----------
    curves : mapping of str to (thresholds, accuracies)
        Per model two arrays of shape (t,); NaN where no example is that confident leaves a gap.
    title : str
        Heading of the figure.

    Returns
    -------
    Figure
        One line per model, in the order given. The accuracy axis starts at the tenth below the lowest
        accuracy and ends at 1.

    Raises
    ------
    InvalidInputError
        If there is no curve, or a curve's two arrays differ in shape.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> figure = accuracy_vs_confidence_figure({"PNCA": ([0.0, 0.5], [0.8, 0.9])}, "Digits")
    >>> figure.axes[0].get_ylabel()
    'accuracy where confidence ≥ τ'
    """
    figure, axes = _curves_figure(curves, title)
    axes.set_ylabel("accuracy where confidence ≥ τ", color=INK)
    # The margin keeps a line at exactly 1, the usual end of a good curve, clear of the frame.
    axes.set_ylim(_tenth_below(_finite_values(curves)), 1.015)
    return figure


def count_vs_confidence_figure(curves: Curves, title: str, n_total: int) -> "Figure":
    """Draw how many examples each model is sure about; on foreign inputs, fewer is better.

    Parameters
    ----------
    curves : mapping of str to (thresholds, counts)
        Per model two arrays of shape (t,): the thresholds, and the number of examples at least that
        confident.
    title : str
        Heading of the figure.
    n_total : int
        How many examples there are in all: the top of the axis, and 100 % on the right.

    Returns
    -------
    Figure
        One line per model, in the order given; counts on the left, shares on the right.

    Raises
    ------
    InvalidInputError
        If there is no curve, a curve's two arrays differ in shape, or ``n_total`` is below 1.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> figure = count_vs_confidence_figure({"PNCA": ([0.0, 0.5], [50, 3])}, "Letters", 50)
    >>> figure.axes[0].lines[0].get_ydata()
    array([50.,  3.])
    """
    if n_total < 1:
        raise InvalidInputError(f"n_total must be at least 1, but it is {n_total}.")
    figure, axes = _curves_figure(curves, title)
    axes.set_ylabel("examples with confidence ≥ τ", color=INK)
    axes.set_ylim(-0.02 * n_total, 1.02 * n_total)
    _add_share_axis(axes, n_total)
    return figure


def input_strip_figure(
    images: ArrayLike,
    group_names: Sequence[str],
    predictions: Mapping[str, Sequence[str]],
    confidences: Mapping[str, ArrayLike],
    *,
    captions: Sequence[str] | None = None,
) -> "Figure":
    """Show a few inputs side by side and, below each, what every model says and how sure it is.

    Parameters
    ----------
    images : array of shape (k, h, w)
        Grey images, one per column; all share one grey scale.
    group_names : sequence of k str
        The heading of each column; equal neighbours share one heading.
    predictions : mapping of str to sequence of k str
        Per model the class it names for each input.
    confidences : mapping of str to array of shape (k,)
        Per model its confidence, from 0 to 1, in each of those; NaN draws no bar.
    captions : sequence of k str, optional
        A line under each image, such as the true class.

    Returns
    -------
    Figure
        k columns, and one row of bars per model in the order of ``predictions``.

    Raises
    ------
    InvalidInputError
        If the lengths, or the models of the two mappings, disagree.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> figure = input_strip_figure(
    ...     np.eye(8)[None], ["digits"], {"PNCA": ["7"], "DNN": ["1"]}, {"PNCA": [0.4], "DNN": [0.9]}
    ... )
    >>> len(figure.axes)  # the image, and a bar for each model
    3
    """
    pixels = np.asarray(images, dtype=np.float64)
    sureness = {name: np.asarray(values, dtype=np.float64) for name, values in confidences.items()}
    _check_strip(pixels, group_names, predictions, sureness, captions)
    strip = StripLayout.of(group_names, list(predictions), has_captions=captions is not None)
    figure = new_figure(strip.width, strip.height)
    _add_headings(figure, strip)
    _add_images(figure, strip, pixels, captions)
    for row, (name, style) in enumerate(styles_for(predictions).items()):
        _add_model_row(figure, strip, row, name, style, predictions[name], sureness[name])
    return figure


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Write a figure as PNG at 150 dots per inch, all of it or nothing.

    The picture is written beside ``path`` and moved there once complete, so a failure leaves an earlier
    file as it was.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : str or Path
        A file name ending in ``.png``, in a folder that exists.

    Returns
    -------
    Path
        Where the picture now is.

    Raises
    ------
    InvalidInputError
        If the name does not end in ``.png``.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise InvalidInputError(f"A figure is saved as PNG, but {target.name!r} does not end in '.png'.")
    return write_atomically(target, lambda temporary: figure.savefig(temporary, dpi=_DPI, format="png"))


# Lines over the confidence threshold


def _curves_figure(curves: Curves, title: str) -> "tuple[Figure, Axes]":
    """Draw one styled line per model over thresholds from 0 to 1, with the legend beside the axes."""
    _check_curves(curves)
    figure = new_figure(6.8, 4.0, layout="constrained")
    axes = figure.subplots()
    tidy_axes(axes)
    for start, (name, style) in enumerate(styles_for(curves).items()):
        thresholds, values = (np.asarray(array, dtype=np.float64) for array in curves[name])
        step = max(1, len(thresholds) // _MARKERS_PER_LINE)
        # Each line starts its markers elsewhere, so that lines on top of each other stay countable.
        axes.plot(thresholds, values, label=name, markevery=(start % step, step), **style.line_options())
    axes.set_xlim(-0.01, 1.01)
    axes.set_xlabel("confidence threshold τ", color=INK)
    heading = textwrap.fill(title, _TITLE_LETTERS)
    figure.suptitle(heading, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    figure.legend(loc="outside right center", frameon=False, labelcolor=INK, handlelength=3.2, fontsize=10)
    return figure, axes


def _add_share_axis(axes: "Axes", n_total: int) -> None:
    """Repeat the count axis on the right as a percentage of all examples."""
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


def _finite_values(curves: Curves) -> NDArray[np.float64]:
    """Collect the values of all curves that are numbers."""
    values = np.concatenate([np.asarray(values, dtype=np.float64) for _, values in curves.values()])
    finite: NDArray[np.float64] = values[np.isfinite(values)]
    return finite


def _tenth_below(values: NDArray[np.float64]) -> float:
    """Return the largest tenth below every value, from 0 to 0.9; 0 when there is no value."""
    lowest = values.min() if len(values) else 0.0
    return float(np.clip(np.ceil(10 * lowest - 1) / 10, 0.0, 0.9))


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


# The strip of inputs


def _add_headings(figure: "Figure", strip: StripLayout) -> None:
    """Write each group's name above its columns, over a rule as wide as the group."""
    from matplotlib.lines import Line2D

    rule = strip.images_top - 0.09
    for group in strip.groups:
        x, y = strip.point((group.left + group.right) / 2, rule - 0.05)
        font = {"size": _HEADING_SIZE, "weight": "bold", "color": INK}
        figure.text(x, y, group.heading, fontdict=font, ha="center", va="bottom")
        ends = strip.point(group.left, rule), strip.point(group.right, rule)
        figure.add_artist(Line2D(*zip(*ends, strict=True), color=INK, linewidth=0.8))


def _add_images(
    figure: "Figure", strip: StripLayout, pixels: NDArray[np.float64], captions: Sequence[str] | None
) -> None:
    """Draw the inputs, white on black, with their captions."""
    for column, left in enumerate(strip.lefts):
        axes = figure.add_axes(strip.box(left, strip.images_top, CELL))
        axes.imshow(
            pixels[column], cmap="gray", vmin=pixels.min(), vmax=pixels.max(), interpolation="nearest"
        )
        axes.set_axis_off()
        if captions is not None:
            x, y = strip.point(left + CELL / 2, strip.images_top + CELL + 0.05)
            figure.text(x, y, captions[column], ha="center", va="top", fontsize=_ANSWER_SIZE, color=INK)


def _add_model_row(
    figure: "Figure",
    strip: StripLayout,
    row: int,
    name: str,
    style: ModelStyle,
    classes: Sequence[str],
    confidences: NDArray[np.float64],
) -> None:
    """Write a model's name on the left and, in each column, its answer over its bar."""
    bar_top = strip.rows_top + (row + 1) * ROW_HEIGHT - BAR_HEIGHT
    x, y = strip.point(strip.lefts[0] - EDGE, bar_top + BAR_HEIGHT / 2)
    figure.text(x, y, name, ha="right", va="center", fontsize=NAME_SIZE, color=INK)
    for left, label, confidence in zip(strip.lefts, classes, confidences, strict=True):
        axes = figure.add_axes(strip.box(left, bar_top, BAR_HEIGHT))
        _draw_bar(axes, label, float(confidence), style.color)


def _draw_bar(axes: "Axes", label: str, confidence: float, color: str) -> None:
    """Fill a pale track up to the confidence; the class stands above its left end, the per cent right."""
    known = bool(np.isfinite(confidence))
    axes.barh(0, 1, height=1, color=FAINT)
    axes.barh(0, confidence if known else 0, height=1, color=color)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, 0.5)
    axes.set_axis_off()
    answers = ((0, _shorten(label), "left", "bold"), (1, _percent(confidence), "right", "normal"))
    for x, text, side, weight in answers:
        axes.text(x, 0.7, text, ha=side, va="bottom", fontsize=_ANSWER_SIZE, fontweight=weight, color=INK)


def _percent(confidence: float) -> str:
    """Write a confidence in whole per cent, without rounding doubt away; a question mark for NaN.

    Examples
    --------
    >>> _percent(0.42), _percent(0.999), _percent(1.0)
    ('42%', '>99%', '100%')
    """
    if not np.isfinite(confidence):
        return "?"
    return ">99%" if 0.99 < confidence < 1 else f"{confidence:.0%}"


def _shorten(label: str) -> str:
    """Cut a class name that would run into the percentage."""
    if text_width(label, _ANSWER_SIZE, "bold") <= _CLASS_WIDTH * CELL:
        return label
    kept = label
    while kept and text_width(kept + "…", _ANSWER_SIZE, "bold") > _CLASS_WIDTH * CELL:
        kept = kept[:-1]
    return kept + "…"


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
