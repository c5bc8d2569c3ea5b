"""The site builds without a warning, is whole, loads nothing from elsewhere, and its front page is true."""

import ast
import csv
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ["sphinx", "furo", "myst_parser", "numpydoc", "sphinx_gallery", "sphinx_copybutton", "latex2mathml"]
#: Attributes by which a page loads something, rather than links to it.
LOADING = {"src", "srcset", "poster", "data", "background"}
CLASSIFIERS = ["PNCAClassifier", "NCAClassifier", "DNNClassifier", "EnsembleClassifier", "BNNClassifier"]


class References(HTMLParser):
    """What a page loads, and what it links to."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.linked, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if not value:
                continue
            if name in LOADING or (tag == "link" and name == "href"):
                self.loaded.append(value)
            elif name == "href":
                self.linked.append(value)
            elif name == "id":
                self.ids.add(value)
            elif name == "style":
                self.loaded += loaded_by_style(value)


def loaded_by_style(text):
    return re.findall(r"url\(\s*['\"]?([^)'\"]+)", text) + re.findall(r"@import\s+['\"]([^'\"]+)", text)


def is_remote(address):
    return bool(re.match(r"(?:https?:)?//", address.strip()))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy of its sources; the examples are run by tests/test_examples.py instead."""
    if absent := [name for name in TOOLS if find_spec(name) is None]:
        pytest.skip(
            f"no {', '.join(absent)}: pip install 'pnca[docs]' (make docs builds the site in any case)"
        )
    folder = tmp_path_factory.mktemp("docs")
    for name in ("docs", "examples", "benchmarks"):
        ignored = shutil.ignore_patterns("gallery", "__pycache__", "_build")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += ["-D", "plot_gallery=0", str(folder / "docs"), str(folder / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site):
    """References of every page, by its path."""
    return {path: References(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_site__loads_nothing_from_another_host(site, pages):
    remote = {str(path): [a for a in page.loaded if is_remote(a)] for path, page in pages.items()}
    for path in site.rglob("*.css"):
        remote[str(path)] = [a for a in loaded_by_style(path.read_text(encoding="utf-8")) if is_remote(a)]
    assert {path: found for path, found in remote.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/mathjax.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img src="http://example.org/badge.svg">',
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_references__to_another_host_are_seen(text):
    assert any(map(is_remote, References(text).loaded))


def test_references__links_in_the_text_may_lead_outside():
    page = References('<a href="https://example.org">there</a> <img src="_static/a.png">')
    assert not any(map(is_remote, page.loaded))


def test_site__references_lead_to_files_and_places(pages):
    for path, page in pages.items():
        for address in page.loaded + page.linked:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name}: {address}"
            if parts.fragment and target in pages and path.name not in ("genindex.html", "search.html"):
                assert unquote(parts.fragment) in pages[target].ids, f"{path.name}: {address}"


def test_site__the_navigation_has_every_page(site, pages):
    text = (site / "index.html").read_text(encoding="utf-8")
    (navigation,) = re.findall(r'<div class="sidebar-tree">(.*?)</div>\s*</div>', text, flags=re.DOTALL)
    linked = {path for a in References(navigation).linked if (path := unquote(urlsplit(a).path))}
    made = {path.relative_to(site).as_posix() for path in pages}
    assert linked == made - {"index.html", "genindex.html", "search.html", "py-modindex.html"}


@pytest.mark.parametrize(
    "page", ["gallery/index", "api/index", "api/pnca", "method", "benchmark", "performance"]
)
def test_front_page__leads_to_what_is_asked_for_first(site, page):
    text = (site / "index.html").read_text(encoding="utf-8")
    (article,) = re.findall(r"<article.*?</article>", text, flags=re.DOTALL)
    assert f"{page}.html" in References(article).linked


def test_formulas__are_in_the_pages_as_mathml(site):
    fences = (ROOT / "docs" / "method.md").read_text(encoding="utf-8").count("```math")
    method = (site / "method.html").read_text(encoding="utf-8")
    assert method.count('display="block"') == fences > 5
    for path in site.rglob("*.html"):
        formulas = re.findall(r"<math.*?</math>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not any("\\" in formula for formula in formulas), path.name
    assert "<math" in (site / "api" / "evaluation.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "module",
    [
        "pnca",
        "pnca.evaluation",
        "pnca.calibration",
        "pnca.vision",
        "pnca.exceptions",
        "pnca.tables",
        "pnca.workflows",
    ],
)
def test_api__has_every_public_name(site, pages, module):
    ids = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "api"))
    found = import_module(module)
    names = getattr(found, "__all__", [name for name in vars(found) if name.endswith("Error")])
    assert names
    assert [name for name in names if f"{module}.{name}" not in ids] == []


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_api__has_every_method(site, pages, name):
    classifier = getattr(import_module("pnca"), name)
    ids = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "api"))
    ours = {
        method
        for parent in classifier.__mro__
        if parent.__module__.startswith("pnca.")
        for method, value in vars(parent).items()
        if callable(value) and not method.startswith("_")
    }
    assert "predict_proba" in ours
    assert [method for method in sorted(ours) if f"pnca.{name}.{method}" not in ids] == []


# The sources, which need no tools


def table(path, heading, after=""):
    """Rows of the first table with this first heading after some text, by their first cell."""
    text = (ROOT / path).read_text(encoding="utf-8")
    start = text.index(f"\n| {heading} |", text.index(after))
    found = text[start:].strip().split("\n\n")[0].splitlines()
    headings, _, *rows = map(cells, found)
    return {row[0]: dict(zip(headings, row, strict=True)) for row in rows}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_front_page__results_are_those_of_the_benchmark(path):
    benchmark = table("docs/benchmark.md", "model", after="\n### MNIST\n")
    now = table("benchmarks/results/rows_mnist.md", "model", after="\n### MNIST\n")
    measured = {**benchmark, "neighbours alone": benchmark["**PNCA**"], "**PNCA**": now["**PNCA**"]}
    columns = ["accuracy", "NLL", "ECE", "OoD above .9", "OoD AUROC by own score"]
    shown = table(path, "model")
    assert {"**PNCA**", "neighbours alone"} <= set(shown)
    for model, row in shown.items():
        expected = [measured[model][column].split(" ±")[0] for column in columns]
        assert list(row.values())[1:] == expected, model


def test_front_page__tables_are_those_of_the_document():
    shown = table("README.md", "model, 100 rows")
    tuning, others = (
        table("docs/tables.md", "model", after=f"\n## {part}, 100 rows\n")
        for part in (
            "Tuning: the 15 tables that the method was set on",
            "Final: the 15 others, looked at once",
        )
    )
    assert list(shown) == list(tuning) == list(others)
    for model, row in shown.items():
        expected = [tuning[model]["NLL (rank)"]]
        expected += [others[model][f"{measure} (rank)"] for measure in ("NLL", "accuracy", "AUROC")]
        assert list(row.values())[1:] == expected, model


def test_front_page__wins_and_losses_are_those_of_the_benchmark():
    ours, benchmark = table("docs/index.md", "measure"), table("docs/benchmark.md", "measure")
    assert len(ours) == 4
    assert {name: benchmark[name] for name in ours} == ours


def test_page__its_costs_are_those_that_were_measured():
    with (ROOT / "benchmarks" / "results" / "serving.csv").open(encoding="utf-8") as file:
        measured = list(csv.DictReader(file))
    shown = table("docs/page.md", "clients")
    columns = ["per_second", "p50_ms", "p99_ms", "cpu_ms", "ratio", "cpu_ratio"]
    assert list(shown) == ["directly", *(line["clients"] for line in measured[1:])]
    for row, line in zip(shown.values(), measured, strict=True):
        assert list(row.values())[1:] == [line[column] for column in columns]


def test_gallery__has_every_example():
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"))
    (listed,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "examples"
    )
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize(
    "path",
    ["README.md", "docs/index.md", "docs/scale.md", "docs/studies.md", "src/pnca_studies/reports/method.md"],
)
def test_words__are_those_of_the_field(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert (
        re.findall(r"\b(?:teams?|foreign|recorded|recordings?|played|rivals?)\b", text, flags=re.IGNORECASE)
        == []
    )


def test_method__page_begins_with_the_template():
    prose = (ROOT / "src" / "pnca_studies" / "reports" / "method.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "method.md").read_text(encoding="utf-8").startswith(prose)
