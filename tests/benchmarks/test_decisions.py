"""The benchmark of decisions runs at toy size, and its tables have a row for each data set."""

import numpy as np

import decisions


def test_decisions__are_measured_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(decisions.SETTINGS, "max_epochs", 2)
    path = tmp_path / "decisions.csv"
    decisions.main(["--draws", "2", "--data", "iris", "patients (50 groups of 4)", "--out", str(path)])
    rows = dict(decisions.rows_of(path))
    assert [len(found) for found in rows.values()] == [2, 2]
    text = capsys.readouterr().out
    assert text.count("| iris |") == 2
    decisions.main(["--report", "--out", str(path)])
    assert capsys.readouterr().out == text


def test_draws__are_of_different_examples_and_the_same_law():
    for name, (make, n) in decisions.sources().items():
        draw = make(n, np.random.RandomState(0))
        assert len(draw.inputs) == len(draw.labels) == n, name
        assert len(draw.new_inputs) == len(draw.new_labels) >= 70
        assert set(draw.new_labels) <= set(draw.labels)
