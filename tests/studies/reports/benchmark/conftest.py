import pytest

from benchmark_runs import cells, run
from pnca_studies.reports.benchmark import write_benchmark


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The document on a whole benchmark of two draws, in a folder that it has to make."""
    folder = tmp_path_factory.mktemp("whole")
    return write_benchmark([run(folder / "run", cells())], folder / "docs" / "benchmark.md")
