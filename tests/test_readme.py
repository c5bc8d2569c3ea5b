"""The examples of README and front page run as printed, and links in the documents lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

ROOT = Path(__file__).parents[1]
#: Pages written by hand; a link to the gallery leads to a page that the build makes from an example.
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]


def examples(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_readme__examples_run_on_the_readers_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_arrays, more_data = examples("README.md")
    X, y = load_iris(return_X_y=True)
    names = {"X": X, "y": np.array(["setosa", "versicolor", "virginica"])[y]}
    for code in (own_arrays, more_data):
        assert code.count("random_state=0") == 1
        quick = code.replace("random_state=0", "random_state=0, max_epochs=30")  # a tenth, and nothing else
        exec(quick, names)  # the reader would paste it
    assert names["model"].score(names["X_new"], names["y_new"]) > 0.8
    # The front page has the first lines of the README's example, and one more.
    (front_page,) = examples("docs/index.md")
    *lines, last = [line.split("  #")[0] for line in front_page.splitlines()]
    assert set(lines) <= {line.split("  #")[0] for line in own_arrays.splitlines()}
    unfamiliar = eval(last, names)
    assert unfamiliar.shape == names["y_new"].shape
    assert unfamiliar.mean() < 0.3


def target_exists(page, target):
    path = (ROOT / page).parent / target
    if path.parent == ROOT / "docs" / "gallery":
        path = ROOT / "examples" / ("README.rst" if path.stem == "index" else f"{path.stem}.py")
    return path.exists()


@pytest.mark.parametrize("page", PAGES)
def test_documents__links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert target_exists(page, target), target
