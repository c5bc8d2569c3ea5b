"""Figures of a report: each draws one value into axes that it is given; ``as_svg`` makes SVG of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pnca.explanations.drawing import Colours, plain
from pnca.reports.values import Curve, Evaluation, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pnca.calibration import LearningCurve
    from pnca.reports.comparison import Comparison

#: Bars of a histogram of familiarity.
_N_BARS = 20
#: Points of a curve that are drawn.
_MOST_POINTS = 1000


def draw_reliability(axes: Axes, evaluation: Evaluation, colours: Colours) -> None:
    """Accuracy against confidence, with intervals; on the diagonal confidence means what it says."""
    bins = evaluation.bins
    least = 1 / len(evaluation.classes)
    axes.plot([least, 1], [least, 1], color=colours.muted, lw=1, ls=(0, (4, 3)), label="as it should be")
    at = [found.confidence for found in bins]
    middle = np.array([found.accuracy.value for found in bins])
    ends = np.abs(np.array([[found.accuracy.low, found.accuracy.high] for found in bins]).T - middle)
    axes.errorbar(
        at, middle, yerr=ends, fmt="none", ecolor=colours.others, elinewidth=2, label="95 % interval"
    )  # fmt: skip
    sizes = 12 + 90 * np.sqrt([found.n / evaluation.n for found in bins])
    axes.scatter(at, middle, s=sizes, color=colours.named, zorder=3, label="cases; larger where more")
    axes.set_xlim(least - 0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("confidence")
    axes.set_ylabel("share that is right")
    _legend(axes, colours, loc="lower right")
    plain(axes, colours)


def draw_accuracy_by_confidence(axes: Axes, curve: Curve, colours: Colours) -> None:
    """Accuracy of the cases with at least some confidence."""
    axes.plot(curve.at, curve.values, color=colours.named, lw=1.8, marker="o", ms=3)
    known = curve.values[np.isfinite(curve.values)]
    least = float(known.min()) if len(known) else 0.0
    axes.set_xlim(_ends(curve))
    axes.set_ylim(max(0.0, least - 0.1), 1.004)
    axes.set_xlabel("confidence at least")
    axes.set_ylabel("share that is right")
    plain(axes, colours)


def draw_count_by_confidence(axes: Axes, curve: Curve, colours: Colours) -> None:
    """Number of the cases with at least some confidence."""
    axes.step(curve.at, curve.values, where="pre", color=colours.named, lw=1.8)
    axes.fill_between(curve.at, curve.values, step="pre", color=colours.others, alpha=0.35, lw=0)
    axes.set_xlim(_ends(curve))
    axes.set_ylim(0, max(1.0, float(curve.values.max())) * 1.05)
    axes.set_xlabel("confidence at least")
    axes.set_ylabel("cases")
    plain(axes, colours)


def draw_risk(axes: Axes, evaluation: Evaluation, colours: Colours) -> None:
    """Share of wrong answers against the share that is answered, and the chosen operating point."""
    risk, point = evaluation.risk, evaluation.point
    allowed = evaluation.promise.max_error
    shown = np.unique(np.linspace(0, len(risk.at) - 1, _MOST_POINTS).round().astype(int))
    label = "most confident cases first"
    axes.plot(risk.at[shown], risk.values[shown], color=colours.named, lw=1.8, label=label)
    axes.axhline(allowed, color=colours.muted, lw=1, ls=(0, (4, 3)), label=f"allowed: {100 * allowed:.3g} %")
    if point.error is not None:
        here = point.error
        ends = [[max(here.value - here.low, 0)], [max(here.high - here.value, 0)]]
        axes.errorbar(
            [point.coverage], [here.value], yerr=ends, fmt="o", color=colours.mark, ms=6, elinewidth=1.5,
            label="operating point, 95 % interval",
        )  # fmt: skip
    top = max(
        float(risk.values[len(risk.values) // 20 :].max()), allowed, point.error.high if point.error else 0
    )
    axes.set_xlim(0, 1.02)
    axes.set_ylim(-0.03 * top, 1.1 * top)
    axes.set_xlabel("share of the cases that is kept")
    axes.set_ylabel("of these wrong")
    _legend(axes, colours, loc="lower left", bbox_to_anchor=(0, 1), ncols=1)
    plain(axes, colours)


class Familiarities(NamedTuple):
    """Familiarity of several kinds of inputs, and from where on they are answered."""

    parts: Sequence[tuple[str, FloatArray]]
    least: float


def draw_familiarity(axes: Axes, familiarities: Familiarities, colours: Colours) -> None:
    """A histogram of familiarity for each kind of inputs: even for inputs like the training examples."""
    parts = familiarities.parts
    edges = np.linspace(0, 1, _N_BARS + 1)
    for place, (name, values) in enumerate(parts):
        counts, _ = np.histogram(values, edges)
        bottom, tallest = -1.45 * place, max(int(counts.max()), 1)
        colour = colours.nobody if place == 0 else colours.named
        axes.bar(
            edges[:-1], counts / tallest, width=1 / _N_BARS, bottom=bottom, align="edge", color=colour,
            edgecolor=colours.line, lw=0.3,
        )  # fmt: skip
        axes.text(
            familiarities.least + 0.015,
            bottom + 1.07,
            f"{name} ({len(values)})",
            color=colours.ink,
            va="bottom",
            fontsize="small",
        )
        axes.axhline(bottom, color=colours.line, lw=0.8)
    axes.axvline(familiarities.least, ymax=0.97, color=colours.mark, lw=1.2)
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-1.45 * (len(parts) - 1) - 0.05, 1.5)
    axes.set_yticks([])
    axes.set_xlabel(f"familiarity; below {familiarities.least:.2g} (line) nothing is answered")
    plain(axes, colours)
    axes.spines[["left", "bottom"]].set_visible(False)


def draw_learning(axes: Axes, curve: LearningCurve, colours: Colours) -> None:
    """NLL against the number of examples, with the 90 % interval."""
    axes.fill_between(curve.sizes, curve.nll.low, curve.nll.high, color=colours.others, alpha=0.4, lw=0)
    axes.plot(curve.sizes, curve.nll.mean, color=colours.named, lw=1.8, marker="o", ms=4)
    axes.set_xlabel("training examples")
    axes.set_ylabel("NLL, nats")
    axes.set_ylim(bottom=0)
    plain(axes, colours)


def draw_differences(axes: Axes, comparison: Comparison, colours: Colours) -> None:
    """Difference in NLL between each model and the default, with its interval."""
    rows = [(model.name, model.nll_difference) for model in comparison.models if model.nll_difference]
    axes.axvline(0, color=colours.muted, lw=1, ls=(0, (4, 3)))
    for place, (_, found) in enumerate(rows):
        axes.plot([found.low, found.high], [place, place], color=colours.others, lw=3)
        axes.plot([found.value], [place], "o", color=colours.named, ms=6)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("NLL minus that of the default")
    plain(axes, colours)


def _ends(curve: Curve) -> tuple[float, float]:
    """Both curves over confidence have the same axis, also where one of them is not known."""
    return float(curve.at[0]) - 0.02, 1.02


def _legend(axes: Axes, colours: Colours, **place: Any) -> None:  # noqa: ANN401
    axes.legend(frameon=False, fontsize="small", labelcolor=colours.ink, **place)
