"""Notebooks are those of the example scripts, run, and their cells still print and draw what they did."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import make_notebooks as notebook  # noqa: E402

SCRIPT = '''"""
A title
=======

Some ``code``.
"""

a = 1
# %%
# More text,
# two lines.

# a comment
print(a)
'''


def test_cells__are_text_and_code_in_turn():
    assert notebook.cells_of(SCRIPT) == [
        ("markdown", "# A title\n\nSome `code`."),
        ("code", "a = 1"),
        ("markdown", "More text,\ntwo lines."),
        ("code", "# a comment\nprint(a)"),
    ]


def test_notebook__has_what_its_cells_print():
    *_, last = notebook.notebook_of(SCRIPT)["cells"]
    assert last["outputs"] == [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]
    assert last["execution_count"] == 2


def test_notebooks__are_all_made():
    assert {path.stem for path in (ROOT / "examples").glob("*.ipynb")} == set(notebook.NAMES)


def shape_of(outputs):
    """Outputs without numbers, whose last digits differ from one processor to another."""
    texts = ["".join(output.get("text", [])) for output in outputs]
    return [(o["output_type"], re.findall(r"[A-Za-z]+", t)) for o, t in zip(outputs, texts, strict=True)]


@pytest.mark.parametrize("name", notebook.NAMES)
def test_notebook__is_that_of_its_script_and_runs(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    stored = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8"))
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    cells = notebook.cells_of(script)
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]
    assert sources == cells, "run `make notebooks`"
    found = list(notebook.outputs_of([notebook.Cell(*source) for source in sources]))
    kept = [cell.get("outputs", []) for cell in stored["cells"]]
    for own, outputs in zip(found, kept, strict=True):
        assert [kind for kind, _ in shape_of(own)] == [kind for kind, _ in shape_of(outputs)]
    first, again = (
        " ".join(word for o in outs for _, w in shape_of(o) for word in w) for outs in (kept, found)
    )
    for said in (
        "answers of for inputs like the training examples",
        "Decision not answered",
        "What if without",
    ):
        assert said in first
        assert said in again
    assert not list(tmp_path.iterdir())
