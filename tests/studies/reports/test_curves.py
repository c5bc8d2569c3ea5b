import numpy as np
import pytest

from pnca_studies.reports.curves import (
    LEAST_EXAMPLES,
    THRESHOLDS,
    accuracy_curve,
    count_curve,
    curves,
    threshold_panel,
)
from runs import N_LETTERS, SURE, UNSURE, Skill, answers, mnist_run


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


def test_threshold_panel__is_of_accuracy_unless_it_is_told_of_how_many_examples():
    lines = {"DNN": np.ones((1, len(THRESHOLDS)))}
    accuracy, count = threshold_panel("a", lines), threshold_panel("b", lines, 1500)
    assert (accuracy.y_label, accuracy.y_range) == ("accuracy where confidence ≥ τ", (-0.02, 1.02))
    assert (count.y_label, count.y_range) == ("of 1,500, confidence ≥ τ", (-30, 1530))
