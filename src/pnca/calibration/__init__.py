"""What is fitted after a model, to predictions it made for examples it had not seen."""

from pnca.calibration.temperature import apply_temperature, fit_temperature

__all__ = ["apply_temperature", "fit_temperature"]
