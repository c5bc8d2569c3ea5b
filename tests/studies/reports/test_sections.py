from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import runs
from pnca_studies.experiments.answers import measure
from pnca_studies.experiments.settings import load_exhibits
from pnca_studies.reports import sections
from pnca_studies.reports.frame import Frame
from pnca_studies.reports.sections import (
    LEAST_EXAMPLES,
    THRESHOLDS,
    Section,
    accuracy_curve,
    at_the_papers_mix,
    count_curve,
    curves,
    make_sections,
)
from pnca_studies.reports.tables import Table
from runs import (
    N_LETTERS,
    NEGATIVE,
    PAPERS_CONDITION,
    POSITIVE,
    SURE,
    UNSURE,
    Skill,
    answers,
    covid_run,
    mnist_run,
)

EQUALISED = ("equalised", "any_covid", "grouped")


@pytest.fixture
def drawn(monkeypatch):
    """Panels by figure title, kept instead of being drawn."""
    kept = {}

    def keep(panels, title):
        kept[title] = panels
        return title

    def save(title, path):
        Path(path).write_text(title)
        return Path(path)

    monkeypatch.setattr(sections, "panels_figure", keep)
    monkeypatch.setattr(sections, "save_figure", save)
    return kept


def _same(skill):
    return lambda columns, test_set: skill


def _by_name(folder):
    return {section.name: section for section in make_sections(folder, folder.path)}


def _rows(table):
    """Cells by row name and heading; a heading that appears twice has its cells in a list."""
    rows = {}
    for name, *cells in table.rows:
        assert len(cells) + 1 == len(table.headings)
        row = rows.setdefault(name, {})
        for heading, cell in zip(table.headings[1:], cells, strict=True):
            row.setdefault(heading, []).append(cell)
    return {name: {h: c[0] if len(c) == 1 else c for h, c in row.items()} for name, row in rows.items()}


# Curves


@pytest.mark.parametrize(("n_sure", "is_drawn"), [(LEAST_EXAMPLES - 1, False), (LEAST_EXAMPLES, True)])
def test_accuracy_curve__drops_thresholds_with_fewer_than_ten_examples(n_sure, is_drawn):
    place = np.arange(40)
    sure = place < n_sure
    curve = accuracy_curve(answers(place % 10, sure | (place >= 30), np.where(sure, SURE, UNSURE)))
    between = (THRESHOLDS > UNSURE) & (THRESHOLDS < SURE)
    np.testing.assert_allclose(curve[THRESHOLDS < UNSURE], (n_sure + 10) / 40)
    np.testing.assert_allclose(curve[between], 1.0 if is_drawn else np.nan)
    assert np.isnan(curve[THRESHOLDS > SURE]).all()


def test_accuracy_curve__needs_labels():
    with pytest.raises(ValueError, match="labels"):
        accuracy_curve(answers(20, True, SURE))


def test_count_curve__counts_examples_at_or_above_each_threshold():
    confidence = np.array([0.15, 0.35, 0.55, 0.55, 0.75, 0.95])
    expected = [(confidence >= threshold).sum() for threshold in THRESHOLDS]
    np.testing.assert_array_equal(count_curve(answers(6, True, confidence)), expected)


def test_curves__picks_cells_by_condition_and_model(tmp_path):
    shares = {"DNN": 0.5, "BNN": 0.2, "NCA": 0.9}
    folder = mnist_run(
        tmp_path,
        lambda columns, test_set: Skill(
            sure=shares[columns["model"]]
            + (0.1 if columns["n_train"] == 200 else 0) * (test_set == "rotated")
        ),
        models=list(shares),
        sizes=(100, 200),
        draws=3,
    )
    at = int(np.flatnonzero(THRESHOLDS == 0.9)[0])
    found = curves(folder, ["BNN", "DNN", "Ensemble"], "rotated", count_curve, {"n_train": 200})
    assert list(found) == ["BNN", "DNN"]
    assert found["DNN"].shape == (3, len(THRESHOLDS))
    np.testing.assert_array_equal(found["DNN"][:, at], [60] * 3)
    np.testing.assert_array_equal(found["BNN"][:, at], [30] * 3)
    letters = curves(folder, ["DNN"], "notmnist", count_curve, {"n_train": 200})
    np.testing.assert_array_equal(letters["DNN"][:, at], [N_LETTERS / 2] * 3)
    assert curves(folder, ["DNN"], "no such set", count_curve, {}) == {}


def test_curves__one_a_draw_in_order(tmp_path):
    folder = mnist_run(
        tmp_path, lambda columns, _: Skill(sure=columns["draw"] / 20), models=["DNN"], draws=12
    )
    found = curves(folder, ["DNN"], "test", count_curve, {})["DNN"]
    np.testing.assert_array_equal(found[:, THRESHOLDS == 0.9].ravel(), 5 * np.arange(12))


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
    section = _by_name(folder)["table1_mnist"]
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
    table = _by_name(folder)["table1_mnist"].tables[1]
    rows = _rows(table)
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
        _rows(_by_name(folder)["table1_mnist"].tables[1])["DNN, n = 100"]["OoD AUROC by confidence"] == auroc
    )


def test_figure_2__panels_hold_the_curves_of_100_images(tmp_path, drawn):
    def skills(columns, test_set):
        right = {"DNN": 0.2, "PNCA": 0.6}[columns["model"]]
        return Skill(accuracy=right, sure=0.5 if columns["n_train"] == 100 else 0.0)

    folder = mnist_run(tmp_path, skills, models=("DNN", "PNCA"), sizes=(100, 200), draws=3)
    section = _by_name(folder)["figure2"]
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
    folder = mnist_run(tmp_path, _same(Skill(sure=0.5)), models=("DNN",), sizes=(400, 100, 200))
    _by_name(folder)
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
    section = _by_name(folder)["rotation"]
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
    folder = mnist_run(tmp_path, _same(Skill()), models=("DNN",), angles=(0,))
    assert list(_by_name(folder)) == ["table1_mnist", "figure2", "figure4", "rotation"]


# Ablation


def test_ablation__table_and_a_figure_for_every_question(tmp_path, drawn):
    models = ("exact", "PNCA (paper)", "independent", "h=1")
    shares = dict(zip(models, (0.5, 0.1, 0.2, 0.3), strict=True))
    folder = mnist_run(
        tmp_path, lambda columns, _: Skill(sure=shares[columns["model"]]), models=models, study="ablation"
    )
    (section,) = make_sections(folder, tmp_path)
    rows = _rows(section.tables[0])
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
    folder = mnist_run(tmp_path, _same(Skill()), models=("h=1",), study="ablation")
    (section,) = make_sections(folder, tmp_path)
    assert [path.name for path in section.figures] == ["ablation_bandwidth.png"]


def test_ablation__figures_show_the_same_fits_as_the_table(tmp_path, drawn):
    folder = mnist_run(tmp_path, _same(Skill()), models=("exact",), sizes=(100, 200), study="ablation")
    make_sections(folder, tmp_path)
    assert (
        len(drawn["Confident answers by kernel"][0].lines["exact"]) == 2
    )  # two draws of 100; those of 200 are not in the table


# COVID


def _covid_skills(columns, test_set):
    if columns["features"] == "equalised":
        return Skill(accuracy=0.5, sure=0.5)
    if test_set == "validation":
        return Skill(accuracy=0.70 + 0.10 * columns["trial"] + 0.02 * columns["fold"])
    return Skill(accuracy=0.5, sure=0.25)


def test_covid_table_1__shows_the_spread_over_folds_beside_the_papers_number(tmp_path, drawn):
    folder = covid_run(tmp_path, _covid_skills, models=("DNN", "PNCA"))
    section = _by_name(folder)["table1_covid"]
    (table,) = section.tables
    assert table.caption == "Mean ± standard deviation over the folds of 2 partitions."
    dnn, pnca = table.rows
    assert table.headings[1:6] == [
        *("validation accuracy", "paper", "difference", "AUROC", "balanced accuracy")
    ]
    # Folds .70, .72, .80 and .82; the paper has .80, without a standard deviation.
    assert dnn[:4] == ["DNN", ".760 ± .059", ".80", "-.040"]
    assert pnca[:4] == ["PNCA", ".760 ± .059", "-", "-"]


@pytest.mark.parametrize(("negative", "difference"), [(126, "-"), (127, "+.030")])
def test_covid_table_1__no_difference_on_actualmed_while_negatives_are_missing(
    tmp_path, drawn, negative, difference
):
    folder = covid_run(tmp_path, _same(Skill(accuracy=0.4)), models=("DNN",), negative=negative)
    row = _rows(_by_name(folder)["table1_covid"].tables[0])["DNN"]
    assert row["actualmed accuracy"] == (".402 ± .000" if negative == 126 else ".400 ± .000")  # 74 are right
    assert row["paper"] == [".80", ".37 ± .02"]
    assert row["difference"] == ["-.400", difference]


def test_covid_table_1__the_papers_bnn_stands_beside_both(tmp_path, drawn):
    folder = covid_run(tmp_path, _same(Skill()), models=("BNN as published", "BNN"), trials=1, folds=1)
    rows = _rows(_by_name(folder)["table1_covid"].tables[0])
    assert list(rows) == ["BNN", "BNN as published"]
    for row in rows.values():
        assert (row["paper"], row["difference"]) == ([".79", ".40 ± .04"], ["-.290", "-"])


def test_covid_table_1__auroc_by_hand(tmp_path, drawn):
    def answer(columns):
        labels = np.array([1, 1, 0, 0])
        # The second class has .9, .4 where positive and .2, .6 where negative: 3 of 4 pairs in order.
        p = np.array([0.9, 0.6, 0.8, 0.6])
        return {"validation": answers(labels, [True, False, True, False], p, n_classes=2)}

    folder = covid_run(tmp_path, _same(Skill()), models=("DNN",), trials=1, folds=1, answer=answer)
    row = _by_name(folder)["table1_covid"].tables[0].rows[0]
    assert row[:6] == ["DNN", ".500", ".80", "-.300", ".750", ".500"]


def test_covid__only_the_papers_condition_is_in_table_1_and_figure_3(tmp_path, drawn):
    folder = covid_run(
        tmp_path, _covid_skills, models=("DNN",), conditions=[EQUALISED, PAPERS_CONDITION], trials=1
    )
    found = _by_name(folder)
    assert found["table1_covid"].tables[0].rows[0][1] == ".710 ± .014"
    (count,) = (panel for panel in drawn["Figure 3: COVID-19 X-rays"] if panel.title == "bone X-rays")
    np.testing.assert_array_equal(count.lines["DNN"][:, THRESHOLDS == 0.9], [[15], [15]])


def test_conditions__a_row_for_each_condition_and_model(tmp_path, drawn):
    folder = covid_run(
        tmp_path, _covid_skills, models=("PNCA", "DNN"), conditions=[PAPERS_CONDITION, EQUALISED]
    )
    section = _by_name(folder)["covid_conditions"]
    rows = _rows(section.tables[0])
    assert list(rows) == [
        "plain, paper, random: DNN",
        "plain, paper, random: PNCA",
        "equalised, any_covid, grouped: DNN",
        "equalised, any_covid, grouped: PNCA",
    ]
    row = rows["plain, paper, random: DNN"]
    assert (row["validation accuracy"], row["bones above .9"]) == (".710 ± .014", "25.0 %")
    assert rows["equalised, any_covid, grouped: DNN"]["bones above .9"] == "50.0 %"
    assert "20 images, of which .75 positive" in section.notes[0]
    assert "16 positive of 18" in section.notes[0]


@pytest.mark.parametrize(
    ("asked_for", "trials", "counted", "accuracy"),
    [
        (1, 1, "over the folds of one partition.", ".710 ± .014"),
        # The paper's own condition has more partitions than the others: the first of each are compared.
        (1, 3, "over the folds of one partition.", ".710 ± .014"),
        (2, 1, "over the folds of one partition.", ".710 ± .014"),
        (2, 3, "over the folds of 2 partitions.", ".760 ± .059"),
    ],
)
def test_conditions__caption_counts_the_partitions_shown(
    tmp_path, monkeypatch, drawn, asked_for, trials, counted, accuracy
):
    exhibit = replace(load_exhibits("covid")["covid_conditions"], trials=asked_for)
    monkeypatch.setattr(sections, "load_exhibits", lambda study: {exhibit.name: exhibit})
    folder = covid_run(
        tmp_path,
        _covid_skills,
        models=("DNN",),
        conditions=[PAPERS_CONDITION, EQUALISED],
        trials=trials,
    )
    (table,) = _by_name(folder)["covid_conditions"].tables
    assert table.caption == f"Mean ± standard deviation {counted}"
    assert table.rows[0][:2] == ["plain, paper, random: DNN", accuracy]


def test_conditions__the_papers_alone_is_no_comparison(tmp_path, drawn):
    folder = covid_run(tmp_path, _covid_skills, models=("DNN",), trials=1, folds=1)
    assert list(_by_name(folder)) == ["table1_covid", "figure3"]


def test_figure_3__bones_by_group(tmp_path, drawn):
    shares = {"bones": 0.5, "bones MURA_XR_HAND": 0.25, "bones WRIST": 0.75}

    def answer(columns):
        # Chests lie between the bones that are sure and those that are not. A quarter of the bones have more
        # evidence than the chests, but all of the wrists.
        labels, known = np.arange(20) % 2, columns["model"] == "PNCA"
        given = {"validation": answers(labels, True, 0.8, n_classes=2, evidence=2.0 if known else None)}
        for name, n, n_more in (("bones", 60, 15), ("bones MURA_XR_HAND", 40, 10), ("bones WRIST", 20, 20)):
            confidence = np.where(np.arange(n) < shares[name] * n, SURE, 0.6)
            evidence = np.where(np.arange(n) < n_more, 3.0, 1.0) if known else None
            given[name] = answers(n, True, confidence, n_classes=2, evidence=evidence)
        return given

    folder = covid_run(tmp_path, _same(Skill()), models=("DNN", "PNCA"), answer=answer)
    sure, auroc = _by_name(folder)["figure3"].tables
    assert sure.headings == auroc.headings == ["model", "all (60)", "MURA hands (40)", "WRIST (20)"]
    assert "above confidence .9" in sure.caption
    assert sure.rows == [[model, "50.0 %", "25.0 %", "75.0 %"] for model in ("DNN", "PNCA")]
    assert "OoD AUROC" in auroc.caption
    assert auroc.rows == [
        ["DNN", ".50 / -", ".75 / -", ".25 / -"],
        ["PNCA", ".50 / .75", ".75 / .75", ".25 / .00"],
    ]


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("MURA_XR_HAND", "MURA hands"),
        ("MURA_XR_HUMERUS", "MURA upper arms"),
        ("MURA_XR_SHOULDER", "MURA shoulders"),
        ("UCI_SHOULDER_IMPLANT(not MURA)", "shoulder implants, not MURA"),
    ],
)
def test_figure_3__groups_have_readable_names(tmp_path, monkeypatch, drawn, group, name):
    monkeypatch.setattr(runs, "N_BONES", {group: 5})
    folder = covid_run(tmp_path, _same(Skill()), models=("DNN",), trials=1, folds=1)
    for table in _by_name(folder)["figure3"].tables:
        assert table.headings == ["model", "all (5)", f"{name} (5)"]


def _actualmed(n_true_positive, n_true_negative, positive=POSITIVE, negative=NEGATIVE):
    place = np.arange(positive + negative)
    right = np.where(place < positive, place < n_true_positive, place - positive < n_true_negative)
    return answers(np.repeat([1, 0], [positive, negative]), right, 0.8, n_classes=2)


def test_actualmed_note__in_table_and_figure_with_the_right_counts(tmp_path, drawn):
    recalls = {"DNN": (58, 0), "PNCA": (29, 9)}
    folder = covid_run(
        tmp_path,
        _same(Skill()),
        models=("DNN", "PNCA"),
        answer=lambda columns: {"actualmed": _actualmed(*recalls[columns["model"]])},
    )
    found = _by_name(folder)
    for name in ("table1_covid", "figure3"):
        (note,) = (note for note in found[name].notes if "Actualmed is incomplete" in note)
        assert "109 of its 127 negative images" in note
        assert "the 18 that were" in note
        assert "scores .76 on these 76 images and .31 on the paper's 185" in note  # 58 / 76 and 58 / 185
        assert "paper's mix of 58 and 127: DNN .31, PNCA .50;" in note  # 58 / 185; both recalls 1/2


@pytest.mark.parametrize(("negative", "is_there"), [(126, True), (127, False)])
def test_actualmed_note__disappears_when_all_negatives_are_there(tmp_path, drawn, negative, is_there):
    folder = covid_run(tmp_path, _same(Skill()), models=("DNN",), trials=1, folds=1, negative=negative)
    text = "\n".join(section.markdown(tmp_path) for section in make_sections(folder, tmp_path))
    assert ("Actualmed is incomplete" in text) is is_there
    assert ("1 of its 127 negative images" in text) is is_there


@pytest.mark.parametrize(("n_true_positive", "n_true_negative"), [(58, 0), (0, 18), (40, 3), (58, 18)])
def test_at_the_papers_mix__is_what_counting_the_mix_gives(n_true_positive, n_true_negative):
    given = measure({"actualmed": _actualmed(n_true_positive, n_true_negative)}, "actualmed")["actualmed"]
    # Each negative at hand stands for 127 / 18 of the paper's.
    expected = (n_true_positive + n_true_negative * 127 / 18) / (58 + 127)
    rows = Frame([{"trial": 0, "fold": 0, **given}])
    assert at_the_papers_mix(rows, POSITIVE, NEGATIVE) == pytest.approx(expected)


def test_at_the_papers_mix__is_the_mean_over_folds_and_trials():
    counts = {(0, 0): (58, 0), (0, 1): (20, 18), (1, 0): (40, 3), (1, 1): (10, 10)}
    rows = [
        {"trial": trial, "fold": fold, **measure({"actualmed": _actualmed(*count)}, "actualmed")["actualmed"]}
        for (trial, fold), count in counts.items()
    ]
    expected = np.mean([(tp + tn * 127 / 18) / 185 for tp, tn in counts.values()])
    assert at_the_papers_mix(Frame(rows), POSITIVE, NEGATIVE) == pytest.approx(expected)


def test_at_the_papers_mix__cannot_tell_the_recalls_apart_when_the_classes_balance():
    rows = Frame([{"trial": 0, "fold": 0, "accuracy": 0.7, "balanced_accuracy": 0.7}])
    assert np.isnan(at_the_papers_mix(rows, 50, 50))


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
        _same(Skill(sure=0.5)),
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
    folder = mnist_run(tmp_path, _same(Skill()), study=study, finished=lambda columns: False)
    assert make_sections(folder, tmp_path) == []


def test_covid__a_run_without_a_finished_cell_has_no_sections(tmp_path):
    folder = covid_run(tmp_path, _same(Skill()), finished=lambda columns: False)
    assert make_sections(folder, tmp_path) == []


def test_covid__a_run_with_one_finished_fold_still_reports(tmp_path):
    folder = covid_run(
        tmp_path,
        _same(Skill()),
        models=("DNN", "NCA"),
        finished=lambda columns: (columns["model"], columns["trial"], columns["fold"]) == ("NCA", 1, 0),
    )
    found = _by_name(folder)
    assert [row[:2] for row in found["table1_covid"].tables[0].rows] == [["NCA", ".500"]]


def test_covid__a_run_of_other_conditions_shows_those_alone(tmp_path):
    other = ("equalised", "any_covid", "random")
    folder = covid_run(tmp_path, _same(Skill()), models=("DNN",), conditions=[EQUALISED, other])
    assert list(_by_name(folder)) == ["covid_conditions"]


def test_mnist__a_run_of_another_size_alone_is_shown_without_the_papers_numbers(tmp_path, drawn):
    folder = mnist_run(tmp_path, _same(Skill()), models=("DNN",), sizes=(50,), angles=(0, 60))
    found = _by_name(folder)
    assert list(found) == ["table1_mnist", "figure2", "figure4", "rotation"]
    table = found["table1_mnist"].tables[0]
    assert table.caption == "Mean ± standard deviation over 2 draws of 50 training images."
    assert table.rows == [["DNN", ".500 ± .000", "-", "-", ".500 ± .000", "-", "-"]]
    assert {panel.title.split(", ")[-1] for panels in drawn.values() for panel in panels} == {"n = 50"}


def test_mnist__another_size_beside_an_exhibits_own_is_left_out(tmp_path, drawn):
    folder = mnist_run(tmp_path, _same(Skill()), models=("DNN",), sizes=(50, 100), angles=(0, 60))
    table = _by_name(folder)["table1_mnist"].tables[0]
    assert table.caption == "Mean ± standard deviation over 2 draws of 100 training images."
    assert table.rows[0][2] == ".75 ± .02"
    assert {panel.title.split(", ")[-1] for panels in drawn.values() for panel in panels} == {"n = 100"}


def test_ablation__of_another_size_alone(tmp_path, drawn):
    models = ("PNCA (paper)", "exact")
    folder = mnist_run(tmp_path, _same(Skill()), models=models, sizes=(50,), study="ablation")
    (section,) = make_sections(folder, tmp_path)
    assert "2 draws of 50 training images." in section.tables[0].caption
    assert len(drawn["Confident answers by kernel"][0].lines["exact"]) == 2


def test_mnist__a_model_that_no_exhibit_shows_is_left_out(tmp_path):
    # `pnca reproduce mnist --models exact` is allowed: the name is in models.toml.
    folder = mnist_run(tmp_path, _same(Skill()), models=("exact",), angles=(0,))
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
