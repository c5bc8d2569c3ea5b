"""The benchmark of temperatures runs at toy size, and its spreads hold the default of the library."""

from inspect import signature

import numpy as np

import temperatures
from pnca.calibration import fit_temperature
from tables import Answer


def quick(draw, seed):
    rng = np.random.RandomState(seed)
    logs = [np.log(rng.dirichlet(np.ones(3), size=len(labels))) for labels in (draw.labels, draw.truth)]
    return Answer(*logs)


def test_temperatures__are_measured_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(temperatures, "default", quick)
    path = tmp_path / "temperatures.csv"
    temperatures.main(["--out", str(path), "--draws", "1", "--data", "iris", "wine"])
    text = capsys.readouterr().out
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    assert len(text.splitlines()) == 3 + len(temperatures.SPREADS)
    temperatures.main(["--report", "--out", str(path)])
    assert capsys.readouterr().out == text


def test_spreads__hold_the_default_and_none():
    assert {signature(fit_temperature).parameters["spread"].default, None} <= set(temperatures.SPREADS)
