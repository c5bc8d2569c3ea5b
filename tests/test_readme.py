"""The README's example runs as printed, and its links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

ROOT = Path(__file__).parents[1]


def test_readme__examples_run_on_the_readers_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(examples) == 2
    X, y = load_iris(return_X_y=True)
    names = {"X": X, "y": np.array(["setosa", "versicolor", "virginica"])[y]}
    for code in examples:
        exec(code, names)  # the reader would paste it
    assert names["model"].score(names["X_new"], names["y_new"]) > 0.8


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/design.md", "docs/scale.md"])
def test_documents__links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target
