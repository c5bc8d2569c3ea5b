"""The benchmark: every model on every draw of every data set, one line for each cell."""

from pnca_studies.experiments.benchmark.plan import N_DRAWS, choices_plan, plan
from pnca_studies.experiments.benchmark.run import run_benchmark

__all__ = ["N_DRAWS", "choices_plan", "plan", "run_benchmark"]
