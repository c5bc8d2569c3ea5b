"""Ranks, own scores and differences, on numbers that are dictated."""

import pytest

from benchmark_runs import FEW, SMALL, at, cells, nothing_changed, results
from pnca_studies.reports.benchmark import Results
from pnca_studies.reports.benchmark.measures import ACCURACY, BRIER, BY_CONFIDENCE, BY_OWN, ECE, FPR95, NLL
from pnca_studies.reports.benchmark.runs import cell_rows


def ranks(change, places, models, measure=NLL):
    return results(change, places=places, models=models).mean_ranks(places, models, measure)


def test_ranks__equals_share_a_rank():
    models = ("PNCA", "RBF-SVM", "k-NN", "SNGP")
    found = ranks(at("wine", 50, "SNGP", "test", nll=0.7), SMALL[:1], models)
    assert found == {"PNCA": 1, "RBF-SVM": 2.5, "k-NN": 2.5, "SNGP": 4}


def test_ranks__are_averaged_within_a_data_set_first():
    def change(columns, test_set):
        behind = (columns["data"], columns["n_train"]) in (("digits", 100), ("wine", 50))
        return {"nll": 0.9} if behind and columns["model"] == "PNCA" and test_set == "test" else {}

    places = [("digits", 50), ("digits", 100), ("digits", 200), ("wine", 50)]
    found = ranks(change, places, ("PNCA", "k-NN"))
    assert found["PNCA"] == pytest.approx((4 / 3 + 2) / 2)
    assert found["k-NN"] == pytest.approx((5 / 3 + 1) / 2)


def test_ranks__more_is_better_where_it_is():
    models = ("PNCA", "k-NN")
    for measure in (ACCURACY, BY_OWN, BY_CONFIDENCE, BRIER, ECE):
        assert ranks(nothing_changed, SMALL, models, measure) == {"PNCA": 1, "k-NN": 2}
    ahead = at(None, None, "k-NN", "test", accuracy=0.99)
    assert ranks(ahead, SMALL, models, ACCURACY) == {"PNCA": 2, "k-NN": 1}


def test_ranks__are_of_the_draws_that_all_have():
    """In its second draw, which the others lack, PNCA would be behind."""

    def change(columns, test_set):
        return {"nll": 2.0} if columns["model"] == "PNCA" and columns["draw"] == 1 else {}

    both = [*cells(change, SMALL, ["PNCA"]), *cells(change, SMALL, ["k-NN", "RBF-SVM"], range(1))]
    given = Results(row for cell in both for row in cell_rows("", cell, {}))
    found = given.mean_ranks(SMALL, ["PNCA", "k-NN", "RBF-SVM"], NLL)
    assert found == {"PNCA": 1, "k-NN": 2.5, "RBF-SVM": 2.5}


def test_ranks__a_data_set_without_ood_inputs_has_none_to_rank():
    assert ranks(nothing_changed, [("breast cancer", 50)], ("PNCA", "k-NN"), BY_OWN) == {}


def test_own_score__is_the_one_with_the_higher_mean():
    """Evidence is ahead in one draw of three only, but by more."""

    def change(columns, test_set):
        if test_set != "ood" or columns["model"] != "k-NN":
            return {}
        draw = columns["draw"]
        return {
            "ood_auroc_confidence": 0.8,
            "ood_fpr95_confidence": 0.1,
            "ood_auroc_evidence": (0.99, 0.75, 0.75)[draw],
            "ood_fpr95_evidence": 0.2,
        }

    given, place = results(change, places=SMALL, models=FEW, draws=range(3)), ("wine", 50)
    assert list(given.values(place, "k-NN", BY_OWN)) == [0.99, 0.75, 0.75]
    assert given.mean(place, "k-NN", FPR95) == pytest.approx(0.2)
    assert given.mean(place, "nearest distance", BY_OWN) == pytest.approx(0.95)


def test_differences__are_of_common_draws():
    """PNCA's third draw is far off, and has no partner."""

    def change(columns, test_set):
        return {"nll": 9.0} if columns["draw"] == 2 else {}

    both = [*cells(change, SMALL, ["PNCA"], range(3)), *cells(change, SMALL, ["k-NN"], range(2))]
    given = Results(row for cell in both for row in cell_rows("", cell, {}))
    assert given.difference(("wine", 50), "k-NN", NLL) == pytest.approx((-0.2, -0.2, -0.2))
    assert given.difference(("wine", 50), "SNGP", NLL) is None
