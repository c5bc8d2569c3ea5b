"""The built wheel, installed outside the checkout, has all that its commands need."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
# Folders of the dependencies, without the checkout's src/ that PYTHONPATH or an editable install adds.
DEPENDENCIES = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


class Installed:
    """An environment with pnca from the wheel; commands run there, in a folder of their own."""

    def __init__(self, folder):
        self.wheel = self._build(folder / "dist")
        self.prefix, self.work = folder / "environment", folder / "work"
        self.work.mkdir()
        venv.create(self.prefix, with_pip=True)
        self.bin = self.prefix / ("Scripts" if os.name == "nt" else "bin")
        self.run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", self.wheel)
        purelib = self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        # Plain paths: the .pth files in these folders, such as that of an editable install, are not read.
        (Path(purelib) / "dependencies.pth").write_text("\n".join(DEPENDENCIES) + "\n")

    @staticmethod
    def _build(folder):
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        return wheel

    def run(self, command, *arguments):
        """Run a command of the environment and return what it prints."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
        done = subprocess.run(
            [str(self.bin / command), *map(str, arguments)],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
        )
        assert done.returncode == 0, f"{command} {arguments}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    pytest.importorskip("hatchling", reason="hatchling builds the wheel: pip install 'pnca[test]'")
    return Installed(tmp_path_factory.mktemp("wheel"))


def test_wheel__has_every_file_of_the_packages(installed):
    expected = {
        path.relative_to(ROOT / "src").as_posix()
        for package in ("pnca", "pnca_studies")
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.endswith(".toml") for name in expected)
    with ZipFile(installed.wheel) as archive:
        assert expected <= set(archive.namelist())


def test_wheel__is_what_runs_and_answers_help_and_demo(installed):
    places = "import pnca, pnca_studies as s; print(pnca.__file__, s.__file__, sep='\\n')"
    for place in installed.run("python", "-c", places).split():
        assert Path(place).is_relative_to(installed.prefix)
    assert {"demo", "reproduce", "report", "benchmark"} <= set(installed.run("pnca", "--help").split())
    assert "Written to" in installed.run("pnca", "demo", "--n-train", 20)
    written = {path.name for path in (installed.work / "pnca-demo").iterdir()}
    assert "results.json" in written
    assert any(name.endswith(".png") for name in written)


def test_wheel__reproduces_a_part_of_the_paper(installed, data_dir):
    choice = ["--quick", "--trials", 1, "--train-sizes", 100, "--models", "NCA", "--jobs", 1]
    installed.run("pnca", "reproduce", "mnist", "--data-dir", data_dir.resolve(), *choice)
    for name in ("report.md", "results.jsonl", "run.json", "table1_mnist.md", "figures/figure2.png"):
        assert (installed.work / "pnca-mnist" / name).stat().st_size > 0
