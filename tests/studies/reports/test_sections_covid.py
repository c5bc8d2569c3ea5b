from dataclasses import replace

import numpy as np
import pytest

import runs
from pnca_studies.experiments.settings import load_exhibits
from pnca_studies.reports import sections
from pnca_studies.reports.curves import THRESHOLDS
from pnca_studies.reports.sections import make_sections
from report_parts import by_name, cells_of
from runs import PAPERS_CONDITION, SURE, Skill, answers, covid_run, same

EQUALISED = ("equalised", "any_covid", "grouped")


def _covid_skills(columns, test_set):
    if columns["features"] == "equalised":
        return Skill(accuracy=0.5, sure=0.5)
    if test_set == "validation":
        return Skill(accuracy=0.70 + 0.10 * columns["trial"] + 0.02 * columns["fold"])
    return Skill(accuracy=0.5, sure=0.25)


def test_covid_table_1__shows_the_spread_over_folds_beside_the_papers_number(tmp_path, drawn):
    folder = covid_run(tmp_path, _covid_skills, models=("DNN", "PNCA"))
    section = by_name(folder)["table1_covid"]
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
    folder = covid_run(tmp_path, same(Skill(accuracy=0.4)), models=("DNN",), negative=negative)
    row = cells_of(by_name(folder)["table1_covid"].tables[0])["DNN"]
    assert row["actualmed accuracy"] == (".402 ± .000" if negative == 126 else ".400 ± .000")  # 74 are right
    assert row["paper"] == [".80", ".37 ± .02"]
    assert row["difference"] == ["-.400", difference]


def test_covid_table_1__the_papers_bnn_stands_beside_both(tmp_path, drawn):
    folder = covid_run(tmp_path, same(Skill()), models=("BNN as published", "BNN"), trials=1, folds=1)
    rows = cells_of(by_name(folder)["table1_covid"].tables[0])
    assert list(rows) == ["BNN", "BNN as published"]
    for row in rows.values():
        assert (row["paper"], row["difference"]) == ([".79", ".40 ± .04"], ["-.290", "-"])


def test_covid_table_1__auroc_by_hand(tmp_path, drawn):
    def answer(columns):
        labels = np.array([1, 1, 0, 0])
        # The second class has .9, .4 where positive and .2, .6 where negative: 3 of 4 pairs in order.
        p = np.array([0.9, 0.6, 0.8, 0.6])
        return {"validation": answers(labels, [True, False, True, False], p, n_classes=2)}

    folder = covid_run(tmp_path, same(Skill()), models=("DNN",), trials=1, folds=1, answer=answer)
    row = by_name(folder)["table1_covid"].tables[0].rows[0]
    assert row[:6] == ["DNN", ".500", ".80", "-.300", ".750", ".500"]


def test_covid__only_the_papers_condition_is_in_table_1_and_figure_3(tmp_path, drawn):
    folder = covid_run(
        tmp_path, _covid_skills, models=("DNN",), conditions=[EQUALISED, PAPERS_CONDITION], trials=1
    )
    found = by_name(folder)
    assert found["table1_covid"].tables[0].rows[0][1] == ".710 ± .014"
    (count,) = (panel for panel in drawn["Figure 3: COVID-19 X-rays"] if panel.title == "bone X-rays")
    np.testing.assert_array_equal(count.lines["DNN"][:, THRESHOLDS == 0.9], [[15], [15]])


def test_conditions__a_row_for_each_condition_and_model(tmp_path, drawn):
    folder = covid_run(
        tmp_path, _covid_skills, models=("PNCA", "DNN"), conditions=[PAPERS_CONDITION, EQUALISED]
    )
    section = by_name(folder)["covid_conditions"]
    rows = cells_of(section.tables[0])
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
    (table,) = by_name(folder)["covid_conditions"].tables
    assert table.caption == f"Mean ± standard deviation {counted}"
    assert table.rows[0][:2] == ["plain, paper, random: DNN", accuracy]


def test_conditions__the_papers_alone_is_no_comparison(tmp_path, drawn):
    folder = covid_run(tmp_path, _covid_skills, models=("DNN",), trials=1, folds=1)
    assert list(by_name(folder)) == ["table1_covid", "figure3"]


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

    folder = covid_run(tmp_path, same(Skill()), models=("DNN", "PNCA"), answer=answer)
    sure, auroc = by_name(folder)["figure3"].tables
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
    folder = covid_run(tmp_path, same(Skill()), models=("DNN",), trials=1, folds=1)
    for table in by_name(folder)["figure3"].tables:
        assert table.headings == ["model", "all (5)", f"{name} (5)"]


def test_covid__a_run_without_a_finished_cell_has_no_sections(tmp_path):
    folder = covid_run(tmp_path, same(Skill()), finished=lambda columns: False)
    assert make_sections(folder, tmp_path) == []


def test_covid__a_run_with_one_finished_fold_still_reports(tmp_path):
    folder = covid_run(
        tmp_path,
        same(Skill()),
        models=("DNN", "NCA"),
        finished=lambda columns: (columns["model"], columns["trial"], columns["fold"]) == ("NCA", 1, 0),
    )
    found = by_name(folder)
    assert [row[:2] for row in found["table1_covid"].tables[0].rows] == [["NCA", ".500"]]


def test_covid__a_run_of_other_conditions_shows_those_alone(tmp_path):
    other = ("equalised", "any_covid", "random")
    folder = covid_run(tmp_path, same(Skill()), models=("DNN",), conditions=[EQUALISED, other])
    assert list(by_name(folder)) == ["covid_conditions"]
