"""The full trial counts what happens in its processes, whatever happens to them; its page has its numbers."""

import json
from pathlib import Path

import pytest

from robustness import full, pool
from robustness.pool import Case, run_cases

ROOT = Path(__file__).parents[2]


def test_pool__tells_what_became_of_every_case(monkeypatch):
    monkeypatch.setattr(pool, "_START", 0.0)  # no allowance: nothing here waits for a first import
    names = ["right", "wrong", "crashing", "raw", "hanging", "skipped", "greedy", "right"]
    slow = {"hanging": 1.0}
    cases = [Case(name, "faults", name, seed, slow.get(name, 60.0)) for seed, name in enumerate(names)]
    found = {o.case.seed: (o.verdict, o.message) for o in run_cases(cases, 2, 2**31)}
    assert [found[seed][0] for seed in range(len(names))] == [
        "right", "failed", "failed", "failed", "failed", "skipped", "failed", "right",
    ]  # fmt: skip
    for seed, message in {
        1: "wrong 1: one is two",
        2: "code 7",
        3: "KeyError: 3",
        4: "no end",
        6: "GiB",
    }.items():
        assert message in found[seed][1]


def results(first, stop, failures=()):
    result = {"run": stop - first, "skipped": 1, "seconds": 2.0, "seeds": [[first, stop]]}
    run = dict.fromkeys(("commit", "machine", "python", "torch", "numpy", "sklearn"), "1")
    return {"runs": [run], "tasks": {"seeds": {**result, "failures": list(failures)}}}


def test_results__of_two_runs_are_joined_and_no_seed_counts_twice():
    both = full.merged([results(0, 10), results(10, 30, [{"seed": 12, "message": "no"}])])
    found = both["tasks"]["seeds"]
    assert (found["run"], found["skipped"], found["seconds"], len(found["failures"])) == (30, 2, 4.0, 1)
    assert len(both["runs"]) == 1
    assert "| 30 | 1 | 2 |" in full.table(both)
    with pytest.raises(SystemExit, match="seeds: both runs have seeds among 5 to 7"):
        full.merged([results(0, 10), results(5, 8)])


def test_failure__is_told_with_the_command_that_repeats_it(capsys):
    case = Case("small_fit", "small_fits", "small_fit", 123, 60.0)
    result = {"run": 0, "skipped": 0, "seconds": 0.0, "failures": []}
    full.record(result, pool.Outcome(case, "failed", "one is two", 0.5))
    assert "python tests/robustness/full.py --only small_fit --seed 123" in capsys.readouterr().out
    assert result["failures"] == [{"seed": 123, "message": "one is two"}]


def test_page__has_the_numbers_of_the_stored_results():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    stored = json.loads(full.RESULTS.read_text(encoding="utf-8"))
    assert full.documented(page, stored) == page, (
        "run  python tests/robustness/full.py --document docs/reliability.md"
    )


def test_tasks__that_are_here_can_be_called():
    for name, task in full.TASKS.items():
        if (Path(full.__file__).parent / f"{task.module}.py").exists():
            assert full.absent(name) is None
