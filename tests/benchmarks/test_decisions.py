"""The benchmark of decisions runs at toy size, and its tables have a row for each data set."""

from pathlib import Path

import numpy as np

import decisions
import thresholds
from pnca.calibration import selective


def test_decisions__are_measured_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(decisions.SETTINGS, "max_epochs", 2)
    path = tmp_path / "decisions.csv"
    decisions.main(["--draws", "2", "--data", "iris", "patients (50 groups of 4)", "--out", str(path)])
    rows = dict(decisions.rows_of(path))
    assert [len(found) for found in rows.values()] == [2, 2]
    text = capsys.readouterr().out
    assert text.count("| iris |") == 3
    decisions.main(["--report", "--out", str(path)])
    assert capsys.readouterr().out == text


def test_draws__are_of_different_examples_and_the_same_law():
    for name, (make, n) in decisions.sources().items():
        draw = make(n, np.random.RandomState(0))
        assert len(draw.inputs) == len(draw.labels) == n, name
        assert len(draw.new_inputs) == len(draw.new_labels) >= 70
        assert set(draw.new_labels) <= set(draw.labels)


def test_thresholds__are_compared(capsys):
    bet = selective.betting_p_values
    thresholds.main(["--draws", "3", "--sizes", "60", "400"])
    text = capsys.readouterr().out
    assert text.count("| 60 |") == text.count("| 400 |") == 3
    assert selective.betting_p_values is bet
    of_right_answers = np.zeros(400, dtype=bool)
    u = np.linspace(0, 1, 400)
    assert {way(u, of_right_answers) for way in thresholds.WAYS.values()} == {1.0}


def test_page__has_the_tables_of_the_results():
    root = Path(decisions.__file__).parents[1]
    tables = decisions.report(root / "benchmarks" / "results" / "decisions.csv").split("\n\n")
    page = (root / "docs" / "decisions.md").read_text(encoding="utf-8")
    assert [table in page for table in tables] == [True, True, True]
