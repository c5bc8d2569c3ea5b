"""The command line in this process, and files for it."""

import sys

import numpy as np
import pytest
import rich

from pnca.interfaces import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Run ``pnca`` with arguments: its exit status, standard output and standard error."""
    # A command sends the progress of its process to standard error.
    monkeypatch.setattr(rich, "_console", None)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["pnca", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        said = capsys.readouterr()
        return int(caught.value.code or 0), said.out, said.err

    return call


@pytest.fixture(scope="session")
def small_tables(tmp_path_factory):
    """A folder with train.csv and new.csv: two numbers, a text, an identifier, a class."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, n in (("train", 60), ("new", 12)):
        lines = ["sample,a,b,site,y"]
        for i in range(n):
            label = rng.random() < 0.5
            a = "NA" if rng.random() < 0.1 else f"{3 * label + rng.normal():.3f}"
            lines.append(
                f"S{i},{a},{rng.normal():.3f},{rng.choice(['Bonn', 'Ulm'])},{'ill' if label else 'well'}"
            )
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder
