"""Figures of the benchmark, as SVG."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import MissingExtraError
from pnca_studies.experiments.benchmark.measures import COVERAGES
from pnca_studies.reports.benchmark.statistics import mean_ranks, pairwise
from pnca_studies.reports.frame import pd
from pnca_studies.reports.panels import Panel, panels_figure
from pnca_studies.reports.style import INK, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]


def risk_coverage_figure(panels: Mapping[str, Mapping[str, FloatArray]], title: str) -> "Figure":
    """Draw the share of wrong answers over the share of inputs that are answered: a panel, a line a model."""
    figure = panels_figure(
        [
            Panel(
                title=name,
                x=COVERAGES,
                lines={model: risks[None] for model, risks in lines.items()},
                x_label="share of inputs answered",
                y_label="share of wrong answers",
            )
            for name, lines in panels.items()
        ],
        title,
        n_columns=2,
    )
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
    return figure


def critical_difference_figure(
    means: FloatArray, models: Sequence[str], title: str, *, more: bool = False
) -> "Figure":
    """Draw mean ranks of means (data sets, models); a bar joins models that the tests do not tell apart."""
    try:
        from scikit_posthocs import critical_difference_diagram
    except ImportError as error:
        raise MissingExtraError("scikit-posthocs", "benchmark") from error
    ranks = pd.Series(mean_ranks(means, more=more), index=list(models))
    p_values = pd.DataFrame(pairwise(means, more=more), index=list(models), columns=list(models))
    figure = new_figure(9.0, 1.2 + 0.2 * len(models))
    axes = figure.subplots()
    critical_difference_diagram(
        ranks, p_values, ax=axes, label_props={"fontsize": 9}, color_palette=dict.fromkeys(models, INK)
    )
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    return figure
