"""Results in, pictures out; nothing here trains or reads a model."""

from pnca_studies.reports.figures import (
    accuracy_vs_confidence_figure,
    count_vs_confidence_figure,
    input_strip_figure,
    save_figure,
    save_figures,
)
from pnca_studies.reports.style import MODEL_STYLES, ModelStyle, styles_for

__all__ = [
    "MODEL_STYLES",
    "ModelStyle",
    "accuracy_vs_confidence_figure",
    "count_vs_confidence_figure",
    "input_strip_figure",
    "save_figure",
    "save_figures",
    "styles_for",
]
