"""Two source trees are timed in turn, each in processes of its own; no time is asserted."""

import warnings
from pathlib import Path

import pytest

import compare
import pnca

TREE = Path(pnca.__file__).parents[1]


@pytest.fixture
def empty_tree(tmp_path):
    """A package of this name that can do nothing but be imported."""
    (tmp_path / "pnca").mkdir()
    (tmp_path / "pnca" / "__init__.py").write_text("")
    return tmp_path


def test_compare__times_fits_and_processes_of_both_trees(capsys):
    compare.main([str(TREE), str(TREE), "--tiny", "--only", "paper's PNCA, 100 rows", "import pnca"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "on the GPU" not in line]
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| paper's PNCA, 100 rows", "| import pnca"]
    assert all(line.endswith("| one round |") for line in lines[2:])


@pytest.mark.parametrize("name", [*compare.FITS, compare.PREDICT])
def test_compare__tasks_run_at_toy_size(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # toy data warn of many things
        assert compare.run_task(name, str(TREE), True, "") > 0


def test_compare__takes_turns_and_each_tree_is_first_in_every_other_round(monkeypatch):
    order = []
    monkeypatch.setattr(
        compare, "seconds_in", lambda tree, name, chosen: order.append(tree.name) or len(order)
    )
    chosen = compare.argparse.Namespace(former=Path("old"), new=Path("new"), rounds=3)
    assert compare.compare("a fit", chosen) == ([1, 4, 5], [2, 3, 6])
    assert order == ["old", "new", "new", "old", "old", "new"]


@pytest.mark.parametrize(
    ("new", "verdict"),
    [([2.0, 2.1, 2.05], "slower"), ([0.5, 0.51, 0.49], "faster"), ([0.9, 1.1, 1.0], "no difference seen")],
)
def test_row__judges_by_the_interval(new, verdict):
    assert compare.row("a fit", [1.0, 1.0, 1.0], new).endswith(f" | {verdict} |")


def test_compare__says_what_is_wrong(tmp_path, capsys, empty_tree):
    for arguments, reason in (
        ([TREE, tmp_path / "nowhere"], "nowhere holds no package pnca"),
        ([TREE, TREE, "--large"], "--large needs --data-dir"),
    ):
        with pytest.raises(SystemExit):
            compare.main([*map(str, arguments), "--tiny"])
        assert reason in capsys.readouterr().err
    with pytest.raises(SystemExit, match="'pnca --help' failed with"):
        compare.main([str(empty_tree), str(TREE), "--tiny", "--only", "pnca --help"])
    with pytest.raises(SystemExit, match=r"pnca was imported from .*, not from"):
        compare.run_task(compare.PREDICT, str(empty_tree), True, "")
