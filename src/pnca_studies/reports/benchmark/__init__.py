"""One document about the benchmark: targets, ranks, tables, paired differences, losses and curves."""

from pnca_studies.reports.benchmark.curves import curves_figure
from pnca_studies.reports.benchmark.document import write_benchmark
from pnca_studies.reports.benchmark.measures import Interval, Measure
from pnca_studies.reports.benchmark.results import Results
from pnca_studies.reports.benchmark.targets import MET, NOT_MET, NOT_RUN

__all__ = [
    "MET",
    "NOT_MET",
    "NOT_RUN",
    "Interval",
    "Measure",
    "Results",
    "curves_figure",
    "write_benchmark",
]
