"""Calibration of a fitted model on held-out predictions: temperature, what decisions rest on, and audits."""

from pnca.calibration.audit import Audit, Finding
from pnca.calibration.decisions import Decisions
from pnca.calibration.drift import ColumnDrift, Drift
from pnca.calibration.labelling import Suggestions
from pnca.calibration.laws import Gain, Laws
from pnca.calibration.learning import Curve, LearningCurve
from pnca.calibration.selective import Threshold
from pnca.calibration.temperature import apply_temperature, fit_temperature

__all__ = [
    "Audit",
    "ColumnDrift",
    "Curve",
    "Decisions",
    "Drift",
    "Finding",
    "Gain",
    "Laws",
    "LearningCurve",
    "Suggestions",
    "Threshold",
    "apply_temperature",
    "fit_temperature",
]
