import numpy as np
import pytest

from pnca_studies.experiments.answers import measure
from pnca_studies.reports.actualmed import at_the_papers_mix
from pnca_studies.reports.frame import make_frame
from pnca_studies.reports.sections import make_sections
from report_parts import by_name
from runs import NEGATIVE, POSITIVE, Skill, answers, covid_run, same


def _actualmed(n_true_positive, n_true_negative, positive=POSITIVE, negative=NEGATIVE):
    place = np.arange(positive + negative)
    right = np.where(place < positive, place < n_true_positive, place - positive < n_true_negative)
    return answers(np.repeat([1, 0], [positive, negative]), right, 0.8, n_classes=2)


def test_actualmed_note__in_table_and_figure_with_the_right_counts(tmp_path, drawn):
    recalls = {"DNN": (58, 0), "PNCA": (29, 9)}
    folder = covid_run(
        tmp_path,
        same(Skill()),
        models=("DNN", "PNCA"),
        answer=lambda columns: {"actualmed": _actualmed(*recalls[columns["model"]])},
    )
    found = by_name(folder)
    for name in ("table1_covid", "figure3"):
        (note,) = (note for note in found[name].notes if "Actualmed is incomplete" in note)
        assert "109 of its 127 negative images" in note
        assert "the 18 that could" in note
        assert "scores .76 on these 76 images and .31 on the paper's 185" in note  # 58 / 76 and 58 / 185
        assert "paper's mix of 58 and 127: DNN .31, PNCA .50;" in note  # 58 / 185; both recalls 1/2


@pytest.mark.parametrize(("negative", "is_there"), [(126, True), (127, False)])
def test_actualmed_note__disappears_when_all_negatives_are_there(tmp_path, drawn, negative, is_there):
    folder = covid_run(tmp_path, same(Skill()), models=("DNN",), trials=1, folds=1, negative=negative)
    text = "\n".join(section.markdown(tmp_path) for section in make_sections(folder, tmp_path))
    assert ("Actualmed is incomplete" in text) is is_there
    assert ("1 of its 127 negative images" in text) is is_there


@pytest.mark.parametrize(("n_true_positive", "n_true_negative"), [(58, 0), (0, 18), (40, 3), (58, 18)])
def test_at_the_papers_mix__is_what_counting_the_mix_gives(n_true_positive, n_true_negative):
    given = measure({"actualmed": _actualmed(n_true_positive, n_true_negative)}, "actualmed")["actualmed"]
    # Each negative at hand stands for 127 / 18 of the paper's.
    expected = (n_true_positive + n_true_negative * 127 / 18) / (58 + 127)
    rows = make_frame([{"trial": 0, "fold": 0, **given}])
    assert at_the_papers_mix(rows, POSITIVE, NEGATIVE) == pytest.approx(expected)


def test_at_the_papers_mix__is_the_mean_over_folds_and_trials():
    counts = {(0, 0): (58, 0), (0, 1): (20, 18), (1, 0): (40, 3), (1, 1): (10, 10)}
    rows = [
        {"trial": trial, "fold": fold, **measure({"actualmed": _actualmed(*count)}, "actualmed")["actualmed"]}
        for (trial, fold), count in counts.items()
    ]
    expected = np.mean([(tp + tn * 127 / 18) / 185 for tp, tn in counts.values()])
    assert at_the_papers_mix(make_frame(rows), POSITIVE, NEGATIVE) == pytest.approx(expected)


def test_at_the_papers_mix__cannot_tell_the_recalls_apart_when_the_classes_balance():
    rows = make_frame([{"trial": 0, "fold": 0, "accuracy": 0.7, "balanced_accuracy": 0.7}])
    assert np.isnan(at_the_papers_mix(rows, 50, 50))
