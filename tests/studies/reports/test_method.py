"""The document about the method, on runs whose numbers are dictated.

The default is better than its variants in every measure and by the same in every draw, unless a test says
otherwise.
"""

import math
import re
from importlib.resources import files

import pytest
from benchmark_runs import at, cells, row_of, run, section, tables

from models import options_of
from pnca.estimators import PNCAClassifier, paper_settings
from pnca.exceptions import InvalidInputError
from pnca.maths import inputs, kernels
from pnca.models import neighbours, options, plan, selection
from pnca.training import augmentation
from pnca_studies.experiments.choices import load_questions
from pnca_studies.reports.method import write_method

QUESTIONS = load_questions()
FIRST = QUESTIONS[0]
VARIANTS = [name for question in QUESTIONS for name in question.variants]
MNIST, WINE, CANCER = ("MNIST", 100), ("wine", 50), ("breast cancer", 50)


def written(folder, *arguments, **options):
    """The document about a run with these cells."""
    given = run(folder / "run", cells(*arguments, **options), study="choices")
    return write_method([given], folder / "method.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The document on every variant, in a folder that it has to make."""
    folder = tmp_path_factory.mktemp("whole")
    places = [MNIST, CANCER, ("MNIST images", 100)]
    given = run(folder / "run", cells(places=places, models=["PNCA", *VARIANTS]), study="choices")
    return write_method([given], folder / "docs" / "method.md")


# The document as a whole


def test_document__begins_with_the_prose_and_has_every_question(whole):
    text = whole.read_text(encoding="utf-8")
    prose = files("pnca_studies.reports").joinpath("method.md").read_text(encoding="utf-8")
    assert text.startswith("# The method\n")
    assert text.startswith(prose)
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == [question.title for question in QUESTIONS]
    for question in QUESTIONS:
        assert question.answer.strip() in section(text, f"### {question.title}")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[-2:] == ["The choices", "How these numbers were made"]
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert text.count("```") % 2 == 0
    assert "not run" not in text[len(prose) :]
    assert "nan" not in text[len(prose) :]


def test_document__a_second_one_is_the_same(whole, tmp_path):
    first = whole.read_bytes()
    places = [MNIST, CANCER, ("MNIST images", 100)]
    given = run(tmp_path / "run", cells(places=places, models=["PNCA", *VARIANTS]), study="choices")
    again = write_method([given], tmp_path / "method.md").read_bytes()
    assert again == first.replace(whole.as_posix().encode(), (tmp_path / "method.md").as_posix().encode())


def test_document__says_how_it_was_made(tmp_path):
    text = section(
        written(tmp_path, places=[WINE], models=["PNCA", "cross"]), "## How these numbers were made"
    )
    assert "- Seeds: draw s: seed s." in text
    assert re.findall(r"^pnca .*$", text, re.MULTILINE) == [
        "pnca benchmark --choices --data-sets 'wine' --out run",
        f"pnca report run --out {(tmp_path / 'method.md').as_posix()}",
    ]
    assert "- `run`: 4 fits; abacus, 2 cores, beads; python " in text


def test_document__names_the_data_and_what_is_out_of_distribution(whole):
    text = section(whole.read_text(encoding="utf-8"), "## The choices")
    assert "- MNIST: digits as rows of 784 pixels. OoD inputs: notMNIST letters.\n" in text
    assert "- breast cancer: 30 measurements of cells. OoD inputs: none.\n" in text


def test_document__another_study_is_refused(tmp_path):
    ours = run(tmp_path / "ours", cells(places=[WINE], models=["PNCA", "cross"]), study="choices")
    other = run(tmp_path / "other", cells(places=[WINE], models=["PNCA"]), study="benchmark")
    with pytest.raises(InvalidInputError, match=r"other holds a run of benchmark; .* of the choices alone"):
        write_method([ours, other], tmp_path / "method.md")


def test_document__without_the_default_is_refused(tmp_path):
    folder = run(tmp_path / "run", cells(places=[WINE], models=["cross"]), study="choices")
    with pytest.raises(InvalidInputError, match=r"No fit of PNCA is finished in run"):
        write_method([folder], tmp_path / "method.md")
    assert not (tmp_path / "method.md").exists()


def test_document__refuses_another_format(tmp_path):
    folder = run(tmp_path / "run", cells(places=[WINE], models=["PNCA"]), study="choices")
    with pytest.raises(InvalidInputError, match=r"^method\.html must end in \.md"):
        write_method([folder], tmp_path / "method.html")


# Tables


def test_table__the_default_comes_first_and_the_numbers_are_those_of_the_rows(whole):
    mnist, cancer = tables(section(whole.read_text(encoding="utf-8"), f"### {FIRST.title}"))
    assert [row["variant"] for row in mnist] == ["**PNCA**", *FIRST.variants]
    assert row_of(mnist, "PNCA") == {
        "variant": "**PNCA**",
        "draws": "2",
        "accuracy": ".895",
        "Δ accuracy": "-",
        "NLL": ".300",
        "Δ NLL": "-",
        "ECE": ".020",
        "OoD AUROC by confidence": ".992",
        "OoD AUROC by evidence": ".997",
        "OoD above .9": "0.10 %",
        "rotated AUGRC": ".040",
        "fit s": "2.00",
    }
    assert row_of(mnist, "cross") == {
        "variant": "cross",
        "draws": "2",
        "accuracy": ".795",
        "Δ accuracy": "*-.100 (-.100 to -.100)*",
        "NLL": ".500",
        "Δ NLL": "*+.200 (+.200 to +.200)*",
        "ECE": ".050",
        "OoD AUROC by confidence": ".800",
        "OoD AUROC by evidence": ".900",
        "OoD above .9": "10.00 %",
        "rotated AUGRC": ".200",
        "fit s": "2.00",
    }
    # It has neither OoD nor rotated inputs.
    assert list(cancer[0]) == ["variant", "draws", "accuracy", "Δ accuracy", "NLL", "Δ NLL", "ECE", "fit s"]


def test_table__differences_are_variant_less_default_over_common_draws(tmp_path):
    """In the draws that both have, the variant has less NLL; the default's third draw is far off."""

    def change(columns, test_set):
        if columns["model"] == "PNCA":
            return {"nll": 9.0} if columns["draw"] == 2 else {}
        return {"nll": 0.2, "accuracy": (0.97, 0.87)[columns["draw"]]} if test_set == "test" else {}

    given = [*cells(change, [WINE], ["PNCA"], range(3)), *cells(change, [WINE], ["cross"], range(2))]
    path = write_method([run(tmp_path / "run", given, study="choices")], tmp_path / "method.md")
    (table,) = tables(section(path.read_text(encoding="utf-8"), f"### {FIRST.title}"))
    assert row_of(table, "cross")["Δ NLL"] == "**-.100 (-.100 to -.100)**"
    assert row_of(table, "cross")["Δ accuracy"] == "+.025 (-.020 to +.070)"
    assert [row_of(table, name)["draws"] for name in ("PNCA", "cross")] == ["3", "2"]


def test_table__one_draw_has_no_interval(tmp_path):
    text = written(tmp_path, places=[WINE], models=["PNCA", "cross"], draws=[0])
    (table,) = tables(section(text, f"### {FIRST.title}"))
    assert row_of(table, "cross")["Δ NLL"] == "+.200"


def test_table__a_variant_without_cells_is_not_run(tmp_path):
    text = section(written(tmp_path, places=[WINE], models=["PNCA", "cross"]), f"### {FIRST.title}")
    (table,) = tables(text)
    absent = row_of(table, "shared, functional gradient")
    assert absent["draws"] == "not run"
    assert set(absent.values()) == {"shared, functional gradient", "not run", "-"}


def test_table__a_default_without_cells_is_not_run(tmp_path):
    given = [*cells(places=[WINE], models=["PNCA", "cross"]), *cells(places=[CANCER], models=["cross"])]
    path = write_method([run(tmp_path / "run", given, study="choices")], tmp_path / "method.md")
    cancer, _ = tables(section(path.read_text(encoding="utf-8"), f"### {FIRST.title}"))
    assert row_of(cancer, "PNCA")["draws"] == "not run"
    assert "Δ NLL" not in cancer[0]
    assert row_of(cancer, "cross")["NLL"] == ".500"


def test_question__that_was_not_run_names_its_variants(tmp_path):
    text = written(tmp_path, places=[WINE, CANCER], models=["PNCA", "cross"])
    page = section(text, f"### {QUESTIONS[1].title}")
    assert tables(page) == []
    names = "; ".join(QUESTIONS[1].variants)
    assert f"On breast cancer (n = 50) and wine (n = 50) not run: {names}." in page


def test_question__a_hundred_examples_are_in_the_text_and_the_rest_is_folded(tmp_path):
    places = [("digits", n) for n in (50, 100, 200)]
    text = section(written(tmp_path, places=places, models=["PNCA", "cross"]), f"### {FIRST.title}")
    assert re.findall(r"^<summary>(.*)</summary>$", text, re.MULTILINE) == [
        "digits, n = 50",
        "digits, n = 200",
    ]
    assert text.index("**digits, n = 100**") < text.index("<details>")
    assert len(tables(text)) == 3


def test_seconds__on_a_gpu_are_marked(tmp_path):
    def details(columns):
        return {"device": "cuda"} if columns["model"] == "cross" else {}

    text = written(tmp_path, places=[WINE], models=["PNCA", "cross"], details=details)
    (table,) = tables(section(text, f"### {FIRST.title}"))
    assert [row["fit s"] for row in table] == ["2.00", "2.00†", "-", "-"]
    assert "--device cuda --out run" in text


def test_folders__add_up_and_the_later_one_wins(tmp_path):
    default, *variants = ["PNCA", *FIRST.variants]
    first = run(tmp_path / "first", cells(places=[WINE], models=[default, variants[0]]), study="choices")
    better = cells(at(None, None, variants[0], "test", nll=0.1), [WINE], variants)
    second = run(tmp_path / "second", better, study="choices")
    path = write_method([first, second], tmp_path / "method.md")
    (table,) = tables(section(path.read_text(encoding="utf-8"), f"### {FIRST.title}"))
    assert [row["NLL"] for row in table] == [".300", ".100", ".500", ".500"]


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
    text = written(tmp_path, places=[MNIST, ("MNIST images", 100)], models=models)
    (table,) = tables(section(text, f"### {about_images.title}"))
    assert [row["variant"] for row in table] == ["**PNCA**", *about_images.variants]
    assert "**MNIST images, n = 100**" in section(text, f"### {about_images.title}")
    assert "MNIST images" not in section(text, f"### {FIRST.title}")


def test_questions__about_images_are_not_run_without_images(tmp_path):
    (about_images,) = (question for question in QUESTIONS if question.images)
    text = section(written(tmp_path, places=[MNIST], models=["PNCA", "cross"]), f"### {about_images.title}")
    assert f"On MNIST images not run: {'; '.join(about_images.variants)}." in text
