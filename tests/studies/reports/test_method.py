"""The document about the method, on runs whose numbers are dictated.

The default is better than its variants in every measure and by the same in every draw, unless a test says
otherwise.
"""

import math
import re
from importlib.resources import files

import pytest

from benchmark_cells import row_of, section, tables, write_cells
from models import options_of
from pnca.estimators import PNCAClassifier, paper_settings
from pnca.exceptions import InvalidInputError
from pnca.maths import inputs, kernels
from pnca.models import neighbours, options, plan, selection
from pnca.training import augmentation
from pnca_studies.experiments.benchmark import choices_plan
from pnca_studies.experiments.choices import load_questions
from pnca_studies.reports.method import write_method

QUESTIONS = load_questions()
FIRST = QUESTIONS[0]
VARIANTS = [name for question in QUESTIONS for name in question.variants]
N_DRAWS = 5


def written(folder, change=lambda cell, name: {}, keep=lambda cell: True, **others):
    """The document about these cells of the choices."""
    cells = [cell for cell in choices_plan(N_DRAWS) if keep(cell)]
    path = write_cells(folder / "cells.jsonl", cells, change, **others)
    return write_method([path], folder / "method.md").read_text(encoding="utf-8")


def of(*data, models=("PNCA", "cross"), draws=range(N_DRAWS)):
    return lambda cell: cell.data in data and cell.model in models and cell.draw in draws


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The document on every variant."""
    return written(tmp_path_factory.mktemp("whole"))


# The document as a whole


def test_document__begins_with_the_prose_and_has_every_question(whole):
    prose = files("pnca_studies.reports").joinpath("method.md").read_text(encoding="utf-8")
    assert whole.startswith("# The method\n")
    assert whole.startswith(prose)
    assert re.findall(r"^### (.*)$", whole, re.MULTILINE) == [question.title for question in QUESTIONS]
    for question in QUESTIONS:
        assert question.answer.strip() in section(whole, f"### {question.title}")
    assert re.findall(r"^## (.*)$", whole, re.MULTILINE)[-2:] == [
        "The choices",
        "How these numbers were made",
    ]
    headings = re.findall(r"^#+ (.*)$", whole, re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert whole.count("```") % 2 == 0
    for word in ("not run", "nan", "missing"):
        assert word not in whole[len(prose) :]


def test_document__says_how_it_was_made_and_what_is_out_of_distribution(whole):
    made = section(whole, "## How these numbers were made")
    assert "pnca benchmark --choices --data-dir DATA --trials 5 --out CELLS" in made
    assert "on abacus, 2 cores; python 3" in made
    text = section(whole, "## The choices")
    assert "- MNIST: digits as rows of 784 pixels. OoD inputs: letters of notMNIST." in text
    assert "- breast cancer: 30 measurements of cells, 2 classes. OoD inputs: none." in text


def test_document__of_missing_cells_says_how_many(tmp_path):
    text = written(tmp_path, keep=of("wine"))
    n = len(choices_plan(N_DRAWS))
    assert f"**{n - 2 * N_DRAWS:,} of {n:,} planned cells are missing**" in text


def test_document__without_the_default_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="No cell of PNCA"):
        written(tmp_path, keep=of("wine", models=["cross"]))
    assert not (tmp_path / "method.md").exists()


def test_document__refuses_another_format(tmp_path):
    with pytest.raises(InvalidInputError, match=r"^method\.html must end in \.md"):
        write_method([tmp_path], tmp_path / "method.html")


# Tables


def test_table__the_default_comes_first_and_the_numbers_are_those_as_they_are(whole):
    mnist = tables(section(whole, f"### {FIRST.title}"))[0]
    assert [row["variant"] for row in mnist] == ["**PNCA**", *FIRST.variants]
    default = row_of(mnist, "PNCA")
    assert (default["draws"], default["Δ NLL"], default["fit s"]) == ("5", "-", "1.00")
    # .3, a wobble of .02 and what scaling would gain.
    assert float(default["NLL"]) == pytest.approx(0.34, abs=0.001)
    assert default["OoD AUROC by evidence"] == ".997"
    assert default["OoD above .9"] == "0.10 %"
    cross = row_of(mnist, "cross")
    assert cross["Δ NLL"].startswith("*+.21")
    assert cross["Δ accuracy"].startswith("*-.11")
    cancer = next(t for t in tables(section(whole, f"### {FIRST.title}")) if "rotated AUGRC" not in t[0])
    assert "rotated AUGRC" not in cancer[0]


def test_table__differences_are_over_common_draws_and_fewer_than_five_have_no_interval(tmp_path):
    def keep(cell):
        return of("wine")(cell) and (cell.model == "PNCA" or cell.draw < 4)

    text = written(tmp_path, lambda cell, name: {"nll": 9.0} if cell.draw == 4 else {}, keep)
    (table,) = tables(section(text, f"### {FIRST.title}"))
    assert row_of(table, "cross")["Δ NLL"] == "+.210"
    assert [row_of(table, name)["draws"] for name in ("PNCA", "cross")] == ["5", "4"]


def test_table__a_variant_without_cells_is_not_run(tmp_path):
    text = section(written(tmp_path, keep=of("wine")), f"### {FIRST.title}")
    (table,) = tables(text)
    absent = row_of(table, "shared, functional gradient")
    assert absent["draws"] == "not run"
    assert set(absent.values()) == {"shared, functional gradient", "not run", "-"}


def test_question__that_was_not_run_names_its_variants(tmp_path):
    page = section(written(tmp_path, keep=of("wine", "breast cancer")), f"### {QUESTIONS[1].title}")
    assert tables(page) == []
    names = "; ".join(QUESTIONS[1].variants)
    assert "On breast cancer, n = 100, breast cancer, n = 400 and wine, n = 50 not run:" in page
    assert names in page


def test_question__the_first_size_is_in_the_text_and_the_rest_is_folded(tmp_path):
    text = section(written(tmp_path, keep=of("digits")), f"### {FIRST.title}")
    assert re.findall(r"^<summary>(.*)</summary>$", text, re.MULTILINE) == ["digits, n = 400"]
    assert text.index("**digits, n = 100**") < text.index("<details>")
    assert len(tables(text)) == 2


def test_seconds__on_a_gpu_are_marked(tmp_path):
    text = written(tmp_path, keep=of("wine"), device="cuda", seconds={"GPU fit": 2.0})
    (table,) = tables(section(text, f"### {FIRST.title}"))
    assert [row["fit s"] for row in table][:2] == ["2.00†", "2.00†"]


# The prose is true to the code


@pytest.fixture(scope="module")
def prose():
    return " ".join(files("pnca_studies.reports").joinpath("method.md").read_text(encoding="utf-8").split())


def ends(candidates):
    return candidates[0], candidates[-1]


SPREADS = (selection._BANDWIDTH_SPREAD, selection._BACKGROUND_SPREAD, selection._EPOCH_SPREAD)
CHANGES = (augmentation.SHIFT, augmentation.ROTATION, augmentation.RESIZE)
FULL = (options._FULL_BATCH, options._EPOCHS)
BATCHES = (options._MINIBATCH, options._LEAST_EPOCHS)


@pytest.mark.parametrize(
    ("in_code", "expected", "in_prose"),
    [
        (selection.BACKGROUND, 0.03, "a background of .03"),
        (ends(selection._BANDWIDTHS), (1 / 4, 32), "from a quarter of `bandwidth` to 32"),
        (ends(selection._BACKGROUNDS), (1 / 16, 16), "a sixteenth of the reference to sixteen times"),
        (selection._BACKGROUND_SHARE, math.exp(-5), "is e⁻⁵ of the mass that an example typically gets"),
        (neighbours._SNAPSHOTS, (1 / 30, 1 / 10, 1 / 3, 1), "after 1/30, 1/10, 1/3 and all of the epochs"),
        (SPREADS, (0.35, 1, 2), r"with $\sigma_v$ = .35, 1 and 2"),
        ((inputs.SHARE, inputs._HIGH), (0.97, 0.95), "97 % of their variance"),
        ((inputs.USUAL, inputs.NOVEL), (1, 1 + 2.5), r"\frac{t(x) - 1}{2.5}"),
        (options.MORE_AUGMENTATION, 1.5, "moved one and a half times as far"),
        (plan._SHARE_IN_FOLDS, 1 / 2, "⌈m/2⌉ particles do not see that fold"),
        ((kernels.INPUT_DECAY, kernels.FEW_COLUMNS), (8, 25), r"\frac{8 D}{D + 25}"),
        (FULL, (500, 300), "Up to 500 examples make one batch and get 300 epochs"),
        (
            BATCHES,
            (250, 20),
            "about 250, or ten of each class if that is more, with fewer epochs but not fewer than 20",
        ),
        (plan._CLEARLY_LESS, 1 - 1 / 20, "more than a twentieth lower"),
        (
            CHANGES,
            (1 / 14, 15, 1 / 10),
            "a fourteenth of the side, turned by up to fifteen degrees and resized",
        ),
    ],
)
def test_prose__numbers_are_those_of_the_code(prose, in_code, expected, in_prose):
    assert in_code == pytest.approx(expected), f"rewrite in reports/method.md: {in_prose}"
    assert in_prose in prose


@pytest.mark.parametrize(("shape", "expected"), [((50,), 50 / 200), ((784,), 784 / 1668), ((28, 28), 0.2)])
def test_prose__dropout_is_that_of_the_code(prose, shape, expected):
    assert options_of(PNCAClassifier()).dropout_rate(shape) == pytest.approx(expected)
    assert "as D / (2D + 100)" in prose
    assert "For images it is .2." in prose


def test_prose__what_it_says_of_the_paper_is_so(prose):
    settings = paper_settings("PNCA")
    assert (settings["background"], settings["input_weight"], settings["expectation"]) == (0, 0, "cross")
    assert settings["novelty"] is False
    assert "has neither background nor these two factors" in prose


def test_prose__names_a_question_that_exists(prose):
    (title,) = re.findall(r"under \*(.*?)\* have them", prose)
    assert title in [question.title for question in QUESTIONS]


# Questions about images


def test_questions__about_images_are_answered_on_images_and_others_elsewhere(tmp_path):
    (about_images,) = (question for question in QUESTIONS if question.images)
    models = ["PNCA", *FIRST.variants, *about_images.variants]
    text = written(tmp_path, keep=of("MNIST", "MNIST images", models=models))
    table, _ = tables(section(text, f"### {about_images.title}"))
    assert [row["variant"] for row in table] == ["**PNCA**", *about_images.variants]
    assert "**MNIST images, n = 100**" in section(text, f"### {about_images.title}")
    assert "MNIST images" not in section(text, f"### {FIRST.title}")


def test_questions__about_images_are_not_run_without_images(tmp_path):
    (about_images,) = (question for question in QUESTIONS if question.images)
    text = section(written(tmp_path, keep=of("MNIST")), f"### {about_images.title}")
    assert f"On images not run: {'; '.join(about_images.variants)}." in text
