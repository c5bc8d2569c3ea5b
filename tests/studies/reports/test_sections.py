import numpy as np
import pytest

from pnca_studies.reports.curves import LEAST_EXAMPLES, THRESHOLDS
from pnca_studies.reports.sections import Section, make_sections
from pnca_studies.reports.tables import Table
from report_parts import by_name, cells_of
from runs import Skill, answers, mnist_run, same

# MNIST


def _table1_skills(columns, test_set):
    """DNN: .70 and .80, then .20 and .22 rotated; PNCA (paper): .67, then .10; at n = 200 all right."""
    draw = columns["draw"]
    if columns["n_train"] == 200:
        return Skill(accuracy=1.0)
    if columns["model"] == "DNN":
        return Skill(accuracy=0.20 + 0.02 * draw if test_set == "rotated" else 0.70 + 0.10 * draw)
    return Skill(accuracy=0.10 if test_set == "rotated" else 0.67)


def test_table_1__shows_ours_the_papers_and_the_difference(tmp_path, drawn):
    models = ("PNCA", "BNN as published", "PNCA (paper)", "BNN", "DNN")
    folder = mnist_run(tmp_path, _table1_skills, models=models, sizes=(100, 200))
    section = by_name(folder)["table1_mnist"]
    table = section.tables[0]
    assert section.title == "Table 1: Accuracy on MNIST"
    assert table.caption == "Mean ± standard deviation over 2 draws of 100 training images."
    assert table.headings[1:] == [
        *("test accuracy", "paper", "difference"),
        *("rotated accuracy", "paper", "difference"),
    ]
    assert table.rows == [
        ["DNN", ".750 ± .071", ".75 ± .02", ".000", ".210 ± .014", ".17 ± .02", "+.040"],
        ["BNN", ".670 ± .000", ".74 ± .02", "-.070", ".100 ± .000", ".20 ± .04", "-.100"],
        ["BNN as published", ".670 ± .000", ".74 ± .02", "-.070", ".100 ± .000", ".20 ± .04", "-.100"],
        ["PNCA (paper)", ".670 ± .000", ".67 ± .03", ".000", ".100 ± .000", ".18 ± .03", "-.080"],
        ["PNCA", ".670 ± .000", "-", "-", ".100 ± .000", "-", "-"],
    ]


def test_table_1__more_measures_for_every_size(tmp_path, drawn):
    def skills(columns, test_set):
        if test_set == "notmnist":
            return Skill(sure=0.25 * (1 + columns["draw"]))
        return Skill(accuracy=0.5, sure=0.4 if test_set == "rotated" else 0.0)

    folder = mnist_run(tmp_path, skills, models=("DNN", "PNCA (paper)"), sizes=(400, 100))
    table = by_name(folder)["table1_mnist"].tables[1]
    rows = cells_of(table)
    assert list(rows) == ["DNN, n = 100", "PNCA (paper), n = 100", "DNN, n = 400", "PNCA (paper), n = 400"]
    row = rows["DNN, n = 100"]
    assert row["accuracy"] == ".500 ± .000"
    assert row["rotated above .9"] == "40.00 %"
    assert row["notMNIST above .9"] == "37.50 %"
    # The true class has .3 where the answer is right, and .7 / 9 where it is wrong.
    assert row["NLL"] == f"{-(np.log(0.3) + np.log(0.7 / 9)) / 2:.2f} ± .00"
    assert row["ECE"] == ".200 ± .000"  # half right at confidence .3
    assert (row["by evidence"], rows["PNCA (paper), n = 100"]["by evidence"]) == ("-", ".500")


@pytest.mark.parametrize(("sure_of_letters", "auroc"), [(0.0, "1.000"), (0.25, ".750")])
def test_table_1__ood_auroc_by_confidence(tmp_path, drawn, sure_of_letters, auroc):
    def skills(columns, test_set):  # digits lie between the letters that are sure and those that are not
        return Skill(sure=sure_of_letters if test_set == "notmnist" else 0.0)

    def between(columns):
        return {"test": answers(np.arange(20) % 10, True, 0.5)}

    folder = mnist_run(tmp_path, skills, models=("DNN",), answer=between)
    assert (
        cells_of(by_name(folder)["table1_mnist"].tables[1])["DNN, n = 100"]["OoD AUROC by confidence"]
        == auroc
    )


def test_figure_2__panels_hold_the_curves_of_100_images(tmp_path, drawn):
    def skills(columns, test_set):
        right = {"DNN": 0.2, "PNCA": 0.6}[columns["model"]]
        return Skill(accuracy=right, sure=0.5 if columns["n_train"] == 100 else 0.0)

    folder = mnist_run(tmp_path, skills, models=("DNN", "PNCA"), sizes=(100, 200), draws=3)
    section = by_name(folder)["figure2"]
    assert section.figures == [tmp_path / "figure2.png"]
    accuracy, count, letters = drawn["Figure 2: MNIST"]
    rotated = "MNIST rotated by 60°, n = 100"
    assert [panel.title for panel in (accuracy, count, letters)] == [rotated, rotated, "notMNIST, n = 100"]
    at = THRESHOLDS == 0.9
    assert list(accuracy.lines) == ["DNN", "PNCA"]
    np.testing.assert_allclose(accuracy.lines["PNCA"][:, at], [[0.6]] * 3)
    np.testing.assert_array_equal(count.lines["DNN"][:, at], [[50]] * 3)
    np.testing.assert_array_equal(letters.lines["DNN"][:, at], [[40]] * 3)
    assert (count.y_label, letters.y_label) == ("of 100, confidence ≥ τ", "of 80, confidence ≥ τ")
    assert accuracy.y_label == "accuracy where confidence ≥ τ"
    assert letters.y_range == (-0.02 * 80, 1.02 * 80)
    assert f"fewer than {LEAST_EXAMPLES} examples does not count" in section.notes[0]


def test_figure_4__has_a_row_for_every_size(tmp_path, drawn):
    folder = mnist_run(tmp_path, same(Skill(sure=0.5)), models=("DNN",), sizes=(400, 100, 200))
    by_name(folder)
    titles = [panel.title for panel in drawn["Figure 4: MNIST by number of training images"]]
    assert titles == [
        f"{name}, n = {n}"
        for n in (100, 200, 400)
        for name in ("MNIST rotated by 60°", "MNIST rotated by 60°", "notMNIST")
    ]


def test_rotation__panels_hold_each_draw_at_each_angle(tmp_path, drawn):
    def skills(columns, test_set):
        angle = int(test_set.split()[1]) if test_set.startswith("angle") else 0
        return Skill(accuracy=0.9 - angle / 200 + 0.05 * columns["draw"])

    folder = mnist_run(tmp_path, skills, models=("DNN",), angles=(120, 0, 60))
    section = by_name(folder)["rotation"]
    accuracy, nll, ece = drawn["MNIST by angle of rotation"]
    assert [panel.title for panel in (accuracy, nll, ece)] == [
        "accuracy, n = 100",
        "NLL, n = 100",
        "ECE, n = 100",
    ]
    assert list(accuracy.x) == [0, 60, 120]
    np.testing.assert_allclose(accuracy.lines["DNN"], [[0.9, 0.6, 0.3], [0.95, 0.65, 0.35]])
    np.testing.assert_allclose(ece.lines["DNN"][0], [0.6, 0.3, 0.0], atol=2e-4)  # compression moves .0002
    assert "100 test images, spread over the file, at each angle" in section.notes[0]


def test_mnist__sections_of_the_paper_come_first(tmp_path, drawn):
    folder = mnist_run(tmp_path, same(Skill()), models=("DNN",), angles=(0,))
    assert list(by_name(folder)) == ["table1_mnist", "figure2", "figure4", "rotation"]


# Ablation


def test_ablation__table_and_a_figure_for_every_question(tmp_path, drawn):
    models = ("exact", "PNCA (paper)", "independent", "h=1")
    shares = dict(zip(models, (0.5, 0.1, 0.2, 0.3), strict=True))
    folder = mnist_run(
        tmp_path, lambda columns, _: Skill(sure=shares[columns["model"]]), models=models, study="ablation"
    )
    (section,) = make_sections(folder, tmp_path)
    rows = cells_of(section.tables[0])
    assert list(rows) == ["PNCA (paper)", "exact", "independent", "h=1"]
    assert rows["exact"]["notMNIST above .9"] == "50.00 %"
    assert [path.name for path in section.figures] == [
        "ablation_kernel.png",
        "ablation_particles.png",
        "ablation_bandwidth.png",
    ]
    lines = {title: list(panels[0].lines) for title, panels in drawn.items()}
    assert lines == {
        "Confident answers by kernel": ["PNCA (paper)", "exact"],
        "Confident answers by particles": ["PNCA (paper)", "independent", "exact"],
        "Confident answers by bandwidth": ["h=1", "PNCA (paper)", "exact"],
    }
    np.testing.assert_array_equal(
        drawn["Confident answers by kernel"][0].lines["exact"][:, THRESHOLDS == 0.9], [[40]] * 2
    )


def test_ablation__a_question_without_cells_has_no_figure(tmp_path, drawn):
    folder = mnist_run(tmp_path, same(Skill()), models=("h=1",), study="ablation")
    (section,) = make_sections(folder, tmp_path)
    assert [path.name for path in section.figures] == ["ablation_bandwidth.png"]


def test_ablation__figures_show_the_same_fits_as_the_table(tmp_path, drawn):
    folder = mnist_run(tmp_path, same(Skill()), models=("exact",), sizes=(100, 200), study="ablation")
    make_sections(folder, tmp_path)
    assert (
        len(drawn["Confident answers by kernel"][0].lines["exact"]) == 2
    )  # two draws of 100; those of 200 are not in the table


# Runs that are not complete


@pytest.mark.parametrize(
    "finished",
    [
        lambda columns: columns["model"] == "PNCA (paper)" and columns["draw"] == 1,
        lambda columns: columns["n_train"] == 400,
        # stopped in the middle: one model has 100 images alone, and one draw fewer
        lambda columns: columns["model"] == "DNN" or (columns["n_train"] == 100 and columns["draw"] == 0),
    ],
)
def test_mnist__a_run_with_cells_missing_still_reports(tmp_path, finished):
    folder = mnist_run(
        tmp_path,
        same(Skill(sure=0.5)),
        models=("DNN", "PNCA (paper)"),
        sizes=(100, 400),
        angles=(0, 60),
        finished=finished,
    )
    found = make_sections(folder, tmp_path)
    assert [section.name for section in found] == ["table1_mnist", "figure2", "figure4", "rotation"]
    has_100 = any(row["n_train"] == 100 for row in folder.rows())
    table = found[0].tables[0]
    assert f"of {100 if has_100 else 400} training images." in table.caption
    assert all((row[2] == "-") is not has_100 for row in table.rows)
    for path in (path for section in found for path in section.figures):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("study", ["mnist", "ablation"])
def test_sections__a_run_without_a_finished_cell_has_none(tmp_path, study):
    folder = mnist_run(tmp_path, same(Skill()), study=study, finished=lambda columns: False)
    assert make_sections(folder, tmp_path) == []


def test_mnist__a_run_of_another_size_alone_is_shown_without_the_papers_numbers(tmp_path, drawn):
    folder = mnist_run(tmp_path, same(Skill()), models=("DNN",), sizes=(50,), angles=(0, 60))
    found = by_name(folder)
    assert list(found) == ["table1_mnist", "figure2", "figure4", "rotation"]
    table = found["table1_mnist"].tables[0]
    assert table.caption == "Mean ± standard deviation over 2 draws of 50 training images."
    assert table.rows == [["DNN", ".500 ± .000", "-", "-", ".500 ± .000", "-", "-"]]
    assert {panel.title.split(", ")[-1] for panels in drawn.values() for panel in panels} == {"n = 50"}


def test_mnist__another_size_beside_an_exhibits_own_is_left_out(tmp_path, drawn):
    folder = mnist_run(tmp_path, same(Skill()), models=("DNN",), sizes=(50, 100), angles=(0, 60))
    table = by_name(folder)["table1_mnist"].tables[0]
    assert table.caption == "Mean ± standard deviation over 2 draws of 100 training images."
    assert table.rows[0][2] == ".75 ± .02"
    assert {panel.title.split(", ")[-1] for panels in drawn.values() for panel in panels} == {"n = 100"}


def test_ablation__of_another_size_alone(tmp_path, drawn):
    models = ("PNCA (paper)", "exact")
    folder = mnist_run(tmp_path, same(Skill()), models=models, sizes=(50,), study="ablation")
    (section,) = make_sections(folder, tmp_path)
    assert "2 draws of 50 training images." in section.tables[0].caption
    assert len(drawn["Confident answers by kernel"][0].lines["exact"]) == 2


def test_mnist__a_model_that_no_exhibit_shows_is_left_out(tmp_path):
    # `pnca reproduce mnist --models exact` is allowed: the name is in models.toml.
    folder = mnist_run(tmp_path, same(Skill()), models=("exact",), angles=(0,))
    assert make_sections(folder, tmp_path) == []


# Section


def test_section__markdown_has_title_picture_table_and_notes_in_order(tmp_path):
    table = Table(caption="A caption.", headings=["model", "n"], rows=[["DNN", "1"]])
    section = Section(
        name="a", title="A title", tables=[table], figures=[tmp_path / "figures" / "a.png"], notes=["A note."]
    )
    assert section.markdown(tmp_path) == (
        "## A title\n\n![A title](figures/a.png)\n\nA caption.\n\n| model | n |\n|---|--:|\n| DNN | 1 |"
        "\n\nA note.\n"
    )
