"""Calibration of a fitted model on held-out predictions."""

from pnca.calibration.temperature import apply_temperature, fit_temperature

__all__ = ["apply_temperature", "fit_temperature"]
