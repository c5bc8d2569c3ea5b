"""The benchmark's document as a whole, and what only it says."""

import re

import pytest

from benchmark_runs import FEW, SMALL, cells, document, run, section, tables
from pnca.exceptions import InvalidInputError
from pnca_studies.reports.benchmark import write_benchmark


def test_document__refuses_another_format(tmp_path):
    folder = run(tmp_path / "run", cells(places=SMALL, models=FEW))
    with pytest.raises(InvalidInputError, match=r"^benchmark\.html must end in \.md"):
        write_benchmark([folder], tmp_path / "benchmark.html")


def test_document__parts_are_in_order_and_links_resolve(whole):
    text = whole.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        *("What is compared on what", "Targets", "Mean ranks", "Every data set", "Paired differences"),
        *("Where PNCA loses", "Learning curves", "Seconds"),
    ]
    assert "compared with 16 baselines" in text
    assert "Not in these runs" not in text
    assert "Of 62: 62 met, 0 not met, 0 not run." in text
    assert re.findall(r"\]\(([^)]*)\)", text) == ["benchmark/mnist.png"]
    assert (whole.parent / "benchmark" / "mnist.png").read_bytes().startswith(b"\x89PNG")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings))  # so that each has an anchor of its own
    assert "nan" not in text.replace("nance", "")


def test_document__a_second_one_is_the_same(tmp_path):
    folder = run(tmp_path / "run", cells(places=SMALL, models=FEW))
    first = write_benchmark([folder], tmp_path / "benchmark.md").read_bytes()
    assert write_benchmark([folder], tmp_path / "benchmark.md").read_bytes() == first


def test_document__an_unknown_data_set_comes_last(tmp_path):
    text = document(tmp_path, places=[("abalone", 30), *SMALL], models=FEW)
    assert re.findall(r"^### ([^:\n]*)$", text, re.MULTILINE) == ["wine", "iris", "abalone"]


def test_document__data_sets_and_their_sizes(tmp_path):
    def change(columns, test_set):
        return {"n": 90 - columns["n_train"] // 10} if test_set == "test" else {}

    text = document(
        tmp_path, change, places=[("digits", 100), ("digits", 50), ("breast cancer", 50)], models=FEW
    )
    digits, cancer = tables(section(text, "## What is compared on what"))[0]
    assert list(digits.values())[2:5] == ["50, 100", "2", "80 to 85"]
    assert digits["OoD inputs"] == "70 of a class held out, another in each draw"
    assert cancer["OoD inputs"] == "-"


def test_seconds__on_a_gpu_are_marked(tmp_path):
    def details(columns):
        return {"device": "cuda"} if columns["data"] == "wine" else {}

    text = document(tmp_path, places=SMALL, models=[*FEW, "DNN"], details=details)
    (wine,), (iris,) = (tables(section(text, f"### {data}")) for data in ("wine", "iris"))
    marked = {row["model"].strip("*") for row in wine if row["fit s"].endswith("†")}
    assert marked == {"PNCA", "DNN"}  # the others know no device
    assert not any("†" in row["fit s"] for row in iris)
    assert "pnca benchmark --data-sets 'wine,iris' --device cuda --out run" in text
    assert "on abacus" in section(text, "## Seconds")
    assert "not on record" not in text


def test_seconds__of_a_device_that_is_not_on_record(tmp_path):
    given = cells(places=SMALL, models=FEW)
    for cell in given:
        del cell.details["device"]
    text = write_benchmark([run(tmp_path / "run", given)], tmp_path / "d.md").read_text("utf-8")
    assert "The device of 4 fits is not on record" in text  # PNCA's
