"""Learning curves: measures by the number of training examples."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pnca.files import make_folder
from pnca_studies.reports.benchmark.measures import ACCURACY, BY_OWN, ECE, NLL, Measure
from pnca_studies.reports.benchmark.results import MNIST, PNCA, Results
from pnca_studies.reports.figures import save_figure
from pnca_studies.reports.frame import pd
from pnca_studies.reports.panels import Panel, band_label, panels_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The lines of the learning curves.
_MAIN = (
    *(PNCA, "Ensemble + dropout", "MC dropout", "BNN", "PNCA (paper)"),
    *("RBF-SVM", "logistic regression"),
)
_CURVES = (MNIST, "digits")
#: Opacity of PNCA's band; those of the others are paler.
_BAND = 0.2
_PANELS = {"Accuracy": ACCURACY, "NLL": NLL, "ECE": ECE, "OoD AUROC": BY_OWN}


def curves_page(results: Results, path: Path) -> str:
    """Draw the curves into a folder beside the document, and show those of data sets with two sizes."""
    lines = []
    for data in _CURVES:
        sizes = sorted(results.sizes().get(data, []))
        if len(sizes) > 1:
            name = f"{data.lower()}.png"
            place = make_folder(path.parent / path.stem) / name
            save_figure(curves_figure(results, data, sizes), place)
            lines += [f"![{data} by training examples]({path.stem}/{name})", ""]
    if not lines:
        return ""
    note = "Lines are means and bands one standard deviation over draws. The axis of n is logarithmic."
    return "\n".join(["## Learning curves", "", *lines, note, ""])


def curves_figure(results: Results, data: str, sizes: Sequence[int]) -> "Figure":
    """Draw accuracy, NLL, ECE and OoD AUROC of the main contenders over the training examples."""
    models = [model for model in _MAIN if any(model in results.models((data, n)) for n in sizes)]
    panels = [
        Panel(
            title=f"{title} ({'higher' if measure.more else 'lower'} is better)",
            x=sizes,
            lines={model: _lines(results, data, sizes, model, measure) for model in models},
            x_label="training examples",
            y_label=measure.name,
        )
        for title, measure in _PANELS.items()
    ]
    figure = panels_figure(panels, data, n_columns=2)
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.set_xticks(list(sizes), [str(n) for n in sizes])
        axes.minorticks_off()
        axes.set_xlim(sizes[0] / 1.12, sizes[-1] * 1.12)
        for band in axes.collections:
            is_ours = band.get_label() == band_label(PNCA)
            band.set_alpha(_BAND if is_ours else _BAND / 3)  # seven of them cover each other
    return figure


def _lines(
    results: Results, data: str, sizes: Sequence[int], model: str, measure: Measure
) -> NDArray[np.float64]:
    """A measure by draw and n; NaN where it does not exist."""
    by_size = [results.values((data, n), model, measure) for n in sizes]
    lines: NDArray[np.float64] = pd.concat(by_size, axis=1).sort_index().to_numpy()
    return lines
