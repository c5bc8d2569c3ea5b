"""The document about the benchmark: a first screen, a page for each question, an appendix."""

from pnca_studies.reports.benchmark.document import read_results, write_benchmark
from pnca_studies.reports.benchmark.results import Results

__all__ = ["Results", "read_results", "write_benchmark"]
