"""The benchmarks of audits, suggestions and curves run at toy size, and the page has their tables."""

import json
from pathlib import Path

import numpy as np
import pytest

import audits
import csv_rows
import curves
import doubts
import suggest

ROOT = Path(audits.__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def test_audits__are_measured_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(audits.SETTINGS, "max_epochs", 2)
    path = tmp_path / "audits.csv"
    audits.main(["--draws", "1", "--data", "iris", "--out", str(path)])
    text = capsys.readouterr().out
    assert text.count("| iris |") == 2
    assert "Of 1 fits with planted faults the audit named the row number in 1, the leak in" in text
    audits.main(["--report", "--out", str(path)])
    assert capsys.readouterr().out == text


def test_flips__are_one_in_twenty_and_of_another_class():
    y = np.arange(200) % 3
    given, rows = audits.flip(y, np.random.RandomState(0))
    assert np.flatnonzero(given != y).tolist() == sorted(rows.tolist())
    assert len(rows) == 10


def test_doubts__rules_are_what_they_say():
    proba = np.array([[0.9, 0.1]] * 9 + [[0.1, 0.9]] * 9 + [[0.05, 0.95], [0.5, 0.5]])
    labels = np.r_[np.zeros(9, int), np.ones(9, int), 0, 1]
    for name, rule in doubts.RULES.items():
        expected = [] if name == "half false discoveries" else [18]
        assert rule(proba, labels).tolist() == expected, name
    found = doubts.counted("made up", 0, "flipped", proba, labels, np.array([18]))
    assert (found["audit doubted"], found["audit found"], found["ranking"]) == (1, 1, 1.0)


def test_doubts__half_of_them_are_expected_to_be_false():
    rng = np.random.RandomState(0)
    labels = rng.randint(2, size=400)
    proba = np.where(np.eye(2)[labels] > 0, 0.999, 0.001)
    proba[:40] = proba[:40, ::-1]
    found = doubts.by_false_discoveries(proba, labels)
    assert set(range(40)) <= set(found.tolist())
    assert 76 <= len(found) <= 80  # as many again are right


def test_curves__are_measured_continued_and_reported(tmp_path):
    asked = []

    def make(name, seed):
        asked.append((name, seed))
        cells = {"data": name, "seed": seed, "note": ""}
        for of, first, then in (("nll", 0.5, 0.4), ("accuracy", 0.8, 0.9)):
            cells |= {f"{of} 100": first, f"{of} 200": then}
            cells |= {f"{of} mean": 0.09, f"{of} low": 0.02, f"{of} high": 0.2}
        return cells

    path = tmp_path / "curves.csv"
    for n in (1, 2):
        csv_rows.make_missing(path, ("data", "seed"), [("iris", seed) for seed in range(n)], make)
    assert asked == [("iris", 0), ("iris", 1)]
    lines = curves.report(path).splitlines()
    assert "| iris | 2 | nll | 0.500 | 0.100 | 0.090 | 2 of 2 | 2 of 2 |" in lines
    assert "| iris | 2 | accuracy | 0.800 | 0.100 | 0.090 | 2 of 2 | 2 of 2 |" in lines


def test_simulated_curves__fall_by_what_they_say():
    rng = np.random.RandomState(0)
    losses, paths, sizes, gain, own = curves.simulate(4000, 0.3, 0.6, 0.0, rng)
    assert own == gain  # fits do not differ
    assert losses.shape == (4000, len(sizes))
    assert set(paths.tolist()) == set(range(5))
    assert gain > 0
    assert losses.mean(axis=0)[-1] < losses.mean(axis=0)[0]


def cell(way, draw, n, nll):
    return {"data": "made up", "way": way, "draw": draw, "n": n, "nll": nll, "accuracy": 1 - nll}


def test_suggest__labels_saved_are_read_off_the_random_curve(tmp_path):
    cells = []
    for d in range(3):
        cells += [cell("random", d, n, 1 - n / 400) for n in range(20, 221, 20)]
        for way, ahead in (("margin", 0), ("suggest", 40)):
            cells += [cell(way, d, n, 1 - (n + ahead) / 400) for n in range(20, 121, 20)]
    assert suggest.saved(cells, "made up", "suggest", 60) == pytest.approx((40, 40, 40))
    assert suggest.saved(cells, "made up", "margin", 60) == pytest.approx((0, 0, 0))
    path = tmp_path / "suggest.jsonl"
    path.write_text("\n".join(map(json.dumps, cells)))
    assert "| made up | 60 | 0.150, 0.850 | suggest | +0.100" in suggest.report(path)


def test_suggest__rounds_are_written_and_continued(tmp_path, monkeypatch):
    monkeypatch.setitem(suggest.SETTINGS, "max_epochs", 2)
    monkeypatch.setitem(suggest.SETTINGS, "experts", ())
    monkeypatch.setattr(suggest, "LAST", 40)
    monkeypatch.setattr(suggest, "LAST_RANDOM", 40)
    rng = np.random.RandomState(0)
    y = np.arange(180) % 2
    monkeypatch.setattr(suggest, "load", lambda name: (rng.normal(size=(180, 3)) + 2 * y[:, None], y))
    path = tmp_path / "suggest.jsonl"
    suggest.run(path, ["made up"], [0])
    cells = suggest.read(path)
    assert [(c["way"], c["n"]) for c in cells] == [(way, n) for way in suggest.WAYS for n in (20, 40)]
    assert all(len(set(c["next"])) == 20 for c in cells)
    suggest.run(path, ["made up"], [0])
    assert suggest.read(path) == cells


def test_page__has_the_tables_of_the_results():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    parts = audits.report(RESULTS / "audits.csv").split("\n\n")
    parts += doubts.report(RESULTS / "doubts.csv").split("\n\n")
    parts += [suggest.report(RESULTS / "suggest.jsonl"), curves.report(RESULTS / "curves.csv")]
    assert [part in page for part in parts] == [True] * len(parts)
