"""What is said of a model: values from arrays, and words, figures and pages of them; knows no model."""

from pnca.reports.scores import evaluate
from pnca.reports.values import Evaluation, Said

__all__ = ["Evaluation", "Said", "evaluate"]
