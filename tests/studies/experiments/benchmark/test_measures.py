import numpy as np
import pytest
from scipy.special import logsumexp

from pnca.calibration import apply_temperature
from pnca_studies.experiments.benchmark.measures import COVERAGES, LEAST, Answers, log_of_all, measure

LOGS = np.log([[0.95, 0.05], [0.92, 0.08], [0.6, 0.4], [0.3, 0.7]])
LABELS = np.array([0, 1, 0, 1])
TEST = Answers(LOGS, LABELS, np.array([4.0, 3.0, 2.0, 1.0]))
FOREIGN = Answers(np.log([[0.99, 0.01], [0.5, 0.5]]), None, np.array([0.0, 2.5]))


def test_log_of_all__gives_every_class_at_least_so_much_and_adds_up():
    logs = log_of_all(np.array([[1.0, 0.0]]), [0, 2], 3)
    assert logsumexp(logs) == pytest.approx(0)
    np.testing.assert_allclose(np.exp(logs), [[1 - 2e-6, LEAST, LEAST]], rtol=1e-5)


def test_measures__are_those_of_the_answers_after_and_before_scaling():
    found = measure({"test": TEST, "foreign": FOREIGN}, 2.0)
    assert set(found) == {"test", "test, as is", "foreign", "foreign, as is"}
    assert found["test, as is"]["nll"] == pytest.approx(-LOGS[np.arange(4), LABELS].mean(), rel=1e-5)
    scaled = apply_temperature(LOGS, 2.0)
    assert found["test"]["nll"] == pytest.approx(-scaled[np.arange(4), LABELS].mean(), rel=1e-5)
    assert found["test"]["accuracy"] == 0.75
    # Sure of two, and wrong in one of them; scaling makes it less sure.
    assert (found["test, as is"]["above"], found["test, as is"]["wrong_above"]) == (0.5, 0.25)
    assert found["test"]["above"] == 0
    assert found["test"]["auroc"] == 0.75  # 3 of 4 pairs


def test_measures__of_foreign_inputs_every_sure_answer_is_wrong():
    found = measure({"test": TEST, "foreign": FOREIGN}, 1.0)["foreign"]
    assert found["wrong_above"] == found["above"] == 0.5
    # Evidence: 0 is below all four, 2.5 is below two of four.
    assert found["auroc_evidence"] == pytest.approx((4 + 2) / 8)
    assert found["auroc_confidence"] == pytest.approx((0 + 4) / 8)
    assert "nll" not in found


def test_measures__a_model_without_a_score_has_none_of_it():
    found = measure({"test": TEST._replace(evidence=None), "foreign": FOREIGN._replace(evidence=None)}, 1.0)
    assert "auroc_evidence" not in found["foreign"]
    assert "auroc_confidence" in found["foreign"]


def test_risks__of_a_foreign_set_are_with_as_many_test_rows():
    found = measure({"test": TEST, "foreign": FOREIGN}, 1.0)
    # By confidence .95 right, .92 wrong, .7 right, .6 right.
    assert found["test"]["risks"][COVERAGES.index(0.5)] == pytest.approx(0.5)
    assert found["test"]["risks"][-1] == 0.25
    # With the first two test rows: .99 foreign, .95 right, .92 wrong, .5 foreign.
    assert found["foreign"]["risks"][COVERAGES.index(0.25)] == 1
    assert found["foreign"]["risks"][COVERAGES.index(0.5)] == pytest.approx(0.5)
    assert found["foreign"]["risks"][-1] == 0.75
