"""Calibration of a fitted model on held-out predictions: temperature, and what decisions rest on."""

from pnca.calibration.decisions import Decisions
from pnca.calibration.drift import ColumnDrift, Drift
from pnca.calibration.selective import Threshold
from pnca.calibration.temperature import apply_temperature, fit_temperature

__all__ = ["ColumnDrift", "Decisions", "Drift", "Threshold", "apply_temperature", "fit_temperature"]
