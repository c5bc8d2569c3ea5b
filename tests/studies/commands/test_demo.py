"""``pnca demo``."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from models import make
from pnca.interfaces import cli


@pytest.fixture
def quick_models(monkeypatch):
    monkeypatch.setattr(
        "pnca_studies.experiments.demo.demo_models", lambda seed: {"PNCA": make("PNCA"), "DNN": make("DNN")}
    )


def test_demo__prints_a_table_writes_what_it_names_and_can_be_repeated(quick_models, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out = tmp_path / "demo"
    arguments = ["demo", "--out", str(out), "--n-train", "60"]
    result = CliRunner().invoke(cli.make_app(), arguments)
    assert result.exit_code == 0, result.output
    written = {path.name for path in out.iterdir()}
    assert "results.json" in written
    assert len(written) == 5
    for name in written:
        assert name in result.output
    measures = json.loads((out / "results.json").read_text())["models"]["PNCA"]["measures"]
    assert f"{measures['accuracy']:.3f}" in result.output
    assert CliRunner().invoke(cli.make_app(), arguments).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--n-train", "3"], "n_train"), (["--out", __file__], "is a file")],
)
def test_demo__bad_input_is_one_sentence_and_exit_status_one(arguments, message, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pnca.interfaces.cli", "demo", "--out", str(tmp_path / "new"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("pnca: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_demo__seed_out_of_range_is_a_usage_error(tmp_path):
    for seed in ("-1", "4294967296", "many"):
        result = CliRunner().invoke(cli.make_app(), ["demo", "--out", str(tmp_path / "new"), "--seed", seed])
        assert result.exit_code == 2
        assert "--seed" in result.output
    assert not (tmp_path / "new").exists()


def test_demo__serves_a_page_of_the_digits_as_images(quick_models, tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    from functools import partial

    from pnca import PNCAClassifier
    from pnca.interfaces.web import running

    served = []
    monkeypatch.setattr(running, "run", lambda model, **settings: served.append((model, settings)))
    quick = partial(PNCAClassifier, n_particles=2, max_epochs=2)
    monkeypatch.setattr("pnca_studies.experiments.demo.PNCAClassifier", quick)
    arguments = ["demo", "--out", str(tmp_path / "demo"), "--n-train", "60", "--serve", "--port", "0"]
    result = CliRunner().invoke(cli.make_app(), arguments)
    assert result.exit_code == 0, result.output
    ((model, settings),) = served
    assert settings == {"host": "127.0.0.1", "port": 0, "title": "digits"}
    assert model.source_.shape == (8, 8)
    assert model.classes_.tolist() == [str(digit) for digit in range(10)]
    names = sorted(path.name for path in (tmp_path / "demo" / "inputs").iterdir())
    assert len(names) == 24
    assert {"digits_1.png", "rotated_8.png", "letters_3.png"} <= set(names)
