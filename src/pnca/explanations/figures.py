"""Figures of a case, with matplotlib: each draws into axes that it is given; one page has them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.explanations.case import LINE, NAMED, NOBODY, OTHERS
from pnca.explanations.drawing import Colours, as_shown, plain, style
from pnca.explanations.text import (
    columns_table,
    decimal,
    examples_table,
    heading,
    in_columns,
    name_of,
    sentences,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pnca.explanations.case import Explanation

#: Classes that are drawn, the most probable ones.
MOST_CLASSES = 12
#: The colour of each part of a probability.
_OF_PARTS = {NAMED: "named", OTHERS: "others", LINE: "expert", NOBODY: "nobody"}


def draw_classes(axes: Axes, case: Explanation, colours: Colours) -> None:
    """A bar for each class, of the parts of its probability."""
    order = np.argsort(-case.proba, kind="stable")[:MOST_CLASSES]
    left = np.zeros(len(order))
    for name, part in case.parts.items():
        axes.barh(
            range(len(order)), part[order], left=left, color=getattr(colours, _OF_PARTS[name]), label=name
        )
        left += part[order]
    labels = case.classes.tolist()
    axes.set_yticks(range(len(order)), [short(labels[c]) for c in order])
    for place, c in enumerate(order):
        axes.text(min(left[place] + 0.01, 1.0), place, decimal(case.proba[c]), va="center", color=colours.ink)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.set_xlabel("probability")
    axes.legend(
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        fontsize="small",
        labelcolor=colours.ink,
    )
    plain(axes, colours)


def draw_familiarity(axes: Axes, case: Explanation, colours: Colours) -> None:
    """Where the evidence of the case lies in that of the training examples out of fold."""
    usual = case.usual
    assert usual is not None
    shown = usual.of_training[np.isfinite(usual.of_training)]
    low, high = (float(shown.min()), float(shown.max())) if len(shown) else (0.0, 0.0)
    margin = 0.15 * max(high - low, 1e-9)
    axes.hist(shown, bins=min(30, max(5, len(shown) // 8)), color=colours.others)
    axes.set_ylim(top=1.4 * axes.get_ylim()[1])  # room for the words above the bars
    here = min(max(usual.evidence, low - margin), high + margin)
    axes.axvline(here, color=colours.mark, lw=2)
    is_beyond = not low - margin <= usual.evidence <= high + margin
    text = "this case" + ", beyond the scale" * is_beyond + f"\nfamiliarity {decimal(usual.familiarity)}"
    to_right = here < (low + high) / 2
    axes.annotate(
        text, (here, 1), (4 if to_right else -4, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", ha="left" if to_right else "right", va="top", color=colours.ink,
    )  # fmt: skip
    axes.set_xlim(low - 1.4 * margin, high + 1.4 * margin)
    axes.set_yticks([])
    axes.set_xlabel("evidence of the training examples, out of fold")
    plain(axes, colours)
    axes.spines["left"].set_visible(False)


def draw_picture(axes: Axes, picture: NDArray[Any], title: str, limits: tuple[float, float]) -> None:
    """A picture, grey or in colour, between these values."""
    axes.imshow(as_shown(picture, limits), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(title, fontsize="small")
    axes.set_axis_off()


def draw_map(axes: Axes, found: NDArray[Any], title: str) -> None:
    """Where a picture is unusual, in standard deviations."""
    image = axes.imshow(found, cmap="magma", vmin=0, interpolation="nearest")
    axes.set_title(title, fontsize="small")
    axes.set_axis_off()
    axes.figure.colorbar(image, ax=axes, shrink=0.8)


#: What the maps of a picture show.
MAPS = {
    "residual": "unlike the other pixels lead to expect",
    "distance": "unlike the named examples",
}


def draw_page(case: Explanation, colours: Colours | None = None) -> Figure:
    """One case on a page: classes, familiarity, examples, and what is unusual."""
    colours = colours or Colours()
    with style():
        from matplotlib import pyplot as plt

        height = 4.5 if case.is_picture else 2.9
        figure = plt.figure(figsize=(9.0, 4.2 + height), layout="constrained")
        figure.suptitle(heading(case), ha="left", x=0.01)
        figure.get_layout_engine().set(w_pad=0.12)  # type: ignore[union-attr, call-arg]
        parts: Any = figure.subfigures(3, 1, height_ratios=[1.2, 2.7, height])
        words, upper, lower = parts
        _draw_text(words.subplots(), "\n".join(sentences(case)), colours)
        left, right = upper.subplots(1, 2)
        draw_classes(left, case, colours)
        if case.usual is None:
            _draw_text(right, "Familiarity is known of models with folds only.", colours)
        else:
            draw_familiarity(right, case, colours)
        if case.is_picture:
            _draw_pictures(lower, case)
        else:
            _draw_tables(lower, case, colours)
    return figure


def limits_of(case: Explanation) -> tuple[float, float]:
    """Least and largest value of a picture and those of its examples."""
    pictures = [case.given, *(example.given for example in case.examples if example.given is not None)]
    return float(min(np.min(p) for p in pictures)), float(max(np.max(p) for p in pictures))


def _draw_text(axes: Axes, text: str, colours: Colours, *, is_table: bool = False) -> None:
    axes.set_axis_off()
    family, size = ("DejaVu Sans Mono", 8) if is_table else ("DejaVu Sans", 8.5)
    axes.text(
        0, 1, text, va="top", family=family, fontsize=size, color=colours.ink, transform=axes.transAxes,
        wrap=not is_table,
    )  # fmt: skip


def _draw_tables(figure: Any, case: Explanation, colours: Colours) -> None:  # noqa: ANN401
    upper, lower = figure.subplots(2, 1)
    _draw_text(upper, in_columns(*examples_table(case, most=4)), colours, is_table=True)
    shown = in_columns(*columns_table(case)) if case.columns else "\n".join(case.notes)
    _draw_text(lower, shown, colours, is_table=True)


def _draw_pictures(figure: Any, case: Explanation) -> None:  # noqa: ANN401
    upper, lower = figure.subfigures(2, 1)
    limits, own = limits_of(case), [example for example in case.examples if example.given is not None][:5]
    axes = upper.subplots(1, 1 + len(own), squeeze=False)[0]
    draw_picture(axes[0], case.given, "this case", limits)
    for place, example in zip(axes[1:], own, strict=True):
        title = f"{name_of(example)}\n{short(example.label)}, share {decimal(example.share)}"
        draw_picture(place, example.given, title, limits)
    if case.maps:
        places = lower.subplots(1, len(case.maps), squeeze=False)[0]
        for place, (name, found) in zip(places, case.maps.items(), strict=True):
            draw_map(place, found, MAPS[name])
