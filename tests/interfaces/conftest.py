"""The command line in this process, and files for it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rich

import pnca
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


@pytest.fixture(scope="session")
def script():
    """The installed command."""
    path = Path(sys.executable).with_name("pnca")
    if not path.exists():
        pytest.skip("pnca is not installed beside this Python")
    return [str(path)]


@pytest.fixture(scope="session")
def environment():
    """One thread, and these sources, whichever are installed."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(pnca.__file__).parents[1])}


@pytest.fixture(scope="session")
def model_file(small_tables, environment):
    """A model that ``pnca fit`` wrote."""
    path = small_tables / "model.pnca"
    command = [
        sys.executable,
        "-m",
        "pnca",
        "fit",
        "train.csv",
        "--target",
        "y",
        "--id",
        "sample",
        "-o",
        "model.pnca",
    ]
    done = subprocess.run(
        command, cwd=small_tables, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for text in ("a: number, with holes", "site: category of", "60 examples", "Accuracy: ", "Not known: "):
        assert text in done.stdout
    return path


@pytest.fixture(scope="session")
def predictive_file(model_file):
    """The same model without its training examples."""
    return pnca.save(pnca.load(model_file), model_file.with_name("predictive.pnca"), store="predictive")
