"""Small image data: a labelled set, the same set shifted, and a set from elsewhere."""

from pnca.data.digits import ShiftExperiment, load_digits_experiment
from pnca.data.letters import LETTERS, render_letters
from pnca.data.shifts import rotate

__all__ = ["LETTERS", "ShiftExperiment", "load_digits_experiment", "render_letters", "rotate"]
