"""The README's example runs as printed, and its links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

ROOT = Path(__file__).parents[1]


def test_readme__example_runs_on_the_readers_arrays():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    X, y = load_iris(return_X_y=True)
    names = {"X": X, "y": np.array(["setosa", "versicolor", "virginica"])[y]}
    exec(code, names)  # the reader would paste it
    assert names["model"].score(names["X_new"], names["y_new"]) > 0.8


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/design.md"])
def test_documents__links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target
